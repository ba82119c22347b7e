#include "train/passes/pair_pass.h"

#include <algorithm>

#include "train/steps/micro_batches.h"

namespace hone::train {

PairPass make_pair_pass(const std::vector<data::RecordView>& records, const PairForm& form) {
  RolloutBatch batch;
  PairPass out;
  for (std::size_t i = 0; i < records.size(); ++i) {
    std::span<const std::int32_t> context;  // that the prompt before has
    for (const data::Part part : form.parts) {
      const data::ScoredSequence one = records[i].sequence(part);
      if (one.scored.empty()) continue;
      const bool stands = !context.empty() && std::ranges::equal(context, one.context);
      if (!stands)
        batch.prompts.push_back({.row = records[i].row, .ids = {one.context.begin(), one.context.end()}});
      context = one.context;
      batch.samples.push_back(
          {.prompt = batch.prompts.size() - 1, .ids = {one.scored.begin(), one.scored.end()}});
      out.records.push_back(i);
      out.scored.push_back(std::ssize(one.scored));
      out.completion.push_back(one.completion);
      out.tokens += one.tokens();
    }
  }
  out.pass =
      make_policy_pass(batch, all_of(batch.samples.size()), form.share_prompt, form.row_base, form.routers);
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
