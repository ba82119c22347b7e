// From the rows of a data set of pairs, block by block, to the records of a run and what was counted.
#pragma once

#include <cstddef>
#include <vector>

#include "data/forms/preferences.h"
#include "data/records/record_writer.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace hone::data {

class PairMaker {
 public:
  // make_dpo_pairs, make_cpo_pairs or make_reward_pairs.
  using MakePairs = std::vector<PairDone> (*)(const PreferenceRows&, const text::Tokenizer&,
                                              const text::ChatTemplate*, const PairOptions&);
  // Borrows tokenizer and template, which may be null.
  PairMaker(MakePairs make, const text::Tokenizer& tokenizer, const text::ChatTemplate* chat_template,
            const PairOptions& options)
      : make_(make), tokenizer_(tokenizer), chat_template_(chat_template), options_(options) {}

  // take(record) for each row that is kept, in order; Record::row is its number in the data set, from 0.
  // UserError: what `make` says.
  void add(const PreferenceRows& block, const TakeRecord& take);
  PreferenceFacts facts() const;  // of the rows so far
  // The same, of all rows. UserError when no pair is left, or the two sides of every kept pair are the same
  // tokens (PREF-01).
  PreferenceFacts finish(const TakeRecord& take = {}) const;

 private:
  void count(const PreferenceRows& block, std::size_t index, const PairDone& done);

  MakePairs make_;
  const text::Tokenizer& tokenizer_;
  const text::ChatTemplate* chat_template_;
  PairOptions options_;
  PreferenceFacts facts_;  // its means: sums
  base::fs::path path_;
};

}  // namespace hone::data
