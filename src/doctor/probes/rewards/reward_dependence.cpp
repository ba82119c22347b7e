#include "doctor/probes/rewards/reward_dependence.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "doctor/checks/check_format.h"

namespace hone::doctor {

namespace {

using base::Level;
using base::Verdict;

bool differ(double one, double other) {
  if (std::isnan(one) || std::isnan(other)) return std::isnan(one) != std::isnan(other);
  return one != other;
}

// The first row whose score of `again`, asked in `order`, is another one: "rows.jsonl:3: 0.5, then 1"; empty: none.
std::string first_difference(const RewardRows& rows, const Answered& first, const Answered& again,
                             const std::vector<std::size_t>& order) {
  for (std::size_t k = 0; k < again.values.size() && k < order.size(); ++k) {
    const std::size_t i = order[k];
    if (i >= first.values.size() || !differ(first.values[i], again.values[k])) continue;
    return rows.row(i).where + ": " + shown_score(first.values[i]) + ", then " + shown_score(again.values[k]);
  }
  return "";
}

}  // namespace

std::string shown_score(double value) {
  return std::isnan(value) ? "None" : format::number(value);
}

RewardDependence test_dependence(rewards::Reward& reward, const RewardRows& rows, const Texts& texts,
                                 const Answered& first) {
  RewardDependence out;
  if (rows.size() < 2 || !first.error.empty()) return out;
  std::vector<std::size_t> all(rows.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::vector<std::size_t> reversed(all.rbegin(), all.rend());
  const Answered turned = ask(reward, rows, first.kind, texts, {.order = reversed, .rotated_column = ""});
  out.order_evidence = first_difference(rows, first, turned, reversed);
  out.on_order = turned.error.empty() && !out.order_evidence.empty();
  // Half of them may have the mean of all; one alone has no other.
  const std::vector<std::size_t> half(all.begin(),
                                      all.begin() + static_cast<std::ptrdiff_t>((all.size() + 1) / 2));
  for (const std::vector<std::size_t>& some : {half, std::vector<std::size_t>{0}}) {
    if (out.on_others) break;
    const Answered fewer = ask(reward, rows, first.kind, texts, {.order = some, .rotated_column = ""});
    out.others_evidence = first_difference(rows, first, fewer, some);
    out.on_others = fewer.error.empty() && !out.others_evidence.empty();
    if (out.on_others) out.others_evidence += " beside fewer rows";
  }
  return out;
}

void add_call_dependence(RewardDependence& out, rewards::Reward& reward, const RewardRows& rows,
                         const Texts& good_texts, const Answered& good, const Texts& bad_texts,
                         const Answered& bad) {
  if (rows.size() < 4 || !good.error.empty() || !bad.error.empty()) return;
  Texts mixed = good_texts;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!differ(good.values[i], bad.values[i])) return;  // each row tells the two apart
    if (i % 2 == 1) mixed[i] = bad_texts[i];
  }
  const Answered both = ask(reward, rows, "good and bad answers in turn", mixed);
  if (both.values.size() != rows.size()) return;
  out.of_call = std::none_of(both.values.begin(), both.values.end(),
                             [&](double value) { return std::isnan(value) || value != both.values.front(); });
  if (out.of_call)
    out.others_evidence = "right answers " + shown_score(good.mean) + ", junk " + shown_score(bad.mean) +
                          ", both in turn " + shown_score(both.mean) + " for each";
}

void add_gold_dependence(GoldDependence& out, rewards::Reward& reward, const RewardRows& rows,
                         const Texts& texts, const Answered& first, const std::string& column) {
  if (rows.size() < 2 || column.empty() || !first.error.empty()) return;
  const Answered again = ask(reward, rows, first.kind, texts, {.order = {}, .rotated_column = column});
  for (std::size_t i = 0; i < std::min(again.values.size(), first.values.size()); ++i) {
    const double own = first.values[i], other = again.values[i];
    if (std::isnan(own) || std::isnan(other) || own == other) continue;
    (own > other ? out.agrees : out.disagrees) += 1;
    out.own += own;
    out.other += other;
    if (out.evidence.empty())
      out.evidence = first.kind + ": " + rows.row(i).where + ": " + shown_score(own) + ", and " +
                     shown_score(other) + " beside another row's " + column;
  }
}

Verdicts judge_dependence(const RewardDependence& found, const std::string& reward) {
  Verdict out{.code = "RL-18"};
  if (found.on_order) {
    out.level = Level::kWarn;
    out.what = reward + " gives the same completions other scores when they come in another order";
    out.evidence = found.order_evidence + " with the rows in reverse";
    out.cause =
        "suspected: its list of scores is not in the order of completions (sorted, a set, a pool that "
        "returns what is ready first), or it compares a completion with the one beside it";
    out.not_this = "random numbers: the same call again gives the same scores";
    out.fix = "return scores[i] for completions[i], whatever the others are";
    out.cost = "a completion is paid for another one's merit";
    return {out};
  }
  if (found.of_call) {
    out.level = Level::kWarn;
    out.what = reward + " gives all completions of a call the same score, right and wrong ones";
    out.evidence = found.others_evidence;
    out.cause = "suspected: it returns a mean, a sum or a last value once for each completion";
    out.not_this = "a constant: calls with other completions have other scores";
    out.fix = "return scores[i] for completions[i], whatever the others are";
    out.cost = "every group has equal rewards, so that every advantage and every gradient is 0";
    return {out};
  }
  if (!found.on_others) return {};
  out.level = Level::kNote;
  out.what = reward + " scores a completion by the others of its call";
  out.evidence = found.others_evidence;
  out.cause = "it compares completions of a call, as rewards for length often do, or normalizes over them";
  out.not_this = "their order: in reverse the scores are the same";
  out.fix = "nothing if that is meant; advantages compare the completions of a prompt already";
  out.cost = "the scale of the reward moves with the batch";
  return {out};
}

}  // namespace hone::doctor
