#include "train/pair_pass.h"

#include "train/micro_batches.h"

namespace hone::train {

PairPass make_pair_pass(const std::vector<data::PreferencePair>& pairs, const std::vector<std::int64_t>& rows,
                        bool share_prompt, std::int64_t row_base, Sides sides, RouterTokens routers) {
  RolloutBatch batch;
  PairPass out;
  for (const std::int64_t row : rows) {
    const data::PreferencePair& pair = pairs.at(static_cast<std::size_t>(row));
    bool stands = false;  // the context that both have
    for (const data::PreferenceSequence* side : {&pair.chosen, &pair.rejected}) {
      const bool wanted = sides == Sides::kBoth || (sides == Sides::kChosen) == (side == &pair.chosen);
      if (!wanted || side->scored.empty()) continue;
      if (!stands) batch.prompts.push_back({.row = pair.row, .ids = side->context});
      stands = pair.shares_context();
      batch.samples.push_back({.prompt = batch.prompts.size() - 1, .ids = side->scored});
      out.rows.push_back(row);
      out.scored.push_back(static_cast<std::int64_t>(side->scored.size()));
      out.completion.push_back(side->completion);
      out.tokens += side->tokens();
    }
  }
  out.pass = make_policy_pass(batch, all_of(batch.samples.size()), share_prompt, row_base, routers);
  return out;
}

learn::PreferenceTokens preference_tokens(const PairPass& pass, const TokenScores& scores,
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
