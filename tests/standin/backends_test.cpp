// The list of the operators' cases (ops/cases) on the stand-in, as it is and with backends of its own.
#include <gtest/gtest.h>

#include <set>

#include "ops/backend/operators.h"
#include "ops/cases/check.h"
#include "standin/cuda_only.h"
#include "standin/standin.h"

namespace hone::standin {
namespace backends_test {

namespace cases = ops::cases;

class OnTheStandin : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Operators, OnTheStandin, testing::ValuesIn(cases::operators()),
                         [](const auto& one) { return one.param; });

TEST_P(OnTheStandin, AnOperatorIsItsDefinition) {
  EXPECT_EQ(cases::told(cases::check_numbers(cases::cases_of(GetParam()), device())), "");
}

class TheCudaTable : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Operators, TheCudaTable, testing::ValuesIn(cases::operators()),
                         [](const auto& one) { return one.param; });

TEST_P(TheCudaTable, HasTheDefinitionsNumbers) {
  const UseCudaTable table;
  EXPECT_EQ(cases::told(cases::check_numbers(cases::cases_of(GetParam()), device())), "");
}

// What a new backend begins with: a table without kernels, for a type of devices.
class SecondBackend {
 public:
  explicit SecondBackend(const ops::backend::Operators& kernels) : table_(kernels) {
    table_.name = "second";
    ops::backend::register_operators(device().type(), &table_);
  }
  ~SecondBackend() { ops::backend::register_operators(device().type(), nullptr); }
  SecondBackend(const SecondBackend&) = delete;
  SecondBackend& operator=(const SecondBackend&) = delete;

 private:
  ops::backend::Operators table_;
};

std::multiset<std::string> failed() {
  std::multiset<std::string> operators;
  for (const cases::Failure& one : cases::check_numbers(cases::all_cases(), device()))
    operators.insert(one.op);
  return operators;
}

// "Slow": the next test holds it too, of every operator but one.
TEST(ASecondBackend, IsCorrectWithoutAKernelSlow) {
  const SecondBackend second({});
  EXPECT_STREQ(ops::backend::operators_of(device()).name, "second");
  EXPECT_TRUE(failed().empty());
}

TEST(ASecondBackend, WithOneWrongKernelFailsThatOperatorsCasesOnly) {
  ops::backend::Operators kernels;
  kernels.swiglu = [](const at::Tensor& out, const at::Tensor& gate, const at::Tensor& up, bool gelu_tanh) {
    const at::Tensor wide = gate.to(at::kDouble);
    out.copy_((gelu_tanh ? at::gelu(wide, "tanh") : at::silu(wide)) * up.to(at::kDouble) * 1.01);
    return true;
  };
  const SecondBackend second(kernels);
  const std::multiset<std::string> operators = failed();
  EXPECT_EQ(std::set<std::string>(operators.begin(), operators.end()), std::set<std::string>{"swiglu"});
  std::size_t expected = 0;  // not those of no rows, which have no wrong number
  for (const cases::Case& c : cases::cases_of("swiglu")) expected += c.exact()[0].numel() > 0 ? 1 : 0;
  EXPECT_EQ(operators.size(), expected);
}

}  // namespace backends_test
}  // namespace hone::standin
