// An endpoint as a reward: POST of JSON
//
//   {"prompts": [...], "completions": [...], "completion_ids": [[...]], column: [...], ...}
//
// to its address; the answer, with status 200, is {"rewards": [...]} or only the list: numbers or null, one
// per completion, of 4 MiB and 4 KiB a completion at most. The request runs in a Python worker (urllib of its
// standard library, https with its certificates), so a hanging server is treated like a hanging function; see
// python_reward.h. Redirects are not followed.
//
// What goes wrong:
// - Busy, restarting, unreachable: asked again with pauses, for five minutes at most (endpoint.h).
// - Another answer than scores, another count, 400, 413, 422 and other 4xx: Failures of those samples that it
//   is given to alone too.
// - Status 3xx, 401, 403, 404, 405 and their like before the endpoint has ever answered, an address that is
//   none: UserError.
//
// ${NAME} in an address is the value of that environment variable, which only the worker looks up. An address
// with such references, with user:password@ (sent as Basic authorization) or with a secret parameter
// (base/strings/secrets.h) must be https or this machine's: UserError. Messages, plans and metrics show *** or
// ${NAME}.
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
