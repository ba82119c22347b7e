#include "base/process/instruction_level.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <optional>
#include <string_view>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "base/enum_names.h"
#include "base/error.h"
#include "base/strings/suggest.h"

namespace hone::base {
namespace {

constexpr std::string_view kOption = "--instructions";
constexpr const char* kVariable = "HONE_INSTRUCTIONS";
constexpr int kNotForced = -1;
std::atomic<int> forced{kNotForced};
constexpr std::array<const char*, 5> kLevelNames = {"plain", "avx2", "avx512", "avx512_bf16", "amx"};

// What libtorch's parts call the levels.
struct LibraryNames {
  const char *aten, *onednn, *mkl;
};
constexpr std::array<LibraryNames, 5> kLibraryNames = {{{"default", "SSE41", "SSE4_2"},
                                                        {"avx2", "AVX2", "AVX2"},
                                                        {"avx512", "AVX512_CORE", "AVX512"},
                                                        {"avx512", "AVX512_CORE_BF16", "AVX512"},
                                                        {"avx512", "AVX512_CORE_AMX", "AVX512"}}};

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
                     .expected = "plain, avx2, avx512, avx512_bf16 or amx",
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

#if defined(__x86_64__)
// Whether this process may use the tile registers: a thread's first use needs memory, so Linux wants to be asked.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr unsigned kBf16 = 1U << 22, kTiles = 1U << 24;
  constexpr long kAskForState = 0x1023, kTileState = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  unsigned a = 0, b = 0, c = 0, found = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &found) == 0) return false;
  return (found & kBf16) != 0 && (found & kTiles) != 0 &&
         ::syscall(SYS_arch_prctl, kAskForState, kTileState) == 0;
#else
  return false;
#endif
}
#endif

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
  if (__builtin_cpu_supports("avx512bf16") == 0) return InstructionLevel::kAvx512;
  static const bool has_tiles = may_use_tiles();
  return has_tiles ? InstructionLevel::kAmx : InstructionLevel::kAvx512Bf16;
#else
  return InstructionLevel::kPlain;
#endif
}

InstructionLevel allowed_level() {
  return std::min(held_level().value_or(machine_level()), machine_level());
}

bool is_held_to_a_level() {
  return forced.load(std::memory_order_relaxed) != kNotForced || held_level().has_value();
}

bool machine_has(InstructionLevel level) {
  static const InstructionLevel widest = machine_level();
  return level <= widest;
}

InstructionLevel instruction_level() {
  static const InstructionLevel allowed = allowed_level();
  const int level = forced.load(std::memory_order_relaxed);
  return level == kNotForced ? allowed : static_cast<InstructionLevel>(level);
}

ForceInstructionLevel::ForceInstructionLevel(InstructionLevel level) {
  require(machine_has(level), "base::ForceInstructionLevel", "instructions that this machine has");
  int none = kNotForced;
  const bool alone = forced.compare_exchange_strong(none, static_cast<int>(level));
  require(alone, "base::ForceInstructionLevel", "one at a time");
}

ForceInstructionLevel::~ForceInstructionLevel() {
  forced.store(kNotForced);
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
