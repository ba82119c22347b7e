// The files of tests/others, twelve of each trainer, written after the field's habits. Beside each stands what it means:
// FILE.txt, one line of an option, an unknown, a refusal or a note.
#include <algorithm>
#include <set>
#include <sstream>

#include "base/files/file.h"
#include "config/others_helpers.h"

namespace hone::config {
namespace others_files_test {

namespace fs = base::fs;

// "run.yml:7" of this file -> "7"; a place of another file stays, and no place is "-".
std::string place_in(const std::string& where, const std::string& path) {
  if (where.starts_with(path + ":")) return where.substr(path.size() + 1);
  return where.empty() || where == path ? "-" : where;
}

std::string understanding(const OtherRun& run) {
  std::string out =
      std::string(trainer_word(run.trainer)) + " " + std::string(method_name(run.method)) + "\n";
  for (const bool defaults : {false, true}) {
    for (const OtherValue& one : run.options) {
      if (one.is_default() == defaults)
        out += (defaults ? "default " : "") + one.option + ": " + base::dump_json(one.value) + "\n";
    }
  }
  for (const OtherUnknown& one : run.unknown)
    out += "unknown " + place_in(one.where, run.file) + " " + one.name + ": " + one.why + "\n";
  for (const OtherRefusal& one : run.refused)
    out += "refused " + place_in(one.where, run.file) + " " + one.name + ": " + one.why + "\n";
  std::set<std::string> notes;
  for (const OtherNote& one : run.notes) {
    const std::string name = one.name.empty() ? one.text.substr(0, one.text.find(':')) : one.name;
    notes.insert("note " + place_in(one.where, run.file) + " " + name + "\n");
  }
  for (const std::string& note : notes) out += note;
  std::string passed;
  for (const OtherNote& one : run.ignored) passed += (passed.empty() ? "passed over: " : ", ") + one.name;
  return passed.empty() ? out : out + passed + "\n";
}

std::vector<std::string> lines_of(std::string text) {
  const std::string root = std::string(HONE_SOURCE_DIR) + "/tests/others/";
  for (std::size_t at = text.find(root); at != std::string::npos; at = text.find(root))
    text.erase(at, root.size());
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  std::sort(out.begin(), out.end());
  return out;
}

void compare(const fs::path& file) {
  const OtherRun run = other_run(base::read_text(file), file.string());
  const fs::path beside = fs::path(file).replace_extension(".txt");
  ASSERT_TRUE(fs::is_regular_file(beside)) << file << " has no understanding beside it:\n"
                                           << understanding(run);
  const std::vector<std::string> found = lines_of(understanding(run)),
                                 wanted = lines_of(base::read_text(beside));
  for (const std::string& line : wanted)
    EXPECT_TRUE(std::binary_search(found.begin(), found.end(), line)) << file << " lacks\n  " << line;
  for (const std::string& line : found)
    EXPECT_TRUE(std::binary_search(wanted.begin(), wanted.end(), line))
        << file << " says beside it\n  " << line;
}

class OthersFiles : public testing::TestWithParam<const char*> {};

TEST_P(OthersFiles, MeanWhatStandsBesideThem) {
  constexpr int kEach = 12;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(HONE_SOURCE_DIR) / "tests/others" / GetParam())) {
    if (entry.is_regular_file() && entry.path().extension() != ".txt") files.push_back(entry.path());
  }
  EXPECT_EQ(files.size(), kEach);
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) compare(file);
}

INSTANTIATE_TEST_SUITE_P(Each, OthersFiles,
                         testing::Values("axolotl", "llamafactory", "swift", "torchtune", "trl", "unsloth",
                                         "transformers"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace others_files_test
}  // namespace hone::config
