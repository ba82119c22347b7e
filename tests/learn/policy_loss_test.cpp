#include "learn/policy_loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace hone::learn {
namespace policy_loss_test {

using nlohmann::json;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kTolerance = 1e-6;

const json& golden() {
  static const json value = [] {
    std::ifstream file(HONE_FIXTURES "/parity/learn/policy_loss.json");
    return json::parse(file);
  }();
  return value;
}

at::Tensor tensor_of(const json& list) {
  at::Tensor out = at::empty({static_cast<std::int64_t>(list.size())}, at::kDouble);
  for (std::size_t i = 0; i < list.size(); ++i)
    out[static_cast<std::int64_t>(i)] = list[i].is_null() ? kNan : list[i].get<double>();
  return out;
}

std::optional<double> optional_of(const json& options, const char* key, std::optional<double> otherwise) {
  if (!options.contains(key)) return otherwise;
  return options[key].get<double>();
}

PolicyLossOptions options_of(const json& recorded) {
  static const std::map<std::string, PolicyLossType> kTypes{
      {"grpo", PolicyLossType::kGrpo},      {"bnpo", PolicyLossType::kBnpo},
      {"dr_grpo", PolicyLossType::kDrGrpo}, {"dapo", PolicyLossType::kDapo},
      {"cispo", PolicyLossType::kCispo},    {"luspo", PolicyLossType::kLuspo},
      {"sapo", PolicyLossType::kSapo},      {"vespo", PolicyLossType::kVespo},
      {"gmpo", PolicyLossType::kGmpo}};
  static const std::map<std::string, SamplingCorrection> kModes{
      {"token_mask", SamplingCorrection::kTokenMask},
      {"token_truncate", SamplingCorrection::kTokenTruncate},
      {"sequence_mask", SamplingCorrection::kSequenceMask},
      {"sequence_truncate", SamplingCorrection::kSequenceTruncate}};
  const json& given = recorded["options"];
  PolicyLossOptions out;
  out.loss_type = recorded["trainer"] == "rloo" ? PolicyLossType::kRloo
                                                : kTypes.at(given["loss_type"].get<std::string>());
  if (given.value("importance_sampling_level", "token") == std::string("sequence"))
    out.importance_level = ImportanceLevel::kSequence;
  out.epsilon = recorded.value("epsilon", given.value("epsilon", out.epsilon));
  out.epsilon_high = optional_of(given, "epsilon_high", {});
  out.delta = optional_of(given, "delta", {});
  out.beta = given.value("beta", out.beta);
  out.use_bias_correction_kl = given.value("use_bias_correction_kl", true);
  out.mask_truncated_completions = given.value("mask_truncated_completions", false);
  out.top_entropy_quantile = given.value("top_entropy_quantile", 1.0);
  out.off_policy_mask_threshold = optional_of(given, "off_policy_mask_threshold", {});
  if (recorded["uses_sampling"])
    out.sampling_correction = kModes.at(given["vllm_importance_sampling_mode"].get<std::string>());
  out.importance_sampling_clip_min = optional_of(given, "vllm_importance_sampling_clip_min", {});
  out.importance_sampling_clip_max = optional_of(given, "vllm_importance_sampling_clip_max", 3.0);
  out.sapo_temperature_neg = given.value("sapo_temperature_neg", out.sapo_temperature_neg);
  out.sapo_temperature_pos = given.value("sapo_temperature_pos", out.sapo_temperature_pos);
  out.vespo_k_pos = given.value("vespo_k_pos", out.vespo_k_pos);
  out.vespo_k_neg = given.value("vespo_k_neg", out.vespo_k_neg);
  out.vespo_lambda_pos = given.value("vespo_lambda_pos", out.vespo_lambda_pos);
  out.vespo_lambda_neg = given.value("vespo_lambda_neg", out.vespo_lambda_neg);
  out.entropy_coef = given.value("entropy_coef", 0.0);
  out.max_completion_length = given.value("max_completion_length", 512.0);
  return out;
}

// The generation batch of a case.
PolicyTokens batch_of(const json& recorded, at::ScalarType dtype = at::kDouble) {
  const json& given = golden()["tokens"];
  PolicyTokens out{.logprob = tensor_of(given["logprob"]).to(dtype),
                   .entropy = tensor_of(given["entropy"]).to(dtype),
                   .advantages = tensor_of(recorded["advantages"]).to(dtype)};
  if (recorded["has_old"]) {
    const at::Tensor logprob = tensor_of(given["logprob"]);
    const double stretch = recorded["stretch"];  // a power of two: fp32 holds the result
    out.old_logprob = (logprob + stretch * (tensor_of(given["old"]) - logprob)).to(dtype);
  }
  if (recorded["options"].value("beta", 0.0) != 0) out.ref_logprob = tensor_of(given["ref"]).to(dtype);
  if (recorded["uses_sampling"]) out.sampling_logprob = tensor_of(given["sampling"]).to(dtype);
  if (recorded["uses_tool_mask"]) out.mask = tensor_of(given["tool_mask"]);
  const auto lengths = given["lengths"].get<std::vector<std::int64_t>>();
  std::vector<std::int64_t> sequence;
  for (std::size_t i = 0; i < lengths.size(); ++i)
    sequence.insert(sequence.end(), static_cast<std::size_t>(lengths[i]), static_cast<std::int64_t>(i));
  out.sequence = at::tensor(at::ArrayRef<std::int64_t>(sequence));
  out.truncated = at::zeros({static_cast<std::int64_t>(lengths.size())}, at::kBool);
  for (std::size_t i = 0; i < lengths.size(); ++i)
    out.truncated[static_cast<std::int64_t>(i)] = given["truncated"][i].get<bool>();
  return out;
}

at::Tensor pick(const at::Tensor& from, const at::Tensor& index) {
  return from.defined() ? from.index_select(0, index) : from;
}

// Sequences `rows` [k] of a batch; `kept` receives which of its tokens they are.
PolicyTokens part_of(const PolicyTokens& batch, const at::Tensor& rows, bool ratio_by_sequence,
                     at::Tensor& kept) {
  at::Tensor place = at::full({batch.advantages.size(0)}, -1, at::kLong);
  place.index_put_({rows}, at::arange(rows.size(0), at::kLong));
  const at::Tensor sequence = place.index_select(0, batch.sequence);
  kept = (sequence >= 0).nonzero().squeeze(1);
  return {.logprob = pick(batch.logprob, kept),
          .old_logprob = pick(batch.old_logprob, kept),
          .ref_logprob = pick(batch.ref_logprob, kept),
          .sampling_logprob = pick(batch.sampling_logprob, kept),
          .sampling_ratio = pick(batch.sampling_ratio, ratio_by_sequence ? rows : kept),
          .entropy = pick(batch.entropy, kept),
          .mask = pick(batch.mask, kept),
          .sequence = pick(sequence, kept),
          .advantages = pick(batch.advantages, rows),
          .truncated = pick(batch.truncated, rows)};
}

bool by_sequence(const PolicyLossOptions& options) {
  return options.sampling_correction == SamplingCorrection::kSequenceMask ||
         options.sampling_correction == SamplingCorrection::kSequenceTruncate;
}

void expect_named(const std::vector<std::pair<std::string, double>>& found, const json& expected) {
  std::size_t seen = 0;
  for (const auto& [name, value] : found) {
    ASSERT_TRUE(expected.contains(name)) << name;
    ++seen;
    if (expected[name].is_null())
      EXPECT_TRUE(std::isnan(value)) << name;
    else
      EXPECT_NEAR(value, expected[name].get<double>(), kTolerance) << name;
  }
  EXPECT_EQ(seen, expected.size() - (expected.contains("entropy_coef") ? 1 : 0));  // the caller's own
}

void expect_close(const at::Tensor& found, const json& expected) {
  const at::Tensor wanted = tensor_of(expected);
  ASSERT_EQ(found.sizes(), wanted.sizes());
  const double scale = std::max(1.0, wanted.abs().max().item<double>());
  EXPECT_LE((found.to(at::kDouble) - wanted).abs().max().item<double>(), kTolerance * scale);
}

// A case computed in `parts`, each the rows of one call, with the totals of the optimizer step it belongs to.
struct Computed {
  std::vector<double> losses;
  std::vector<PolicyMetrics> metrics;
  at::Tensor gradient, entropy_gradient;
};
Computed compute(const PolicyTokens& batch, const PolicyLossOptions& options, const StepTotals& whole,
                 const std::vector<std::vector<std::int64_t>>& parts, const std::vector<StepTotals>& totals) {
  Computed out;
  out.gradient = at::zeros(batch.logprob.sizes(), at::kDouble);
  out.entropy_gradient = at::zeros(batch.logprob.sizes(), at::kDouble);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    at::Tensor kept;
    const at::Tensor rows = at::tensor(at::ArrayRef<std::int64_t>(parts[i]));
    const PolicyTokens part = part_of(batch, rows, by_sequence(options), kept);
    const PolicyGradient one = policy_gradient(part, options, totals.empty() ? whole : totals[i]);
    out.losses.push_back(one.loss);
    out.metrics.push_back(one.metrics);
    out.gradient.index_add_(0, kept, one.d_logprob.to(at::kDouble));
    if (one.d_entropy.defined()) out.entropy_gradient.index_add_(0, kept, one.d_entropy.to(at::kDouble));
  }
  return out;
}

