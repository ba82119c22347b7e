// open-r1's rewards that run the model's code: `code`, the share of a row's test cases that the last block of Python in a completion passes, and
// `binary_code`, whether that is above 0.99.
//
//   code(column=verification_info, num_parallel=2, exec_timeout=5, timeout=30, memory=1024)
//     num_parallel: programs that run at once; exec_timeout: seconds of a case; timeout: of all cases of a program; memory: megabytes of a process
//
// The column has {"language": "python", "test_cases": [{"input": text, "output": text}]}, or such a JSON as text. The program reads the input from
// stdin. A case is passed where it ends with status 0 and its lines are those of the output, as far as both have lines, blanks at their ends aside.
// As in open-r1, a program that does not end in time or prints what is no UTF-8 earns 0, whatever it has passed before. Another language, and a row
// without test cases, are failures of these samples.
//
// open-r1 has its programs run by E2B or Morph, which this does not call. They run on this machine, in processes of their own (runner.py):
// - for each case a process with limits of time, memory, files (16 MB each, 64 MB together) and processes (64);
// - in namespaces, where the system gives them: no network, no other process, nothing that can be written but an empty folder. As root, with
//   namespaces or without, another user;
// - without the environment variables of the run and the outputs of the tests.
// What a system does not give is told in Scores::notes of the first call; a run as root that nothing shuts in is refused. A program that breaks its own process, or even the one that judges, earns 0.
//
// Scores::extra, "NAME cases": "3 of 5; case 4 did not end in time". Scores::metrics: shares of completions, NAME/late, NAME/failed (a case ended
// with an error), NAME/no_code.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rewards/open_reward.h"
#include "rewards/reward_spec.h"

namespace hone::rewards {

// Starts the processes. UserError: no Python, one in which no program runs, or nothing that shuts programs of root in.
std::unique_ptr<Reward> open_code_reward(Parameters parameters, const OpenOptions& options);
std::unique_ptr<Reward> open_binary_code_reward(Parameters parameters, const OpenOptions& options);

// The last block ```python of a text; empty: there is none.
std::string last_python_block(std::string_view text);

// A completion with a program that passes all test cases of a value of such a column, by a table of them; nullopt for another value.
std::optional<std::string> answer_by_table(const base::Json& verification_info);

}  // namespace hone::rewards
