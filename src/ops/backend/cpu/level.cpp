#include "ops/backend/cpu/level.h"

#include <array>

#include "base/process/instruction_level.h"

namespace hone::ops {
namespace {

using base::InstructionLevel;

template <typename T>
void inherit(T& own, const T& below) {
  if (own == nullptr) own = below;
}

LevelKernels above(const LevelKernels& below, LevelKernels own) {
  inherit(own.rows, below.rows);
  inherit(own.delta, below.delta);
  inherit(own.attend, below.attend);
  inherit(own.attention_bf16, below.attention_bf16);
  inherit(own.gemm_bf16, below.gemm_bf16);
  inherit(own.gemm_float, below.gemm_float);
  inherit(own.logprob, below.logprob);
  inherit(own.unpack_panel, below.unpack_panel);
  inherit(own.fill_mask, below.fill_mask);
  return own;
}

// Whether vdpbf16ps is faster than two fmas of float32. Intel's processors up to Emerald Rapids do half as many
// products a second with it (88 instead of 175 GFLOP/s of a core), AMD's since Zen 4 twice as many. Also where the
// level was asked for.
bool dot_products_are_fast() {
#if defined(__x86_64__)
  return base::is_held_to_a_level() || __builtin_cpu_is("intel") == 0;
#else
  return false;
#endif
}

struct Levels {
  std::array<LevelKernels, std::size(base::kInstructionLevels)> of;
  LevelKernels bf16_without_dot;  // avx512_bf16 where dot_products_are_fast() is false

  // A level's function is compiled with its instructions: it is called only where the machine has them.
  Levels() {
    constexpr std::array kOwn = {portable_level, avx2_level, avx512_level, avx512_bf16_level, amx_level};
    of[0] = portable_level();
    for (std::size_t level = 1; level < of.size(); ++level) {
      const bool has = base::machine_has(base::kInstructionLevels[level]);
      of[level] = above(of[level - 1], has ? kOwn[level]() : LevelKernels());
    }
    if (!base::machine_has(InstructionLevel::kAvx512Bf16)) return;
    LevelKernels own = avx512_bf16_level();
    own.gemm_bf16 = nullptr;
    own.attention_bf16 = nullptr;
    bf16_without_dot = above(of[static_cast<std::size_t>(InstructionLevel::kAvx512)], own);
  }
};

}  // namespace

const LevelKernels& level_kernels() {
  static const Levels levels;
  const InstructionLevel level = base::instruction_level();
  if (level == InstructionLevel::kAvx512Bf16 && !dot_products_are_fast()) return levels.bf16_without_dot;
  return levels.of[static_cast<std::size_t>(level)];
}

}  // namespace hone::ops
