// The Python side of a reward worker.
#pragma once

#include "python/program.h"

namespace hone::rewards {

// Speaks frames (python/frames.h):
//   {"do": "load", "functions": [{"file", "function"} | {"module", "function"} | {"url", "secret": bool}]}
//     with "judge" ({} or, with url, {"model", "prompt", "key": variable or ""}): a judge, whose completions
//     are pairs, and whose rewards 0, 1 or null (judge.h). "secret": the address must be https or loopback
//     -> {"functions": [{"name", "needed": [columns], "file", "environments": bool}]} or {"fault": {...}, "function": index}
//   {"do": "score", "function": index, "prompts", "completions", "completion_ids", "columns",
//    "environments": [[name, number]] | null, "trainer_state", "timeout", "seconds"}   the function's time-out, and what this call may take of it
//     -> {"rewards": [number | null], "bad": [[index, why]], "extra": [[column, [values]]],
//         "metrics": [[name, number | null]]}
//        or {"raised": {"what", "place", "trace", "whole": bool}}: an exception; whole: an answer that is not
//        one score a completion
//        or {"later": {"kind", "what", "seconds"}}: an endpoint that may answer when it is asked again
//        (endpoint.h)
//        or {"fault": {...}, "passing": bool}: wrong in every call; passing: of an endpoint that has answered
//        before it may be a passing fault
// A fault holds the sentences of a UserError: expected, found, cause, fix.
const python::Program& worker_program();

}  // namespace hone::rewards
