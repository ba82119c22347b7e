// Kept tokens of pairs, in the files of data/token_cache.h: an example is a pair, its tokens those of chosen (context, then scored) and
// of rejected. The flags say which part a token is of: 0 to 3, in that order; 4 more where the context's last token is the completion's.
#pragma once

#include <optional>
#include <string>

#include "data/preferences.h"
#include "data/token_cache.h"

namespace hone::data {

// token_key() of pairs as tokenize_preferences and tokenize_cpo_pairs make them; `what` tells these apart.
std::string pair_key(const base::RowFiles& files, const TokenMaker& maker, const std::string& what,
                     const PreferenceOptions& options);

// nullopt: none are kept, or they are damaged.
std::optional<PreferenceData> read_pairs(const TokenCache& cache);
// False when they are not kept: too few tokens, no room, no right to write. The run needs them not.
bool keep_pairs(const TokenCache& cache, const PreferenceData& data);

}  // namespace hone::data
