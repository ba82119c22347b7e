// CPO and ORPO against TRL's own code (tests/parity/record_cpo.py), in fp64.
#include "learn/cpo_loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "learn/orpo_loss.h"

namespace hone::learn {
namespace cpo_loss_test {

using nlohmann::json;

constexpr double kTolerance = 1e-8;      // of the goldens' 10 digits
constexpr double kFp32Tolerance = 2e-6;  // TRL's odds ratio, and its accuracies, are fp32
constexpr double kGradientRounding = 1e-7;

const json& golden() {
  static const json value = [] {
    std::ifstream file(HONE_FIXTURES "/parity/learn/cpo_loss.json");
    return json::parse(file);
  }();
  return value;
}

at::Tensor tensor_of(const json& list, const json& more = json::array()) {
  auto values = list.get<std::vector<double>>();
  for (const json& one : more) values.push_back(one);
  at::Tensor out = at::empty({static_cast<std::int64_t>(values.size())}, at::kDouble);
  std::copy(values.begin(), values.end(), out.mutable_data_ptr<double>());
  return out;
}

PairLogprobs tokens_of(bool with_prompts) {
  const json& recorded = golden().at("tokens");
  return {.scored = recorded.at("scored").get<std::vector<std::int64_t>>(),
          .logprob =
              tensor_of(recorded.at("logprob"), with_prompts ? recorded.at("prompt_logprob") : json::array()),
          .mean_logit = {}};
}

CpoLossOptions options_of(const json& given) {
  CpoLossOptions out;
  out.type = cpo_loss_type(given.value("loss_type", "sigmoid"));
  out.beta = given.value("beta", out.beta);
  out.label_smoothing = given.value("label_smoothing", out.label_smoothing);
  out.cpo_alpha = given.value("cpo_alpha", out.cpo_alpha);
  out.simpo_gamma = given.value("simpo_gamma", out.simpo_gamma);
  out.alpha = given.value("alpha", out.alpha);
  return out;
}

// Of a case of record_cpo.py, or of its options with other tokens.
ReferenceFreeGradient gradient_of(const json& recorded, const PairLogprobs& tokens) {
  const json& options = recorded.at("options");
  if (recorded.at("method") == "orpo") return orpo_gradient(tokens, {.beta = options.value("beta", 0.1)});
  return cpo_gradient(tokens, options_of(options));
}

class CpoLoss : public testing::TestWithParam<std::string> {
 protected:
  const json& recorded() const { return golden().at("cases").at(GetParam()); }
  bool is_orpo() const { return recorded().at("method") == "orpo"; }
};

TEST_P(CpoLoss, EqualsTrl) {
  const ReferenceFreeGradient found = gradient_of(recorded(), tokens_of(is_orpo()));
  const double bound = is_orpo() ? kFp32Tolerance : kTolerance;
  const auto near = [&](double ours, double theirs, const std::string& what) {
    EXPECT_LE(std::abs(ours - theirs), bound * std::max(1.0, std::abs(theirs)))
        << what << ": " << ours << " and TRL's " << theirs;
  };
  near(found.loss, recorded().at("loss").get<double>(), "loss");
  const std::map<std::string, double> metrics(found.metrics.begin(), found.metrics.end());
  EXPECT_EQ(metrics.size(), recorded().at("metrics").size());
  for (const auto& [name, value] : recorded().at("metrics").items()) {
    ASSERT_TRUE(metrics.contains(name)) << name;
    near(metrics.at(name), value.get<double>(), name);
  }
  const at::Tensor theirs = tensor_of(recorded().at("gradient"));
  ASSERT_EQ(found.d_logprob.sizes(), theirs.sizes());
  ASSERT_EQ(found.d_logprob.scalar_type(), at::kFloat);
  const double scale = theirs.abs().max().item<double>();
  EXPECT_GT(scale, 0);
  EXPECT_LE((found.d_logprob.to(at::kDouble) - theirs).abs().max().item<double>(),
            (bound + kGradientRounding) * scale);
}

TEST_P(CpoLoss, GradientIsThatOfFiniteDifferences) {
  PairLogprobs tokens = tokens_of(is_orpo());
  const at::Tensor gradient = gradient_of(recorded(), tokens).d_logprob;
  const at::Tensor kept = tokens.logprob;
  constexpr double kStep = 1e-5;
  for (std::int64_t i = 0; i < gradient.size(0); i += 3) {
    const auto loss_at = [&](double by) {
      tokens.logprob = kept.clone();
      tokens.logprob[i] += by;
      return gradient_of(recorded(), tokens).loss;
    };
    const double slope = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
    EXPECT_NEAR(gradient[i].item<double>(), slope, 1e-6 * std::max(1.0, std::abs(slope))) << i;
  }
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const auto& [name, value] : golden().at("cases").items()) out.push_back(name);
  return out;
}
INSTANTIATE_TEST_SUITE_P(Cases, CpoLoss, testing::ValuesIn(names()),
                         [](const auto& one) { return one.param; });

std::map<std::string, double> metrics_with_logits(bool with_prompts) {
  PairLogprobs tokens = tokens_of(with_prompts);
  tokens.mean_logit = at::arange(tokens.logprob.numel(), at::kDouble);
  const ReferenceFreeGradient found =
      with_prompts ? orpo_gradient(tokens, {}) : cpo_gradient(tokens, CpoLossOptions());
  return {found.metrics.begin(), found.metrics.end()};
}

// The logits of a side are those at its completions' tokens: chosen has 0 to 4, 8, 9, 16 to 19 and 25.
TEST(CpoLossTest, LogitsAreOfCompletions) {
  for (const bool orpo : {false, true}) {
    const std::map<std::string, double> metrics = metrics_with_logits(orpo);
    EXPECT_DOUBLE_EQ(metrics.at("logits/chosen"), (10 + 17 + 70 + 25) / 12.0);
    EXPECT_DOUBLE_EQ(metrics.at("logits/rejected"), (26.0 * 27 / 2 - 10 - 17 - 70 - 25) / 15.0);
  }
}

// TRL's loss is then not a number.
TEST(CpoLossTest, ACertainCompletionHasALoss) {
  PairLogprobs tokens = tokens_of(/*with_prompts=*/true);
  tokens.logprob.narrow(0, 0, 5).zero_();
  const ReferenceFreeGradient found = orpo_gradient(tokens, {});
  EXPECT_TRUE(std::isfinite(found.loss));
  EXPECT_TRUE(found.d_logprob.isfinite().all().item<bool>());
}

TEST(CpoLossTest, KnowsTrlsNames) {
  EXPECT_EQ(cpo_loss_type("alphapo"), CpoLossType::kSimpo);
  EXPECT_THROW(cpo_loss_type("kto_pair"), base::InternalError);
  EXPECT_EQ(golden().at("cases").size(), 21U);
}

TEST(CpoLossTest, TakesPairsWithTokens) {
  PairLogprobs tokens = tokens_of(/*with_prompts=*/false);
  tokens.scored.back() = 0;
  EXPECT_THROW(cpo_gradient(tokens, CpoLossOptions()), base::InternalError);
  tokens.scored.pop_back();
  EXPECT_THROW(orpo_gradient(tokens, {}), base::InternalError);
}

}  // namespace cpo_loss_test
}  // namespace hone::learn
