// After a merge or an export: compares the written model with the unmerged adapter on its base.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "config/commands/tool_plans.h"

namespace hone::commands {

struct AdapterOnBase {
  std::string base;
  std::vector<std::string> base_adapters;
  std::string adapter;  // empty: only the model
  config::QuantizedBase trained_on = config::QuantizedBase::kNone;
  bool nested = false;
  bool experts = false;  // quantize_moe_experts
};

struct Written {
  std::string path;
  std::string words;   // "the merged model"
  std::string narrow;  // its type when it has fewer bits than 16; else empty
};

// The user's, or the built-in ones. UserError for a file that is not a list of prompts; called before the
// model is written.
std::vector<base::Json> prompts_to_compare(const config::ComparePlan& plan);

// Greedy completions of both, one model in memory at a time, and doctor::merged_verdict on standard output.
// Prints a line when no comparison is possible (no tokenizer, not enough memory). Returns the exit code: 2
// when most of the adapter is missing in the written model, else 0. UserError when that model cannot be
// opened.
int compare_with_adapter(const config::ComparePlan& plan, const std::vector<base::Json>& prompts,
                         const AdapterOnBase& right, const Written& written);

// The same of a reward model's adapter and the folder that it was merged into, `written`: the scores that
// both give two answers to each prompt. Returns 0.
int compare_scores(const config::ComparePlan& plan, const std::vector<base::Json>& prompts,
                   const AdapterOnBase& right, const std::string& written);

}  // namespace hone::commands
