// Attention of a sampler's step to keys and values in pages (ops/backend/kv_page_pool.h), by a kernel of our own.
#pragma once

#include <vector>

#include "ops/attention.h"
#include "ops/backend/kv_page_pool.h"

namespace hone::ops::cuda {

// attend_tiles() of rows of this pool that cover q in order. Tokens that are alone read their pages in place. Pieces of prompts in bf16
// are FlashAttention-2's, over a dense copy of what they see. False: a window, a soft cap, or no kernel any more.
bool attend_in_pages(const at::Tensor& out, const at::Tensor& lse, const at::Tensor& q,
                     backend::KvPagePool& pool, const std::vector<AttentionRows>& rows,
                     const AttentionRule& rule);

}  // namespace hone::ops::cuda
