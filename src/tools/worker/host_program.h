// The Python side of a pool of tools: its text, and what it is asked and answers (the frames are in host.py).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "python/program.h"
#include "tools/tool_pool.h"

namespace hone::tools {

inline constexpr const char* kToolHost = "host of tools";  // in messages

const python::Program& host_program();

struct LoadedEnvironment {
  std::string class_name;
  std::vector<Tool> tools;  // standalone ones first
  bool has_reward = false;
  bool takes_seed = false;
};

struct Loaded {
  std::vector<Tool> tools;
  std::map<std::string, LoadedEnvironment> environments;
  std::vector<std::string> notes;
  std::optional<base::ErrorText> fault;  // without `where`
  std::string word;                      // of the option, whose fault
  std::string at;                        // "search, argument q (tools.py:3)"; may be empty
};

// UserError for an answer that is none of the host's.
Loaded parse_loaded(std::string_view frame);

struct Answer {
  Done done;
  std::optional<base::ErrorText> fault;  // ends the run; the rest is empty
};

Answer parse_answer(std::string_view frame);

}  // namespace hone::tools
