// An endpoint as a reward: POST of JSON
//
//   {"prompts": [...], "completions": [...], "completion_ids": [[...]], column: [...], ...}
//
// to its address; the answer, with status 200, is {"rewards": [...]} or the list alone: numbers or null, one
// per completion. The request runs in a Python worker (urllib of its standard library), so a hanging server
// costs what a hanging function costs; see python_reward.h. Connection errors are tried twice more. Redirects
// are not followed. UserError: no connection, status 401, 403, 404 or 405, an answer that is none of the
// above. Any other status is taken as an exception: the samples are asked for alone.
#pragma once

#include <memory>
#include <string>

#include "rewards/open_reward.h"

namespace hone::rewards {

// With a worker pool of its own; open_python_rewards takes addresses too, and shares its pool. Named after
// the last part of the path ("score" of http://host:8000/score), or the host. Sends nothing before the first
// score().
std::unique_ptr<Reward> open_http_reward(const std::string& url, const OpenOptions& options);

}  // namespace hone::rewards
