#include "ops/cases/check.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <sstream>

#include "ops/backend/cuda.h"
#include "ops/backend/operators.h"

namespace hone::ops::cases {
namespace check_parts {

using base::InstructionLevel;

const Tensors& truth(const Case& c) {
  if (c.truth->empty()) *c.truth = c.exact();
  return *c.truth;
}

// Largest difference as a share of the largest number; infinite where a number is missing.
double error_of(const at::Tensor& found, const at::Tensor& exact) {
  if (found.numel() == 0) return 0;
  const double off = (found.to(at::kDouble) - exact).abs().max().item<double>();
  const double size = std::max(exact.abs().max().item<double>(), 1e-3);
  return std::isnan(off) ? INFINITY : off / size;
}

std::string wrong_numbers(const Case& c, const Tensors& found, at::Device device) {
  const Tensors& exact = truth(c);
  if (found.size() != exact.size()) return "another number of outputs";
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].sizes() != exact[i].sizes()) return "another shape";
    const double error = error_of(found[i], exact[i]);
    const double roundings =
        found[i].scalar_type() == at::kBFloat16 ? backend::operators_of(device).roundings : 1;
    const double bound = roundings * c.bounds[std::min(i, c.bounds.size() - 1)];
    if (error <= bound) continue;
    std::ostringstream text;
    text << "output " << i << " is off by " << error << ", bound " << bound;
    return text.str();
  }
  return "";
}

std::string other_bits(const Tensors& found, const Tensors& first, const std::string& what) {
  for (std::size_t i = 0; i < std::min(found.size(), first.size()); ++i) {
    if (found[i].scalar_type() != first[i].scalar_type() || !at::equal(found[i], first[i]))
      return "other bits " + what + ", output " + std::to_string(i);
  }
  return "";
}

// Levels with the same number here have the same bits; -1: none.
int group_of(SameBits same, InstructionLevel level) {
  const bool alike = same == SameBits::kAllLevels ||
                     (same == SameBits::kFromAvx2 && level != InstructionLevel::kPlain) ||
                     (same == SameBits::kAvx2AndAvx512 &&
                      (level == InstructionLevel::kAvx2 || level == InstructionLevel::kAvx512));
  return alike ? 0 : -1;
}

class Threads {
 public:
  explicit Threads(int count) : before_(at::get_num_threads()) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

// At the level in force. `first`: the outputs of a level that has the same bits, or empty: becomes these.
std::string broken_promise(const Case& c, InstructionLevel level, Tensors& first) {
  const Tensors found = [&] {
    const Threads one(1);
    return c.run(at::kCPU);
  }();
  std::string why = wrong_numbers(c, found, at::kCPU);
  if (why.empty() && group_of(c.levels, level) == 0) {
    if (first.empty()) first = found;
    why = other_bits(found, first, "than a lower level");
  }
  if (!why.empty() || !c.own_bits_from || level < *c.own_bits_from) return why;
  const Threads four(4);
  why = other_bits(c.run(at::kCPU), found, "on four threads");
  if (why.empty() && c.otherwise) why = other_bits(c.otherwise(at::kCPU), found, "in other calls");
  return why;
}

template <typename Check>
void guarded(const Case& c, const std::string& place, std::vector<Failure>& failures, const Check& check) {
  std::string why;
  try {
    why = check();
  } catch (const std::exception& error) {
    why = std::string("throws ") + std::string(error.what()).substr(0, 400);
  }
  if (!why.empty()) failures.push_back({c.op, c.what, place + ": " + why});
}

}  // namespace check_parts

std::vector<Failure> check_numbers(const Cases& cases, at::Device device) {
  std::vector<Failure> failures;
  for (const Case& c : cases) {
    check_parts::guarded(c, device.str(), failures,
                         [&] { return check_parts::wrong_numbers(c, c.run(device), device); });
  }
  return failures;
}

std::string wrong_twice(const Case& one, at::Device device) {
  std::vector<Failure> failures;
  const std::int64_t started = backend::own_kernels_started();
  check_parts::guarded(one, "", failures, [&] {
    const Tensors found = one.run(device);
    std::string why = check_parts::wrong_numbers(one, found, device);
    return why.empty() ? check_parts::other_bits(one.run(device), found, "the second time") : why;
  });
  if (failures.empty()) return "";
  std::string why = failures.front().why.substr(std::string(": ").size());
  if (backend::own_kernels_started() == started) return why;
  const backend::WithoutOwnKernels without;
  return why + (check_numbers({one}, device).empty()
                    ? "; hone's own kernel is wrong, libtorch's operators are right"
                    : "; so is it with libtorch's operators instead of hone's own kernel");
}

std::vector<Failure> check_levels(const Cases& cases) {
  std::vector<Failure> failures;
  for (const Case& c : cases) {
    Tensors first;
    for (const base::InstructionLevel level : base::kInstructionLevels) {
      if (!base::machine_has(level)) continue;
      const base::ForceInstructionLevel force(level);
      check_parts::guarded(c, name_of(level), failures,
                           [&] { return check_parts::broken_promise(c, level, first); });
    }
  }
  return failures;
}

Cases cases_of(const std::string& op) {
  Cases some;
  for (const Case& c : all_cases()) {
    if (c.op == op) some.push_back(c);
  }
  return some;
}

std::vector<std::string> operators() {
  std::vector<std::string> names;
  for (const Case& c : all_cases()) {
    if (std::find(names.begin(), names.end(), c.op) == names.end()) names.emplace_back(c.op);
  }
  return names;
}

std::string told(const std::vector<Failure>& failures) {
  std::string out;
  for (const Failure& one : failures) out += "\n  " + one.op + " (" + one.what + "): " + one.why;
  return out;
}

}  // namespace hone::ops::cases
