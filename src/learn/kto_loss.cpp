#include "learn/kto_loss.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "learn/wide.h"

namespace hone::learn {

namespace {

// Of one row: its loss and d loss / d x, unweighted.
std::pair<double, double> row_loss(const KtoLossOptions& options, bool desirable, double x, double kl) {
  const double b = options.beta;
  const double shift = options.type == KtoLossType::kKto ? kl : 0;
  // 1 - sigmoid(y) is sigmoid(-y); its derivative by y is -sigmoid(y) sigmoid(-y).
  const double y = desirable ? b * (x - shift) : b * (shift - x);
  const double slope = -sigmoid(y) * sigmoid(-y);
  return {sigmoid(-y), desirable ? b * slope : -b * slope};
}

// Of the rows of one label.
struct GroupStats {
  std::int64_t rows = 0, tokens = 0;
  double rewards = 0, logps = 0, logits = 0;
};

}  // namespace

KtoLossType kto_loss_type(std::string_view name) {
  if (name == "kto") return KtoLossType::kKto;
  if (name == "apo_zero_unpaired") return KtoLossType::kApoZeroUnpaired;
  throw base::InternalError({.where = "kto_loss_type",
                             .expected = "kto or apo_zero_unpaired",
                             .found = std::string(name),
                             .cause = {},
                             .fix = {}});
}

KtoGradient kto_gradient(const KtoTokens& tokens, const KtoLossOptions& options) {
  const std::size_t rows = tokens.desirable.size();
  base::require(rows > 0 && tokens.scored.size() == rows && tokens.reference.size() == rows, "kto_gradient",
                "a label, a length and a reference for each row");
  const at::Tensor logprob = wide(tokens.logprob), entropy = wide(tokens.entropy),
                   mean_logit = wide(tokens.mean_logit);
  const std::int64_t n = std::accumulate(tokens.scored.begin(), tokens.scored.end(), std::int64_t{0});
  base::require(logprob.numel() == n && entropy.numel() == n && mean_logit.numel() == n, "kto_gradient",
                "a number for each scored token");
  const bool estimates = options.type == KtoLossType::kKto;
  const double kl = estimates ? std::max(0.0, tokens.kl) : 0;
  KtoGradient out;
  at::Tensor d = at::empty({n}, at::kDouble);
  std::array<GroupStats, 2> sides;  // rejected, chosen
  const double *logp = logprob.const_data_ptr<double>(), *logit = mean_logit.const_data_ptr<double>();
  double* slope = d.mutable_data_ptr<double>();
  for (std::size_t i = 0; i < rows; ++i) {
    const std::int64_t count = tokens.scored[i];
    const double sum = std::accumulate(logp, logp + count, 0.0);
    const bool desirable = tokens.desirable[i] != 0;
    const double x = sum - tokens.reference[i];
    const double row_weight =
        (desirable ? options.desirable_weight : options.undesirable_weight) / static_cast<double>(rows);
    const auto [loss, by_x] = row_loss(options, desirable, x, kl);
    out.loss += row_weight * loss;
    std::fill(slope, slope + count, row_weight * by_x);
    GroupStats& side = sides[desirable ? 1 : 0];
    side.rows += 1;
    side.tokens += count;
    side.rewards += options.beta * x;
    side.logps += sum;
    side.logits += std::accumulate(logit, logit + count, 0.0);
    logp += count;
    logit += count;
    slope += count;
  }
  out.d_logprob = d.to(tokens.logprob.device(), at::kFloat);
  out.metrics = {{"kl", kl}, {"entropy", n > 0 ? entropy.mean().item<double>() : 0}};
  for (const auto& [word, side] : {std::pair{"chosen", sides[1]}, std::pair{"rejected", sides[0]}}) {
    if (side.rows == 0) continue;
    const std::string name = word;
    const auto count = static_cast<double>(side.rows);
    out.metrics.emplace_back("logits/" + name, side.logits / static_cast<double>(side.tokens));
    out.metrics.emplace_back("rewards/" + name, side.rewards / count);
    out.metrics.emplace_back("logps/" + name, side.logps / count);
  }
  if (sides[0].rows > 0 && sides[1].rows > 0) {
    out.metrics.emplace_back("rewards/margins", sides[1].rewards / static_cast<double>(sides[1].rows) -
                                                    sides[0].rewards / static_cast<double>(sides[0].rows));
  }
  return out;
}

}  // namespace hone::learn
