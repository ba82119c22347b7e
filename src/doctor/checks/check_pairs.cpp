// DATA and PREF classes of pairs: what data/forms/preferences counted, over all rows.
#include <algorithm>
#include <cmath>

#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"
#include "doctor/number_format.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;
using data::PreferenceFacts;

namespace {

constexpr double kEmptyPairs = 0.90, kDroppedWarn = 0.10;
constexpr double kPairsCutWarn = 0.10;
constexpr double kEqualWarn = 0.01, kEqualFail = 0.90;
constexpr double kLonger = 0.20;  // of the mean lengths
constexpr std::size_t kLast = 3;  // tokens: a template may write a newline after its end

std::string of_pairs(std::int64_t count, std::int64_t whole) {
  return std::to_string(count) + " of " + format::counted(whole, "pair");
}

Verdict check_room(const train::RunView& run, const PreferenceFacts& facts) {
  Verdict out{.code = "DATA-01"};
  out.what = format::counted(facts.completion_tokens, "token") + " of completions are scored, in " +
             of_pairs(facts.kept, facts.rows);
  if (facts.prompts_too_long == 0) return out;
  out.level = share(facts.prompts_too_long, facts.rows) > kEmptyPairs ? Level::kFail : Level::kWarn;
  out.what = of_pairs(facts.prompts_too_long, facts.rows) +
             base::plural(facts.prompts_too_long, " is", " are") + " dropped: the prompt fills max_length";
  out.evidence = "max_length " + std::to_string(run.plan.max_length) + ", the longest sequence " +
                 format::counted(facts.longest, "token");
  out.cause = "long prompts, or a small max_length";
  out.fix = format::raise_max_length(run, facts.longest, facts.longest, "keeps every pair");
  out.cost = format::percent(share(facts.prompts_too_long, facts.rows), 1) + " of the data";
  return out;
}

Verdict check_cut(const train::RunView& run, const PreferenceFacts& facts) {
  Verdict out{.code = "DATA-02"};
  out.what = facts.pairs_cut == 0
                 ? "no pair is cut: the longest sequence has " + format::counted(facts.longest, "token")
                 : of_pairs(facts.pairs_cut, facts.kept) + base::plural(facts.pairs_cut, " is", " are") +
                       " cut at " + format::counted(run.plan.max_length, "token");
  out.evidence = "the longest sequence has " + format::counted(facts.longest, "token");
  if (facts.pairs_cut == 0) return out;
  out.level = share(facts.pairs_cut, facts.kept) > kPairsCutWarn ? Level::kWarn : Level::kNote;
  out.cause = "max_length is below the length of a prompt with its completion";
  out.fix = format::raise_max_length(run, facts.longest, facts.longest, "keeps every pair");
  out.cost = "completions without the end that may have made them better";
  return out;
}

// A reward model's pairs are whole or left out.
Verdict check_whole(const train::RunView& run, const PreferenceFacts& facts) {
  Verdict out{.code = "DATA-01"};
  out.what = of_pairs(facts.kept, facts.rows) + " are scored, none of them cut";
  if (facts.too_long == 0) return out;
  out.level = share(facts.too_long, facts.rows) > kDroppedWarn ? Level::kWarn : Level::kNote;
  out.what = of_pairs(facts.too_long, facts.rows) + base::plural(facts.too_long, " is", " are") +
             " dropped: one of the two is longer than max_length";
  out.evidence = "max_length " + std::to_string(run.plan.max_length) + ", the longest sequence " +
                 format::counted(facts.longest, "token");
  out.cause = "long answers, or a small max_length";
  out.fix = format::raise_max_length(run, facts.longest, facts.longest, "keeps every pair");
  out.cost =
      format::percent(share(facts.too_long, facts.rows), 1) + " of the data, the longest answers of it";
  return out;
}

Verdict check_pair_boundary(const PreferenceFacts& facts) {
  Verdict out{.code = "DATA-06"};
  out.what = "the tokens of each prompt are a prefix of those of prompt + completion, on both sides";
  if (facts.boundary_mismatches == 0) return out;
  out.level = Level::kWarn;  // TRL warns too, and trains
  out.what = "in " + of_pairs(facts.boundary_mismatches, facts.rows) +
             " the prompt's last tokens change when a completion follows";
  out.evidence = format::percent(share(facts.boundary_mismatches, facts.rows), 1) +
                 " of the pairs; there the completions start where the sequences differ";
  out.cause =
      "suspected: a prompt that ends in a space, or within a word, which BPE merges with the completion";
  out.fix = "move the space from the end of the prompt to the beginning of the completions";
  out.cost = "at inference the prompt ends in tokens after which the model was not trained to answer";
  return out;
}

// DATA-03: what is to become more likely ends.
Verdict check_ends(const train::RunView& run, const PreferenceFacts& facts) {
  Verdict out{.code = "DATA-03"};
  const std::optional<std::int32_t> end = answer_end(run);
  if (!end || !run.has_pairs()) {
    out.level = Level::kNote;
    out.what = "not checked: no token is known to end an answer (DATA-04)";
    return out;
  }
  std::int64_t ending = 0;
  run.pairs()->records.for_each([&](const data::RecordView& record) {
    const std::span<const std::int32_t> scored = data::sides_of(record).first.scored;
    const auto last = scored.last(std::min(kLast, scored.size()));
    ending += std::find(last.begin(), last.end(), *end) != last.end() ? 1 : 0;
  });
  const std::string token = format::token(run.text->tokenizer, *end);
  out.what = "chosen completions end with " + token + " in " + of_pairs(ending, facts.kept);
  if (share(ending, facts.kept) >= kEnding) return out;
  const bool by_cut = facts.pairs_cut >= facts.kept - ending;
  out.level = Level::kWarn;
  out.evidence = of_pairs(facts.pairs_cut, facts.kept) + base::plural(facts.pairs_cut, " is", " are") +
                 " cut at max_length " + std::to_string(run.plan.max_length);
  out.cause =
      by_cut ? "truncation (DATA-02)" : "suspected: the chat template does not close the assistant's turn";
  out.fix = by_cut ? format::raise_max_length(run, facts.longest, facts.longest, "keeps every pair")
                   : "put another template into the model's tokenizer_config.json";
  out.cost = "a preference for answers that never stop";
  return out;
}

// Pairs that differ in the file and not once they are rendered.
void blame_template(const train::RunView& run, const PreferenceFacts& facts, Verdict& out) {
  out.evidence =
      of_pairs(facts.equal_by_template, facts.equal) + " of these differ in the file: " + facts.equal_example;
  out.cause = "the chat template drops what makes them differ (DATA-14)";
  out.not_this = "the file, whose sides differ there";
  out.fix = run.has_examples() ? "name a template that renders it: chat_template_path"
                               : "put a template that renders it into the model's tokenizer_config.json";
}

Verdict check_equal(const train::RunView& run, const PreferenceFacts& facts) {
  Verdict out{.code = "PREF-01"};
  out.what = facts.equal == 0
                 ? "no pair has identical sides"
                 : of_pairs(facts.equal, facts.kept) + base::plural(facts.equal, " has", " have") +
                       " identical sides: no gradient";
  if (share(facts.equal, facts.kept) <= kEqualWarn) return out;
  out.level = share(facts.equal, facts.kept) > kEqualFail ? Level::kFail : Level::kWarn;
  out.evidence = "chosen and rejected are the same tokens, after the cut to max_length";
  out.cause = "copies in the data, or sides that differ only where they are cut";
  out.fix = "remove these rows, or raise max_length";
  out.cost = format::percent(share(facts.equal, facts.kept), 1) + " of the compute";
  if (2 * facts.equal_by_template >= facts.equal) blame_template(run, facts, out);
  return out;
}

Verdict check_lengths(const train::PreferenceStartFacts& start, bool reward_model) {
  const PreferenceFacts& facts = start.data;
  Verdict out{.code = "PREF-02"};
  out.what = "completions have " + format::number(std::round(facts.mean_chosen)) + " (chosen) and " +
             format::number(std::round(facts.mean_rejected)) + " tokens (rejected) on average";
  const double longer = std::max(facts.mean_chosen, facts.mean_rejected);
  if (longer - std::min(facts.mean_chosen, facts.mean_rejected) <= kLonger * longer) return out;
  if (!reward_model && start.length_advice.empty()) {
    out.what += ", and the loss has means over tokens";
    return out;
  }
  out.level = Level::kNote;
  out.cause = reward_model ? "length is enough to tell chosen from rejected"
                           : "sums of log-probabilities "
                             "favor a length";
  out.fix = reward_model ? "balance the lengths of both sides in the data" : start.length_advice;
  out.cost = reward_model ? "a score for length, which a policy then optimizes"
                          : "answers that grow or shrink with the data's bias";
  return out;
}

}  // namespace

Verdicts check_pairs(const train::RunView& run) {
  const auto* const start = std::get_if<train::PreferenceStartFacts>(&run.start.method);
  if (start == nullptr) return {};
  const PreferenceFacts& facts = start->data;
  if (run.model && run.model->score_head().defined())
    return {check_whole(run, facts), check_equal(run, facts), check_lengths(*start, /*reward_model=*/true)};
  return {check_room(run, facts),     check_cut(run, facts),   check_ends(run, facts),
          check_pair_boundary(facts), check_equal(run, facts), check_lengths(*start, /*reward_model=*/false)};
}

}  // namespace hone::doctor
