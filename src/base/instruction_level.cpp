#include "base/instruction_level.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/enum_names.h"
#include "base/error.h"
#include "base/suggest.h"

namespace hone::base {
namespace {

constexpr std::string_view kOption = "--instructions";
constexpr const char* kVariable = "HONE_INSTRUCTIONS";
constexpr std::array<const char*, 4> kLevelNames = {"plain", "avx2", "avx512", "avx512_bf16"};

// What libtorch's parts call the levels.
struct LibraryNames {
  const char *aten, *onednn, *mkl;
};
constexpr std::array<LibraryNames, 4> kLibraryNames = {{{"default", "SSE41", "SSE4_2"},
                                                        {"avx2", "AVX2", "AVX2"},
                                                        {"avx512", "AVX512_CORE", "AVX512"},
                                                        {"avx512", "AVX512_CORE_BF16", "AVX512"}}};

std::optional<InstructionLevel> level_named(std::string_view name) {
  const auto* const found = std::find(kLevelNames.begin(), kLevelNames.end(), name);
  if (found == kLevelNames.end()) return std::nullopt;
  return static_cast<InstructionLevel>(found - kLevelNames.begin());
}

std::optional<InstructionLevel> held_level() {
  const char* const name = std::getenv(kVariable);  // NOLINT(concurrency-mt-unsafe): set before threads start
  return name == nullptr ? std::nullopt : level_named(name);
}

InstructionLevel checked_level(const std::string& name) {
  const std::optional<InstructionLevel> level = level_named(name);
  if (!level) {
    const std::vector<std::string> names(kLevelNames.begin(), kLevelNames.end());
    throw UserError({.where = std::string(kOption),
                     .expected = "plain, avx2, avx512 or avx512_bf16",
                     .found = name.empty() ? "no level" : "'" + name + "'." + did_you_mean(name, names),
                     .cause = {},
                     .fix = "`hone env` says what this machine has"});
  }
  if (*level > machine_level()) {
    throw UserError({.where = std::string(kOption),
                     .expected = "instructions that this machine has",
                     .found = name + "; this machine has " + name_of(machine_level()),
                     .cause = {},
                     .fix = "leave the option out: the fastest are used by themselves"});
  }
  return *level;
}

void hold_to(InstructionLevel level) {
  const auto place = static_cast<std::size_t>(level);
  const LibraryNames& names = kLibraryNames.at(place);
  constexpr int kReplace = 1;
  setenv(kVariable, kLevelNames.at(place), kReplace);
  setenv("ATEN_CPU_CAPABILITY", names.aten, kReplace);
  setenv("ONEDNN_MAX_CPU_ISA", names.onednn, kReplace);
  setenv("MKL_ENABLE_INSTRUCTIONS", names.mkl, kReplace);
}

}  // namespace

const char* name_of(InstructionLevel level) {
  return enum_name(kLevelNames, level);
}

InstructionLevel machine_level() {
#if defined(__x86_64__)
  // libgcc asks the operating system too: a register that is not saved does not count.
  if (__builtin_cpu_supports("avx2") == 0 || __builtin_cpu_supports("fma") == 0)
    return InstructionLevel::kPlain;
  if (__builtin_cpu_supports("avx512f") == 0 || __builtin_cpu_supports("avx512bw") == 0 ||
      __builtin_cpu_supports("avx512dq") == 0 || __builtin_cpu_supports("avx512vl") == 0) {
    return InstructionLevel::kAvx2;
  }
  return __builtin_cpu_supports("avx512bf16") != 0 ? InstructionLevel::kAvx512Bf16
                                                   : InstructionLevel::kAvx512;
#else
  return InstructionLevel::kPlain;
#endif
}

InstructionLevel allowed_level() {
  return std::min(held_level().value_or(machine_level()), machine_level());
}

bool is_held_to_a_level() {
  return held_level().has_value();
}

void hold_instructions(std::vector<std::string>& words) {
  std::optional<InstructionLevel> level;
  for (auto word = words.begin(); word != words.end();) {
    std::string name;
    auto end = word + 1;
    if (word->starts_with(std::string(kOption) + "=")) {
      name = word->substr(kOption.size() + 1);
    } else if (*word == kOption) {
      if (end != words.end() && !end->starts_with("--")) name = *end++;
    } else {
      ++word;
      continue;
    }
    level = checked_level(name);
    word = words.erase(word, end);
  }
  if (level) hold_to(*level);
}

}  // namespace hone::base
