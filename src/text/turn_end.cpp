#include "text/turn_end.h"

#include <span>
#include <string_view>

namespace hone::text {

std::string text_after_answer(const ChatTemplate& chat_template) {
  constexpr std::string_view kAnswer = "Hello";
  const Rendered rendered =
      chat_template.render({.messages = base::Json::array({{{"role", "user"}, {"content", "Hi"}},
                                                           {{"role", "assistant"}, {"content", kAnswer}}}),
                            .tools = {},
                            .template_kwargs = {},
                            .add_generation_prompt = false});
  const std::size_t at = rendered.text.rfind(kAnswer);
  if (at == std::string::npos) return {};
  const std::size_t begin = rendered.text.find_first_not_of(" \t\r\n", at + kAnswer.size());
  return begin == std::string::npos ? std::string() : rendered.text.substr(begin);
}

std::optional<std::int32_t> turn_end(const Tokenizer& tokenizer, const ChatTemplate& chat_template) {
  const std::vector<std::int32_t> ids = tokenizer.encode(text_after_answer(chat_template), false).ids;
  if (ids.empty()) return std::nullopt;
  const std::span<const std::int32_t> first(ids.data(), 1);
  if (tokenizer.decode(first, false).empty() || !tokenizer.decode(first, true).empty()) return std::nullopt;
  return ids.front();
}

}  // namespace hone::text
