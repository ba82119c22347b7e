#include "learn/preference_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "learn/wide.h"

namespace hone::learn {
namespace {

constexpr std::array<std::pair<std::string_view, PreferenceLossType>, 15> kLossTypes = {
    {{"sigmoid", PreferenceLossType::kSigmoid},
     {"hinge", PreferenceLossType::kHinge},
     {"ipo", PreferenceLossType::kIpo},
     {"exo_pair", PreferenceLossType::kExoPair},
     {"nca_pair", PreferenceLossType::kNcaPair},
     {"robust", PreferenceLossType::kRobust},
     {"bco_pair", PreferenceLossType::kBcoPair},
     {"sppo_hard", PreferenceLossType::kSppoHard},
     {"aot", PreferenceLossType::kAot},
     {"aot_unpaired", PreferenceLossType::kAotUnpaired},
     {"apo_zero", PreferenceLossType::kApoZero},
     {"apo_down", PreferenceLossType::kApoDown},
     {"discopop", PreferenceLossType::kDiscopop},
     {"sft", PreferenceLossType::kSft},
     {"sigmoid_norm", PreferenceLossType::kSigmoidNorm}}};

constexpr std::array<std::pair<std::string_view, FDivergence>, 4> kDivergences = {
    {{"reverse_kl", FDivergence::kReverseKl},
     {"forward_kl", FDivergence::kForwardKl},
     {"js_divergence", FDivergence::kJsDivergence},
     {"alpha_divergence", FDivergence::kAlphaDivergence}}};

constexpr double kHighestExponent = 80;  // TRL's, so that exp stays a number in fp32
constexpr double kAlphaOne = 1e-6;       // nearer to 1 the alpha divergence is the reverse KL

template <typename Table>
auto find_named(const Table& table, std::string_view name, const char* where) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.first == name; });
  base::require(found != table.end(), where, "a name that config/ lets through");
  return found->second;
}

// Of every other sequence: 0 the chosen ones, 1 the rejected ones.
at::Tensor side(const at::Tensor& of_sequences, std::int64_t which) {
  return of_sequences.slice(0, which, of_sequences.size(0), 2);
}

at::Tensor doubles(const std::vector<double>& values) {
  at::Tensor out = at::empty({static_cast<std::int64_t>(values.size())}, at::kDouble);
  std::copy(values.begin(), values.end(), out.mutable_data_ptr<double>());
  return out;
}

// [n]: the sequence of each token.
at::Tensor sequence_index(const std::vector<std::int64_t>& scored) {
  at::Tensor out = at::empty({std::accumulate(scored.begin(), scored.end(), std::int64_t{0})}, at::kLong);
  auto* at = out.mutable_data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < scored.size(); ++i)
    at = std::fill_n(at, scored[i], static_cast<std::int64_t>(i));
  return out;
}

// [n]: LD-DPO's weights.
at::Tensor token_weights(const std::vector<std::int64_t>& scored, double ld_alpha) {
  std::vector<double> out;
  for (std::size_t i = 0; i < scored.size(); ++i) {
    const std::int64_t shared = std::min(scored[i], scored[i ^ 1U]);
    for (std::int64_t t = 0; t < scored[i]; ++t) out.push_back(t < shared ? 1.0 : ld_alpha);
  }
  return doubles(out);
}

at::Tensor sum_sequences(const at::Tensor& tokens, const at::Tensor& index, std::size_t sequences) {
  return at::zeros({static_cast<std::int64_t>(sequences)}, at::kDouble).index_add(0, index, tokens);
}

at::Tensor weighted_sums(const at::Tensor& logprob, const std::vector<std::int64_t>& scored,
                         std::optional<double> ld_alpha) {
  const at::Tensor weighted = ld_alpha ? logprob * token_weights(scored, *ld_alpha) : logprob;
  return sum_sequences(weighted, sequence_index(scored), scored.size());
}

// What the losses are made of; [B] each but where said.
struct Pairs {
  at::Tensor logp_chosen, logp_rejected, ref_chosen, ref_rejected;
  at::Tensor chosen, rejected;              // log ratios c, r
  at::Tensor score_chosen, score_rejected;  // s_c, s_r
  at::Tensor length_chosen, length_rejected;
  at::Tensor sft;  // scalar
};

at::Tensor score(const at::Tensor& log_ratio, const PreferenceLossOptions& options) {
  const double power = options.f_alpha_divergence_coef - 1;
  switch (options.f_divergence) {
    case FDivergence::kReverseKl:
      return log_ratio;
    case FDivergence::kForwardKl:
      return 1 - at::exp(-log_ratio);
    case FDivergence::kJsDivergence:
      return std::log(2.0) + at::log_sigmoid(log_ratio);
    case FDivergence::kAlphaDivergence:
      if (std::abs(power) < kAlphaOne) return log_ratio;
      return (at::exp((power * log_ratio).clamp_max(kHighestExponent)) - 1) / power;
  }
  return log_ratio;
}

