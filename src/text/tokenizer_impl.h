// A Tokenizer holds these; the files that implement it share them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "text/ffi.h"
#include "text/tokenizer.h"
#include "text/tokenizer_files.h"

namespace hone::text {

struct Tokenizer::Impl {
  TokenizerFiles files;
  TokenizerHandle handle;
  std::optional<std::int32_t> eos_id;
  std::optional<std::int32_t> pad_id;  // pad, else eos

  // Hands tokenizer.json to Rust; UserError with its complaint.
  static std::unique_ptr<Impl> make(TokenizerFiles files);
  std::string json() const;  // the tokenizer in the format of tokenizer.json
};

}  // namespace hone::text
