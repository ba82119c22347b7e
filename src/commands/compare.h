// After a merge or an export: does what was written still say what the unmerged adapter on its base says?
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "config/tool_plans.h"

namespace hone::commands {

struct AdapterOnBase {
  std::string base;
  std::vector<std::string> base_adapters;
  std::string adapter;  // empty: the model alone
  config::QuantizedBase trained_on = config::QuantizedBase::kNone;
  bool nested = false;
};

struct Written {
  std::string path;
  std::string words;   // "the merged model"
  std::string narrow;  // its type when it has fewer bits than 16; else empty
};

// The user's, or the built-in ones. UserError for a file that is no list of prompts: so before the writing.
std::vector<base::Json> prompts_to_compare(const config::ComparePlan& plan);

// Greedy completions of both, one model in memory at a time, and doctor::merged_verdict on standard output.
// Where the unmerged adapter on its base cannot say what is right (no tokenizer, no room) a line says so.
// Returns the exit code: 2 when the adapter is hardly in what was written, else 0. UserError when that does
// not open.
int compare_with_adapter(const config::ComparePlan& plan, const std::vector<base::Json>& prompts,
                         const AdapterOnBase& right, const Written& written);

}  // namespace hone::commands
