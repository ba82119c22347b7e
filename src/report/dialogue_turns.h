// A dialogue with tools as what was said in it, in order: for the terminal's table and the run's page.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "train/facts/step_facts.h"

namespace hone::report {

struct DialogueTurn {
  enum class Kind : unsigned char { kReasoning, kSaid, kCall, kResult };
  Kind kind = Kind::kSaid;
  std::string text;     // of a call: its arguments as JSON
  std::string name;     // of a call or a result: the tool
  bool failed = false;  // a result: of a call that failed
  bool unread = false;  // a result: the dialogue ended before the model could read it
};

// As they stand in completions/: {"turn", "name", "failed", "unread"?: the result, where the dialogue ended before it}.
base::Json calls_json(const std::vector<train::CallFacts>& calls);

// `messages` as CompletionFacts has them and `calls` as calls_json(), or whatever stands in their place in a file: what is no such
// thing is left out or shown as JSON.
std::vector<DialogueTurn> dialogue_turns(const base::Json& messages, const base::Json& calls);

}  // namespace hone::report
