#include "serve/training/losses.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "base/strings/suggest.h"

namespace hone::serve {
namespace {

struct LossRow {
  std::string_view name;
  LossKind kind;
  double low, high;  // defaults; 0, 0: it reads none
};

constexpr std::array<LossRow, 5> kLosses = {{{"cross_entropy", LossKind::kCrossEntropy, 0, 0},
                                             {"importance_sampling", LossKind::kImportanceSampling, 0, 0},
                                             {"ppo", LossKind::kPpo, 0.8, 1.2},
                                             {"cispo", LossKind::kCispo, 0, 4},
                                             {"dro", LossKind::kDro, 0, 0}}};

const LossRow& row_of(const std::string& name) {
  std::string names;
  std::vector<std::string> all;
  for (const LossRow& row : kLosses) {
    if (row.name == name) return row;
    names += (names.empty() ? "" : ", ") + std::string(row.name);
    all.emplace_back(row.name);
  }
  throw base::UserError(
      {.where = "loss_fn",
       .expected = "one of " + names,
       .found = "'" + name + "'." + base::did_you_mean(name, all),
       .cause = {},
       .fix = "express another loss with forward_backward_custom, which needs only cross_entropy"});
}

double number_of(const std::string& key, const std::variant<double, std::string>& value) {
  const double* const number = std::get_if<double>(&value);
  if (number != nullptr && std::isfinite(*number)) return *number;
  throw base::UserError({.where = "loss_fn_config['" + key + "']",
                         .expected = "a finite number",
                         .found = number == nullptr ? "a text" : "a number that is not finite",
                         .cause = {},
                         .fix = {}});
}

void check(const LossSpec& spec, bool has_beta, const std::string& name) {
  if (spec.kind == LossKind::kDro && !(has_beta && spec.beta >= 0)) {
    throw base::UserError({.where = "loss_fn_config['beta'] of dro",
                           .expected = "a number from 0",
                           .found = has_beta ? std::to_string(spec.beta) : "nothing",
                           .cause = "implementations differ in their defaults, so hone has none",
                           .fix = "give loss_fn_config={\"beta\": 0.05}"});
  }
  if (spec.low < 0 || spec.high < spec.low) {
    throw base::UserError({.where = "loss_fn_config of " + name,
                           .expected = "0 <= clip_low_threshold <= clip_high_threshold",
                           .found = std::to_string(spec.low) + " and " + std::to_string(spec.high),
                           .cause = "they bound the ratio itself: 0.8 and 1.2, not 0.2",
                           .fix = {}});
  }
}

}  // namespace

LossSpec read_loss(const std::string& name,
                   const std::map<std::string, std::variant<double, std::string>>& config) {
  const LossRow& row = row_of(name);
  LossSpec spec{.kind = row.kind, .low = row.low, .high = row.high};
  const bool clips = row.high > 0, is_dro = row.kind == LossKind::kDro;
  bool has_beta = false;
  for (const auto& [key, value] : config) {
    if (clips && key == "clip_low_threshold") {
      spec.low = number_of(key, value);
    } else if (clips && key == "clip_high_threshold") {
      spec.high = number_of(key, value);
    } else if (is_dro && key == "beta") {
      spec.beta = number_of(key, value);
      has_beta = true;
    } else {
      throw base::UserError({.where = "loss_fn_config",
                             .expected = clips    ? "clip_low_threshold and clip_high_threshold"
                                         : is_dro ? "beta"
                                                  : "nothing for " + name,
                             .found = "'" + key + "'",
                             .cause = {},
                             .fix = {}});
    }
  }
  check(spec, has_beta, name);
  return spec;
}

bool may_have_gradient(const LossSpec& spec, const Datum& datum, std::size_t target) {
  if (spec.kind == LossKind::kCrossEntropy) return datum.weights[target] != 0;
  if (spec.kind == LossKind::kDro) return true;
  return datum.advantages[target] != 0;
}

namespace {

struct Term {
  double loss = 0, derivative = 0;
};

Term term(const LossSpec& spec, const Datum& datum, std::size_t i, double l) {
  if (spec.kind == LossKind::kCrossEntropy) {
    const double w = datum.weights[i];
    return {-w * l, -w};
  }
  const double q = datum.logprobs[i], a = datum.advantages[i];
  if (spec.kind == LossKind::kDro) {
    const double gap = l - q;
    return {-(a * l - 0.5 * spec.beta * gap * gap), -(a - spec.beta * gap)};
  }
  if (a == 0) return {};  // also where r is not finite
  const double r = std::exp(l - q);
  const double clipped = std::clamp(r, spec.low, spec.high);
  switch (spec.kind) {
    case LossKind::kPpo: {
      const bool is_free = r * a <= clipped * a;
      return {-(is_free ? r : clipped) * a, is_free ? -r * a : 0};
    }
    case LossKind::kCispo:
      return {-clipped * a * l, -clipped * a};
    default:
      return {-r * a, -r * a};
  }
}

}  // namespace

LossOfDatum loss_of(const LossSpec& spec, const Datum& datum, std::span<const float> logprobs) {
  base::require(logprobs.size() == datum.targets.size(), "serve::loss_of",
                "a log-probability of each target");
  LossOfDatum out;
  out.d_logprob.resize(logprobs.size());
  for (std::size_t i = 0; i < logprobs.size(); ++i) {
    const Term one = term(spec, datum, i, logprobs[i]);
    out.loss += one.loss;
    out.d_logprob[i] = static_cast<float>(one.derivative);
    if (std::isfinite(one.loss) && std::isfinite(out.d_logprob[i])) continue;
    throw base::UserError(
        {.where = "the loss at target " + std::to_string(i),
         .expected = "a finite number",
         .found = "infinite or not-a-number",
         .cause = "the model's log-probability is " + std::to_string(logprobs[i]) +
                  (datum.logprobs.empty() ? "" : ", that of the input " + std::to_string(datum.logprobs[i])),
         .fix = "check the logprobs of the datum: they belong to target_tokens, position by position"});
  }
  return out;
}

}  // namespace hone::serve
