#include "ops/cpu/instructions.h"

#include <atomic>

#include "base/error.h"
#include "base/instruction_level.h"

namespace hone::ops {
namespace {

constexpr int kNotForced = -1;
std::atomic<int> forced{kNotForced};

Instructions of(base::InstructionLevel level) {
  return static_cast<Instructions>(level);  // the same levels in the same order
}

}  // namespace

Instructions instructions() {
  static const Instructions allowed = of(base::allowed_level());
  const int level = forced.load(std::memory_order_relaxed);
  return level == kNotForced ? allowed : static_cast<Instructions>(level);
}

bool machine_has(Instructions level) {
  static const Instructions widest = of(base::machine_level());
  return level <= widest;
}

bool dot_products_are_fast() {
#if defined(__x86_64__)
  if (instructions() != Instructions::kAvx512Bf16) return false;
  const bool asked_for = forced.load(std::memory_order_relaxed) != kNotForced || base::is_held_to_a_level();
  return asked_for || __builtin_cpu_is("intel") == 0;
#else
  return false;
#endif
}

const char* name_of(Instructions level) {
  return base::name_of(static_cast<base::InstructionLevel>(level));
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
