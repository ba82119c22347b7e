// The tokens of SFT's rows: those that an earlier run kept, else made here and kept for the next (data/token_cache.h).
#pragma once

#include "data/row_source.h"
#include "data/token_cache.h"
#include "train/open_run.h"

namespace hone::train {

struct CachedTokens {
  data::Dataset dataset;
  base::fs::path from;  // the file that had them; empty: made from the rows
};

// `chat_template` is the one that renders, or null. UserError: what data/rows.h and data/tokenize.h say, of rows that are read.
CachedTokens cached_tokens(const data::RowSource& source, const OpenedRun& run,
                           const text::ChatTemplate* chat_template, const data::TokenizeOptions& options);

}  // namespace hone::train
