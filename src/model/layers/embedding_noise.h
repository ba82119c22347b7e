// NEFTune (Jain et al., arXiv 2310.05914; transformers 5.23 integrations/neftune.py): uniform noise on the
// embeddings' output while training. Of a batch of L tokens a sequence, padding included, and hidden size H every
// element gets noise in [-alpha / sqrt(L H), alpha / sqrt(L H)).
//
// Here a number depends on (seed, step, row, position, feature) and not on the batch: equal to transformers' in
// distribution, not in bits. A passage through the model twice (recompute, replay) gets the same noise.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/linear.h"

namespace hone::model {

// alpha / sqrt(tokens * hidden_size); `tokens` of a sequence as TRL pads or concatenates it. 0 for alpha 0.
double embedding_noise_bound(double alpha, std::int64_t tokens, std::int64_t hidden_size);

// x [T, H] plus noise of at most pass.embedding_noise, in x's dtype; x itself when not training, or without noise.
// Needs pass.token_row and pass.token_position. Its gradient is that of x.
at::Tensor with_embedding_noise(const at::Tensor& x, const ops::PassContext& pass);

}  // namespace hone::model
