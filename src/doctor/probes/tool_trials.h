// The tools and environments of a run, called before its first step: with the smallest arguments that their schemas take, twice.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "tools/tool_pool.h"
#include "train/batches/tool_rollouts.h"
#include "train/opening/run_view.h"

namespace hone::doctor {

// Arguments that fit a tool's schema ({"type": "function", "function": {...}}): what it requires, 1 for numbers and texts, the first
// value of an enum.
base::Json smallest_arguments(const base::Json& schema);

// A tool's calls.
struct TriedTool {
  std::string name, environment;  // of ToolUse::environments; "": the only one, or none
  base::Json arguments;
  tools::Done first, second;
  bool twice = false;    // second is there
  bool differs = false;  // it answered otherwise, from the same state
};

// An environment's resets for one row.
struct TriedEnvironment {
  std::string name, class_name;
  std::string where;           // the row
  std::string error;           // of a reset; "" where there was none
  bool worlds_differ = false;  // the error is that one prompt's instances said otherwise
  bool differs = false;        // a second reset of the same row said otherwise
  std::string first, second;   // what it said then
  double seconds = 0;          // of a reset
};

struct ToolTrials {
  std::vector<TriedEnvironment> environments;
  std::vector<TriedTool> tools;
  bool late = false;  // there was no time for the rest
};

// The run's tools with a pool of their own: what is called here leaves nothing behind, neither in environments nor in modules. UserError
// of the pool.
train::ToolUse own_tools(const train::RunView& run);

// `patience`: seconds, after which no call is begun.
ToolTrials try_tools(const train::RunView& run, double patience);

// True where the tools are functions of the program that called hone: only it could take their calls back.
bool calls_the_caller(const config::Plan& plan);

}  // namespace hone::doctor
