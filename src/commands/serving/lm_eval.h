// lm-eval, the harness, as a program of the user's own Python that asks a server.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"

namespace hone::commands {

struct LmEval {
  std::string python;   // as base::active_python()
  std::string version;  // "0.4.13"
};

// UserError, which says how to install it, where `python` (empty: base/process/active_python.h) does not start or lacks it.
LmEval find_lm_eval(const std::string& python);

// `lm-eval run` with `words`, whose server tokenizes and renders prompts (commands/python/lm_eval.py). What it prints goes
// to our stderr. Returns its results, newest of those that it wrote below `folder`. UserError where it fails; when `stop`
// becomes true it is ended first.
base::Json run_lm_eval(const LmEval& harness, const std::vector<std::string>& words,
                       const base::fs::path& folder, const std::atomic<int>& stop);

// Has no proxy asked for 127.0.0.1 by the programs that are started from now on: it joins the names of NO_PROXY and
// no_proxy, each of which gets those of the other where it is not set.
void ask_no_proxy_of_this_machine();

}  // namespace hone::commands
