#include "train/methods/reference_free.h"

#include "data/forms/cpo_pairs.h"

namespace hone::train {

learn::PairLogprobs pair_logprobs(const PairPass& pass, const TokenScores& scores) {
  return {.scored = pass.scored, .logprob = scores.logprob, .mean_logit = scores.mean_logit};
}

RecordMaking reference_free_making(const RowText& text) {
  return pair_making(text, "cpo", data::ImplicitPrompts::kExtractMixed, &data::make_cpo_pairs,
                     {.max_prompt_length = text.plan.max_prompt_length});
}

MemoryInputs begin_reference_free(OpenedRun& run, const OpenedRecords& records,
                                  const ReferenceFreeFacts& facts) {
  const auto& pairs = std::get<data::PreferenceFacts>(records.facts);
  run.start.method = PreferenceStartFacts{.data = pairs,
                                          .eval_pairs = records.eval_rows(),
                                          .loss = facts.loss,
                                          .reference = "none",
                                          .length_advice = facts.length_advice};
  return pair_memory(run, records, pairs.longest_prompt, facts.head_tokens);
}

}  // namespace hone::train
