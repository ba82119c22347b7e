// The next token of each row of logits, drawn on the device.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "ops/sampling/lists.h"

namespace hone::ops {

// B rows, V numbers in the vocabulary; all on one device, dense but for logits.
struct SampledTokens {
  at::Tensor logits;    // [B, V] fp32; not written
  at::Tensor rules;     // [B * sizeof(DrawRule)] uint8: one of each row
  at::Tensor stop_ids;  // [n] int32: what the rules name parts of
  at::Tensor seen;      // [B, ceil(V / 32)] int32: a bit for each id so far; undefined: no rule has a penalty
  at::Tensor masses;    // [B, ceil(V / kMassTokens)] fp64: scratch
  at::Tensor drawn;     // [B] int64: tokens so far, one more after the call
  at::Tensor ids;       // [B] int32: written
  at::Tensor states;    // [B] int32, DrawState: rows that do not go on are left as they are
  at::Tensor sampled_logprobs, logprobs, entropies;  // [B] fp32: written; the last two undefined: not wanted
};

// Draws what rollout::Sampler draws from equal logits, but where sums of weights differ by less than 1e-12 of their whole; all
// else as rollout::RequestOptions and Completion say. False: the device has no such kernel, and nothing was written.
bool sample_tokens(const SampledTokens& x);

// Returns whether the device has it. Never the CPU, whose sampler is rollout::Sampler.
bool draws_tokens(at::Device device);

}  // namespace hone::ops
