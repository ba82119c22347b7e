#include "doctor/probes/rewards/reward_attacks.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include "doctor/checks/check_format.h"
#include "doctor/checks/row_texts.h"
#include "doctor/probes/rewards/tried_reward.h"
#include "rewards/math/accuracy_reward.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

constexpr double kBlindPaid = 0.5, kWorthNaming = 0.05;  // of what the right answer earns
constexpr double kWrongPaid = 0.9;                       // of the same
constexpr std::size_t kShortGold = 12;                   // bytes
constexpr double kMore = 1.05;                           // of a number
constexpr double kNormal = 1.96;                         // Wilson's interval of 95 %

struct Policy {
  const char* name;
  const char* text;
  bool constant = false;  // it may be right by chance
};

// None of them reads its task. Empty answers, junk, bare tags and copied prompts are asked before (tried_reward.cpp).
constexpr Policy kPolicies[] = {
    {"blanks", "    \n  \n    "},
    {"42", "42", true},
    {"Yes", "Yes", true},
    {"A B C D E", "A B C D E", true},
    {"a refusal", "I'm sorry, but I can't help with that."},
    {"an empty box", "\\boxed{}"},
    {"an empty <answer>", "<answer></answer>"},
    {"an empty <think> and <answer>", "<think></think><answer></answer>"},
    {"an empty code block", "```python\n```"},
    {"headings only", "# Approach\n\n## Steps\n\n## Answer\n"},
    {"a numbered list", "1. First\n2. Second\n3. Third\n4. Fourth\n5. Fifth\n"},
    {"an empty JSON object", "{}"},
    {"confident words",
     "The answer follows directly. After a careful and complete analysis, the result is certain and correct, and it is "
     "exactly what was asked for."},
    {"hedged words",
     "It depends on several things. There may be more than one way to see it, and each of them could be right, so that one "
     "should perhaps look at it again."},
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  if (const std::size_t at = from.empty() ? std::string::npos : text.rfind(from); at != std::string::npos)
    text.replace(at, from.size(), to);
  return text;
}

double commonest_share(const RewardRows& rows, const std::string& column) {
  std::map<std::string, std::size_t> counts;
  std::size_t most = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    most = std::max(most, ++counts[format::column_text(rows.row(i).columns, column).value_or("")]);
  return static_cast<double>(most) / static_cast<double>(std::max<std::size_t>(1, rows.size()));
}

// The share of a constant's rows that are paid at least half, at the lower end of its interval.
double surely_paid(const Answered& one, double lowest, double best) {
  const auto all = static_cast<double>(one.values.size());
  const auto paid = static_cast<double>(std::ranges::count_if(
      one.values, [&](double v) { return v - lowest >= kBlindPaid * (best - lowest); }));
  if (all == 0) return 0;
  const double p = paid / all, z2 = kNormal * kNormal;
  return (p + z2 / (2 * all) - kNormal * std::sqrt(p * (1 - p) / all + z2 / (4 * all * all))) /
         (1 + z2 / all);
}

struct PaidBlind {
  const Answered* most = nullptr;
  double share = 0;   // of what the right answer earns
  std::string table;  // "an empty box 0.5, 42 0.125"
};

void add_paid(PaidBlind& out, const Answered& one, double share) {
  if (std::isnan(share) || share <= kWorthNaming) return;
  out.table += (out.table.empty() ? "" : ", ") + one.kind + " " + format::number(one.mean);
  if (out.most != nullptr && share <= out.share) return;
  out.most = &one;
  out.share = share;
}

}  // namespace