// TRL's micro-batches: consecutive sequences, and the totals of the optimizer step that each belongs to.
void trl_parts(const json& recorded, const PolicyTokens& batch, const PolicyLossOptions& options,
               std::vector<std::vector<std::int64_t>>& parts, std::vector<StepTotals>& totals) {
  const std::int64_t spg = recorded["steps_per_generation"];
  const std::int64_t ga = recorded["micro_batches"];
  const std::int64_t size = batch.advantages.size(0) / spg;
  const StepTotals whole = totals_of(batch, options);
  for (std::int64_t first = 0; first < spg; first += ga) {
    at::Tensor kept;
    const at::Tensor rows = at::arange(first * size, (first + ga) * size, at::kLong);
    StepTotals step = totals_of(part_of(batch, rows, by_sequence(options), kept), options);
    step.generation_sequences = whole.sequences;
    step.generation_tokens = whole.tokens;
    step.micro_batches = static_cast<double>(ga);
    for (std::int64_t i = 0; i < ga; ++i) {
      std::vector<std::int64_t> one;
      for (std::int64_t row = 0; row < size; ++row) one.push_back((first + i) * size + row);
      parts.push_back(one);
      totals.push_back(step);
    }
  }
}

PolicyTokens corrected(PolicyTokens batch, const PolicyLossOptions& options) {
  if (options.sampling_correction != SamplingCorrection::kNone)
    batch.sampling_ratio = sampling_ratio(batch, options).ratio;
  return batch;
}

