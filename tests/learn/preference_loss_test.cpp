// Against TRL's own code (tests/parity/record_preference.py), in fp64.
#include "learn/preference_loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace hone::learn {
namespace preference_loss_test {

using nlohmann::json;

constexpr double kTolerance = 1e-8;  // of the goldens' 10 digits
// alpha_divergence is recorded in fp32; exo_pair's epsilon is fp32 in TRL
constexpr double kFp32Tolerance = 2e-6;
constexpr double kGradientRounding = 1e-7;  // d_logprob is fp32

const json& golden() {
  static const json value = [] {
    std::ifstream file(HONE_FIXTURES "/parity/learn/preference_loss.json");
    return json::parse(file);
  }();
  return value;
}

at::Tensor tensor_of(const json& list) {
  const auto values = list.get<std::vector<double>>();
  at::Tensor out = at::empty({static_cast<std::int64_t>(values.size())}, at::kDouble);
  std::copy(values.begin(), values.end(), out.mutable_data_ptr<double>());
  return out;
}

PreferenceLossOptions options_of(const json& given) {
  PreferenceLossOptions out;
  out.terms.clear();
  for (std::size_t i = 0; i < given.at("loss_type").size(); ++i) {
    const auto name = given.at("loss_type").at(i).get<std::string>();
    const double weight = given.contains("loss_weights") ? given.at("loss_weights").at(i).get<double>() : 1.0;
    out.terms.push_back({preference_loss_type(name), weight});
  }
  out.beta = given.value("beta", out.beta);
  out.label_smoothing = given.value("label_smoothing", out.label_smoothing);
  out.f_divergence = f_divergence(given.value("f_divergence_type", "reverse_kl"));
  out.f_alpha_divergence_coef = given.value("f_alpha_divergence_coef", out.f_alpha_divergence_coef);
  out.discopop_tau = given.value("discopop_tau", out.discopop_tau);
  if (given.contains("ld_alpha")) out.ld_alpha = given.at("ld_alpha").get<double>();
  out.use_weighting = given.value("use_weighting", false);
  return out;
}

PreferenceTokens tokens_of(const PreferenceLossOptions& options) {
  const json& recorded = golden().at("tokens");
  PreferenceTokens out;
  out.scored = recorded.at("scored").get<std::vector<std::int64_t>>();
  out.completion = recorded.at("completion").get<std::vector<std::int64_t>>();
  out.logprob = tensor_of(recorded.at("logprob"));
  out.log_sum_squares = tensor_of(recorded.at("log_sum_squares"));
  out.entropy = tensor_of(recorded.at("entropy"));
  out.mean_logit = tensor_of(recorded.at("mean_logit"));
  out.is_top1 = tensor_of(recorded.at("is_top1"));
  out.reference = sum_logps(tensor_of(recorded.at("ref")), out.scored, options.ld_alpha);
  return out;
}

class PreferenceLoss : public testing::TestWithParam<std::string> {};

TEST_P(PreferenceLoss, EqualsTrl) {
  const json& recorded = golden().at("cases").at(GetParam());
  const PreferenceLossOptions options = options_of(recorded.at("options"));
  const PreferenceGradient found = preference_gradient(tokens_of(options), options);
  const bool in_fp32 =
      options.f_divergence == FDivergence::kAlphaDivergence || GetParam().starts_with("exo_pair");
  const double bound = in_fp32 ? kFp32Tolerance : kTolerance;
  const auto near = [&](double ours, double theirs, double tolerance, const std::string& what) {
    EXPECT_LE(std::abs(ours - theirs), tolerance * std::max(1.0, std::abs(theirs)))
        << what << ": " << ours << " and TRL's " << theirs;
  };
  near(found.loss, recorded.at("loss").get<double>(), bound, "loss");
  const std::map<std::string, double> metrics(found.metrics.begin(), found.metrics.end());
  EXPECT_EQ(metrics.size(), recorded.at("metrics").size());
  // TRL's entropy and accuracies are fp32 means
  for (const auto& [name, value] : recorded.at("metrics").items()) {
    ASSERT_TRUE(metrics.contains(name)) << name;
    near(metrics.at(name), value.get<double>(), std::max(bound, 1e-6), name);
  }
  const at::Tensor theirs = tensor_of(recorded.at("gradient"));
  ASSERT_EQ(found.d_logprob.sizes(), theirs.sizes());
  ASSERT_EQ(found.d_logprob.scalar_type(), at::kFloat);
  const double scale = theirs.abs().max().item<double>();
  EXPECT_GT(scale, 0);
  EXPECT_LE((found.d_logprob.to(at::kDouble) - theirs).abs().max().item<double>(),
            (bound + kGradientRounding) * scale);
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const auto& [name, value] : golden().at("cases").items()) out.push_back(name);
  return out;
}
INSTANTIATE_TEST_SUITE_P(Cases, PreferenceLoss, testing::ValuesIn(names()),
                         [](const auto& one) { return one.param; });

TEST(PreferenceLossTest, EveryTypeIsRecorded) {
  EXPECT_EQ(golden().at("cases").at("all").at("options").at("loss_type").size(), 15U);
  EXPECT_THROW(preference_loss_type("sigmod"), base::InternalError);
  EXPECT_THROW(f_divergence("kl"), base::InternalError);
}

// Policy and reference alike: the identity that a run's first step must show.
TEST(PreferenceLossTest, BeginsAtLogTwo) {
  PreferenceTokens tokens = tokens_of({});
  tokens.reference = sum_logps(tokens.logprob, tokens.scored, std::nullopt);
  EXPECT_NEAR(preference_gradient(tokens, {}).loss, std::log(2.0), 1e-12);
}

// What TRL's in-place product makes torch refuse, hone computes: hinge and sft under WPO.
TEST(PreferenceLossTest, WeightingMultipliesEachPair) {
  PreferenceLossOptions options;
  options.use_weighting = true;
  PreferenceTokens tokens = tokens_of(options);
  tokens.log_sum_squares = tokens.logprob.clone();  // every weight is exp(0)
  for (const auto type : {PreferenceLossType::kHinge, PreferenceLossType::kSft}) {
    options.terms = {{type, 1}};
    PreferenceLossOptions plain = options;
    plain.use_weighting = false;
    EXPECT_NEAR(preference_gradient(tokens, options).loss, preference_gradient(tokens, plain).loss, 1e-12);
  }
}

TEST(PreferenceLossTest, GradientIsThatOfFiniteDifferences) {
  PreferenceLossOptions options;
  options.ld_alpha = 0.5;
  options.terms = {{PreferenceLossType::kAot, 1}, {PreferenceLossType::kSft, 0.5}};
  PreferenceTokens tokens = tokens_of(options);
  const at::Tensor gradient = preference_gradient(tokens, options).d_logprob;
  constexpr double kStep = 1e-5;
  for (std::int64_t i = 0; i < gradient.size(0); i += 5) {
    const at::Tensor kept = tokens.logprob;
    const auto loss_at = [&](double by) {
      tokens.logprob = kept.clone();
      tokens.logprob[i] += by;
      return preference_gradient(tokens, options).loss;
    };
    const double slope = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
    tokens.logprob = kept;
    EXPECT_NEAR(gradient[i].item<double>(), slope, 1e-7) << i;
  }
}

}  // namespace preference_loss_test
}  // namespace hone::learn
