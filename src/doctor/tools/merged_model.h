// What a merge or an export wrote, beside the model that it was made of: CKPT-02 with its numbers.
//
// The model that is right completes prompts greedily. Along its completions the other model's distributions
// are compared: while its most likely token is the one that was taken, it writes the same text.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/verdict.h"
#include "data/example.h"
#include "model/causal_lm.h"

namespace hone::doctor {

// A prompt with its greedy completion, and what the model thought of each of its n tokens. Not the whole
// distribution: of a vocabulary of 150,000 that would be a gigabyte for 50 prompts.
struct GreedyPath {
  data::Batch tokens;       // prompt and completion, one segment
  std::int64_t prompt = 0;  // tokens of it
  at::Tensor ids;           // [n, K] int64: the K most likely, the one that was taken first
  at::Tensor logprobs;      // [n, K] fp32
  double kl_without = 0;    // sum over n of the KL from the model without its adapter; 0 when it has none
};

// Greedy completions of at most `max_new_tokens`, ended by `stop_ids`. UserError as rollout::generate.
std::vector<GreedyPath> greedy_paths(const model::CausalLm& model,
                                     const std::vector<std::vector<std::int32_t>>& prompts,
                                     const std::vector<std::int64_t>& stop_ids, std::int64_t max_new_tokens);

struct MergedComparison {
  std::int64_t prompts = 0, same = 0;        // same: every greedy token is equal
  std::int64_t tokens = 0, same_tokens = 0;  // most likely token equal, after the right model's tokens
  // Mean over the tokens of KL(right || other), of the K most likely tokens and one for all others: at most
  // the whole KL, and nearly that.
  double kl = 0, kl_without = 0;
  // Of the first other token of each prompt that differs: how much more likely, in the right model, its own
  // token is than the other's; the greatest. Small: it was nearly a tie, which rounding decides.
  double widest_gap = 0;
};
MergedComparison compare_models(const model::CausalLm& other, const std::vector<GreedyPath>& paths);

// CKPT-02: ok when all prompts are the same; a note when what differs were near ties and the KL is small; a
// warning beyond the limits (KL 0.01, 98 % of tokens); a failure when the adapter is hardly in it though
// the type is wide enough for it, or when a number is not finite.
// `what`: "the merged model"; `narrow`: the type that the file holds, when it has fewer bits than 16.
base::Verdict merged_verdict(const MergedComparison& found, const std::string& what,
                             const std::string& narrow);

// Fifty short questions, for when the user names none.
const std::vector<std::string>& check_prompts();

}  // namespace hone::doctor
