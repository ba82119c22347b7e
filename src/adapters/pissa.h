// PiSSA (Meng, Wang and Zhang 2024): an adapter that is initialized with the largest singular directions of
// its weight. Formula: PEFT 0.21.2 lora/layer.py pissa_init.
#pragma once

#include <cstdint>

#include "ops/linear.h"

namespace hone::adapters {

// With W = U S V^T and s the side's scale: A = sqrt(S_r / s) V_r^T, B = U_r sqrt(S_r / s), and W becomes W -
// s B A in its own dtype, packed or not. `niter` 0 decomposes the whole of W (seconds for a matrix of a small
// model); above 0 a randomized decomposition with that many subspace iterations (torch.svd_lowrank's), whose
// random numbers are counter-based on `seed` and the module's name.
void init_pissa(ops::Linear& linear, std::int64_t niter, std::uint64_t seed);

// W becomes W - s B A, with A and B as they are.
void subtract_lora(ops::Linear& linear);

}  // namespace hone::adapters
