// A turn of a model, read for calls of tools. The first character says in which family's form.
#include "fuzz/targets/target.h"
#include "tools/families.h"
#include "tools/response_parser.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hone;
  return fuzz::one_input(data, size, [](std::string_view text) {
    static const std::vector<tools::ResponseParser> parsers = [] {
      std::vector<tools::ResponseParser> all;
      for (const tools::Family& family : tools::families())
        all.push_back(tools::ResponseParser::from_json(family.response_template, family.name, "<|im_end|>"));
      return all;
    }();
    static const base::Json offered = base::Json::parse(
        R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties":)"
        R"({"x": {"type": "integer"}, "y": {"type": "array", "items": {"type": "number"}}, "z": {"type": "string"}}}}}])");
    if (text.empty()) return;
    const tools::ResponseParser& parser = parsers[static_cast<unsigned char>(text[0]) % parsers.size()];
    const std::string completion(text.substr(1));
    parser.opens_call(completion);
    parser.parse("<|im_start|>assistant\n", completion, completion, offered);
  });
}
