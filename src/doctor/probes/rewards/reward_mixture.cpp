#include "doctor/probes/rewards/reward_mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "doctor/checks/check_format.h"

namespace hone::doctor {

namespace {

constexpr double kRounding = 1e-9;  // relative: the same difference of scores beside another mean

bool same_score(double one, double other) {
  return one == other || (std::isnan(one) && std::isnan(other));
}

// Each row as often as there are kinds, its answers next to each other like those of a group.
class Layout {
 public:
  Layout(const RewardRows& rows, std::size_t most, const AskedForms& asked)
      : kinds_(asked.calls.size()), rows_(rows, places(rows, std::min(most, rows.size()), kinds_)) {
    for (std::size_t i = 0; i < rows_.size() / kinds_; ++i) {
      for (const Texts& of_kind : asked.texts) texts_.push_back(of_kind[i]);
    }
  }

  // Empty: no call, or samples without a score that is a number or None.
  std::vector<double> ask_all(rewards::Reward& reward, const RewardCall& call, double& seconds) const {
    const Answered all = ask(reward, rows_, "all of them in one call", texts_, call);
    seconds += all.seconds;
    const bool whole = all.error.empty() && all.failures.empty() && all.values.size() == texts_.size();
    return whole ? all.values : std::vector<double>();
  }

  std::size_t size() const { return texts_.size(); }
  std::size_t count_rows() const { return texts_.size() / kinds_; }
  double score(const std::vector<double>& values, std::size_t row, std::size_t kind) const {
    return values[row * kinds_ + kind];
  }
  std::string where(std::size_t row) const { return rows_.row(row * kinds_).where; }

  bool some_row_differs(const std::vector<double>& values) const {
    for (std::size_t at = 0; at < values.size(); ++at) {
      if (!same_score(values[at], values[at / kinds_ * kinds_])) return true;
    }
    return false;
  }

 private:
  static std::vector<std::size_t> places(const RewardRows& rows, std::size_t count, std::size_t kinds) {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < count; ++i) out.insert(out.end(), kinds, rows.place(i));
    return out;
  }

  std::size_t kinds_;
  RewardRows rows_;
  Texts texts_;
};

std::vector<Answered> by_kind(const Layout& layout, const std::vector<double>& values,
                              const AskedForms& asked) {
  std::vector<Answered> out;
  for (std::size_t kind = 0; kind < asked.calls.size(); ++kind) {
    Answered one{.kind = asked.calls[kind].kind, .seconds = asked.calls[kind].seconds};
    for (std::size_t row = 0; row < layout.count_rows(); ++row)
      one.values.push_back(layout.score(values, row, kind));
    set_mean(one);
    out.push_back(std::move(one));
  }
  return out;
}

void add_order(RewardDependence& out, rewards::Reward& reward, const Layout& layout,
               const std::vector<double>& values, double& seconds) {
  std::vector<std::size_t> reversed(layout.size());
  std::iota(reversed.rbegin(), reversed.rend(), std::size_t{0});
  const std::vector<double> turned =
      layout.ask_all(reward, {.order = reversed, .rotated_column = ""}, seconds);
  const std::size_t kinds = layout.size() / layout.count_rows();
  for (std::size_t k = 0; k < turned.size() && !out.on_order; ++k) {
    const double first = values[reversed[k]];
    if (same_score(first, turned[k]) || std::abs(first - turned[k]) <= kRounding * (1 + std::abs(first)))
      continue;
    out.on_order = true;
    out.order_evidence =
        layout.where(reversed[k] / kinds) + ": " + shown_score(first) + ", then " + shown_score(turned[k]);
  }
}

// What each form of the right answer earns above junk, beside its own right answer and another row's.
GoldDependence gold_of(const Layout& layout, const std::vector<double>& own, const std::vector<double>& other,
                       const AskedForms& asked, const std::string& column) {
  GoldDependence out;
  const auto junk = std::find_if(asked.calls.begin(), asked.calls.end(),
                                 [](const Answered& one) { return one.kind == "junk"; });
  if (other.empty() || junk == asked.calls.end()) return out;
  const auto junk_kind = static_cast<std::size_t>(junk - asked.calls.begin());
  for (std::size_t kind = 0; kind < asked.golds; ++kind) {
    for (std::size_t row = 0; row < layout.count_rows(); ++row) {
      const double with_own = layout.score(own, row, kind) - layout.score(own, row, junk_kind);
      const double with_other = layout.score(other, row, kind) - layout.score(other, row, junk_kind);
      if (!std::isfinite(with_own) || !std::isfinite(with_other) ||
          std::abs(with_own - with_other) <= kRounding * (1 + std::abs(with_own)))
        continue;
      (with_own > with_other ? out.agrees : out.disagrees) += 1;
      out.own += with_own;
      out.other += with_other;
      if (out.evidence.empty())
        out.evidence = "less junk's score in the same call: " + asked.calls[kind].kind + ": " +
                       layout.where(row) + ": " + shown_score(with_own) + ", and " + shown_score(with_other) +
                       " beside another row's " + column;
    }
  }
  return out;
}

}  // namespace

RewardMixture ask_together(rewards::Reward& reward, const RewardRows& rows, std::size_t most,
                           const AskedForms& asked, const std::string& column) {
  RewardMixture out;
  if (asked.calls.size() < 2 || rows.size() == 0) return out;
  const Layout layout(rows, most, asked);
  const std::vector<double> values = layout.ask_all(reward, {}, out.seconds);
  if (values.empty() || !layout.some_row_differs(values)) return out;
  out.calls = by_kind(layout, values, asked);
  add_order(out.dependence, reward, layout, values, out.seconds);
  if (!column.empty()) {
    const std::vector<double> rotated =
        layout.ask_all(reward, {.order = {}, .rotated_column = column}, out.seconds);
    out.gold = gold_of(layout, values, rotated, asked, column);
  }
  out.dependence.on_others = true;
  for (std::size_t at = 0; at < asked.calls.size() && out.dependence.others_evidence.empty(); ++at) {
    const double apart = asked.calls[at].values.empty() ? std::nan("") : asked.calls[at].values.front();
    const double together = out.calls[at].values.front();
    if (!same_score(apart, together))
      out.dependence.others_evidence = layout.where(0) + ", " + asked.calls[at].kind + ": " +
                                       shown_score(apart) + " in a call of such answers, " +
                                       shown_score(together) + " among answers of every kind";
  }
  return out;
}

}  // namespace hone::doctor