std::string corrupted_gold(const std::string& gold) {
  char* end = nullptr;
  const double value = std::strtod(gold.c_str(), &end);
  if (!gold.empty() && *end == '\0' && std::isfinite(value)) {
    if (value == std::round(value) && std::abs(value) < 1e15 &&
        gold.find_first_of(".eE") == std::string::npos) {
      const auto whole = static_cast<std::int64_t>(value);
      const auto more = static_cast<std::int64_t>(std::round(value * kMore));
      return std::to_string(more == whole ? whole + 1 : more);
    }
    const std::string other = format::number(value == 0 ? 1 : value * kMore);
    return other == gold ? "" : other;
  }
  if (gold.size() > kShortGold) return "";
  for (std::size_t i = 0; i + 1 < gold.size(); ++i) {
    const bool letters = std::isalpha(static_cast<unsigned char>(gold[i])) != 0 &&
                         std::isalpha(static_cast<unsigned char>(gold[i + 1])) != 0;
    if (!letters || std::tolower(static_cast<unsigned char>(gold[i])) ==
                        std::tolower(static_cast<unsigned char>(gold[i + 1])))
      continue;
    std::string out = gold;
    std::swap(out[i], out[i + 1]);
    return out;
  }
  return "";
}

RewardAttacks attack_reward(rewards::Reward& reward, const RewardRows& rows, const Texts& best,
                            const std::string& column, const std::function<bool()>& late) {
  RewardAttacks out;
  out.commonest = commonest_share(rows, column);
  for (const Policy& policy : kPolicies) {
    if (late()) return out;
    out.blind.push_back(ask(reward, rows, policy.name, Texts(rows.size(), policy.text)));
  }
  Texts wrong, boxed;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string gold =
        trimmed_text(rewards::after_hashes(format::column_text(rows.row(i).columns, column).value_or("")));
    const std::string other = corrupted_gold(gold);
    if (other.empty() || best[i].find(gold) == std::string::npos) return out;
    wrong.push_back(replaced(best[i], gold, other));
    boxed.push_back("\\boxed{" + other + "}");
  }
  if (!late()) out.corrupted.push_back(ask(reward, rows, "the right answer made wrong", wrong));
  if (!late()) out.corrupted.push_back(ask(reward, rows, "the right answer made wrong, in \\boxed{}", boxed));
  return out;
}

std::optional<Verdict> judge_attacks(const TriedReward& tried) {
  const RewardAttacks& attacks = tried.attacks();
  const double best = tried.best().mean, lowest = tried.lowest();
  if (!attacks.any() || !(best > lowest)) return std::nullopt;
  const auto share_of = [&](const Answered& one) { return (one.mean - lowest) / (best - lowest); };
  PaidBlind blind, wrong;
  for (const Answered& one : attacks.blind) {
    const auto policy = std::ranges::find_if(kPolicies, [&](const Policy& p) { return one.kind == p.name; });
    const bool by_chance = policy != std::end(kPolicies) && policy->constant &&
                           surely_paid(one, lowest, best) <= attacks.commonest;
    if (!by_chance) add_paid(blind, one, share_of(one));
  }
  for (const Answered& one : attacks.corrupted) add_paid(wrong, one, share_of(one));
  if (wrong.most != nullptr && wrong.share >= kWrongPaid) {
    Verdict out{.code = "RL-07", .level = Level::kWarn};
    out.what = tried.name() + ": " + wrong.most->kind + " earns " + format::number(wrong.most->mean) +
               ", the right one " + format::number(best);
    out.evidence = wrong.table + "; numbers with 5 % more, short texts with two letters exchanged";
    out.cause = "it matches the form of an answer, and hardly the answer itself";
    out.fix = "compare the whole answer; a tolerance below 5 %";
    out.cost = "a policy that learns to write the form";
    return out;
  }
  if (blind.most == nullptr || blind.share < kBlindPaid) return std::nullopt;
  Verdict out{.code = "RL-07", .level = Level::kWarn};
  out.what = tried.name() + ": " + blind.most->kind + ", which never reads the task, earns " +
             format::number(blind.most->mean) + ", the right answer " + format::number(best);
  out.evidence = blind.table + "; of " +
                 base::counted(static_cast<std::int64_t>(attacks.blind.size()), "blind answer") + " to " +
                 base::counted(static_cast<std::int64_t>(tried.rows().size()), "row");
  out.cause = "a great part of the reward needs no task";
  out.not_this =
      "guessing: a constant counts where it is paid more often than the most frequent right answer";
  out.fix = "give this part to right answers only, or as a reward of its own with a small weight";
  out.cost = "a policy that takes what is paid without the task";
  return out;
}

}  // namespace hone::doctor
