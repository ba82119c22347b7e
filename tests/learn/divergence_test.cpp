// The divergence of two models against TRL's own code (tests/parity/record_divergence.py), against its definition in fp64
// and against differences of that.
#include "learn/divergence/divergence.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "golden.h"

namespace hone::learn {
namespace divergence_test {

using nlohmann::json;

const json& golden() {
  static const json value = [] {
    std::ifstream file(HONE_FIXTURES "/parity/learn/divergence.json");
    return json::parse(file);
  }();
  return value;
}

// The largest difference, as a share of the largest of `right`.
double apart(const at::Tensor& left, const at::Tensor& right) {
  const at::Tensor wide = right.to(at::kDouble);
  return (left.to(at::kDouble) - wide).abs().max().item<double>() / wide.abs().max().item<double>();
}

DivergenceHead recorded_head(const std::string& name) {
  const json& one = golden().at(name);
  return {.hidden = test::tensor_of(one.at("hidden")).view({5, -1}),
          .weight = test::tensor_of(one.at("weight")).view({13, -1})};
}

class DivergenceOfTrl : public testing::TestWithParam<std::string> {};

TEST_P(DivergenceOfTrl, IsOurs) {
  const json& recorded = golden().at("cases").at(GetParam());
  const json& options = recorded.at("options");
  DivergenceHead student = recorded_head("student"), teacher = recorded_head("teacher");
  student.soft_cap = options.value("student_cap", 0.0);
  teacher.soft_cap = options.value("teacher_cap", 0.0);
  const DivergenceTrained trained{.weight = at::zeros({13, 4})};
  const DivergenceRows found = divergence_gradient(
      student, teacher, {.beta = options.at("beta"), .temperature = options.at("temperature")},
      golden().at("upstream").get<double>(), trained);
  const auto near = [&](const at::Tensor& ours, const char* name) {
    EXPECT_LT(apart(ours.flatten(), test::tensor_of(recorded.at(name))), 1e-5) << name;
  };
  near(found.divergence, "divergence");
  near(found.entropy, "entropy");
  near(found.d_hidden, "d_hidden");
  near(trained.weight, "d_weight");
  if (recorded.contains("gkd")) {
    EXPECT_NEAR(found.divergence.sum().item<double>(), recorded.at("gkd").get<double>(), 2e-5);
  }
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const auto& [name, value] : golden().at("cases").items()) out.push_back(name);
  return out;
}
INSTANTIATE_TEST_SUITE_P(Cases, DivergenceOfTrl, testing::ValuesIn(names()), [](const auto& one) {
  std::string name = one.param;
  for (char& c : name) c = c == '.' ? '_' : c;
  return name;
});

// ---- the definition

struct Case {
  DivergenceHead student, teacher;
  DivergenceOptions options;
};

// More rows and columns than a tile has.
Case make_case(double beta, double temperature, double soft_cap, std::int64_t n = 260,
               std::int64_t vocabulary = 1060, at::ScalarType dtype = at::kFloat) {
  at::manual_seed(7);
  const auto head = [&](std::int64_t width) -> DivergenceHead {
    return {.hidden = at::randn({n, width}).to(dtype),
            .weight = (at::randn({vocabulary, width}) / 2).to(dtype)};
  };
  Case out{.student = head(16), .teacher = head(32), .options = {.beta = beta, .temperature = temperature}};
  out.student.soft_cap = soft_cap;
  return out;
}

at::Tensor wide_logits(const at::Tensor& hidden, const at::Tensor& weight, double cap, double temperature) {
  at::Tensor z = hidden.matmul(weight.t());
  if (cap > 0) z = (z / cap).tanh() * cap;
  return z / temperature;
}

// The sum of D, of whole logits in fp64.
at::Tensor defined_sum(const Case& c, const at::Tensor& hidden, const at::Tensor& weight) {
  const double beta = c.options.beta;
  const at::Tensor s =
      at::log_softmax(wide_logits(hidden, weight, c.student.soft_cap, c.options.temperature), 1);
  const at::Tensor t =
      at::log_softmax(wide_logits(c.teacher.hidden.to(at::kDouble), c.teacher.weight.dense().to(at::kDouble),
                                  c.teacher.soft_cap, c.options.temperature),
                      1);
  const auto kl = [](const at::Tensor& p, const at::Tensor& q) { return (p.exp() * (p - q)).sum(); };
  if (beta == 0) return kl(t, s);
  if (beta == 1) return kl(s, t);
  const at::Tensor m = ((1 - beta) * s.exp() + beta * t.exp()).log();
  return beta * kl(t, m) + (1 - beta) * kl(s, m);
}

struct Judge {
  double sum;
  at::Tensor d_hidden, d_weight;
};

Judge judge(const Case& c) {
  const at::Tensor hidden = c.student.hidden.to(at::kDouble).detach().requires_grad_(true);
  const at::Tensor weight = c.student.weight.dense().to(at::kDouble).detach().requires_grad_(true);
  const at::Tensor sum = defined_sum(c, hidden, weight);
  sum.backward();
  return {.sum = sum.item<double>(), .d_hidden = hidden.grad(), .d_weight = weight.grad()};
}

constexpr double kBetas[] = {0, 0.1, 0.5, 1};

TEST(Divergence, AgreesWithFp64OverTiles) {
  for (const double beta : kBetas) {
    for (const double cap : {0.0, 3.0}) {
      const Case c = make_case(beta, 0.8, cap);
      const Judge truth = judge(c);
      const DivergenceTrained trained{.weight = at::zeros({1060, 16})};
      const DivergenceRows found = divergence_gradient(c.student, c.teacher, c.options, 0.5, trained);
      EXPECT_NEAR(found.divergence.sum().item<double>() / truth.sum, 1, 1e-6) << beta;
      EXPECT_LT(apart(found.d_hidden, truth.d_hidden / 2), 5e-6) << beta << " " << cap;
      EXPECT_LT(apart(trained.weight, truth.d_weight / 2), 5e-6) << beta << " " << cap;
      const DivergenceRows value = divergence(c.student, c.teacher, c.options);
      EXPECT_TRUE(at::equal(value.divergence, found.divergence) && at::equal(value.entropy, found.entropy));
      EXPECT_FALSE(value.d_hidden.defined());
    }
  }
}

TEST(Divergence, GradientIsThatOfDifferencesInFp64) {
  for (const double beta : kBetas) {
    const Case c = make_case(beta, 0.7, 2.5, 3, 40);
    const at::Tensor weight = c.student.weight.dense().to(at::kDouble);
    const DivergenceRows found = divergence_gradient(c.student, c.teacher, c.options, 1);
    for (std::int64_t i = 0; i < found.d_hidden.numel(); i += 5) {
      const auto sum_at = [&](double by) {
        const at::Tensor hidden = c.student.hidden.to(at::kDouble);
        hidden.view({-1})[i] += by;
        return defined_sum(c, hidden, weight).item<double>();
      };
      const double slope = (sum_at(1e-5) - sum_at(-1e-5)) / 2e-5;
      EXPECT_NEAR(found.d_hidden.view({-1})[i].item<double>(), slope, 2e-6 * std::max(1.0, std::abs(slope)))
          << beta << " " << i;
    }
  }
}

// The bf16 head against fp64 of the same numbers.
TEST(Divergence, AgreesInBf16) {
  for (const double beta : kBetas) {
    const Case c = make_case(beta, 1, 0, 40, 1060, at::kBFloat16);
    const Judge truth = judge(c);
    const DivergenceRows found = divergence_gradient(c.student, c.teacher, c.options, 1);
    EXPECT_NEAR(found.divergence.sum().item<double>() / truth.sum, 1, 2e-2) << beta;
    EXPECT_LT(apart(found.d_hidden, truth.d_hidden), 3e-2) << beta;
  }
}

TEST(Divergence, OfAModelAndItselfIsZero) {
  for (const double beta : kBetas) {
    Case c = make_case(beta, 0.7, 0);
    const DivergenceRows found = divergence_gradient(c.student, c.student, c.options, 1);
    const double bound = beta == 0 || beta == 1 ? 0 : 2e-6;
    EXPECT_LE(found.divergence.abs().max().item<double>(), bound) << beta;
    EXPECT_LE(found.d_hidden.abs().max().item<double>(), bound) << beta;
  }
}

TEST(Divergence, OnlyTheMiddleIsSymmetric) {
  const auto sum = [](const Case& c, bool swap) {
    const DivergenceHead& first = swap ? c.teacher : c.student;
    const DivergenceHead& second = swap ? c.student : c.teacher;
    return divergence(first, second, c.options).divergence.sum().item<double>();
  };
  const Case half = make_case(0.5, 1, 0), quarter = make_case(0.25, 1, 0);
  EXPECT_NEAR(sum(half, false) / sum(half, true), 1, 1e-6);
  EXPECT_GT(std::abs(sum(quarter, false) / sum(quarter, true) - 1), 1e-3);
  const Case forward = make_case(0, 1, 0), reverse = make_case(1, 1, 0);
  EXPECT_NEAR(sum(forward, true) / sum(reverse, false), 1, 1e-6);
}

// Rows of the head that an adapter trains: as the head with these rows replaced.
TEST(Divergence, TrainsRowsOfTheHead) {
  for (const double beta : kBetas) {
    Case c = make_case(beta, 0.8, 3);
    const ops::HeadRows own{.ids = {1030, 5}, .rows = at::randn({2, 16})};
    const at::Tensor ids = at::empty({2}, at::kLong);
    ids[0] = own.ids[0];
    ids[1] = own.ids[1];
    Case replaced = c;
    replaced.student.weight = c.student.weight.dense().index_copy(0, ids, own.rows.dense());
    const Judge truth = judge(replaced);
    c.student.own = &own;
    const DivergenceTrained trained{.own = at::zeros({2, 16})};
    const DivergenceRows found = divergence_gradient(c.student, c.teacher, c.options, 1, trained);
    EXPECT_LT(apart(found.d_hidden, truth.d_hidden), 5e-6) << beta;
    EXPECT_LT(apart(trained.own, truth.d_weight.index_select(0, ids)), 5e-6) << beta;
  }
}

TEST(Divergence, ARowDoesNotDependOnTheOthers) {
  const Case c = make_case(0.5, 1, 0);
  DivergenceHead student = c.student, teacher = c.teacher;
  student.hidden = student.hidden.narrow(0, 250, 10);
  teacher.hidden = teacher.hidden.narrow(0, 250, 10);
  const at::Tensor all = divergence(c.student, c.teacher, c.options).divergence.narrow(0, 250, 10);
  EXPECT_LT(apart(divergence(student, teacher, c.options).divergence, all), 1e-6);
}

TEST(Divergence, TakesNoRowsAndRefusesWhatDoesNotFit) {
  const Case c = make_case(1, 1, 0, 3, 40);
  Case none = make_case(1, 1, 0, 0, 40);
  EXPECT_EQ(divergence_gradient(none.student, none.teacher, none.options, 1).d_hidden.size(0), 0);
  EXPECT_THROW(divergence(c.student, none.teacher, c.options), base::InternalError);
  EXPECT_THROW(divergence(c.student, make_case(1, 1, 0, 3, 41).teacher, c.options), base::InternalError);
  EXPECT_THROW(divergence(c.student, c.teacher, {.beta = 1.1}), base::InternalError);
  EXPECT_THROW(divergence(c.student, c.teacher, {.temperature = 0}), base::InternalError);
  none.student.hidden = c.student.hidden.to(at::kBFloat16);
  EXPECT_THROW(divergence(none.student, c.teacher, c.options), base::InternalError);
}

TEST(Divergence, NamesItsScratch) {
  EXPECT_EQ(divergence_bytes(10000, 150000, at::kBFloat16), divergence_bytes(256, 1024, at::kBFloat16));
  EXPECT_LT(divergence_bytes(10000, 150000, at::kFloat), 16 << 20);
}

}  // namespace divergence_test
}  // namespace hone::learn
