// Owners of what text-ffi's C ABI returns: it is freed when they go out of scope.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "text_ffi.h"

namespace hone::text {

struct FreeTokenizer {
  void operator()(hone_text_tokenizer* tokenizer) const { hone_text_tokenizer_free(tokenizer); }
};
using TokenizerHandle = std::unique_ptr<hone_text_tokenizer, FreeTokenizer>;

struct FreeTemplate {
  void operator()(hone_text_template* chat_template) const { hone_text_template_free(chat_template); }
};
using TemplateHandle = std::unique_ptr<hone_text_template, FreeTemplate>;

// A result of type T, empty until a call fills it.
template <typename T, void (*FreeIt)(T)>
class FromRust {
 public:
  FromRust() = default;
  FromRust(const FromRust&) = delete;
  FromRust& operator=(const FromRust&) = delete;
  ~FromRust() { FreeIt(value_); }

  T* out() { return &value_; }
  const T* operator->() const { return &value_; }

 private:
  T value_ = {};
};

class RustText : public FromRust<hone_text_buffer, hone_text_buffer_free> {
 public:
  std::string_view view() const { return {(*this)->data, (*this)->size}; }
  std::string str() const { return std::string(view()); }
};
using RustIds = FromRust<hone_text_ids, hone_text_ids_free>;
using RustSpans = FromRust<hone_text_spans, hone_text_spans_free>;
using RustBatch = FromRust<hone_text_batch, hone_text_batch_free>;

}  // namespace hone::text
