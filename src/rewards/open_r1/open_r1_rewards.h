// The rewards that open-r1's recipes name (github.com/huggingface/open-r1, src/open_r1/rewards.py, April 2026).
// Metric names are the __name__ of its functions: rewards/accuracy_reward/mean.
//
//   accuracy(column=solution)      is the answer the column's? None where the column has none
//   format                         <think>, a text, </think>, <answer>, a text, </answer>, each on its own line
//   tag_count                      a quarter for each of these four that is there once
//   reasoning_steps                a third for each "Step 1:", "1." at the start, "-" or "*" after a line break,
//                                  "First,", "Second,", "Next,", "Finally,"; at most 1
//   cosine(min_value_wrong=0, max_value_wrong=-0.5, min_value_correct=0.5, max_value_correct=1, max_len=1000)
//                                  the accuracy, scaled by a cosine of the number of characters
//   repetition_penalty(ngram_size=3, max_penalty=-1)   max_penalty times the share of repeated n-grams of words
//   length(column=solution)        Kimi 1.5, arXiv 2501.12599: 0.5 for the shortest to -0.5 for the longest; at most 0
//                                  for a wrong answer. length(target=100) is hone's own reward
//   code_format(language=python)   format, with a block of code in the answer; a column `language` names its language
//   soft_overlong_punishment(max_completion_len=16384, soft_punish_cache=4096)
//
// Lengths are in characters, except in soft_overlong_punishment (tokens). cosine and length read a gold that is
// LaTeX only ($42$, \boxed{42}); where there is none, cosine is 1 and length takes the answer for right.
// Other than in open-r1: `length` compares the completions of one call, which are those of one prompt, as the paper
// does; open-r1 compares all of a device's batch. `$\boxed{x}$` is read as \boxed{x} by cosine and length too.
//
// code and binary_code run what a model writes: code/code_reward.h. ioi_code and cf_code need Piston's servers with their own packages of tests:
// UserError, which says how to call them.
// All are linear in the length of a text, but for those with an answer (math/accuracy_reward.h) and a sort of its
// n-grams.
#pragma once

#include <span>

#include "rewards/pattern/native_rewards.h"

namespace hone::rewards {

std::span<const BuiltInReward> open_r1_rewards();

}  // namespace hone::rewards
