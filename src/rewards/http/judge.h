// A judge decides which of two completions of a prompt is better, without scores.
//
//   path/to/file.py:function, package.module.function
//       def judge(prompts, completions, **columns) -> [0, 1, None, ...]
//     completions are pairs; 0: the first is the better, 1: the second, None or -1: it cannot tell. An object
//     with a method `judge`, as TRL's judges are, does too. It runs as rewards of the user's Python do
//     (python_reward.h): own process, time limit, restart.
//   http://host:port/v1, https://...
//     an OpenAI-compatible API: POST <address>/chat/completions {"model", "messages", "temperature": 0}, one
//     request a pair. The answer names 0 or 1 (after </think>, where there is one). The key is the value of
//     JudgeSpec::key_variable; without one, OPENAI_API_KEY goes to https://api.openai.com and nowhere else.
//     Keys are sent only over https or to this machine (UserError). Errors of an endpoint are handled as in
//     http_reward.h.
//
// Pairs are not also judged in reverse order: both completions are sampled alike, so that a judge's
// preference for the first position adds noise but no bias.
#pragma once

#include <memory>
#include <string>

#include "rewards/open_reward.h"
#include "rewards/reward.h"

namespace hone::rewards {

struct JudgeSpec {
  std::string word;           // as above
  std::string model, prompt;  // of an address; an empty prompt: hone's own
  std::string key_variable;   // of an address: the environment variable with its key; empty: see above
};

// As a reward: a request holds pairs of completions of the same prompt beside each other; of each pair the
// better has 1 and the worse 0, or both kNone. A verdict that is none of the above is a Failure. Errors are
// those of open_rewards.
std::unique_ptr<Reward> open_judge(const JudgeSpec& words, const OpenOptions& options);

}  // namespace hone::rewards
