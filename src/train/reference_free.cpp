#include "train/reference_free.h"

#include "data/cpo_pairs.h"

namespace hone::train {

PairInput<data::PreferenceFacts> read_cpo_pairs(const data::RowSource& source, const OpenedRun& run) {
  const config::Plan& plan = run.plan;
  const data::PreferenceRows rows = data::read_preference_rows(source, data::ImplicitPrompts::kExtractMixed);
  data::PreferenceData data =
      data::tokenize_cpo_pairs(rows, run.text->tokenizer, run.text->chat_template.get(),
                               {.max_length = plan.max_length,
                                .max_prompt_length = plan.max_prompt_length,
                                .vocab_size = run.source->config().vocab_size,
                                .threads = static_cast<int>(plan.threads)});
  return {.data = {.pairs = std::move(data.pairs), .margins = {}, .desirable = {}},
          .facts = data.facts,
          .file = {.files = source.files().files(), .rows = static_cast<std::int64_t>(rows.rows.size())}};
}

learn::PairLogprobs pair_logprobs(const PairPass& pass, const PolicyScores& scores) {
  return {.scored = pass.scored, .logprob = scores.logprob, .mean_logit = scores.mean_logit};
}

}  // namespace hone::train
