#include "data/forms/pair_maker.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/strings/plural.h"

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

// `cut`: at max_length.
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

void require_pairs(const base::fs::path& file, const PreferenceFacts& facts, std::int64_t max_length) {
  if (facts.kept > 0) return;
  const std::string limit = "max_length = " + std::to_string(max_length);
  const std::string fix =
      "raise max_length (the longest row has " + base::counted(facts.longest, "token") + ")";
  if (facts.too_long > 0) {
    throw UserError({.where = file.string(),
                     .expected = "at least one pair within max_length (DATA-01)",
                     .found = "none of " + std::to_string(facts.rows) + " has both sequences within " + limit,
                     .cause = "a small max_length: such pairs are left out, and never cut",
                     .fix = fix});
  }
  throw UserError({.where = file.string(),
                   .expected = "at least one pair whose prompt leaves room for a completion (DATA-01)",
                   .found = "none of " + std::to_string(facts.rows) + ": every prompt fills " + limit,
                   .cause = "a long system prompt, or a small max_length",
                   .fix = fix});
}

}  // namespace

void PairMaker::count(const PreferenceRows& block, std::size_t index, const PairDone& done) {
  facts_.rows += 1;
  facts_.longest = std::max(facts_.longest, done.longest);
  facts_.boundary_mismatches += done.boundary_mismatch ? 1 : 0;
  facts_.prompts_too_long += done.dropped ? 1 : 0;
  facts_.too_long += done.too_long ? 1 : 0;
  if (done.dropped || done.too_long) return;
  const SequencePair pair = sides_of(view(done.record));
  facts_.kept += 1;
  facts_.tokens += pair.tokens(/*share=*/false) + done.tokens_after;
  facts_.completion_tokens +=
      std::ssize(pair.first.scored) + std::ssize(pair.second.scored) + done.tokens_after;
  facts_.pairs_cut += done.cut ? 1 : 0;
  facts_.mean_chosen += static_cast<double>(pair.first.completion);
  facts_.mean_rejected += static_cast<double>(pair.second.completion);
  for (const ScoredSequence& one : {pair.first, pair.second})
    facts_.longest_prompt =
        std::max(facts_.longest_prompt, static_cast<std::int64_t>(std::ssize(one.context)));
  if (pair.is_equal()) note_equal_sides(block, index, done.cut, facts_);
}

void PairMaker::add(const PreferenceRows& block, const TakeRecord& take) {
  std::vector<PairDone> all = make_(block, tokenizer_, chat_template_, options_);
  path_ = block.path;
  facts_.implicit = block.implicit;
  facts_.conversational = block.conversational;
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].record.row = block.first + static_cast<std::int64_t>(i);
    count(block, i, all[i]);
    if (!all[i].dropped && !all[i].too_long) take(all[i].record);
  }
}

PreferenceFacts PairMaker::facts() const {
  PreferenceFacts out = facts_;
  if (out.kept == 0) return out;
  out.mean_chosen /= static_cast<double>(out.kept);
  out.mean_rejected /= static_cast<double>(out.kept);
  return out;
}

PreferenceFacts PairMaker::finish(const TakeRecord& /*take*/) const {
  require_pairs(path_, facts_, options_.max_length);
  require_different_completions(path_, facts_);
  return facts();
}

}  // namespace hone::data