at::Tensor smoothed(const at::Tensor& logits, double smoothing) {
  return -at::log_sigmoid(logits) * (1 - smoothing) - at::log_sigmoid(-logits) * smoothing;
}

at::Tensor sorted(const at::Tensor& values) {
  return std::get<0>(at::sort(values, 0));
}

at::Tensor exo_pair(const at::Tensor& logits, double epsilon) {
  return at::sigmoid(logits) * (at::log_sigmoid(logits) - std::log1p(-epsilon)) +
         at::sigmoid(-logits) * (at::log_sigmoid(-logits) - std::log(epsilon));
}

at::Tensor discopop(const at::Tensor& logits, double tau) {
  const at::Tensor modulation = at::sigmoid(logits / tau);
  return -at::log_sigmoid(logits) * (1 - modulation) + at::exp(-logits) * modulation;
}

// [B], or a scalar for sft.
at::Tensor pair_losses(PreferenceLossType type, const Pairs& pairs, const PreferenceLossOptions& options) {
  const double beta = options.beta, smoothing = options.label_smoothing;
  const at::Tensor& c = pairs.chosen;
  const at::Tensor& r = pairs.rejected;
  const at::Tensor logits = beta * (pairs.score_chosen - pairs.score_rejected);
  const auto per_token = [&] {
    return pairs.score_chosen / pairs.length_chosen - pairs.score_rejected / pairs.length_rejected;
  };
  switch (type) {
    case PreferenceLossType::kSigmoid:
      return -at::log_sigmoid(logits);
    case PreferenceLossType::kHinge:
      return at::relu(1 - logits);
    case PreferenceLossType::kIpo:
      return at::square(per_token() - 1 / (2 * beta));
    case PreferenceLossType::kExoPair:
      return exo_pair(logits, smoothing);
    case PreferenceLossType::kNcaPair:
      return -at::log_sigmoid(beta * c) - 0.5 * at::log_sigmoid(-beta * c) - 0.5 * at::log_sigmoid(-beta * r);
    case PreferenceLossType::kRobust:
      return (-(1 - smoothing) * at::log_sigmoid(logits) + smoothing * at::log_sigmoid(-logits)) /
             (1 - 2 * smoothing);
    case PreferenceLossType::kBcoPair:
      return -at::log_sigmoid(beta * c) - at::log_sigmoid(-beta * r);
    case PreferenceLossType::kSppoHard:
      return at::square(c - 0.5 / beta) + at::square(r + 0.5 / beta);
    case PreferenceLossType::kAot:
      return smoothed(beta * (sorted(pairs.logp_chosen - pairs.logp_rejected) -
                              sorted(pairs.ref_chosen - pairs.ref_rejected)),
                      smoothing);
    case PreferenceLossType::kAotUnpaired:
      return smoothed(beta * (sorted(c) - sorted(r)), smoothing);
    case PreferenceLossType::kApoZero:
      return 1 - at::sigmoid(beta * c) + at::sigmoid(beta * r);
    case PreferenceLossType::kApoDown:
      return at::sigmoid(beta * c) + 1 - at::sigmoid(beta * (c - r));
    case PreferenceLossType::kDiscopop:
      return discopop(logits, options.discopop_tau);
    case PreferenceLossType::kSft:
      return pairs.sft;
    case PreferenceLossType::kSigmoidNorm:
      return -at::log_sigmoid(beta * per_token());
  }
  throw base::InternalError({.where = "preference_loss", .expected = "a loss type", .found = "none of them"});
}

// WPO's weight of each pair, [B].
at::Tensor pair_weights(const PreferenceTokens& tokens, const at::Tensor& logprob, const at::Tensor& index) {
  const at::NoGradGuard no_grad;
  base::require(tokens.log_sum_squares.defined(), "preference_gradient",
                "log_sum_squares with use_weighting");
  const std::size_t sequences = tokens.scored.size();
  const at::Tensor counts = sum_sequences(at::ones_like(logprob), index, sequences).clamp_min(1);
  const at::Tensor mean =
      sum_sequences(logprob.detach() - wide(tokens.log_sum_squares), index, sequences) / counts;
  return at::exp(side(mean, 0)) * at::exp(side(mean, 1));
}

double mean_or_zero(const at::Tensor& values) {
  return values.numel() == 0 ? 0 : values.mean().item<double>();
}

