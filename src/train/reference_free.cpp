#include "train/reference_free.h"

#include "data/cpo_pairs.h"

namespace hone::train {

learn::PairLogprobs pair_logprobs(const PairPass& pass, const TokenScores& scores) {
  return {.scored = pass.scored, .logprob = scores.logprob, .mean_logit = scores.mean_logit};
}

std::unique_ptr<OpenedRun> open_reference_free(const config::Plan& asked, const ReferenceFreeFacts& facts,
                                               std::unique_ptr<TrainingMethod> (*method)(PairParts)) {
  auto run = open_source(asked);
  const auto begin = [&](const data::RowFacts& of, const RecordData* eval, std::int64_t program_bytes) {
    const auto& data = std::get<data::PreferenceFacts>(of);
    run->start.method = PreferenceStartFacts{.data = data,
                                             .eval_pairs = rows_of(eval),
                                             .loss = facts.loss,
                                             .reference = "none",
                                             .length_advice = facts.length_advice};
    return pair_memory(*run, program_bytes, eval, data.longest_prompt, facts.head_tokens);
  };
  open_pairs(*run,
             {.attach = {.wants_reference = false},
              .making = pair_making(*run, "cpo", data::ImplicitPrompts::kExtractMixed, &data::make_cpo_pairs,
                                    {.max_prompt_length = run->plan.max_prompt_length}),
              .begin = begin,
              .method = method});
  return run;
}

}  // namespace hone::train
