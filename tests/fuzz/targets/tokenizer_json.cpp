// A tokenizer.json, and a text that it encodes and decodes.
#include "fuzz/targets/target.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hone;
  return fuzz::one_input(data, size, [](std::string_view json) {
    const text::Tokenizer tokenizer = text::Tokenizer::from_json(json, "", "fuzz");
    const text::Encoding encoding =
        tokenizer.encode("Hello <|im_start|> w\xC3\xB6rld aaaaaaaa! 12 345\n\t\xE6\xBC\xA2", true, true);
    tokenizer.decode(encoding.ids, false);
    tokenizer.decode(encoding.ids, true);
    const std::int32_t far[] = {0, 1, 2'147'483'647};
    tokenizer.decode(far, false);
    tokenizer.id_to_token(1'000'000);
  });
}