std::vector<std::pair<std::string, double>> metrics_of(const PreferenceTokens& tokens, const Pairs& pairs,
                                                       const at::Tensor& index, double beta) {
  const at::Tensor is_chosen = index.remainder(2).eq(0);
  std::vector<std::pair<std::string, double>> out;
  if (tokens.entropy.defined()) out.emplace_back("entropy", mean_or_zero(wide(tokens.entropy)));
  if (tokens.mean_logit.defined()) {
    const at::Tensor logits = wide(tokens.mean_logit);
    out.emplace_back("logits/chosen", mean_or_zero(logits.masked_select(is_chosen)));
    out.emplace_back("logits/rejected", mean_or_zero(logits.masked_select(is_chosen.logical_not())));
  }
  if (tokens.is_top1.defined()) {
    out.emplace_back("mean_token_accuracy", mean_or_zero(wide(tokens.is_top1).masked_select(is_chosen)));
  }
  const at::Tensor chosen = beta * pairs.chosen.detach(), rejected = beta * pairs.rejected.detach();
  const auto mean = [](const at::Tensor& x) { return x.to(at::kDouble).mean().item<double>(); };
  out.emplace_back("rewards/chosen", mean(chosen));
  out.emplace_back("rewards/rejected", mean(rejected));
  out.emplace_back("rewards/accuracies", mean(chosen > rejected));
  out.emplace_back("rewards/margins", mean(chosen - rejected));
  out.emplace_back("logps/chosen", mean(pairs.logp_chosen.detach()));
  out.emplace_back("logps/rejected", mean(pairs.logp_rejected.detach()));
  return out;
}

void check(const PreferenceTokens& tokens) {
  const std::size_t sequences = tokens.scored.size();
  const auto n = std::accumulate(tokens.scored.begin(), tokens.scored.end(), std::int64_t{0});
  base::require(sequences > 0 && sequences % 2 == 0 && tokens.completion.size() == sequences &&
                    tokens.reference.numel() == static_cast<std::int64_t>(sequences) &&
                    tokens.logprob.dim() == 1 && tokens.logprob.size(0) == n,
                "preference_gradient", "pairs of sequences, and a log-probability for each scored token");
}

Pairs pairs_of(const PreferenceTokens& tokens, const at::Tensor& logprob, const at::Tensor& index,
               const PreferenceLossOptions& options) {
  const at::Tensor sums = weighted_sums(logprob, tokens.scored, options.ld_alpha);
  const at::Tensor reference = wide(tokens.reference);
  const at::Tensor lengths = doubles({tokens.completion.begin(), tokens.completion.end()}).clamp_min(1);
  Pairs out;
  out.logp_chosen = side(sums, 0);
  out.logp_rejected = side(sums, 1);
  out.ref_chosen = side(reference, 0);
  out.ref_rejected = side(reference, 1);
  out.chosen = out.logp_chosen - out.ref_chosen;
  out.rejected = out.logp_rejected - out.ref_rejected;
  out.score_chosen = score(out.chosen, options);
  out.score_rejected = score(out.rejected, options);
  out.length_chosen = side(lengths, 0);
  out.length_rejected = side(lengths, 1);
  const at::Tensor of_chosen = logprob.masked_select(index.remainder(2).eq(0));
  out.sft = -of_chosen.sum() / static_cast<double>(std::max<std::int64_t>(1, of_chosen.size(0)));
  return out;
}

}  // namespace

PreferenceLossType preference_loss_type(std::string_view name) {
  return find_named(kLossTypes, name, "preference_loss_type");
}

FDivergence f_divergence(std::string_view name) {
  return find_named(kDivergences, name, "f_divergence");
}

at::Tensor sum_logps(const at::Tensor& logprob, const std::vector<std::int64_t>& scored,
                     std::optional<double> ld_alpha) {
  const at::NoGradGuard no_grad;
  return weighted_sums(wide(logprob), scored, ld_alpha);
}

PreferenceGradient preference_gradient(const PreferenceTokens& tokens, const PreferenceLossOptions& options) {
  check(tokens);
  const at::AutoGradMode with_grad(true);
  const at::Tensor logprob = wide(tokens.logprob).requires_grad_(true);
  const at::Tensor index = sequence_index(tokens.scored);
  const Pairs pairs = pairs_of(tokens, logprob, index, options);
  at::Tensor weights;
  if (options.use_weighting) weights = pair_weights(tokens, logprob, index);
  at::Tensor loss = at::zeros({}, at::kDouble);
  for (const PreferenceTerm& term : options.terms) {
    at::Tensor each = pair_losses(term.type, pairs, options);
    if (weights.defined()) each = each * weights;
    loss = loss + term.weight * each.mean();
  }
  PreferenceGradient out;
  out.loss = loss.item<double>();
  const at::Tensor gradient =
      loss.requires_grad() ? torch::autograd::grad({loss}, {logprob}, {}, {}, false, true)[0] : at::Tensor();
  out.d_logprob =
      (gradient.defined() ? gradient : at::zeros_like(logprob)).to(tokens.logprob.device(), at::kFloat);
  const at::NoGradGuard no_grad;
  out.metrics = metrics_of(tokens, pairs, index, options.beta);
  return out;
}

}  // namespace hone::learn
