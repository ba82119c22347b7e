// Which vector instructions our kernels and libtorch's may use: what this machine has, and what a process is held to
// with `--instructions`, so that anybody can reproduce a laptop on a server.
#pragma once

#include <string>
#include <vector>

namespace hone::base {

// Each includes those before it. kAvx2 has fma too; kAvx512Bf16 is avx512 f, bw, dq, vl and bf16; kAmx is amx tile and
// bf16, which Linux gives to processes that ask for it.
enum class InstructionLevel { kPlain, kAvx2, kAvx512, kAvx512Bf16, kAmx };
inline constexpr InstructionLevel kInstructionLevels[] = {
    InstructionLevel::kPlain, InstructionLevel::kAvx2, InstructionLevel::kAvx512,
    InstructionLevel::kAvx512Bf16, InstructionLevel::kAmx};

const char* name_of(InstructionLevel level);  // "plain", "avx2", "avx512", "avx512_bf16", "amx"

// The widest that processor and operating system have. The first call asks Linux for amx, for all threads.
InstructionLevel machine_level();
// machine_level(), or what HONE_INSTRUCTIONS names when that is lower. An unknown word there changes nothing.
InstructionLevel allowed_level();
bool is_held_to_a_level();  // HONE_INSTRUCTIONS names one, or a ForceInstructionLevel lives
bool machine_has(InstructionLevel level);
// Returns the level that our kernels use now: allowed_level(), or that of a ForceInstructionLevel in scope.
InstructionLevel instruction_level();

// Limits every kernel of ours to `level` while it lives, in all threads. For tests and benchmarks, one at a time.
class ForceInstructionLevel {
 public:
  explicit ForceInstructionLevel(InstructionLevel level);
  ~ForceInstructionLevel();
  ForceInstructionLevel(const ForceInstructionLevel&) = delete;
  ForceInstructionLevel& operator=(const ForceInstructionLevel&) = delete;
};

// Takes `--instructions LEVEL` (or `--instructions=LEVEL`) out of a command line and holds this process and its children
// to it: HONE_INSTRUCTIONS, and what libtorch, oneDNN and MKL read when they are loaded. So call it before
// libhone_core.so is. UserError: no level, an unknown one, or one that this machine does not have.
void hold_instructions(std::vector<std::string>& words);

}  // namespace hone::base