TEST(PolicyLoss, EqualsTrlMicroBatchByMicroBatch) {
  ASSERT_GE(golden()["cases"].size(), 90U);
  for (const auto& [name, recorded] : golden()["cases"].items()) {
    for (const auto dtype : {at::kDouble, at::kFloat}) {
      SCOPED_TRACE(name + (dtype == at::kFloat ? " fp32" : " fp64"));
      PolicyLossOptions options = options_of(recorded);
      options.span = Span::kMicroBatch;
      const PolicyTokens batch = corrected(batch_of(recorded, dtype), options);
      std::vector<std::vector<std::int64_t>> parts;
      std::vector<StepTotals> totals;
      trl_parts(recorded, batch, options, parts, totals);
      if (recorded.contains("num_items")) {
        EXPECT_EQ(totals[0].generation_tokens, recorded["num_items"].get<double>());
      }
      const Computed found = compute(batch, options, {}, parts, totals);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        SCOPED_TRACE("micro-batch " + std::to_string(i));
        const double expected = recorded["micro"][i]["loss"];
        EXPECT_NEAR(found.losses[i], expected, kTolerance * std::max(1.0, std::abs(expected)));
        expect_named(found.metrics[i].named(), recorded["micro"][i]["metrics"]);
      }
      expect_close(found.gradient, recorded["gradient"]);
      if (recorded.contains("entropy_gradient"))
        expect_close(found.entropy_gradient, recorded["entropy_gradient"]);
    }
  }
}

