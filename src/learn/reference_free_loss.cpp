#include "learn/reference_free_loss.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "learn/wide.h"

namespace hone::learn {
namespace {

// A sequence's scored tokens are [begin, begin + size) of the log-probabilities.
struct TokenRange {
  std::int64_t begin = 0, size = 0;
};

std::vector<TokenRange> ranges_of(const std::vector<std::int64_t>& scored) {
  std::vector<TokenRange> out;
  std::int64_t begin = 0;
  for (const std::int64_t size : scored) {
    out.push_back({begin, size});
    begin += size;
  }
  return out;
}

double sum_of(const double* values, const TokenRange& span) {
  return std::accumulate(values + span.begin, values + span.begin + span.size, 0.0);
}

void check(const PairLogprobs& tokens) {
  const auto n = std::accumulate(tokens.scored.begin(), tokens.scored.end(), std::int64_t{0});
  const bool each =
      std::all_of(tokens.scored.begin(), tokens.scored.end(), [](auto size) { return size > 0; });
  base::require(!tokens.scored.empty() && tokens.scored.size() % 2 == 0 && each &&
                    tokens.logprob.dim() == 1 && tokens.logprob.size(0) >= n,
                "reference_free_gradient", "pairs of sequences, and a log-probability for each scored token");
}

// The tokens of the nll: the chosen sequences', and those behind all sequences.
std::vector<TokenRange> nll_ranges(const std::vector<TokenRange>& sequences, std::int64_t count) {
  std::vector<TokenRange> out;
  for (std::size_t i = 0; i < sequences.size(); i += 2) out.push_back(sequences[i]);
  const std::int64_t n = sequences.back().begin + sequences.back().size;
  if (count > n) out.push_back({n, count - n});
  return out;
}

// The mean over every other sequence's tokens of the whole micro-batch: 0 the chosen ones, 1 the rejected ones.
double side_mean(const at::Tensor& values, const std::vector<TokenRange>& sequences, std::size_t side) {
  const at::Tensor all = wide(values);
  double sum = 0;
  std::int64_t count = 0;
  for (std::size_t i = side; i < sequences.size(); i += 2) {
    sum += sum_of(all.const_data_ptr<double>(), sequences[i]);
    count += sequences[i].size;
  }
  return sum / static_cast<double>(count);
}

// Sums over pairs; divided by their number they are TRL's metrics.
struct PairSums {
  double reward_chosen = 0, reward_rejected = 0, right = 0, chosen = 0, rejected = 0;
};

std::vector<std::pair<std::string, double>> metrics_of(const PairLogprobs& tokens, const PairSums& sums,
                                                       const std::vector<TokenRange>& sequences, double nll) {
  const auto pairs = static_cast<double>(sequences.size() / 2);
  std::vector<std::pair<std::string, double>> out = {
      {"rewards/chosen", sums.reward_chosen / pairs},
      {"rewards/rejected", sums.reward_rejected / pairs},
      {"rewards/accuracies", sums.right / pairs},
      {"rewards/margins", (sums.reward_chosen - sums.reward_rejected) / pairs},
      {"logps/rejected", sums.rejected / pairs},
      {"logps/chosen", sums.chosen / pairs}};
  if (tokens.mean_logit.defined()) {
    out.emplace_back("logits/rejected", side_mean(tokens.mean_logit, sequences, 1));
    out.emplace_back("logits/chosen", side_mean(tokens.mean_logit, sequences, 0));
  }
  out.emplace_back("nll_loss", nll);
  return out;
}

}  // namespace

double log_sigmoid(double x) {
  return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x)));
}

ReferenceFreeGradient reference_free_gradient(const PairLogprobs& tokens,
                                              const ReferenceFreeOptions& options) {
  check(tokens);
  const at::Tensor values = wide(tokens.logprob);
  const auto* logprob = values.const_data_ptr<double>();
  const std::vector<TokenRange> sequences = ranges_of(tokens.scored);
  const auto pairs = static_cast<double>(sequences.size() / 2);
  const at::Tensor gradient = at::zeros_like(values);
  auto* d = gradient.mutable_data_ptr<double>();
  const auto divisor = [&](const TokenRange& span) {
    return options.averages ? static_cast<double>(span.size) : 1.0;
  };
  ReferenceFreeGradient out;
  PairSums sums;
  for (std::size_t i = 0; i < sequences.size(); i += 2) {
    const TokenRange &of_chosen = sequences[i], &of_rejected = sequences[i + 1];
    const double chosen = sum_of(logprob, of_chosen) / divisor(of_chosen);
    const double rejected = sum_of(logprob, of_rejected) / divisor(of_rejected);
    const PairTerm term = options.term(chosen, rejected);
    std::fill_n(d + of_chosen.begin, of_chosen.size, term.d_chosen / divisor(of_chosen) / pairs);
    std::fill_n(d + of_rejected.begin, of_rejected.size, term.d_rejected / divisor(of_rejected) / pairs);
    out.loss += term.loss / pairs;
    sums.reward_chosen += term.reward_chosen;
    sums.reward_rejected += term.reward_rejected;
    sums.right += term.reward_chosen > term.reward_rejected ? 1 : 0;
    sums.chosen += chosen;
    sums.rejected += rejected;
  }
  double nll = 0;
  if (options.nll_weight != 0) {
    const std::vector<TokenRange> spans = nll_ranges(sequences, values.numel());
    double count = 0;
    for (const TokenRange& span : spans) count += static_cast<double>(span.size);
    for (const TokenRange& span : spans) {
      nll -= sum_of(logprob, span) / count;
      std::for_each_n(d + span.begin, span.size, [&](double& one) { one -= options.nll_weight / count; });
    }
    out.loss += options.nll_weight * nll;
  }
  out.d_logprob = gradient.to(tokens.logprob.device(), at::kFloat);
  out.metrics = metrics_of(tokens, sums, sequences, nll);
  return out;
}

}  // namespace hone::learn
