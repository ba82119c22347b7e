// The examination of a run before its first step. It trains nothing and writes nothing.
//
//   for (const hone::Verdict& one : hone::examine("sft", {"--config", "run.yaml"}))
//     std::cout << one.code << ' ' << one.what << '\n';
#pragma once

#include <string>
#include <vector>

#include "base/verdict.h"

namespace hone {

using base::Level;
using base::Verdict;

// As `hone doctor`: every verdict, those without a fault too, in the order of the parts. `arguments`: what
// would follow `hone METHOD`. A mistake in the options or in the data is a verdict of level kFail; `hone
// faults CODE` prints what a class of fault means. Checks that need processes of the program are left out.
std::vector<Verdict> examine(const std::string& method, const std::vector<std::string>& arguments);

}  // namespace hone
