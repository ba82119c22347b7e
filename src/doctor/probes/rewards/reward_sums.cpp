#include "doctor/probes/rewards/reward_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "doctor/checks/check_format.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

constexpr double kSameSum = 1e-6;  // of sums, in the size of their parts

const Answered* of_kind(const ScoredAnswers& one, const std::string& kind) {
  const auto found = std::find_if(one.calls->begin(), one.calls->end(),
                                  [&](const Answered& call) { return call.kind == kind; });
  return found == one.calls->end() ? nullptr : &*found;
}

// The weighted sum of a row's scores for one kind of answer, as TRL adds them: without those that are None.
// Empty: no reward scores it, or one was not asked.
std::optional<double> sum_of(const std::vector<ScoredAnswers>& all, const std::string& kind,
                             std::size_t row) {
  double out = 0;
  bool scored = false;
  for (const ScoredAnswers& one : all) {
    const Answered* const call = of_kind(one, kind);
    if (call == nullptr || row >= call->values.size()) return std::nullopt;
    if (std::isnan(call->values[row])) continue;
    out += one.weight * call->values[row];
    scored = true;
  }
  return scored ? std::optional(out) : std::nullopt;
}

bool reward_varies(const ScoredAnswers& one) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const Answered& call : *one.calls) {
    for (const double value : call.values) {
      if (std::isnan(value)) continue;
      low = std::min(low, value), high = std::max(high, value);
    }
  }
  return high > low && one.weight != 0;
}

std::string names_of(const std::vector<ScoredAnswers>& all) {
  std::string out;
  for (const ScoredAnswers& one : all)
    out += (out.empty() ? "" : ", ") + (one.weight == 1 ? "" : format::number(one.weight) + " x ") + one.name;
  return out;
}

// Every row's sum is the same whatever the answer is.
std::optional<Verdict> judge_cancelling(const std::vector<ScoredAnswers>& all, std::size_t rows) {
  if (std::count_if(all.begin(), all.end(), reward_varies) < 2) return std::nullopt;
  std::int64_t sums = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (const Answered& call : *all.front().calls) {
      const std::optional<double> sum = sum_of(all, call.kind, row);
      if (!sum) continue;
      low = std::min(low, *sum), high = std::max(high, *sum);
      sums += 1;
    }
    if (high - low > kSameSum) return std::nullopt;
  }
  if (sums < 2 * static_cast<std::int64_t>(rows)) return std::nullopt;
  Verdict out{.code = "RL-17", .level = Level::kWarn};
  out.what = "the rewards cancel each other: every tested answer of a prompt has the same sum";
  out.evidence = std::to_string(sums) + " answers for " +
                 format::counted(static_cast<std::int64_t>(rows), "row") + ": " + names_of(all);
  out.cause = "one reward takes what another one gives";
  out.fix = "reward_weights that differ, or leave one of them out";
  out.cost = "every advantage and every gradient is 0";
  return out;
}

// Means over the rows that the rewards of right answers score.
struct Means {
  double right = -std::numeric_limits<double>::infinity(), other = right;
  std::string right_kind, other_kind;
  std::int64_t rows = 0;
};

std::optional<double> mean_sum(const std::vector<ScoredAnswers>& all, const ScoredAnswers& payer,
                               const std::string& kind, std::int64_t& rows) {
  const Answered* const own = of_kind(payer, kind);
  double sum = 0;
  rows = 0;
  for (std::size_t i = 0; own != nullptr && i < own->values.size(); ++i) {
    if (std::isnan(own->values[i])) continue;
    const std::optional<double> one = sum_of(all, kind, i);
    if (!one) return std::nullopt;
    sum += *one;
    rows += 1;
  }
  return rows > 0 ? std::optional(sum / static_cast<double>(rows)) : std::nullopt;
}

Means means_of(const std::vector<ScoredAnswers>& all, const ScoredAnswers& payer) {
  Means out;
  for (std::size_t k = 0; k < payer.calls->size(); ++k) {
    const std::string& kind = (*payer.calls)[k].kind;
    const bool right = k < payer.golds;
    if (!right && kind != "empty" && kind != "junk") continue;
    std::int64_t rows = 0;
    const std::optional<double> mean = mean_sum(all, payer, kind, rows);
    if (!mean) continue;
    if (right && *mean > out.right) out.right = *mean, out.right_kind = kind, out.rows = rows;
    if (!right && *mean > out.other) out.other = *mean, out.other_kind = kind;
  }
  return out;
}

// The reward that takes most from the right answer, against the other one.
const ScoredAnswers* taker_of(const std::vector<ScoredAnswers>& all, const Means& means) {
  const ScoredAnswers* out = nullptr;
  double most = 0;
  for (const ScoredAnswers& one : all) {
    const Answered *const right = of_kind(one, means.right_kind), *const other =
                                                                      of_kind(one, means.other_kind);
    if (right == nullptr || other == nullptr) continue;
    const double taken = one.weight * (other->mean - right->mean);
    if (taken > most) most = taken, out = &one;
  }
  return out;
}

std::optional<Verdict> judge_outweighed(const std::vector<ScoredAnswers>& all) {
  for (const ScoredAnswers& payer : all) {
    if (!payer.pays_right || payer.golds == 0 || !(payer.weight > 0)) continue;
    const Means means = means_of(all, payer);
    if (!std::isfinite(means.right) || !(means.other - means.right > kSameSum)) continue;
    const ScoredAnswers* const taker = taker_of(all, means);
    if (taker == nullptr || taker == &payer) continue;
    const std::string other = means.other_kind == "empty" ? "an empty answer" : means.other_kind;
    Verdict out{.code = "RL-07", .level = Level::kWarn};
    out.what = "all rewards together: " + other + " earns " + format::number(means.other) +
               ", the right answer at most " + format::number(means.right);
    out.evidence = "means of " + format::counted(means.rows, "row") + ": " + names_of(all) +
                   "; best form: " + means.right_kind;
    out.cause = "the reward " + taker->name + " outweighs " + payer.name + ", which pays for right answers";
    out.fix = "a smaller weight of " + taker->name +
              " in reward_weights, or a value of it that is bounded and only for right answers";
    out.cost = "the run learns what " + taker->name + " pays for, and gives up right answers";
    return out;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Verdict> judge_sums(const std::vector<ScoredAnswers>& all) {
  std::vector<Verdict> out;
  if (all.size() < 2) return out;
  std::size_t rows = std::numeric_limits<std::size_t>::max();
  for (const ScoredAnswers& one : all) {
    if (one.calls == nullptr || one.calls->empty()) return out;
    for (const Answered& call : *one.calls) {
      if (!call.error.empty()) return out;
      rows = std::min(rows, call.values.size());
    }
  }
  if (auto cancelling = judge_cancelling(all, rows)) {
    out.push_back(*std::move(cancelling));
    return out;
  }
  if (auto outweighed = judge_outweighed(all)) out.push_back(*std::move(outweighed));
  return out;
}

}  // namespace hone::doctor
