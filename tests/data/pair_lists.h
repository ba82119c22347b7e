// Records of two sequences, made of texts or files at once, and as lists that compare.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "data/forms/cpo_pairs.h"
#include "data/forms/pair_maker.h"
#include "data/forms/reward_pairs.h"
#include "data/forms/rows.h"
#include "data/forms/unpaired.h"

namespace hone::data {

using PreferenceData = Made<PreferenceFacts>;
using UnpairedData = Made<UnpairedFacts>;

inline PreferenceRows read_preference_rows(const RowSource& source,
                                           ImplicitPrompts prompts = ImplicitPrompts::kExtract) {
  return read_all(source, preference_rows(prompts));
}
inline PreferenceRows parse_preference_rows(std::string_view text, const base::fs::path& path,
                                            ImplicitPrompts prompts = ImplicitPrompts::kExtract) {
  return parse_all(text, path, preference_rows(prompts));
}
inline UnpairedRows read_unpaired_rows(const RowSource& source) {
  return read_all(source, UnpairedRows());
}
inline PreferenceData tokenize_preferences(const PreferenceRows& rows, const text::Tokenizer& tokenizer,
                                           const text::ChatTemplate* chat_template,
                                           const PairOptions& options) {
  return make_all(PairMaker(&make_dpo_pairs, tokenizer, chat_template, options), rows);
}
inline PreferenceData tokenize_cpo_pairs(const PreferenceRows& rows, const text::Tokenizer& tokenizer,
                                         const text::ChatTemplate* chat_template,
                                         const PairOptions& options) {
  return make_all(PairMaker(&make_cpo_pairs, tokenizer, chat_template, options), rows);
}
inline PreferenceData tokenize_reward_pairs(const PreferenceRows& rows, const text::Tokenizer& tokenizer,
                                            const text::ChatTemplate* chat_template,
                                            const PairOptions& options) {
  return make_all(PairMaker(&make_reward_pairs, tokenizer, chat_template, options), rows);
}
inline UnpairedData tokenize_unpaired(const UnpairedRows& rows, const text::Tokenizer& tokenizer,
                                      const text::ChatTemplate* chat_template,
                                      const UnpairedOptions& options) {
  return make_all(UnpairedMaker(tokenizer, chat_template, options), rows);
}

struct ListedSequence {
  std::vector<std::int32_t> context, scored;
  std::int64_t completion = 0;

  std::int64_t tokens() const { return std::ssize(context) + std::ssize(scored); }
};
// Holds both sides of a pair, chosen and rejected, or of KTO a row's own completion and the exchanged one.
struct ListedPair {
  std::int64_t row = 0;
  ListedSequence first, second;
  bool shares_context = false;
};
inline ListedSequence listed(const ScoredSequence& one) {
  return {.context = {one.context.begin(), one.context.end()},
          .scored = {one.scored.begin(), one.scored.end()},
          .completion = one.completion};
}
inline ListedPair listed(const RecordView& record) {
  const SequencePair pair = sides_of(record);
  return {.row = record.row,
          .first = listed(pair.first),
          .second = listed(pair.second),
          .shares_context = pair.shares_context()};
}

// [ids, completion mask] of prompt and completion, as TRL's goldens have them.
inline base::Json recorded_form(const ListedSequence& side) {
  std::vector<std::int32_t> ids = side.context;
  ids.insert(ids.end(), side.scored.begin(), side.scored.end());
  std::vector<int> mask(ids.size(), 0);
  std::fill(mask.end() - side.completion, mask.end(), 1);
  return base::Json::array({ids, mask});
}

}  // namespace hone::data
