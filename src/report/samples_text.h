// Samples of the run's fixed prompts as text: for the terminal, and for TensorBoard.
#pragma once

#include <string>

#include "report/terminal/terminal.h"
#include "train/facts/step_facts.h"

namespace hone::report {

// The newest completions below the first ones of the same prompts, at most three prompts:
//   samples   step 20; those of all steps: samples.jsonl
//     prompt  What is 2 + 3?
//          0  What is 2 + 3? What is
//         20  The answer is 5.
// Texts are cut to the terminal's width (100 columns when it has none), with control characters made visible. `first` may be null, or
// of the same step.
std::string samples_lines(const train::SampleFacts* first, const train::SampleFacts& now,
                          const Terminal& terminal);

// One prompt's, as Markdown in which nothing of the texts is markup: all of them are code.
std::string sample_markdown(const train::CompletionFacts& sample);

}  // namespace hone::report