// With equal micro-batches a whole step is TRL's, except for what TRL normalizes by micro-batch.
TEST(PolicyLoss, WholeStepsEqualTrlWhereTrlDoesNotLookAtMicroBatches) {
  std::size_t compared = 0;
  for (const auto& [name, recorded] : golden()["cases"].items()) {
    SCOPED_TRACE(name);
    const PolicyLossOptions options = options_of(recorded);
    const bool local = options.loss_type == PolicyLossType::kBnpo || options.top_entropy_quantile < 1 ||
                       options.entropy_coef != 0;
    if (local && recorded["steps_per_generation"] != 1) continue;
    ++compared;
    const PolicyTokens batch = corrected(batch_of(recorded), options);
    std::vector<std::vector<std::int64_t>> parts;
    std::vector<StepTotals> totals;
    trl_parts(recorded, batch, options, parts, totals);
    // One part of three sequences, one of one, and so on: any cut of a step is the same step.
    std::vector<std::vector<std::int64_t>> uneven;
    std::vector<StepTotals> own;
    const std::size_t ga = recorded["micro_batches"];
    for (std::size_t first = 0; first < parts.size(); first += ga) {
      std::vector<std::int64_t> rows;
      for (std::size_t i = first; i < first + ga; ++i)
        rows.insert(rows.end(), parts[i].begin(), parts[i].end());
      uneven.push_back({rows.back()});
      uneven.push_back({rows.begin(), rows.end() - 1});
      own.insert(own.end(), 2, totals[first]);
    }
    const Computed found = compute(batch, options, {}, uneven, own);
    expect_close(found.gradient, recorded["gradient"]);
    if (recorded.contains("entropy_gradient"))
      expect_close(found.entropy_gradient, recorded["entropy_gradient"]);
    double sum = 0, expected = 0;
    for (const double loss : found.losses) sum += loss;
    for (const auto& micro : recorded["micro"]) expected += micro["loss"].get<double>();
    EXPECT_NEAR(sum, expected, kTolerance * std::max(1.0, std::abs(expected)));
  }
  EXPECT_GE(compared, 60U);
}

TEST(PolicyLoss, PooledPartsHaveTheMetricsOfTheWhole) {
  for (const auto& [name, recorded] : golden()["cases"].items()) {
    SCOPED_TRACE(name);
    const PolicyLossOptions options = options_of(recorded);
    const PolicyTokens batch = corrected(batch_of(recorded), options);
    const StepTotals totals = totals_of(batch, options);
    const PolicyGradient whole = policy_gradient(batch, options, totals);
    const Computed parts = compute(batch, options, totals, {{7, 1, 2}, {0, 6}, {4}, {3, 5}}, {});
    PolicyMetrics pooled;
    for (const PolicyMetrics& one : parts.metrics) pooled.add(one);
    const auto expected = whole.metrics.named();
    const auto found = pooled.named();
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].first, expected[i].first);
      EXPECT_NEAR(found[i].second, expected[i].second, 1e-12) << found[i].first;
    }
    EXPECT_EQ(pooled.high_entropy.count, whole.metrics.high_entropy.count);
    double sum = 0;
    for (const double loss : parts.losses) sum += loss;
    EXPECT_NEAR(sum, whole.loss, 1e-12 * std::max(1.0, std::abs(whole.loss)));
    EXPECT_LE((parts.gradient - whole.d_logprob).abs().max().item<double>(), 1e-7);
  }
}

TEST(PolicyLoss, MaskedTokensMayAsWellBeLeftOut) {
  for (const auto& [name, recorded] : golden()["cases"].items()) {
    PolicyLossOptions options = options_of(recorded);
    if (!options.mask_truncated_completions && !recorded["uses_tool_mask"]) continue;
    SCOPED_TRACE(name);
    const PolicyTokens batch = corrected(batch_of(recorded), options);
    const StepTotals totals = totals_of(batch, options);
    const PolicyGradient whole = policy_gradient(batch, options, totals);
    const at::Tensor kept = scored_tokens(batch, options).nonzero().squeeze(1);
    ASSERT_LT(kept.size(0), batch.logprob.size(0));
    PolicyTokens fewer = batch;
    for (at::Tensor PolicyTokens::* field :
         {&PolicyTokens::logprob, &PolicyTokens::old_logprob, &PolicyTokens::ref_logprob,
          &PolicyTokens::sampling_logprob, &PolicyTokens::entropy, &PolicyTokens::mask,
          &PolicyTokens::sequence})
      fewer.*field = pick(batch.*field, kept);
    if (!by_sequence(options)) fewer.sampling_ratio = pick(batch.sampling_ratio, kept);
    // VESPO clamps the sampler's ratio of masked tokens too, as TRL does, which 0.95 to 1.05 around 1 leave
    // alone.
    const PolicyGradient own = policy_gradient(fewer, options, totals);
    EXPECT_NEAR(own.loss, whole.loss, 1e-12);
    EXPECT_LE((own.d_logprob - pick(whole.d_logprob, kept)).abs().max().item<double>(), 1e-7);
    EXPECT_EQ(own.metrics.named().size(), whole.metrics.named().size());
    for (std::size_t i = 0; i < own.metrics.named().size(); ++i)
      EXPECT_NEAR(own.metrics.named()[i].second, whole.metrics.named()[i].second, 1e-12);
  }
}

