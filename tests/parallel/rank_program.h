// A process of processes_test.cpp does this: `test_parallel rank NAME`. Its place comes from the environment,
// what it found goes to stdout.
#pragma once

#include <string>

namespace hone::parallel::rank_program {

int run(const std::string& name);

}  // namespace hone::parallel::rank_program
