// The YAML of a run. The first character says of which method.
#include "config/parse.h"
#include "fuzz/targets/target.h"

namespace {

namespace fs = std::filesystem;
using hone::config::Method;

// A folder that has what a run names, as long as the process lives; inputs name nothing of the machine.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("hone_fuzz_run_" + std::to_string(::getpid()))) {
    fs::create_directories(path_ / "model");
    std::ofstream(path_ / "model/config.json") << "{}";
    std::ofstream(path_ / "train.jsonl") << "{\"text\": \"a\"}\n";
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

class Inside {
 public:
  explicit Inside(const fs::path& folder) : before_(fs::current_path()) { fs::current_path(folder); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { fs::current_path(before_); }

 private:
  fs::path before_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hone;
  static const Folder folder;
  static constexpr Method kMethods[] = {Method::kSft, Method::kGrpo,   Method::kRloo,     Method::kDpo,
                                        Method::kKto, Method::kReward, Method::kOnlineDpo};
  return fuzz::one_input(data, size, [](std::string_view text) {
    const Inside inside(folder.path());
    const std::size_t which = text.empty() ? 0 : static_cast<unsigned char>(text[0] - '0');
    config::parse_run_text(kMethods[which % std::size(kMethods)],
                           std::string(text.substr(text.empty() ? 0 : 1)), "run.yaml");
  });
}