TEST(PolicyLoss, SkippedSequencesHaveNoGradient) {
  std::int64_t zero_advantage = 0, truncated = 0, corrected_away = 0, taught = 0;
  for (const auto& [name, recorded] : golden()["cases"].items()) {
    SCOPED_TRACE(name);
    const PolicyLossOptions options = options_of(recorded);
    const PolicyTokens batch = corrected(batch_of(recorded), options);
    const at::Tensor none = sequences_without_gradient(batch, options);
    const PolicyGradient found = policy_gradient(batch, options, totals_of(batch, options));
    const at::Tensor skipped = none.index_select(0, batch.sequence);
    EXPECT_EQ(found.d_logprob.masked_select(skipped).abs().sum().item<double>(), 0.0);
    taught += at::logical_not(none).sum().item<std::int64_t>();
    zero_advantage += at::logical_and(none, batch.advantages == 0).sum().item<std::int64_t>();
    truncated += at::logical_and(none, batch.truncated).sum().item<std::int64_t>();
    if (by_sequence(options))
      corrected_away += at::logical_and(none, batch.advantages != 0).sum().item<std::int64_t>();
    if (options.beta == 0 && options.entropy_coef == 0) {
      EXPECT_TRUE(none[6].item<bool>());
    }
  }
  EXPECT_GT(zero_advantage, 50);
  EXPECT_GT(truncated, 10);
  EXPECT_GT(corrected_away, 0);
  EXPECT_GT(taught, 400);
}

TEST(PolicyLoss, SamplingRatioEqualsTrl) {
  std::size_t compared = 0;
  for (const auto& [name, recorded] : golden()["cases"].items()) {
    const PolicyLossOptions options = options_of(recorded);
    if (options.sampling_correction == SamplingCorrection::kNone) continue;
    SCOPED_TRACE(name);
    ++compared;
    const SamplingRatio found = sampling_ratio(batch_of(recorded), options);
    const json& expected = recorded["scored"];
    ASSERT_EQ(expected.size(), 5U);
    EXPECT_NEAR(found.logp_difference_mean, expected["sampling/sampling_logp_difference/mean"].get<double>(),
                kTolerance);
    EXPECT_NEAR(found.logp_difference_max, expected["sampling/sampling_logp_difference/max"].get<double>(),
                kTolerance);
    EXPECT_NEAR(found.ratio_min, expected["sampling/importance_sampling_ratio/min"].get<double>(),
                kTolerance);
    EXPECT_NEAR(found.ratio_mean, expected["sampling/importance_sampling_ratio/mean"].get<double>(),
                kTolerance);
    EXPECT_NEAR(found.ratio_max, expected["sampling/importance_sampling_ratio/max"].get<double>(),
                kTolerance);
  }
  EXPECT_GE(compared, 20U);
}

TEST(PolicyLoss, RlooPenaltyEqualsTrl) {
  for (const char* name : {"rloo_kl_truncated", "rloo_normalized"}) {
    SCOPED_TRACE(name);
    const json& recorded = golden()["cases"][name];
    const RlooPenalty found = rloo_penalty(batch_of(recorded), options_of(recorded));
    expect_close(found.sum, recorded["kl"]);
    EXPECT_NEAR(found.mean, recorded["scored"]["kl"].get<double>(), kTolerance);
  }
}

// TRL's GMPOTrainer reads none of the options of this case: its gradient is the plain one's, bit for bit.
constexpr const char* kUnread = "gmpo_unread";

