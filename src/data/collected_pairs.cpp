#include "data/collected_pairs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/plural.h"

namespace hone::data {
namespace {

using base::UserError;

void add_facts(const PairDone& done, PreferenceFacts& facts) {
  facts.longest = std::max(facts.longest, done.longest);
  facts.boundary_mismatches += done.boundary_mismatch ? 1 : 0;
  facts.prompts_too_long += done.dropped ? 1 : 0;
  if (done.dropped) return;
  const PreferencePair& pair = done.pair;
  facts.kept += 1;
  facts.tokens += pair.tokens(/*share=*/false);
  facts.completion_tokens +=
      static_cast<std::int64_t>(pair.chosen.scored.size() + pair.rejected.scored.size());
  facts.pairs_cut += done.cut ? 1 : 0;
  facts.equal += pair.completions_equal() ? 1 : 0;
  facts.mean_chosen += static_cast<double>(pair.chosen.completion);
  facts.mean_rejected += static_cast<double>(pair.rejected.completion);
  for (const PreferenceSequence* one : {&pair.chosen, &pair.rejected}) {
    facts.longest_prompt = std::max(facts.longest_prompt, static_cast<std::int64_t>(one->context.size()));
  }
}

void check_result(const PreferenceRows& rows, const PreferenceFacts& facts, std::int64_t max_length) {
  if (facts.kept == 0) {
    throw UserError(
        {.where = rows.path.string(),
         .expected = "at least one pair whose prompt leaves room for a completion (DATA-01)",
         .found = "none of " + std::to_string(facts.rows) +
                  ": every prompt fills max_length = " + std::to_string(max_length),
         .cause = "a long system prompt, or a small max_length",
         .fix = "raise max_length (the longest row has " + base::counted(facts.longest, "token") + ")"});
  }
  require_different_completions(rows.path, facts);
}

}  // namespace

void require_different_completions(const base::fs::path& file, const PreferenceFacts& facts) {
  if (facts.equal == facts.kept) {
    throw UserError({.where = file.string(),
                     .expected = "a chosen and a rejected completion that differ (PREF-01)",
                     .found = "the same tokens on both sides of " +
                              (facts.kept == 1 ? "the pair" : "all " + std::to_string(facts.kept) + " pairs"),
                     .cause = facts.pairs_cut > 0 ? "they differ only after max_length"
                                                  : "the same column was written into both",
                     .fix = facts.pairs_cut > 0 ? "raise max_length" : "write the rejected answers"});
  }
}

PreferenceData collect_pairs(const PreferenceRows& rows, std::vector<PairDone> all, std::int64_t max_length) {
  PreferenceData out;
  out.facts.rows = static_cast<std::int64_t>(all.size());
  out.facts.implicit = rows.implicit;
  out.facts.conversational = rows.conversational;
  for (PairDone& done : all) {
    add_facts(done, out.facts);
    if (!done.dropped) out.pairs.push_back(std::move(done.pair));
  }
  check_result(rows, out.facts, max_length);
  out.facts.mean_chosen /= static_cast<double>(out.facts.kept);
  out.facts.mean_rejected /= static_cast<double>(out.facts.kept);
  return out;
}

}  // namespace hone::data
