// Opens the rewards named in `reward_funcs`.
//
//   accuracy_reward, reasoning_accuracy_reward, get_cosine_scaled_reward (accuracy_reward.h),
//   think_format_reward, get_soft_overlong_punishment, get_repetition_penalty_reward, exact_match, regex
//   (native_rewards.h),
//   accuracy, format, tag_count, reasoning_steps, cosine, repetition_penalty, length, code_format,
//   soft_overlong_punishment (open_r1_rewards.h), code, binary_code (code_reward.h)
//       built in; parameters in parentheses: exact_match(column=answer), regex(pattern="^\\d+$"),
//       length(target=100); name= gives the metric another name
//   path/to/file.py:function                                     a function of the user's Python
//   package.module.function                                      the same by its import path
//   http://host:port/path, https://...                           an endpoint (http_reward.h)
//   a folder with config.json                                    a sequence-classification model (train/)
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rewards/http/endpoint.h"
#include "rewards/reward.h"

namespace hone::rewards {

struct OpenOptions {
  std::string python;   // the interpreter of the workers; empty: base/process/active_python.h
  int workers = 1;      // processes; each loads every Python function
  double timeout = 60;  // seconds for one call of one function
  RetryLimits retry;    // of addresses
  // Opens a model folder; empty: such a word is an error.
  std::function<std::unique_ptr<Reward>(const std::string& folder)> open_model;
};

// In the order of `words`. UserError, before anything is generated: an unknown name (with the nearest one), a
// file or a function that is not there (with the nearest name in the file), a file that raises on import
// (with its traceback), a parameter of the wrong type.
std::vector<std::unique_ptr<Reward>> open_rewards(const std::vector<std::string>& words,
                                                  const OpenOptions& options);

// Columns of the data that a reward cannot do without ("answer" of exact_match(column=answer)); of a Python
// function: those parameters without a default that TRL does not pass itself.
std::vector<std::string> required_columns(const std::string& word, const OpenOptions& options);
// The same of a word that is open: starts nothing.
std::vector<std::string> required_columns(const std::string& word, const Reward& opened);

// Whether a name calls the user's code, which is not called without need, or ours.
bool is_user_code(const std::string& word);
bool is_model(const std::string& word);  // a folder

}  // namespace hone::rewards
