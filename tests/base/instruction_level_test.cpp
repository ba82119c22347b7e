#include "base/process/instruction_level.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/error.h"

namespace hone::base {
namespace instruction_level_test {

class InstructionsOption : public ::testing::Test {
 protected:
  void SetUp() override { TearDown(); }
  void TearDown() override {
    for (const char* name :
         {"HONE_INSTRUCTIONS", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS"})
      unsetenv(name);
  }
  static std::string variable(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
  }
};

TEST_F(InstructionsOption, IsTakenOutAndHoldsHoneAndLibtorch) {
  for (const bool apart : {true, false}) {
    TearDown();
    EXPECT_FALSE(is_held_to_a_level());
    EXPECT_EQ(allowed_level(), machine_level());
    std::vector<std::string> words = {"train", "--instructions=plain", "--seed", "3"};
    if (apart) words = {"train", "--instructions", "plain", "--seed", "3"};
    hold_instructions(words);
    EXPECT_EQ(words, (std::vector<std::string>{"train", "--seed", "3"}));
    EXPECT_TRUE(is_held_to_a_level());
    EXPECT_EQ(allowed_level(), InstructionLevel::kPlain);
    EXPECT_EQ(variable("ATEN_CPU_CAPABILITY"), "default");
    EXPECT_EQ(variable("ONEDNN_MAX_CPU_ISA"), "SSE41");
    EXPECT_EQ(variable("MKL_ENABLE_INSTRUCTIONS"), "SSE4_2");
  }
}

TEST_F(InstructionsOption, AbsentChangesNothing) {
  std::vector<std::string> words = {"train", "--seed", "3"};
  const std::vector<std::string> before = words;
  hold_instructions(words);
  EXPECT_EQ(words, before);
  EXPECT_EQ(variable("HONE_INSTRUCTIONS"), "");
}

TEST_F(InstructionsOption, RefusesAnUnknownLevelAndNone) {
  for (const std::vector<std::string>& line : {std::vector<std::string>{"env", "--instructions", "avx3"},
                                               {"env", "--instructions"},
                                               {"env", "--instructions", "--seed", "1"}}) {
    std::vector<std::string> words = line;
    EXPECT_THROW(hold_instructions(words), UserError);
  }
  std::vector<std::string> nearly = {"env", "--instructions", "avx512bf16"};
  try {
    hold_instructions(nearly);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("avx512_bf16"), std::string::npos);
  }
}

TEST_F(InstructionsOption, IsNeverMoreThanTheMachineHas) {
  setenv("HONE_INSTRUCTIONS", "amx", 1);
  EXPECT_EQ(allowed_level(), machine_level());
  setenv("HONE_INSTRUCTIONS", "nonsense", 1);
  EXPECT_EQ(allowed_level(), machine_level());
  EXPECT_FALSE(is_held_to_a_level());
}

// Each level holds libtorch's parts to no more than itself, and processors without it refuse it by name.
TEST_F(InstructionsOption, HoldsOneDnnToEachLevel) {
  const std::pair<const char*, const char*> levels[] = {{"plain", "SSE41"},
                                                        {"avx2", "AVX2"},
                                                        {"avx512", "AVX512_CORE"},
                                                        {"avx512_bf16", "AVX512_CORE_BF16"},
                                                        {"amx", "AVX512_CORE_AMX"}};
  for (std::size_t i = 0; i < std::size(levels); ++i) {
    TearDown();
    const auto level = static_cast<InstructionLevel>(i);
    EXPECT_STREQ(name_of(level), levels[i].first);
    std::vector<std::string> words = {"train", "--instructions", levels[i].first};
    if (level > machine_level()) {
      EXPECT_THROW(hold_instructions(words), UserError);
      continue;
    }
    hold_instructions(words);
    EXPECT_EQ(allowed_level(), level);
    EXPECT_EQ(variable("ONEDNN_MAX_CPU_ISA"), levels[i].second);
  }
}

}  // namespace instruction_level_test
}  // namespace hone::base
