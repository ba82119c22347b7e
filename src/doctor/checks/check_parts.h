// The parts of check_plan and check_data: one file and one subject each.
#pragma once

#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "doctor/examination.h"

namespace hone::doctor {

inline constexpr double kEnding = 0.95;  // of rows, or of chosen sides, that end with the end token
// of rows whose prompt tokens change when the completion follows
inline constexpr double kBoundaryFail = 0.05;

inline void append(Verdicts& out, Verdicts more) {
  out.insert(out.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// Takes the result of a check that has one verdict, or several.
inline Verdicts all_of(base::Verdict one) {
  return {std::move(one)};
}
inline Verdicts all_of(Verdicts several) {
  return several;
}

// NUM-08: the peak learning rate against the usual range of the method with adapters.
base::Verdict check_rate(const train::RunView& run);
// Why a step of the rehearsal is too small, or too large: rate or scale, with its cure.
struct StepCause {
  std::string cause, fix;
};
StepCause cause_of_step(const train::RunView& run, bool small);
// NUM-09: steps, warm-up, and the learning rate over the run.
base::Verdict check_schedule(const train::RunView& run);
// GRAD-06, GRAD-07, PREF-03: the modules with adapters, and their dropout.
Verdicts check_adapters(const train::RunView& run);
// RL-03 before anything is sampled: do the data's own answers fit max_completion_length?
Verdicts check_answers(const train::RunView& run);
// DATA-04, DATA-08: how the chat template renders a conversation.
Verdicts check_template(const train::RunView& run);
// DATA-01, -02, -03, -06, PREF-01, -02 of chosen and rejected; empty for other data. A reward model's pairs
// do not need an end of sequence.
Verdicts check_pairs(const train::RunView& run);
// The token that ends an answer of the run's data: the template's or the tokenizer's; empty: none, or the
// template cannot render a simple question and answer.
std::optional<std::int32_t> answer_end(const train::RunView& run);
// DATA-11: rows to evaluate that are training rows too; empty without an evaluation.
Verdicts check_evaluation(const train::RunView& run);
// NUM-10: weight_decay, max_grad_norm, adam_epsilon, lora_dropout; ENV-02: threads.
Verdicts check_optimizer(const train::RunView& run);
// ENV-03: what the products reach, of their own limit and beside the other precision.
base::Verdict check_speed(const train::RunView& run);
base::Verdict judge_speed(const train::ProductFacts& facts);
// RL-02, PREF-01, NUM-10: values that leave nothing to learn from: top_k 1, label_smoothing 0.5, a beta of 10.
Verdicts check_values(const train::RunView& run);
// DATA-16: the texts of the first rows; empty for prompts that are sampled.
Verdicts check_row_texts(const train::RunView& run);
// PREF-05: chosen and rejected of the first rows.
Verdicts check_sides(const train::RunView& run);
// RL-17: reward_weights.
Verdicts check_weights(const train::RunView& run);
// DATA-12: special tokens in the messages of the first rows.
Verdicts check_content(const train::RunView& run);
// DATA-13: copies, contradictions, one prompt for everything; of all rows.
Verdicts check_duplicates(const train::RunView& run);
// DATA-14: what the chat template drops of the first rows, and the beginning of an answer.
Verdicts check_template_parts(const train::RunView& run);
// DATA-14: reasoning, text and names of the assistant's turns that the chat template drops; empty: none, or
// prompts that are sampled. The run has a chat template.
Verdicts check_reasoning(const train::RunView& run);
// DATA-13, DATA-16 to DATA-18 of the first 5,000 rows: near copies, a set inside another one,
// openings, the rules of row_rules.h, items of benchmarks. It looks for secrets and benchmarks alone where prompts are sampled.
Verdicts check_many_rows(const train::RunView& run);
// NUM-12: what is evaluated, how often, and whether the best step will be among the checkpoints. Empty for methods that
// sample.
Verdicts check_saves(const train::RunView& run);
// CKPT-07: the base that a continued adapter was trained on; CKPT-05: files changed since the checkpoint.
Verdicts check_adapter_base(const train::RunView& run);
// DATA-09, DATA-10: the rows of the embedding that the data uses.
Verdicts check_tokens(const train::RunView& run);

}  // namespace hone::doctor
