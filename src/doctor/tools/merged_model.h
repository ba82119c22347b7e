// Compares the result of a merge or an export with its source model: CKPT-02 with its numbers.
//
// The reference model completes prompts greedily. The other model's distributions are compared along these
// completions: as long as its most likely token is the same, it generates the same text.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/verdict.h"
#include "data/records/record.h"
#include "model/causal_lm.h"

namespace hone::doctor {

// A prompt with its greedy completion, and the most likely tokens at each of its n positions. Not the whole
// distribution: for a vocabulary of 150,000 it would take a gigabyte for 50 prompts.
struct GreedyPath {
  data::Batch tokens;       // prompt and completion, one segment
  std::int64_t prompt = 0;  // tokens of it
  at::Tensor ids;           // [n, K] int64: the K most likely, the chosen one first
  at::Tensor logprobs;      // [n, K] fp32
  double kl_without = 0;    // sum over n of the KL from the model without its adapter; 0 when it has none
};

// Greedy completions of at most `max_new_tokens`, ended by `stop_ids`. UserError as rollout::generate.
std::vector<GreedyPath> greedy_paths(const model::CausalLm& model,
                                     const std::vector<std::vector<std::int32_t>>& prompts,
                                     const std::vector<std::int64_t>& stop_ids, std::int64_t max_new_tokens);

// CKPT-02: the most KL, and the least share of tokens with the same most likely token.
constexpr double kMaxMergedKl = 0.01, kLeastAgreement = 0.98;

struct MergedComparison {
  std::int64_t prompts = 0, same = 0;        // same: every greedy token is equal
  std::int64_t tokens = 0, same_tokens = 0;  // most likely token equal, after the reference model's tokens
  // Mean over the tokens of KL(right || other), of the K most likely tokens and one for all others: at most
  // the whole KL, and nearly that.
  double kl = 0, kl_without = 0;
  // At the first different token of each prompt: how much more likely the reference model finds its own token
  // than the other's; the maximum. Small: nearly a tie, which rounding decides.
  double widest_gap = 0;
};
MergedComparison compare_models(const model::CausalLm& other, const std::vector<GreedyPath>& paths);

// CKPT-02: ok when all prompts are the same; a note when only near ties differ and the KL is small; a warning
// beyond the limits (KL 0.01, 98 % of tokens); a failure when most of the adapter is missing although the
// type has enough bits for it, or when a number is not finite. `what`: "the merged model"; `narrow`: the type
// of the file, when it has fewer than 16 bits.
base::Verdict merged_verdict(const MergedComparison& found, const std::string& what,
                             const std::string& narrow);

// Fifty short questions, used when the user names no prompts.
const std::vector<std::string>& check_prompts();

}  // namespace hone::doctor
