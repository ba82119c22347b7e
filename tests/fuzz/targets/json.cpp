// JSON of files and requests, strict and with unique names.
#include "base/json.h"
#include "fuzz/targets/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hone;
  return fuzz::one_input(data, size, [](std::string_view bytes) {
    const std::string text(bytes);
    base::dump_json(base::parse_json(text, "fuzz"));
    base::parse_json_unique(text, "fuzz");
  });
}
