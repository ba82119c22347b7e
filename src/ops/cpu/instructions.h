// Which instruction set our CPU kernels use. Every kernel has a portable form; tests can force any of them.
#pragma once

namespace hone::ops {

// Each includes those before it. kAvx512Bf16 is avx512 f, bw, dq, vl and bf16; kAmx is amx tile and bf16.
enum class Instructions { kPortable, kAvx2, kAvx512, kAvx512Bf16, kAmx };
inline constexpr Instructions kAllInstructions[] = {Instructions::kPortable, Instructions::kAvx2,
                                                    Instructions::kAvx512, Instructions::kAvx512Bf16,
                                                    Instructions::kAmx};

// The widest that this machine has and `--instructions` allows, or the one of a ForceInstructions in scope.
Instructions instructions();
bool machine_has(Instructions level);
// Whether vdpbf16ps is faster than two fmas of float32. Intel's processors up to Emerald Rapids do half as many
// products a second with it (88 instead of 175 GFLOP/s of a core), AMD's since Zen 4 twice as many. True where
// kAvx512Bf16 is forced or asked for.
bool dot_products_are_fast();
const char* name_of(Instructions level);

// Limits every kernel to `level` while it lives, in all threads. For tests and benchmarks, one at a time.
class ForceInstructions {
 public:
  explicit ForceInstructions(Instructions level);
  ~ForceInstructions();
  ForceInstructions(const ForceInstructions&) = delete;
  ForceInstructions& operator=(const ForceInstructions&) = delete;
};

}  // namespace hone::ops
