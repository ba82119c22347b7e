// The Python side of a reward worker: one program text, standard library only, Python 3.8 or later.
#pragma once

#include <string>

namespace hone::rewards {

// Speaks frames (worker_frames.h) on descriptor kWorkerDescriptor:
//   {"do": "load", "functions": [{"file", "function"} | {"module", "function"} | {"url", "secret": bool}]}
//     with "judge" ({} or, with url, {"model", "prompt", "key": variable or ""}): a judge, whose completions
//     are pairs, and whose rewards 0, 1 or null (judge.h). "secret": the address must be https or loopback
//     -> {"functions": [{"name", "needed": [columns], "file"}]} or {"fault": {...}, "function": index}
//   {"do": "score", "function": index, "prompts", "completions", "completion_ids", "columns",
//    "trainer_state", "timeout", "seconds"}   the function's time-out, and what this call may take of it
//     -> {"rewards": [number | null], "bad": [[index, why]], "extra": [[column, [values]]],
//         "metrics": [[name, number | null]]}
//        or {"raised": {"what", "place", "trace", "whole": bool}}: an exception; whole: an answer that is not
//        one score a completion
//        or {"later": {"kind", "what", "seconds"}}: an endpoint that may answer when it is asked again
//        (endpoint.h)
//        or {"fault": {...}, "passing": bool}: wrong in every call; passing: of an endpoint that has answered
//        before it may be a passing fault
// A fault holds the sentences of a UserError: expected, found, cause, fix.
//
// Modules are looked for in PYTHONPATH, the standard library, the folder of a reward file, the working
// folder, installed packages. A queue.py beside a reward therefore shadows nothing, of the worker's or of the
// user's. The worker's own imports come from the standard library before any of that.
const std::string& worker_script();

// What `python -c` is given: starts the worker under a watcher, reads that text from the descriptor and runs
// it.
std::string worker_bootstrap();

inline constexpr int kWorkerDescriptor = 3;
inline constexpr int kWatcherDescriptor = 4;

}  // namespace hone::rewards
