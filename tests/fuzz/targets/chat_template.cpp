// A chat template, rendered on a conversation with a tool.
#include "text/chat_template.h"
#include "fuzz/targets/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hone;
  return fuzz::one_input(data, size, [](std::string_view source) {
    static const base::Json messages = base::Json::parse(
        R"([{"role": "system", "content": "s"}, {"role": "user", "content": "a b"},)"
        R"({"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}]},)"
        R"({"role": "tool", "name": "f", "content": "2"}, {"role": "assistant", "content": "two"}])");
    static const base::Json tools = base::Json::parse(
        R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}}])");
    const text::ChatTemplate chat(source, {}, "fuzz");
    chat.has_generation_tag();
    chat.render(
        {.messages = messages, .tools = tools, .template_kwargs = nullptr, .add_generation_prompt = true});
  });
}
