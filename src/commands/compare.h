// After a merge or an export: does what was written still say what the adapter beside its base says?
#pragma once

#include <string>
#include <vector>

#include "config/tool_plans.h"

namespace hone::commands {

struct AdapterOnBase {
  std::string base;
  std::vector<std::string> base_adapters;
  std::string adapter;  // empty: the model alone
  config::QuantisedBase trained_on = config::QuantisedBase::kNone;
  bool nested = false;
};

struct Written {
  std::string path;
  std::string words;   // "the merged model"
  std::string narrow;  // its type when it has fewer bits than 16; else empty
};

// Greedy completions of both, one model in memory at a time, and doctor::merged_verdict on standard output.
// What cannot be compared (no tokenizer, no room, a type that hone does not read) is said in a line. Returns
// the exit code: 2 when the adapter is hardly in it, else 0.
int compare_with_adapter(const config::ComparePlan& plan, const AdapterOnBase& right, const Written& written);

}  // namespace hone::commands
