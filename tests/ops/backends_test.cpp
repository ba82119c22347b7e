// Every operator on every backend and level that this machine has, from one list (ops/cases/case.h).
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "base/process/instruction_level.h"
#include "ops/backend/operators.h"
#include "ops/cases/check.h"

namespace hone::ops {
namespace backends_test {

class Backends : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Operators, Backends, testing::ValuesIn(cases::operators()),
                         [](const auto& one) { return one.param; });

TEST_P(Backends, TheCpuKeepsItsPromisesAtEveryLevel) {
  EXPECT_EQ(cases::told(cases::check_levels(cases::cases_of(GetParam()))), "");
}

TEST_P(Backends, TheReferenceAloneIsTheOperator) {
  const backend::Operators empty{};
  const backend::OnlyOperators only(empty);
  EXPECT_EQ(cases::told(cases::check_numbers(cases::cases_of(GetParam()), at::kCPU)), "");
}

// ---- the checks themselves

// A copy of [7, 33] that does no harm, but for what a test does to it.
cases::Case copies() {
  return cases::of_rows({.op = "copy",
                         .what = "",
                         .make = [] { return cases::Tensors{at::zeros({7, 33}), cases::noise({7, 33}, 1)}; },
                         .call =
                             [](const cases::Tensors& t, at::Device /*device*/) {
                               t[0].copy_(t[1]);
                               return cases::Tensors();
                             },
                         .exact = [](const cases::Tensors& t) { return cases::Tensors{t[1]}; },
                         .bounds = {1e-6},
                         .layout = cases::Layout::kStrided});
}

std::string found_in(const cases::Case& c) {
  return cases::told(cases::check_levels({c}));
}

TEST(TheChecks, SeeWhatIsBroken) {
  EXPECT_EQ(found_in(copies()), "");
  cases::Case c = copies();
  c.run = [](at::Device) { return cases::Tensors{cases::noise({7, 33}, 1) * 1.01}; };
  EXPECT_NE(found_in(c).find("off by 0.01"), std::string::npos) << found_in(c);
  c = copies();
  c.otherwise = [](at::Device) { return cases::Tensors{cases::noise({7, 33}, 1) + 1e-7}; };
  EXPECT_NE(found_in(c).find("in other calls"), std::string::npos) << found_in(c);
  c = copies();
  c.run = [](at::Device) {
    return cases::Tensors{cases::noise({7, 33}, 1) * (1 + 1e-7 * (at::get_num_threads() - 1))};
  };
  EXPECT_NE(found_in(c).find("on four threads"), std::string::npos) << found_in(c);
  c = copies();
  c.run = [](at::Device) {
    const auto level = static_cast<double>(base::instruction_level());
    return cases::Tensors{cases::noise({7, 33}, 1) * (1 + 1e-7 * level)};
  };
  if (base::machine_has(base::InstructionLevel::kAvx2)) {
    EXPECT_NE(found_in(c).find("than a lower level"), std::string::npos) << found_in(c);
  }
}

TEST(TheChecks, WatchWhatLiesAroundATensor) {
  for (const cases::Layout layout : {cases::Layout::kStrided, cases::Layout::kUnaligned}) {
    const at::Tensor x = cases::noise({7, 33}, 1);
    const cases::Placed placed(x, at::kCPU, layout);
    EXPECT_TRUE(at::equal(placed.taken(), x));
    placed.view().as_strided({1}, {1}, placed.view().storage_offset() - 1).fill_(1);
    EXPECT_THROW((void)placed.taken(), std::runtime_error);
  }
}

// What a backend laid out in its own order is read by the definitions too.
TEST(BackendTables, OneFunctionLessIsTheDefinitionOnTheBackendsLayouts) {
  backend::Operators table = backend::cpu_operators();
  table.attend_tiles = nullptr;
  table.gemms = nullptr;
  table.dequantize = nullptr;
  const backend::OnlyOperators only(table);
  for (const char* const op : {"attend_tiles", "gemms", "dequantize"})
    EXPECT_EQ(cases::told(cases::check_numbers(cases::cases_of(op), at::kCPU)), "") << op;
}

}  // namespace backends_test
}  // namespace hone::ops
