// hone with the stand-in inside: what the doctor and `hone gpu-check` start as a child process finds it there, too.
//
//   hone_on_standin gpu-check [--output FILE] [--stages NAME ...]     on the stand-in
//   hone_on_standin COMMAND ...                                       as hone
//
// HONE_STANDIN_WRONG names an operator of the table of GPUs that is then wrong (wrong_table.h).
#include <ATen/Parallel.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "commands/commands.h"
#include "commands/gpu_check/check.h"
#include "standin/standin.h"
#include "standin/wrong_table.h"

int main(int argc, char** argv) {
  namespace standin = hone::standin;
  const char* const wrong = std::getenv("HONE_STANDIN_WRONG");
  const hone::ops::backend::Operators table = standin::table_with_wrong(wrong == nullptr ? "" : wrong);
  hone::ops::backend::register_operators(standin::device().type(), &table);
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || words.front() != "gpu-check") return hone::commands::run(argc, argv);
  try {
    hone::config::GpuCheckPlan plan = hone::config::parse_gpu_check({words.begin() + 1, words.end()});
    plan.device = standin::kName;
    return hone::commands::check_gpu(plan);
  } catch (const hone::base::UserError& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}
