// Files of other trainers. The first character says whose.
#include "config/others/other_plan.h"
#include "config/others/recognize.h"
#include "fuzz/targets/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hone;
  return fuzz::one_input(data, size, [](std::string_view bytes) {
    const auto trainer =
        static_cast<config::Trainer>((bytes.empty() ? 0U : static_cast<unsigned char>(bytes[0])) % 4);
    const std::string text(bytes.substr(bytes.empty() ? 0 : 1));
    config::recognize(text, "run.yaml");
    const config::OtherRun run = config::read_other(text, {.path = "run.yaml"}, {trainer, "--as"});
    config::hone_file(run);
    base::dump_json(config::other_json(run));
  });
}
