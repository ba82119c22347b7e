// The Python side of a reward worker: one program text, standard library only, Python 3.8 or later.
#pragma once

#include <string>
#include <string_view>

namespace hone::rewards {

// Speaks frames (worker_frames.h) on descriptor kWorkerDescriptor:
//   {"do": "load", "functions": [{"file", "function"} | {"module", "function"} | {"url"}]}
//     with "judge" ({} or, with url, {"model", "prompt"}): a judge, whose completions are pairs, and whose
//     rewards 0, 1 or null (judge.h)
//     -> {"functions": [{"name", "needed": [columns], "file"}]} or {"fault": {...}, "function": index}
//   {"do": "score", "function": index, "prompts", "completions", "completion_ids", "columns",
//    "trainer_state", "timeout"}
//     -> {"rewards": [number | null], "bad": [[index, why]], "extra": [[column, [values]]],
//         "metrics": [[name, number | null]]}
//        or {"raised": {"what", "place", "trace"}} or {"fault": {...}}
// A fault holds the sentences of a UserError: expected, found, cause, fix.
std::string_view worker_script();

// What `python -c` is given: reads that text from the descriptor and runs it.
std::string worker_bootstrap();

inline constexpr int kWorkerDescriptor = 3;

}  // namespace hone::rewards