TEST(PolicyLoss, GmpoDoesNotReadTheOptionsOfTokens) {
  const json& cases = golden()["cases"];
  ASSERT_EQ(cases[kUnread]["gradient"], cases["gmpo"]["gradient"]);
  const auto gradient_of = [&](const char* name, auto change) {
    PolicyLossOptions options = options_of(cases[name]);
    change(options);
    const PolicyTokens batch = corrected(batch_of(cases[name]), options);
    return policy_gradient(batch, options, totals_of(batch, options));
  };
  const auto same = [](PolicyLossOptions&) {};
  const PolicyGradient plain = gradient_of("gmpo", same), unread = gradient_of(kUnread, same);
  EXPECT_TRUE(at::equal(unread.d_logprob, plain.d_logprob));
  EXPECT_FALSE(unread.d_entropy.defined());
  EXPECT_EQ(unread.metrics.named(), plain.metrics.named());
  // The same options change the gradient of a loss that reads them.
  const PolicyGradient other =
      gradient_of(kUnread, [](PolicyLossOptions& own) { own.loss_type = PolicyLossType::kGrpo; });
  EXPECT_TRUE(other.d_entropy.defined());
  EXPECT_FALSE(at::equal(other.d_logprob, plain.d_logprob));
}

// Of a sequence with ratios of tokens r and a positive advantage A: -A (r_1 r_2 ... r_n)^(1/n), each r at
// most e^0.4.
TEST(PolicyLoss, GmpoIsTheGeometricMeanOfRatios) {
  PolicyLossOptions options;
  options.loss_type = PolicyLossType::kGmpo;
  options.epsilon = 0.4;
  PolicyTokens tokens{.logprob = at::tensor({0.5, 2.0, 8.0}, at::kDouble).log(),
                      .old_logprob = at::zeros({3}, at::kDouble),
                      .sequence = at::zeros({3}, at::kLong),
                      .advantages = at::tensor({1.5}, at::kDouble)};
  const double high = std::exp(0.4), low = std::exp(-0.4);
  const PolicyGradient good = policy_gradient(tokens, options, totals_of(tokens, options));
  EXPECT_NEAR(good.loss, -1.5 * std::cbrt(0.5 * high * high), 1e-12);
  EXPECT_NEAR(good.d_logprob[0].item<double>(), good.loss / 3, 1e-7);  // of a clipped token: 0
  EXPECT_EQ(good.d_logprob.abs().sum().item<float>(), std::abs(good.d_logprob[0].item<float>()));
  EXPECT_EQ(good.metrics.clip_high.sum, 2);
  tokens.advantages = -tokens.advantages;
  const PolicyGradient bad = policy_gradient(tokens, options, totals_of(tokens, options));
  EXPECT_NEAR(bad.loss, 1.5 * std::cbrt(low * 2 * 8), 1e-12);
  EXPECT_EQ(bad.d_logprob[0].item<float>(), 0);
  EXPECT_EQ(bad.metrics.clip_low.sum, 1);
}

// The fixture's options must do something: every one changes the gradient of the plain case it belongs to.
TEST(PolicyLoss, EveryOptionOfTheFixtureMatters) {
  const json& cases = golden()["cases"];
  for (const auto& [name, recorded] : cases.items()) {
    if (recorded["trainer"] == "rloo") continue;
    const std::string plain = recorded["options"]["loss_type"];
    if (name == plain || recorded["options"].size() == 2 || name == kUnread) continue;
    EXPECT_NE(recorded["gradient"], cases[plain]["gradient"]) << name;
  }
}

TEST(PolicyLoss, TopEntropyCountsWhatReachesTheQuantile) {
  const at::Tensor entropy = at::arange(1, 12, at::kFloat);
  const at::Tensor all = at::ones({11}, at::kDouble);
  EXPECT_EQ(top_entropy(entropy, all, 0.2), (std::pair<double, double>(9.0, 3.0)));
  at::Tensor some = all.clone();
  some.narrow(0, 5, 6).zero_();
  EXPECT_EQ(top_entropy(entropy, some, 0.5), (std::pair<double, double>(3.0, 3.0)));
  EXPECT_TRUE(std::isinf(top_entropy(entropy, at::zeros({11}), 0.5).first));
}

