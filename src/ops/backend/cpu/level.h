// The kernels of a level of instructions, as one table. The folders portable, avx2, avx512, avx512_bf16 and amx each
// define one (level.cpp), compiled with the instructions of the folder; a table inherits from the level below what it
// does not have. Files that are compiled for wide instructions include this, so it declares raw pointers only.
#pragma once

#include "ops/backend/cpu/attention_kernels.h"
#include "ops/backend/cpu/delta_rule_kernels.h"
#include "ops/backend/cpu/dropout_row.h"
#include "ops/backend/cpu/gemm_kernels.h"
#include "ops/backend/cpu/logprob_kernels.h"
#include "ops/backend/cpu/quantized_kernels.h"
#include "ops/backend/cpu/row_kernels.h"

namespace hone::ops {

struct LevelKernels {
  const RowKernels* rows = nullptr;
  const delta::Kernels* delta = nullptr;
  void (*attend)(const attention_kernels::Forward& block, bool bf16, float* scratch) = nullptr;
  const attention_kernels::Bf16Kernels* attention_bf16 = nullptr;  // portable: none
  const kernels::GemmKernels* gemm_bf16 = nullptr;                 // portable: none
  const kernels::GemmKernels* gemm_float = nullptr;                // portable: none
  const kernels::LogprobKernels* logprob = nullptr;                // portable: none
  void (*unpack_panel)(const kernels::PanelView& matrix, const kernels::Unpack& run) = nullptr;
  void (*fill_mask)(const MaskRow& row, float* out, std::size_t features) = nullptr;
};

// Return what each level adds to the one below it. Empty where the compiler makes nothing for this processor.
LevelKernels portable_level();
LevelKernels avx2_level();
LevelKernels avx512_level();
LevelKernels avx512_bf16_level();
LevelKernels amx_level();

// The whole table of base::instruction_level().
const LevelKernels& level_kernels();

}  // namespace hone::ops
