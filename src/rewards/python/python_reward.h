// Functions of the user's Python as rewards, in worker processes of their own interpreter; TRL's signature:
//
//   function(prompts=, completions=, completion_ids=, **columns, trainer_state=, log_extra=, log_metric=)
//     -> a list (or tensor, array, generator) of numbers or None, one per completion; `async def` too.
//
// trainer_state is an object with TrainerState's fields as attributes; log_extra(column, values) wants one
// value per completion, log_metric(name, value) a number (it may be NaN, as in TRL). Anything with __float__
// is a number.
//
// Errors of a function (Failure: that sample is kNone and the run continues; recovered errors are in
// Scores::notes):
// - It raises, returns the wrong number of values, or no list: the samples are called one by one; those that
//   fail again are Failures "TypeError: ... (reward.py:12 in score)".
// - It hangs: after `timeout` seconds the worker and all processes that it started are killed. The samples
//   are called one by one in a new one, with the same time-out in total, each with at most half of the rest;
//   Failures.
// - It dies (segfault, os._exit, out of memory, killed): the call is repeated in a new worker, then the
//   samples are called one by one, twice each; Failures with the signal and the worker's last output.
// - NaN, infinity, not a number: Failure of that sample.
// When all samples are Failures, Scores::broken says why, with Python's traceback; whether that ends the run
// is judged over generation batches (failure_tracker.h). UserError: columns that it does not take, or that
// are missing, and a worker that cannot be started again.
// A function is called with the whole generation batch, as TRL calls it, or by group (reward_by_group). One that looks
// across the batch gives other values by group, or when its samples are called one by one.
//
// Functions run in the main thread of a worker. A file is imported once a worker, whatever number of
// functions is taken from it. Workers have their own process group, /dev/null as stdin and none of our
// descriptors; what they print during a call is in Scores::printed (its first megabyte), and its last 16 KiB in
// messages about a worker that ended. They die with this process,
// and what they have started dies with them, also under kill -9 and in a session of its own
// (worker_script.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rewards/open_reward.h"

namespace hone::rewards {

struct JudgeSpec;  // judge.h

// `words`: "path/to/file.py:function" (its folder comes on sys.path), "package.module.function" (looked for
// from the working folder too) or "http://...", "https://..." (http_reward.h). In the order of `words`; all
// share one pool of `options.workers` processes, each of which loads all of them. UserError: the interpreter
// is not found, the file is not there, it raises on import (with its traceback), it has no such function
// (nearest names), the function does not take what TRL passes.
std::vector<std::unique_ptr<Reward>> open_python_rewards(const std::vector<std::string>& words,
                                                         const OpenOptions& options);

// Parameters without a default that TRL does not pass itself: columns that the data must have. Starts a
// worker, so errors are those of open_python_rewards.
std::vector<std::string> python_required_columns(const std::string& word, const OpenOptions& options);

// Judges (judge.h) as such functions: a completion of their requests is a pair, its reward 0, 1 or kNone.
// They are given prompts and completions, and of the rest what they take.
std::unique_ptr<Reward> open_python_judge(const JudgeSpec& words, const OpenOptions& options);

}  // namespace hone::rewards