TEST(PolicyLoss, AStepOfEmptySequencesHasNoGradient) {
  for (const auto type : {PolicyLossType::kGrpo, PolicyLossType::kBnpo, PolicyLossType::kDrGrpo,
                          PolicyLossType::kDapo, PolicyLossType::kCispo, PolicyLossType::kLuspo,
                          PolicyLossType::kSapo, PolicyLossType::kVespo, PolicyLossType::kGmpo}) {
    for (const auto span : {Span::kStep, Span::kMicroBatch}) {
      PolicyLossOptions options;
      options.loss_type = type;
      options.top_entropy_quantile = 0.5;
      options.entropy_coef = 0.1;
      options.span = span;
      const PolicyTokens tokens{.logprob = at::zeros({0}),
                                .entropy = at::zeros({0}),
                                .sequence = at::zeros({0}, at::kLong),
                                .advantages = at::ones({3})};
      const PolicyGradient found = policy_gradient(tokens, options, totals_of(tokens, options));
      // A geometric mean of no ratios is 1, as in TRL.
      EXPECT_EQ(found.loss, type == PolicyLossType::kGmpo ? -1.0 : 0.0);
      EXPECT_EQ(found.d_logprob.numel(), 0);
      EXPECT_EQ(found.metrics.entropy.value(), 0.0);
      EXPECT_TRUE(std::isnan(found.metrics.clip_low_min));
    }
  }
}

// The correction is taken before a pass has given entropies: it needs none, whatever the loss is made of.
TEST(PolicyLoss, TheSamplersCorrectionNeedsNoEntropies) {
  const json& recorded = golden()["cases"]["grpo"];
  PolicyTokens tokens = batch_of(recorded);
  tokens.old_logprob = tokens.logprob.detach();
  tokens.sampling_logprob = tokens.logprob.detach() - 0.1;
  tokens.entropy.reset();
  tokens.ref_logprob.reset();
  for (const auto mode : {SamplingCorrection::kTokenMask, SamplingCorrection::kTokenTruncate,
                          SamplingCorrection::kSequenceMask, SamplingCorrection::kSequenceTruncate}) {
    PolicyLossOptions plain = options_of(recorded);
    plain.sampling_correction = mode;
    PolicyLossOptions all = plain;
    all.top_entropy_quantile = 0.5;
    all.entropy_coef = 0.1;
    all.beta = 0.1;
    EXPECT_TRUE(at::equal(sampling_ratio(tokens, all).ratio, sampling_ratio(tokens, plain).ratio));
  }
}

TEST(PolicyLoss, RefusesWhatDoesNotFit) {
  const json& recorded = golden()["cases"]["grpo"];
  const PolicyLossOptions options = options_of(recorded);
  const PolicyTokens batch = batch_of(recorded);
  const StepTotals totals = totals_of(batch, options);
  const auto refused = [&](const PolicyTokens& tokens, const PolicyLossOptions& own) {
    EXPECT_THROW(policy_loss(tokens, own, totals), base::InternalError);
  };
  PolicyTokens tokens = batch;
  tokens.old_logprob = tokens.old_logprob.narrow(0, 0, 3);
  refused(tokens, options);
  tokens = batch;
  tokens.sequence = tokens.sequence.to(at::kInt);
  refused(tokens, options);
  PolicyLossOptions own = options;
  own.beta = 0.1;  // without a reference
  refused(batch, own);
  tokens = batch;
  tokens.entropy.reset();
  own = options;
  own.top_entropy_quantile = 0.5;
  refused(tokens, own);
  own = options;
  own.loss_type = PolicyLossType::kVespo;
  own.sampling_correction = SamplingCorrection::kSequenceMask;
  refused(batch, own);
  own = options;
  own.sampling_correction = SamplingCorrection::kTokenMask;  // without a ratio
  refused(batch, own);
  own = options;
  own.top_entropy_quantile = 0.5;  // totals without a threshold
  refused(batch, own);
  EXPECT_THROW(policy_loss(batch, options, {}), base::InternalError);  // no totals
  EXPECT_THROW(sampling_ratio(batch, options), base::InternalError);
}

}  // namespace policy_loss_test
}  // namespace hone::learn
