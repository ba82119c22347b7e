// Holds cases against what they say: for tests, and for `hone gpu-check`. What fails is returned.
#pragma once

#include <string>
#include <vector>

#include "ops/cases/case.h"

namespace hone::ops::cases {

struct Failure {
  std::string op, what, why;
};

// Each case's numbers, on a device.
std::vector<Failure> check_numbers(const Cases& cases, at::Device device);
// One case, twice: what is wrong with its numbers, or that the second time had other bits. Empty: nothing. Where one of hone's own
// kernels computed it, whether libtorch's operators in its place are right.
std::string wrong_twice(const Case& one, at::Device device);
// At every level of this machine's CPU: numbers, and all promises.
std::vector<Failure> check_levels(const Cases& cases);

Cases cases_of(const std::string& op);
std::vector<std::string> operators();  // that have cases, each once
// Tells what failed, a line each, for a test to print; empty: nothing.
std::string told(const std::vector<Failure>& failures);

}  // namespace hone::ops::cases
