// The soft cap of logits, alone and in everything that reads logits, beside autograd in fp64.
#include "ops/head/soft_cap.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/process/instruction_level.h"
#include "ops/head/head_rows.h"
#include "ops/head/linear_logprob.h"

namespace hone::ops {
namespace soft_cap_test {

double relative(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>() /
         b.to(at::kDouble).abs().max().item<double>();
}

TEST(SoftCap, IsTanhElementByElement) {
  at::manual_seed(1);
  const at::Tensor x = at::cat({at::randn({7, 40}) * 60, at::randn({7, 33}) * 1e-3}, 1);
  const at::Tensor exact = (x.to(at::kDouble) / 30).tanh() * 30;
  const at::Tensor y = x.clone();
  soft_cap_into(y, 30);
  EXPECT_LT(((y - exact).abs() / exact.abs()).max().item<double>(), 5e-7);
  const at::Tensor edges = at::tensor({NAN, INFINITY, -INFINITY, 0.0F}).unsqueeze(0).clone();
  soft_cap_into(edges, 2);
  EXPECT_TRUE(std::isnan(edges[0][0].item<float>()));
  EXPECT_NEAR(edges[0][1].item<float>(), 2, 1e-6);
  EXPECT_NEAR(edges[0][2].item<float>(), -2, 1e-6);
  EXPECT_EQ(edges[0][3].item<float>(), 0);
}

constexpr double kCap = 3;
const std::vector<std::int64_t> kIds = {2080, 7, 1024, 31};

struct Case {
  at::Tensor hidden, head, own, targets, d_logprob, d_entropy;
};

Case make(std::int64_t n) {
  constexpr std::int64_t kVocabulary = 2090, kWidth = 48;
  at::manual_seed(n);
  Case c{.hidden = at::randn({n, kWidth}) * 2,
         .head = at::randn({kVocabulary, kWidth}) / 7,
         .own = at::randn({static_cast<std::int64_t>(kIds.size()), kWidth}) / 4,
         .targets = at::randint(0, kVocabulary, {n}, at::kLong),
         .d_logprob = at::randn({n}),
         .d_entropy = at::randn({n})};
  for (std::int64_t i = 0; i < n; i += 2) c.targets[i] = kIds[static_cast<std::size_t>(i / 2) % kIds.size()];
  return c;
}

struct Judged {
  at::Tensor logprob, entropy, mean, d_hidden, d_head;
};

// In fp64 under autograd, of the loss sum(d_logprob logprob + d_entropy entropy).
Judged judge(const Case& c, double temperature, bool entropy) {
  const at::Tensor h = c.hidden.to(at::kDouble).detach().requires_grad_(true);
  const at::Tensor w = c.head.to(at::kDouble).index_copy(0, at::tensor(kIds), c.own.to(at::kDouble));
  const at::Tensor leaf = w.detach().requires_grad_(true);
  const at::Tensor logits = soft_cap(at::matmul(h, leaf.t()), kCap);
  const at::Tensor z = at::log_softmax(logits / temperature, 1);
  Judged out{.logprob = z.gather(1, c.targets.unsqueeze(1)).squeeze(1), .entropy = -(z.exp() * z).sum(1)};
  out.mean = logits.mean(1);
  at::Tensor loss = (out.logprob * c.d_logprob).sum();
  if (entropy) loss = loss + (out.entropy * c.d_entropy).sum();
  loss.backward();
  out.d_hidden = h.grad();
  out.d_head = leaf.grad();
  return out;
}

TEST(SoftCap, OfLogProbabilitiesAndAllTheirGradients) {
  for (const base::InstructionLevel level : base::kInstructionLevels) {
    if (!base::machine_has(level)) continue;
    const base::ForceInstructionLevel force(level);
    for (const double temperature : {1.0, 0.6}) {
      for (const bool entropy : {false, true}) {
        const Case c = make(37);
        const Judged judged = judge(c, temperature, entropy);
        const HeadRows own{.ids = kIds, .rows = c.own};
        const TokenLogprobs found = linear_logprob(c.hidden, c.head, c.targets,
                                                   {.gradient = true,
                                                    .temperature = temperature,
                                                    .own = &own,
                                                    .soft_cap = kCap,
                                                    .mean_logit = true});
        EXPECT_LT(relative(found.logprob, judged.logprob), 2e-6);
        EXPECT_LT(relative(found.entropy, judged.entropy), 2e-6);
        EXPECT_LT(relative(found.mean_logit, judged.mean), 2e-5);
        at::Tensor d = found.gradient * c.d_logprob.unsqueeze(1);
        if (entropy) {
          d = d + entropy_backward(c.hidden, c.head, found.log_sum, found.entropy, c.d_entropy, temperature,
                                   &own, kCap);
        }
        EXPECT_LT(relative(d, judged.d_hidden), 5e-6) << temperature << entropy;
        const at::Tensor d_rows = at::zeros_like(c.own);
        add_head_rows_gradient(d_rows, own, found.own_logits,
                               {.hidden = c.hidden,
                                .targets = c.targets,
                                .log_sum = found.log_sum,
                                .d_logprob = c.d_logprob,
                                .entropy = found.entropy,
                                .d_entropy = entropy ? c.d_entropy : at::Tensor(),
                                .temperature = temperature,
                                .soft_cap = kCap});
        EXPECT_LT(relative(d_rows, judged.d_head.index_select(0, at::tensor(kIds))), 5e-6);
        const Weight written = c.head.index_copy(0, at::tensor(kIds), c.own);
        const at::Tensor d_head = at::zeros_like(c.head);
        add_head_gradient(d_head, written,
                          {.hidden = c.hidden,
                           .targets = c.targets,
                           .log_sum = found.log_sum,
                           .d_logprob = c.d_logprob,
                           .entropy = found.entropy,
                           .d_entropy = entropy ? c.d_entropy : at::Tensor(),
                           .temperature = temperature,
                           .soft_cap = kCap});
        EXPECT_LT(relative(d_head, judged.d_head), 5e-6);
      }
    }
  }
}

// What a sampler records is what a trainer computes.
TEST(SoftCap, OfASamplersLogitsGivesTheSameBits) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const Case c = make(5);
    const at::Tensor hidden = c.hidden.to(dtype);
    const Weight head = c.head.to(dtype);
    const at::Tensor logits = head_logits(hidden, head);
    soft_cap_into(logits, kCap);
    const TokenLogprobs sampled = logprob_of(logits, c.targets, 0.8),
                        trained = linear_logprob(hidden, head, c.targets,
                                                 {.gradient = true, .temperature = 0.8, .soft_cap = kCap});
    if (dtype == at::kBFloat16 && Weight::can_pack(c.head.to(dtype))) {
      EXPECT_TRUE(at::equal(sampled.logprob, trained.logprob));
      EXPECT_TRUE(at::equal(sampled.entropy, trained.entropy));
    }
    EXPECT_LT(relative(sampled.logprob, trained.logprob), 1e-5);
  }
}

}  // namespace soft_cap_test
}  // namespace hone::ops
