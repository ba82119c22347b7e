// Which instructions our own CPU kernels use. Every kernel has a plain form; a test forces any form.
#pragma once

namespace hone::ops {

// Each includes those before it. kAvx512Bf16 is avx512 f, bw, dq, vl and bf16.
enum class Instructions { kPlain, kAvx2, kAvx512, kAvx512Bf16 };

// The widest this machine runs, or what a ForceInstructions in scope says.
Instructions instructions();
bool machine_has(Instructions level);
const char* name_of(Instructions level);

// Holds every kernel to `level` while it lives, in all threads: for tests and benchmarks, one at a time.
class ForceInstructions {
 public:
  explicit ForceInstructions(Instructions level);
  ~ForceInstructions();
  ForceInstructions(const ForceInstructions&) = delete;
  ForceInstructions& operator=(const ForceInstructions&) = delete;
};

}  // namespace hone::ops
