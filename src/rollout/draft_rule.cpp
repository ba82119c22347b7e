#include "rollout/draft_rule.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace hone::rollout {
namespace {

constexpr double kStep = 1.25;       // the first row beyond few rows, before it is measured
constexpr double kLevelRate = 0.15;  // weights of a new pass
constexpr double kShapeRate = 0.10;  // in the figure of its rows
constexpr double kFirstRate = 0.75;  // the same, the first time
constexpr double kMostOff = 4;       // a pass beside which another program ran says no more than this
constexpr std::int64_t kOld = 1024;  // passes, after which a figure is forgotten
constexpr double kLeastGain = 1.03;  // tokens a second, of a pass with guesses

// Guesses of each class were right about so often in the texts of bench/drafts.py. That counts as kFirstTried compared ones.
constexpr std::array<double, std::tuple_size_v<Shares>> kFirstRight = {
    0.2, 0.4, 0.6, 0.8,  // Followers::kOne
    0.1, 0.2, 0.3, 0.5,  // kOthers
    0.4, 0.7, 0.8, 0.9,  // kSame
};
constexpr double kFirstTried = 4;

}  // namespace

std::size_t match_class(std::int64_t matched, Followers followers) {
  const auto above = std::upper_bound(kMatchLengths.begin(), kMatchLengths.end(), matched);
  const auto length =
      static_cast<std::size_t>(std::max<std::ptrdiff_t>(1, above - kMatchLengths.begin()) - 1);
  return static_cast<std::size_t>(followers) * kMatchLengths.size() + length;
}

Shares first_shares() {
  Shares out;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = {.right = kFirstRight[i] * kFirstTried, .tried = kFirstTried};
  return out;
}

double PassCost::growth(std::int64_t from, std::int64_t to) const {
  const bool steps = from <= few_rows_ && to > few_rows_;
  return static_cast<double>(start_ + to) / static_cast<double>(start_ + from) * (steps ? kStep : 1);
}

double PassCost::seconds(std::int64_t rows) const {
  const auto above = shapes_.lower_bound(rows);
  if (above != shapes_.end() && above->first == rows) return level_ * above->second.share;
  if (above == shapes_.begin())
    return above == shapes_.end() ? 0 : level_ * above->second.share / growth(rows, above->first);
  const auto below = std::prev(above);
  const double grown = below->second.share * growth(below->first, rows);
  return level_ * (above == shapes_.end() ? grown : std::min(grown, above->second.share));
}

void PassCost::see(std::int64_t rows, double seconds) {
  ++passes_;
  if (shapes_.empty()) level_ = seconds;
  const double expected = shapes_.empty() ? level_ : this->seconds(rows);
  if (seconds <= 0 || expected <= 0) return;
  const double off = std::clamp(seconds / expected, 1 / kMostOff, kMostOff);
  const auto [place, is_new] = shapes_.try_emplace(rows, Shape{expected / level_, passes_});
  place->second.share *= std::pow(off, is_new ? kFirstRate : kShapeRate);
  place->second.last_use = passes_;
  if (!is_new) level_ *= std::pow(off, kLevelRate);
  if (passes_ % kOld == 0)
    std::erase_if(shapes_, [this](const auto& one) { return one.second.last_use + kOld <= passes_; });
}

std::vector<std::int64_t> lengths_that_pay(std::span<const std::vector<double>> all_right,
                                           std::int64_t sequences, std::int64_t most, const PassCost& cost) {
  std::vector<std::int64_t> out(all_right.size(), 0);
  if (!cost.is_known()) return out;
  std::vector<std::pair<double, std::size_t>> tokens;
  for (std::size_t j = 0; j < all_right.size(); ++j)
    for (const double one : all_right[j]) tokens.emplace_back(one, j);
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  double expected = static_cast<double>(sequences);
  double best_rate = kLeastGain * expected / cost.seconds(sequences);
  std::size_t best = 0;
  const std::size_t bound = std::min(tokens.size(), static_cast<std::size_t>(most));
  for (std::size_t i = 0; i < bound; ++i) {
    expected += tokens[i].first;
    const double rate = expected / cost.seconds(sequences + static_cast<std::int64_t>(i) + 1);
    if (rate <= best_rate) continue;
    best_rate = rate;
    best = i + 1;
  }
  for (std::size_t i = 0; i < best; ++i) ++out[tokens[i].second];
  return out;
}

}  // namespace hone::rollout
