#include "ops/cpu/instructions.h"

#include <array>
#include <atomic>

#include "base/enum_names.h"
#include "base/error.h"

namespace hone::ops {
namespace {

constexpr int kNotForced = -1;
std::atomic<int> forced{kNotForced};

Instructions widest() {
#if defined(__x86_64__)
  // libgcc asks the operating system too: a register that is not saved does not count.
  if (__builtin_cpu_supports("avx2") == 0 || __builtin_cpu_supports("fma") == 0)
    return Instructions::kPortable;
  if (__builtin_cpu_supports("avx512f") == 0 || __builtin_cpu_supports("avx512bw") == 0 ||
      __builtin_cpu_supports("avx512dq") == 0 || __builtin_cpu_supports("avx512vl") == 0) {
    return Instructions::kAvx2;
  }
  return __builtin_cpu_supports("avx512bf16") != 0 ? Instructions::kAvx512Bf16 : Instructions::kAvx512;
#else
  return Instructions::kPortable;
#endif
}

Instructions widest_here() {
  static const Instructions level = widest();
  return level;
}

}  // namespace

Instructions instructions() {
  const int level = forced.load(std::memory_order_relaxed);
  return level == kNotForced ? widest_here() : static_cast<Instructions>(level);
}

bool machine_has(Instructions level) {
  return level <= widest_here();
}

bool dot_products_are_fast() {
#if defined(__x86_64__)
  if (instructions() != Instructions::kAvx512Bf16) return false;
  return forced.load(std::memory_order_relaxed) != kNotForced || __builtin_cpu_is("intel") == 0;
#else
  return false;
#endif
}

const char* name_of(Instructions level) {
  static constexpr std::array<const char*, 4> kNames = {"plain", "avx2", "avx512", "avx512_bf16"};
  return base::enum_name(kNames, level);
}

ForceInstructions::ForceInstructions(Instructions level) {
  base::require(machine_has(level), "ops::ForceInstructions", "instructions that this machine has");
  int none = kNotForced;
  const bool alone = forced.compare_exchange_strong(none, static_cast<int>(level));
  base::require(alone, "ops::ForceInstructions", "one at a time");
}

ForceInstructions::~ForceInstructions() {
  forced.store(kNotForced);
}

}  // namespace hone::ops
