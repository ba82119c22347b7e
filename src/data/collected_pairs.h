// From the rows of a file, each tokenized apart from the others, to the pairs of a run and what was counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/preferences.h"

namespace hone::data {

// What became of one row.
struct PairDone {
  PreferencePair pair;
  bool dropped = false;  // the prompt fills max_length
  bool cut = false, boundary_mismatch = false;
  std::int64_t longest = 0;  // tokens of a sequence, before the cut
};

// Counts a kept pair whose sides are the same tokens; `cut`: at max_length.
void note_equal_sides(const PreferenceRows& rows, std::size_t index, bool cut, PreferenceFacts& facts);

// UserError when no pair is left, or the two sides of every kept pair are the same tokens (PREF-01).
PreferenceData collect_pairs(const PreferenceRows& rows, std::vector<PairDone> all, std::int64_t max_length);

}  // namespace hone::data
