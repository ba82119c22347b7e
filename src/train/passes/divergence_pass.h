// One pass of distillation: the hidden rows of a teacher, and the divergence of the trained model's distributions from
// the teacher's at the same tokens (learn/divergence/divergence.h), through both heads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "learn/divergence/divergence.h"
#include "learn/divergence/top_k_divergence.h"
#include "model/causal_lm.h"
#include "train/passes/batch_pass.h"
#include "train/passes/policy_batch.h"

namespace hone::train {

// The teacher at the n scored tokens of a pass. The model must outlive it.
struct TeacherRows {
  const model::CausalLm* model = nullptr;
  bool adapters_on = false;
  at::Tensor hidden;  // [n, H] of the teacher
};

// A forward without dropout and without gradients.
TeacherRows teacher_rows(const model::CausalLm& teacher, bool adapters_on, const PolicyPass& pass,
                         const PassForm& form);

// Memory from the teacher's pass to the end of the student's, of n tokens: `hidden`, and the tiles of both heads.
std::int64_t teacher_rows_bytes(const model::CausalLm& teacher, std::int64_t n);

// Sums over the n tokens.
struct DivergenceFacts {
  double divergence = 0, entropy = 0;
  double teacher_kl = 0;  // of loss_type sampled
  std::int64_t tokens = 0;
};

// `factor` 0: forward only. Else gradients of factor * the summed divergence are added to those of all that is trained.
DivergenceFacts run_divergence(const model::CausalLm& student, const TeacherRows& teacher,
                               const PolicyPass& pass, const RngKey& key, const PassForm& form,
                               const learn::DivergenceOptions& options, double factor);

// The same from the k most likely tokens of a teacher at each of the n (learn/divergence/top_k_divergence.h); its tensors may be on the CPU.
DivergenceFacts run_top_k_divergence(const model::CausalLm& student, const learn::TopKTeacher& teacher,
                                     const PolicyPass& pass, const RngKey& key, const PassForm& form,
                                     double temperature, double factor);

}  // namespace hone::train
