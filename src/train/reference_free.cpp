#include "train/reference_free.h"

#include "data/cpo_pairs.h"
#include "train/cached_tokens.h"

namespace hone::train {

PairInput<data::PreferenceFacts> read_cpo_pairs(const data::RowSource& source, OpenedRun& run) {
  const config::Plan& plan = run.plan;
  const data::PreferenceOptions options = {.max_length = plan.max_length,
                                           .max_prompt_length = plan.max_prompt_length,
                                           .vocab_size = run.source->config().vocab_size,
                                           .threads = static_cast<int>(plan.threads)};
  return cached_pairs(source, run, "cpo", options, [&](const data::PreferenceRows& rows) {
    return data::tokenize_cpo_pairs(rows, run.text->tokenizer, run.text->chat_template.get(),
                                    {.max_length = options.max_length,
                                     .max_prompt_length = options.max_prompt_length,
                                     .vocab_size = options.vocab_size,
                                     .threads = options.threads});
  });
}

learn::PairLogprobs pair_logprobs(const PairPass& pass, const TokenScores& scores) {
  return {.scored = pass.scored, .logprob = scores.logprob, .mean_logit = scores.mean_logit};
}

}  // namespace hone::train
