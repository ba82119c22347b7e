// What a sampled turn says: the message that rewards get, and the calls in it.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace hone::tools {

struct Call {
  std::string name;
  base::Json arguments;  // an object after casting by the tool's schema; else what the model wrote
};

struct Turn {
  // {"role": "assistant", "content": text, "reasoning_content" or "thinking"?: text, "tool_calls"?:
  // [{"type": "function", "function": {"name", "arguments"}}]}, as TRL hands it to rewards.
  base::Json message;
  std::vector<Call> calls;  // in the order of the text
};

}  // namespace hone::tools
