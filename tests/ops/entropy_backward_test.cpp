// entropy_backward beside autograd in fp64.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/process/instruction_level.h"
#include "ops/head/linear_logprob.h"

namespace hone::ops {
namespace entropy_backward_test {

class EntropyBackward : public testing::TestWithParam<base::InstructionLevel> {
 protected:
  void SetUp() override {
    if (!base::machine_has(GetParam())) GTEST_SKIP() << "this machine has no " << name_of(GetParam());
    force_ = std::make_unique<base::ForceInstructionLevel>(GetParam());
  }

 private:
  std::unique_ptr<base::ForceInstructionLevel> force_;
};

struct Case {
  at::Tensor hidden, head, upstream;
};

Case make_case(std::int64_t n, std::int64_t width, std::int64_t vocabulary, at::ScalarType dtype) {
  at::manual_seed(n + width + vocabulary);
  return {.hidden = (at::randn({n, width}) * 2).to(dtype),
          .head = (at::randn({vocabulary, width}) / std::sqrt(static_cast<double>(width))).to(dtype),
          .upstream = at::randn({n})};
}

at::Tensor judge(const Case& c, double temperature) {
  const at::Tensor h = c.hidden.to(at::kDouble).detach().requires_grad_(true);
  const at::Tensor z = at::log_softmax(at::matmul(h, c.head.to(at::kDouble).t()) / temperature, 1);
  (-(z.exp() * z).sum(1) * c.upstream.to(at::kDouble)).sum().backward();
  return h.grad();
}

at::Tensor mine(const Case& c, const Weight& head, double temperature) {
  const TokenLogprobs facts =
      linear_logprob(c.hidden, head, at::zeros({c.hidden.size(0)}, at::kLong), {.temperature = temperature});
  return entropy_backward(c.hidden, head, facts.log_sum, facts.entropy, c.upstream, temperature);
}

double relative(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b).abs().max().item<double>() / b.abs().max().item<double>();
}

TEST_P(EntropyBackward, AgreesWithFp64) {
  for (const std::int64_t n : {1, 33, 1030}) {
    for (const std::int64_t vocabulary : {2, 1024, 2090}) {
      for (const double temperature : {1.0, 0.7, 3.0}) {
        const Case c = make_case(n, 24, vocabulary, at::kFloat);
        EXPECT_LT(relative(mine(c, c.head, temperature), judge(c, temperature)), 1e-5)
            << n << " " << vocabulary << " / " << temperature;
      }
    }
  }
}

TEST_P(EntropyBackward, AgreesInBf16AndOverAPack) {
  const Case c = make_case(37, 64, 2081, at::kBFloat16);
  const at::Tensor plain = mine(c, c.head, 0.8);
  EXPECT_EQ(plain.scalar_type(), at::kFloat);
  const bool own_gemm = GetParam() != base::InstructionLevel::kPlain && Weight::can_pack(c.head);
  EXPECT_LT(relative(plain, judge(c, 0.8)), own_gemm ? 5e-3 : 3e-2);
  if (!own_gemm) return;
  EXPECT_TRUE(at::equal(mine(c, Weight::packed_where_possible(c.head), 0.8), plain));
}

TEST_P(EntropyBackward, OneTokenHasNoEntropyToRaise) {
  const Case c = make_case(3, 8, 1, at::kFloat);
  EXPECT_EQ(mine(c, c.head, 1).abs().max().item<double>(), 0);
}

TEST_P(EntropyBackward, RefusesWhatIsNotOfItsShape) {
  const Case c = make_case(3, 8, 40, at::kFloat);
  const at::Tensor rows = at::ones({3});
  EXPECT_EQ(entropy_backward(c.hidden.narrow(0, 0, 0), c.head, rows.narrow(0, 0, 0), rows.narrow(0, 0, 0),
                             rows.narrow(0, 0, 0))
                .size(0),
            0);
  EXPECT_THROW(entropy_backward(c.hidden, c.head, rows, rows, at::ones({2})), base::InternalError);
  EXPECT_THROW(entropy_backward(c.hidden, c.head, rows, rows, rows, 0), base::InternalError);
  EXPECT_THROW(entropy_backward(c.hidden.to(at::kBFloat16), c.head, rows, rows, rows), base::InternalError);
}

INSTANTIATE_TEST_SUITE_P(Levels, EntropyBackward, testing::ValuesIn(base::kInstructionLevels),
                         [](const auto& level) { return name_of(level.param); });

}  // namespace entropy_backward_test
}  // namespace hone::ops
