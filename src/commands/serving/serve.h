// hone serve MODEL: a server of the model and its adapters, until a signal ends it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "config/commands/tool_plans.h"

namespace hone::commands {

int serve(const std::vector<std::string>& arguments);

// A server that listens.
struct Serving {
  std::string url;                      // "http://127.0.0.1:8000"
  std::int64_t max_length = 0;          // tokens of a prompt and its completion
  bool begins_texts = false;            // the tokenizer puts a token before a text
  const std::atomic<int>& stop_signal;  // SIGINT or SIGTERM has come; 0: none
};
// Serves while `meanwhile` runs, and then ends as at a signal. Returns the exit code; what `meanwhile` throws is thrown
// behind the end.
int serve_while(config::ServePlan plan, const std::function<void(const Serving&)>& meanwhile);

}  // namespace hone::commands
