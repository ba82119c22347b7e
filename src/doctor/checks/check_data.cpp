// Probe P4 (docs/design.md) over all rows: what the tokenizer counted (data::DataFacts), and what template
// and embedding make of it.
#include <iterator>

#include "doctor/attempt.h"
#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"
#include "doctor/number_format.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;
using data::DataFacts;

namespace {

// Of rows; docs/design.md, Thresholds.
constexpr double kEmptyRows = 0.90;
constexpr double kLostWarn = 0.01;
// Nearly nothing is left. TRL trains what is left, and a run with less lost can do what it is to do.
constexpr double kLostFail = 0.90;

const DataFacts& facts_of(const train::RunView& run) {
  return std::get<train::ExampleStartFacts>(run.start.method).data;
}

std::string of_rows(std::int64_t count, const DataFacts& facts) {
  return std::to_string(count) + " of " + format::counted(facts.rows, "row");
}

bool is_tokens(const DataFacts& facts) {
  return facts.form == data::RowForm::kTokens;
}

// Rows that need not be whole answers: text, or tokens as a script made them.
bool is_text(const DataFacts& facts) {
  return facts.form == data::RowForm::kText || is_tokens(facts);
}

std::string raise_length(const train::RunView& run) {
  const DataFacts& facts = facts_of(run);
  const std::int64_t keeps = facts.length_keeping_99 > 0 ? facts.length_keeping_99 : facts.longest;
  return format::raise_max_length(run, keeps, facts.longest, "keeps 99 % of the targets");
}

// DATA-01
Verdict check_targets(const train::RunView& run) {
  const DataFacts& facts = facts_of(run);
  Verdict out{.code = "DATA-01"};
  out.what =
      format::percent(static_cast<double>(facts.supervised_tokens), static_cast<double>(facts.tokens)) +
      " of " + format::counted(facts.tokens, "token") + " are targets, in " + of_rows(facts.kept, facts);
  if (facts.rows_without_target == 0) return out;
  // A text without a word has nothing to say.
  const std::int64_t never = facts.rows_without_target - facts.rows_emptied_by_cut;
  const bool words = facts.form == data::RowForm::kText;
  const std::int64_t lost = words ? facts.rows_emptied_by_cut : facts.rows_without_target;
  const std::int64_t dropped = facts.rows - facts.kept;
  out.level = share(lost, facts.rows) > kEmptyRows ? Level::kFail : Level::kWarn;
  out.what = of_rows(facts.rows_without_target, facts) +
             base::plural(facts.rows_without_target, " has", " have") + " nothing to train on";
  out.evidence = std::to_string(dropped) + " dropped; of the " + std::to_string(facts.rows_without_target) +
                 ", " + std::to_string(facts.rows_emptied_by_cut) + " lost all targets to max_length " +
                 std::to_string(run.plan.max_length) + ", " + std::to_string(never) + " had none";
  const bool by_cut = facts.rows_emptied_by_cut >= never;
  out.cause = by_cut                         ? "the prompts fill max_length"
              : is_tokens(facts)             ? "their labels are -100, or their masks 0"
              : run.plan.assistant_only_loss ? "no assistant token is marked in them"
                                             : "their text or completion is empty";
  out.fix = by_cut             ? raise_length(run)
            : is_tokens(facts) ? "remove these rows, or look at their labels or masks"
                               : "remove these rows, or check their completion column";
  out.cost = format::percent(share(facts.rows_without_target, facts.rows), 1) + " of the data";
  return out;
}

// DATA-02. A text that is cut is still a text to learn from; an answer that is cut is a wrong one.
Verdict check_truncation(const train::RunView& run) {
  const DataFacts& facts = facts_of(run);
  Verdict out{.code = "DATA-02"};
  const double lost = share(facts.supervised_lost, facts.supervised_before_cut);
  if (facts.rows_too_long > 0) {
    out.level = lost > kLostWarn ? Level::kWarn : Level::kNote;
    out.what = of_rows(facts.rows_too_long, facts) + base::plural(facts.rows_too_long, " is", " are") +
               " longer than " + std::to_string(run.plan.max_length) +
               " tokens and left out (truncation_mode: drop): " + format::percent(lost, 1) +
               " of the targets lost";
    if (lost <= kLostWarn) return out;
    out.cause = "the limit is below the rows' length";
    out.fix = raise_length(run);
    out.cost = format::percent(lost, 1) + " of the targets lost";
    return out;
  }
  if (facts.rows_cut == 0) {
    out.what = "no row is cut: the longest has " + format::counted(facts.longest, "token") +
               (run.plan.max_length > 0 ? ", max_length is " + std::to_string(run.plan.max_length) : "");
    return out;
  }
  const bool heavy = lost > kLostFail;
  out.level = heavy && !is_text(facts) ? Level::kFail : lost > kLostWarn ? Level::kWarn : Level::kNote;
  out.what = of_rows(facts.rows_cut, facts) + base::plural(facts.rows_cut, " is", " are") + " cut at " +
             std::to_string(run.plan.max_length) + " tokens: " + format::percent(lost, 1) +
             " of the targets lost";
  out.evidence = std::to_string(facts.supervised_lost) + " of " +
                 format::counted(facts.supervised_before_cut, "target") + "; " +
                 format::counted(facts.rows_losing_eos, "row") + " without their end";
  if (lost <= kLostWarn) return out;
  out.cause = "max_length " + std::to_string(run.plan.max_length) +
              (run.plan.max_length == 1024 ? ", TRL's default," : "") + " is below the rows' length";
  out.fix = raise_length(run);
  out.cost = "answers without their end, and " + format::percent(lost, 1) + " of the targets lost";
  return out;
}

// DATA-03. Rows whose end max_length took are DATA-02's, unless hardly one is left to learn the end from.
Verdict check_endings(const train::RunView& run) {
  const DataFacts& facts = facts_of(run);
  Verdict out{.code = "DATA-03"};
  const std::int64_t ending = facts.kept - facts.rows_without_eos_target;
  out.what = "the end of sequence is a target in " + format::percent(share(ending, facts.kept), 1) +
             " of "
             "the "
             "rows";
  if (share(facts.rows_never_ending, facts.kept) > 1 - kEnding) {
    // Blocks of tokens that a script cut need no end.
    out.level = is_tokens(facts) ? Level::kWarn : Level::kFail;
    out.what = "the end of sequence is never a target in " + std::to_string(facts.rows_never_ending) +
               " of " + format::counted(facts.kept, "row");
    out.evidence = "neither " +
                   std::string(run.text->tokenizer.eos_id()
                                   ? format::token(run.text->tokenizer, *run.text->tokenizer.eos_id())
                                   : "an eos_token") +
                   " nor the token that closes a turn is a target there, and none was cut";
    out.cause = is_tokens(facts) ? "the rows are tokenized, and their input_ids or labels do not have it"
                : run.plan.assistant_only_loss
                    ? "the template's {% generation %} ends before the token that closes the turn"
                    : "suspected: the chat template does not close the assistant's turn";
    out.fix = is_tokens(facts)
                  ? "append it to input_ids and labels, if the rows are whole answers"
                  : "put the closing token inside {% generation %}, or name another template with "
                    "chat_template_path";
    out.cost = "a model that never stops";
  } else if (share(ending, facts.kept) < kEnding) {
    out.level = ending == 0 && !is_text(facts) ? Level::kFail : Level::kWarn;
    out.evidence = format::counted(facts.rows_losing_eos, "row") +
                   " lost their end of sequence to "
                   "max_length " +
                   std::to_string(run.plan.max_length);
    out.cause = "truncation (DATA-02)";
    const bool told = share(facts.supervised_lost, facts.supervised_before_cut) > kLostWarn;
    out.fix = told ? "that of DATA-02" : raise_length(run);
    out.cost = ending == 0 ? "a model that cannot learn to stop"
                           : "a model that learns to stop only from the short rows";
  }
  return out;
}

// DATA-05, of rows or of prompts.
Verdict check_bos(const train::RunView& run, std::int64_t rows, std::int64_t with_one, std::int64_t with_two,
                  bool chat) {
  Verdict out{.code = "DATA-05"};
  const auto& bos = run.text->tokenizer.special().bos;
  if (with_two > 0) {
    out.level = Level::kWarn;
    out.what = std::to_string(with_two) + " of " + format::counted(rows, "row") + " begin with " +
               bos.value_or("BOS") + " twice";
    out.cause = "the text contains it, and the tokenizer adds another";
    out.fix = chat ? "take " + bos.value_or("it") + " from the messages: the template writes it"
                   : "take " + bos.value_or("it") + " from the text: the tokenizer adds it";
    out.cost = "a start of sequence that the model sees nowhere else";
    return out;
  }
  const bool adds = !chat || !bos;
  out.what = with_one == 0
                 ? (adds ? "no BOS: the tokenizer adds none" : "no BOS: the chat template writes none")
                 : std::to_string(with_one) + " of " + format::counted(rows, "row") + " begin with one " +
                       bos.value_or("BOS");
  if (chat) out.evidence = "rendered templates are encoded without adding special tokens, as TRL does";
  return out;
}

// DATA-06
Verdict check_boundary(const train::RunView& run) {
  const DataFacts& facts = facts_of(run);
  Verdict out{.code = "DATA-06"};
  const std::int64_t off = facts.prompt_boundary_mismatches;
  out.what = "the tokens of each prompt are a prefix of those of prompt + completion";
  if (off == 0) return out;
  out.level = Level::kWarn;  // TRL warns too, and trains
  out.what = "in " + of_rows(off, facts) + " the prompt's last tokens change when the completion follows";
  out.evidence = format::percent(share(off, facts.rows), 1) +
                 " of the rows; there the completion starts where the two differ";
  out.cause = facts.conversational
                  ? "the template's generation prompt differs from the way it writes an assistant's turn"
                  : "suspected: a prompt that ends in a space, or within a word, which BPE merges with the "
                    "completion";
  out.fix = facts.conversational
                ? "with chat_template_path, name a template that writes both in the same way"
                : "move the space from the end of the prompt to the beginning of the completion";
  out.cost = "at inference the prompt ends in tokens after which the model was not trained to answer";
  return out;
}

Verdicts check_examples(const train::RunView& run) {
  Verdicts out;
  const DataFacts& facts = facts_of(run);
  out.push_back(check_targets(run));
  out.push_back(check_truncation(run));
  out.push_back(check_endings(run));
  out.push_back(
      check_bos(run, facts.rows, facts.rows_with_bos, facts.rows_with_two_bos, facts.conversational));
  if (facts.form == data::RowForm::kPromptCompletion) out.push_back(check_boundary(run));
  out.push_back({.code = "DATA-07",
                 .what = std::string("impossible here: ") +
                         (run.plan.packing ? "packed rows" : "rows of a batch") +
                         " are segments that attention never leaves, each with positions from 0",
                 .evidence = "tests/model/causal_lm_test.cpp (GivesTheSamePackedAndUnpacked), "
                             "tests/ops/attention_test.cpp (NeverLeavesASegment)"});
  return out;
}

Verdict check_prompt_bos(const train::RunView& run) {
  const train::PolicyPrompts& prompts = run.sampled().train_prompts;
  const auto& bos = run.text->tokenizer.special().bos;
  const std::int32_t id = bos ? run.text->tokenizer.token_to_id(*bos).value_or(-1) : -1;
  std::int64_t one = 0, two = 0;
  for (const data::TokenizedPrompt& prompt : prompts.tokens) {
    if (id < 0 || prompt.ids.empty() || prompt.ids[0] != id) continue;
    one += 1;
    two += prompt.ids.size() > 1 && prompt.ids[1] == id ? 1 : 0;
  }
  return check_bos(run, static_cast<std::int64_t>(prompts.rows.size()), one, two, run.start.conversational);
}

// Of pairs, or of KTO's rows: what comes before the first scored token.
Verdict check_pair_bos(const train::RunView& run) {
  const auto& bos = run.text->tokenizer.special().bos;
  const std::int32_t id = bos ? run.text->tokenizer.token_to_id(*bos).value_or(-1) : -1;
  std::int64_t one = 0, two = 0;
  const data::Records& records = run.pairs()->records;
  records.for_each([&](const data::RecordView& record) {
    const std::span<const std::int32_t> ids = data::sides_of(record).first.context;
    if (id < 0 || ids.empty() || ids[0] != id) return;
    one += 1;
    two += ids.size() > 1 && ids[1] == id ? 1 : 0;
  });
  return check_bos(run, static_cast<std::int64_t>(records.size()), one, two, run.start.conversational);
}

}  // namespace

Verdicts check_data(const train::RunView& run) {
  Verdicts out;
  const auto look = [&](std::string_view name, auto check) {
    append(out, attempt(name, [&] { return all_of(check(run)); }));
  };
  if (run.has_examples()) look("data: rows", check_examples);
  if (run.samples() && !run.sampled().train_prompts.rows.empty()) look("data: prompts", check_prompt_bos);
  if (run.has_pairs()) look("data: begin of pairs", check_pair_bos);
  look("data: pairs", check_pairs);
  look("data: sides of pairs", check_sides);
  look("data: texts of rows", check_row_texts);
  look("data: many rows", check_many_rows);
  look("data: template", check_template);
  look("data: parts of the template", check_template_parts);
  look("data: content", check_content);
  look("data: tokens", check_tokens);
  look("data: duplicates", check_duplicates);
  look("data: evaluation", check_evaluation);
  return out;
}

}  // namespace hone::doctor
