// What CPO and ORPO share: their data, and the opening of a run without a reference.
#pragma once

#include <memory>
#include <string>

#include "learn/reference_free_loss.h"
#include "train/opening.h"
#include "train/pair_pass.h"

namespace hone::train {

PairInput<data::PreferenceFacts> read_cpo_pairs(const data::RowSource& source, OpenedRun& run);

learn::PairLogprobs pair_logprobs(const PairPass& pass, const TokenScores& scores);

// What a method's start page and memory plan need of it.
struct ReferenceFreeFacts {
  std::string loss;           // "simpo, beta 2, ..."
  std::string length_advice;  // as PreferenceStartFacts
  HeadTokens head_tokens = HeadTokens::kCompletions;
};

template <typename MethodOf>
std::unique_ptr<OpenedRun> open_reference_free(const config::Plan& asked, const ReferenceFreeFacts& facts) {
  auto run = open_source(asked);
  open_pairs<MethodOf>(
      *run, {.wants_reference = false},
      [&](const data::RowSource& source) { return read_cpo_pairs(source, *run); },
      [&](const data::PreferenceFacts& data, const PairData* eval, std::int64_t program_bytes) {
        run->start.method = PreferenceStartFacts{.data = data,
                                                 .eval_pairs = rows_of(eval),
                                                 .loss = facts.loss,
                                                 .reference = "none",
                                                 .length_advice = facts.length_advice};
        return pair_memory(*run, program_bytes, eval, data.longest_prompt, facts.head_tokens);
      });
  return run;
}

}  // namespace hone::train
