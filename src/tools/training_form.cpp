#include "tools/suffix_maker.h"

#include <algorithm>

#include "base/error.h"
#include "text/training_template.h"

namespace hone::tools {

// TRL's is_chat_template_prefix_preserving, and its training template where that is false.
std::optional<std::string> tool_training_template(const text::Tokenizer& tokenizer, const std::string& source,
                                                  const std::string& where) {
  using base::Json;
  const std::optional<text::TrainingTemplate> other = text::training_template(source);
  if (!other) return std::nullopt;
  const text::ChatTemplate chat(source, tokenizer.special(), where);
  const auto ids = [&](bool with_result) {
    Json messages = Json::parse(R"([{"role": "user", "content": "dummy"},
        {"role": "assistant", "content": "", "tool_calls":
          [{"type": "function", "function": {"name": "dummy", "arguments": {}}}]}])");
    if (with_result) messages.push_back({{"role", "tool"}, {"name", "dummy"}, {"content", "dummy"}});
    const auto text = chat.render({.messages = messages,
                                   .tools = {},
                                   .template_kwargs = {},
                                   .add_generation_prompt = with_result})
                          .text;
    return tokenizer.encode(text, false).ids;
  };
  try {
    const std::vector<std::int32_t> turn = ids(false), whole = ids(true);
    const bool kept = whole.size() >= turn.size() && std::equal(turn.begin(), turn.end(), whole.begin());
    if (kept) return std::nullopt;
  } catch (const base::UserError&) {  // a template without tools
    return std::nullopt;
  }
  return other->source;
}

}  // namespace hone::tools
