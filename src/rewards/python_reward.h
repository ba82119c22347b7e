// Functions of the user's Python as rewards, in worker processes of their own interpreter; TRL's signature:
//
//   function(prompts=, completions=, completion_ids=, **columns, trainer_state=, log_extra=, log_metric=)
//     -> a list (or tensor, array, generator) of numbers or None, one per completion; `async def` too.
//
// trainer_state is an object with TrainerState's fields as attributes; log_extra(column, values) wants one
// value per completion, log_metric(name, value) a number (it may be NaN, as in TRL). Anything with __float__
// is a number.
//
// What a function does wrong, and what becomes of it (Failure: that sample is kNone and the run goes on; what
// was mended is in Scores::notes):
// - It raises: the samples are called alone; those that raise again are Failures "TypeError: ...
//   (reward.py:12 in score)". UserError when some raised and none could be scored.
// - It hangs: after `timeout` seconds the worker and its children are killed. The samples are called alone
//   in a fresh one, with the same time-out in total, each with at most half of what is left of it; Failures,
//   also when that is all of them.
// - It dies (segfault, os._exit, out of memory, killed): the call is repeated in a fresh worker, then the
//   samples are called alone, twice each; Failures with the signal and the worker's last words, also when
//   that is all of them.
// - Another count than completions, or no list: UserError.
// - NaN, infinity, not a number: Failure of that sample.
// A function that looks across the batch gives other values when its samples are called alone.
//
// Functions run in the main thread of a worker. Workers have their own process group, /dev/null as stdin and
// none of our descriptors; what they print is kept for error messages only (the last 16 KiB). They die with
// this process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rewards/open_reward.h"

namespace hone::rewards {

// `words`: "path/to/file.py:function" (its folder comes on sys.path), "package.module.function" (looked for
// from the working folder too) or "http://...", "https://..." (http_reward.h). In the order of `words`; all
// share one pool of `options.workers` processes, each of which loads all of them. UserError: the interpreter
// is not found, the file is not there, it raises on import (with its traceback), it has no such function
// (nearest names), the function does not take what TRL passes.
std::vector<std::unique_ptr<Reward>> open_python_rewards(const std::vector<std::string>& words,
                                                         const OpenOptions& options);

// Parameters without a default that TRL does not pass itself: columns that the data must have. Starts a
// worker, so errors are those of open_python_rewards.
std::vector<std::string> python_needed_columns(const std::string& word, const OpenOptions& options);

// Judges (judge.h) as such functions: a completion of their requests is a pair, its reward 0, 1 or kNone.
// They are given prompts and completions, and of the rest what they take. An address is asked as an
// OpenAI-compatible API, for `model`, with `prompt` ("": our own words).
std::unique_ptr<Reward> open_python_judge(const std::string& word, const std::string& model,
                                          const std::string& prompt, const OpenOptions& options);

}  // namespace hone::rewards
