// What is counted of a data set's rows, whatever its form, and the same as JSON beside tokens that are kept
// (data/forms/token_cache.h).
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "data/forms/preferences.h"
#include "data/forms/tokenize.h"
#include "data/forms/unpaired.h"

namespace hone::data {

using RowFacts = std::variant<DataFacts, PreferenceFacts, UnpairedFacts>;

// Holds the counts that all forms have.
struct RowCounts {
  std::int64_t rows = 0, kept = 0, tokens = 0, longest = 0;
  bool conversational = false;
  bool plain_prompts = false;  // prompts and completions are texts in columns of their own
};
RowCounts counts_of(const RowFacts& facts);

std::string facts_text(const RowFacts& facts);
RowFacts read_facts(const std::string& text);  // UserError or Json::exception: not facts_text() of this build

}  // namespace hone::data
