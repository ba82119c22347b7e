#include "train/pair_pass.h"

#include <numeric>

namespace hone::train {

PairPass make_pair_pass(const std::vector<data::PreferencePair>& pairs, const std::vector<std::int64_t>& rows,
                        bool share_prompt, std::int64_t row_base) {
  RolloutBatch batch;
  PairPass out;
  const auto add_context = [&](const data::PreferencePair& pair, const data::PreferenceSide& side) {
    batch.prompts.push_back({.row = pair.row, .ids = side.context});
  };
  for (const std::int64_t row : rows) {
    const data::PreferencePair& pair = pairs.at(static_cast<std::size_t>(row));
    add_context(pair, pair.chosen);
    for (const data::PreferenceSide* side : {&pair.chosen, &pair.rejected}) {
      if (side == &pair.rejected && !pair.shares_context()) add_context(pair, *side);
      batch.samples.push_back({.prompt = batch.prompts.size() - 1, .ids = side->scored});
      out.scored.push_back(static_cast<std::int64_t>(side->scored.size()));
      out.completion.push_back(side->completion);
      out.tokens += side->tokens();
    }
  }
  std::vector<std::size_t> all(batch.samples.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  out.pass = make_policy_pass(batch, all, share_prompt, row_base);
  return out;
}

learn::PreferenceTokens preference_tokens(const PairPass& pass, const PolicyScores& scores,
                                          const at::Tensor& reference) {
  return {.scored = pass.scored,
          .completion = pass.completion,
          .reference = reference,
          .logprob = scores.logprob,
          .log_sum_squares = scores.log_sum_squares,
          .entropy = scores.entropy,
          .mean_logit = scores.mean_logit,
          .is_top1 = scores.is_top1};
}

}  // namespace hone::train
