// Every fuzz target over its seeds and their mutations (fuzz/mutate.h), without libFuzzer.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "fuzz/mutate.h"
#include "fuzz/targets/all_targets.h"
#include "fuzz/targets/target.h"

namespace hone::fuzz {
namespace all_test {

namespace fs = std::filesystem;

const fs::path kRoot = HONE_SOURCE_DIR;

std::string bytes_of(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(out).str();
}

// The seeds of a target: its lines in seeds.txt, each a file of the project.
std::vector<std::string> seeds_of(const std::string& target) {
  std::vector<std::string> out;
  std::ifstream lines(kRoot / "tests/fuzz/targets/seeds.txt");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, path;
    if (words >> name >> path && name == target) {
      EXPECT_TRUE(fs::is_regular_file(kRoot / path)) << path;
      out.push_back(bytes_of(kRoot / path));
    }
  }
  return out;
}

class FuzzTarget : public ::testing::TestWithParam<Target> {};

// These read whatever a model or a client writes: they have no refusal.
bool refuses(const std::string& name) {
  return name != "http" && name != "math_answers" && name != "tool_calls";
}

TEST_P(FuzzTarget, SeedsAndMutations) {
  const Target& target = GetParam();
  const std::vector<std::string> seeds = seeds_of(target.name);
  ASSERT_FALSE(seeds.empty()) << "no line of tests/fuzz/targets/seeds.txt begins with " << target.name;
  outcomes() = {};
  const auto take = [&target](const std::string& text) {
    target.take(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  };
  for (const std::string& seed : seeds) take(seed);
  EXPECT_EQ(outcomes().taken, seeds.size()) << "a seed is an input that is taken: " << last_refusal();
  run(seconds(1), seeds, mutated_json_text, take);
  std::printf("[fuzz] of these %llu taken, %llu refused\n", static_cast<unsigned long long>(outcomes().taken),
              static_cast<unsigned long long>(outcomes().refused));
  EXPECT_EQ(outcomes().refused > 0, refuses(target.name)) << outcomes().refused << " refused";
}

INSTANTIATE_TEST_SUITE_P(All, FuzzTarget, ::testing::ValuesIn(all_targets()),
                         [](const auto& made) { return made.param.name; });

TEST(FuzzTargets, TenAtLeast) {
  EXPECT_GE(all_targets().size(), 10U);
}

// What is neither taken nor refused ends the process: a target that swallowed it would find nothing.
TEST(FuzzTargetsDeathTest, AnotherExceptionIsAFinding) {
  const auto once = [](const auto& take) { return one_input(nullptr, 0, take); };
  EXPECT_DEATH(once([](std::string_view) { throw std::out_of_range("far"); }),
               "neither taken nor refused: far");
  EXPECT_DEATH(once([](std::string_view) { throw base::UserError({.where = std::string(100'001, 'a')}); }),
               "a refusal of 1000");
  EXPECT_EQ(once([](std::string_view) { throw base::UserError({.where = "a", .found = "b"}); }), 0);
}

}  // namespace all_test
}  // namespace hone::fuzz
