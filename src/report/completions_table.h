// Completions with their rewards as a table in the terminal (log_completions).
#pragma once

#include <cstdint>
#include <string>

#include "report/terminal/terminal.h"
#include "train/facts/step_facts.h"

namespace hone::report {

// The options log_completions, num_completions_to_print and log_unique_prompts.
struct CompletionsTableOptions {
  bool table = false;
  // completions per table, spread evenly over the batch; 0: all (TRL takes a random sample)
  std::int64_t most = 0;
  bool unique_prompts = false;  // one completion per prompt
};

// Several lines, ending in a newline; a prompt, of a conversation its last user's turn, is above its completions:
//   completions of step 12
//     prompt  What is 2 + 3?
//          exact_match  think_format  advantage  completion
//                 1.00             -       0.71  The answer is 5
//                 0.00          0.50      -0.71  6 and more of it … and so on  (truncated)
// A dialogue with tools has a line for each thing that was said in it:
//                 1.00             -       0.71  (thinks) I should add.
//                                               -> add {"a":2,"b":3}
//                                               <- add: 5
//                                               The answer is 5
// "-" is None. Columns of log_extra are between advantage and completion. Texts are cut to the terminal's
// width (100 columns when it has none), with control characters made visible; in a narrow terminal names and
// columns of log_extra are cut too, and at least 16 columns are left to a completion.
std::string completions_table(const train::RolloutFacts& facts, const CompletionsTableOptions& shown,
                              const Terminal& terminal);

}  // namespace hone::report
