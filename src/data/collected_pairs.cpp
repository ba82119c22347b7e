#include "data/collected_pairs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/plural.h"

namespace hone::data {
namespace {

using base::Json;
using base::UserError;

// The last message's text; other values as JSON.
std::string last_text(const Json& side) {
  const Json& content = side.back().contains("content") ? side.back()["content"] : side.back();
  return content.is_string() ? content.get<std::string>() : base::dump_json(content);
}

// Two texts from shortly before the place where they part.
std::string differing(const std::string& a, const std::string& b) {
  constexpr std::size_t kBefore = 12, kShown = 48;
  const auto parts = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const auto at = static_cast<std::size_t>(parts.first - a.begin());
  std::size_t from = at > kBefore ? at - kBefore : 0;
  while (from > 0 && (static_cast<unsigned char>(a[from]) & 0xC0U) == 0x80U) --from;  // whole characters
  return "chosen has " + base::short_json(Json(a.substr(from)), kShown) + ", rejected " +
         base::short_json(Json(b.substr(std::min(from, b.size()))), kShown);
}

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

void note_equal_sides(const PreferenceRows& rows, std::size_t index, bool cut, PreferenceFacts& facts) {
  facts.equal += 1;
  const PreferenceRow& row = rows.rows[index];
  if (cut || rows.tokenized || !rows.conversational || row.chosen == row.rejected) return;
  if (facts.equal_by_template++ > 0) return;
  facts.equal_example = rows.where(index) + ": " + differing(last_text(row.chosen), last_text(row.rejected));
}

void require_different_completions(const base::fs::path& file, const PreferenceFacts& facts) {
  if (facts.equal == facts.kept && facts.equal_by_template > 0) {
    throw UserError(
        {.where = file.string(),
         .expected = "a chosen and a rejected completion that differ (PREF-01)",
         .found = "the same tokens on both sides of " +
                  (facts.kept == 1 ? "the pair" : "all " + std::to_string(facts.kept) + " pairs") +
                  ", though the messages differ in the file (" + facts.equal_example + ")",
         .cause = "the chat template drops what makes them differ (DATA-14), such as the text "
                  "before </think>",
         .fix = "put a template that renders it into the model's tokenizer_config.json"});
  }
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
  for (std::size_t i = 0; i < all.size(); ++i) {
    PairDone& done = all[i];
    add_facts(done, out.facts);
    if (!done.dropped && done.pair.completions_equal()) note_equal_sides(rows, i, done.cut, out.facts);
    if (!done.dropped) out.pairs.push_back(std::move(done.pair));
  }
  check_result(rows, out.facts, max_length);
  out.facts.mean_chosen /= static_cast<double>(out.facts.kept);
  out.facts.mean_rejected /= static_cast<double>(out.facts.kept);
  return out;
}

}  // namespace hone::data
