#include "text/encode_batch.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "text/chat_template_impl.h"
#include "text/tokenizer_impl.h"

namespace hone::text {

EncodeBatch::EncodeBatch(const Tokenizer& tokenizer, const ChatTemplate* chat_template, bool want_marks)
    : tokenizer_(tokenizer), chat_template_(chat_template), want_marks_(want_marks) {}

void EncodeBatch::end_item(std::uint8_t kind) {
  ends_.push_back(data_.size());
  kinds_.push_back(kind);
}

void EncodeBatch::add_text(std::string_view text, bool add_special) {
  data_ += text;
  end_item(add_special ? HONE_TEXT_SPECIAL : HONE_TEXT_PLAIN);
}

void EncodeBatch::add_chat(const base::Json& messages, const base::Json& tools,
                           const base::Json& template_kwargs, bool add_generation_prompt) {
  base::require(chat_template_ != nullptr, "text::EncodeBatch", "a chat template for a conversation");
  const ChatTemplate::Impl& impl = *chat_template_->impl_;
  one_by_one_ = one_by_one_ || impl.handle == nullptr || (impl.tool_use != nullptr && !tools.is_null());
  chat_template_->impl_->append_call(messages, tools, template_kwargs, add_generation_prompt, data_);
  end_item(HONE_TEXT_CHAT);
}

std::vector<TokenizedChat> EncodeBatch::run() const {
  std::vector<TokenizedChat> out;
  if (one_by_one_) return out;
  RustBatch batch;
  RustText message;
  const hone_text_template* chat_template =
      chat_template_ == nullptr ? nullptr : chat_template_->impl_->handle.get();
  const int status =
      hone_text_encode_batch(tokenizer_.impl_->handle.get(), chat_template, data_.data(), ends_.data(),
                             kinds_.data(), ends_.size(), want_marks_ ? 1 : 0, batch.out(), message.out());
  if (status != HONE_TEXT_OK) return out;
  const std::span<const std::uint32_t> ids(batch->ids, batch->size);
  // Such ids are an error, which encode() words.
  if (std::any_of(ids.begin(), ids.end(), [](std::uint32_t id) { return id >> 31U != 0; })) return out;
  out.resize(batch->count);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < batch->count; ++i) {
    const std::size_t end = batch->ends[i];
    out[i].ids.assign(batch->ids + begin, batch->ids + end);
    if (want_marks_ && end > begin) out[i].assistant.assign(batch->marks + begin, batch->marks + end);
    begin = end;
  }
  return out;
}

}  // namespace hone::text
