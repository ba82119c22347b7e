// The tokens of SFT's rows: those that an earlier run kept, else made here block by block and kept for the next (data/token_cache.h).
#pragma once

#include <functional>
#include <string>

#include "data/preferences.h"
#include "data/row_source.h"
#include "data/token_cache.h"
#include "train/open_run.h"
#include "train/opening.h"

namespace hone::train {

struct CachedTokens {
  data::Dataset dataset;
  base::fs::path from;  // the file that had them; empty: made from the rows
  data::SeenRows seen;  // of all rows, or of the first ones where a file had their tokens
};

// `chat_template` is the one that renders, or null. UserError: what data/rows.h and data/tokenize.h say, of rows that are read.
CachedTokens cached_tokens(const data::RowSource& source, const OpenedRun& run,
                           const text::ChatTemplate* chat_template, const data::TokenizeOptions& options);

// Pairs in the same way: read with TRL's maybe_extract_prompt, made by `make`; `what` names its method.
using MakePairs = std::function<data::PreferenceData(const data::PreferenceRows&)>;
PairInput<data::PreferenceFacts> cached_pairs(const data::RowSource& source, OpenedRun& run,
                                              const std::string& what, const data::PreferenceOptions& options,
                                              const MakePairs& make);

// Into run.start.notes, once.
void note_kept_tokens(OpenedRun& run);

}  // namespace hone::train
