// Values of options that leave nothing to learn from: groups of equal completions (RL-02), a loss without a
// preference (PREF-01), a term that outweighs the rest (NUM-10).
#include "config/method_traits.h"
#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

constexpr double kColdest = 0.05;      // below: the most likely token nearly always
constexpr double kNarrowest = 0.05;    // of top_p: nearly always one token
constexpr double kMostKl = 1;          // of grpo and rloo; usual is 0 to 0.1
constexpr double kMostPairBeta = 10;   // of dpo, kto: usual is 0.01 to 1, and some recipes of a few
constexpr double kNoPreference = 0.5;  // of label_smoothing: both sides count the same

std::string set_to(const char* option, double value) {
  return std::string(option) + " " + format::number(value);
}

// The option that lets a group have one completion only; empty: none.
std::string one_completion(const config::PolicyPlan& policy) {
  if (policy.top_k == 1) return set_to("top_k", 1);
  if (policy.min_p >= 1) return set_to("min_p", policy.min_p);
  if (policy.top_p <= kNarrowest) return set_to("top_p", policy.top_p);
  if (policy.temperature <= kColdest) return set_to("temperature", policy.temperature);
  return {};
}

std::optional<Verdict> check_sampling(const train::RunView& run) {
  const config::PolicyPlan& policy = run.plan.policy;
  if (!policy.replay.empty()) return std::nullopt;
  const std::string option = one_completion(policy);
  if (option.empty()) return std::nullopt;
  Verdict out{.code = "RL-02", .level = Level::kWarn};
  out.what = option + ": the completions of a prompt are all the same, or nearly";
  out.evidence = "temperature " + format::number(policy.temperature) + ", top_p " +
                 format::number(policy.top_p) + ", top_k " + std::to_string(policy.top_k) + ", min_p " +
                 format::number(policy.min_p);
  out.cause = "sampling takes the most likely token each time";
  const std::string name = option.substr(0, option.find(' '));
  out.fix = name == "temperature" || name == "top_p" ? name + ": 1.0" : name + ": 0";
  out.cost = "equal completions have equal rewards: every advantage and every gradient is 0";
  return out;
}

std::optional<Verdict> check_beta(const train::RunView& run) {
  const config::Plan& plan = run.plan;
  const config::MethodTraits& method = config::method_traits(plan.method);
  const bool policy = method.groups;
  const double beta = method.beta == nullptr ? 0 : method.beta(plan);
  if (beta < (policy ? kMostKl : kMostPairBeta)) return std::nullopt;
  Verdict out{.code = "NUM-10", .level = Level::kWarn};
  out.what = set_to("beta", beta) + (policy ? ": the distance from the reference weighs more than the rewards"
                                            : ": the smallest step from the reference saturates the loss");
  out.evidence = policy ? "advantages are about 1; usual is 0 to 0.1" : "usual is 0.01 to 1";
  out.cause = "suspected: a value of another option, or of another scale";
  out.fix = policy ? "beta: 0.04" : "beta: 0.1";
  out.cost = "a policy that stays where it began";
  return out;
}

std::optional<Verdict> check_smoothing(const train::RunView& run) {
  const config::Plan& plan = run.plan;
  const auto smoothing_of = config::method_traits(plan.method).label_smoothing;
  const double smoothing = smoothing_of == nullptr ? 0 : smoothing_of(plan);
  if (smoothing < kNoPreference) return std::nullopt;
  Verdict out{.code = "PREF-01", .level = Level::kWarn};
  out.what = set_to("label_smoothing", smoothing) + (smoothing > kNoPreference
                                                         ? ": rejected counts more than chosen"
                                                         : ": chosen and rejected count the same");
  out.evidence = "the loss has " + format::number(1 - smoothing) + " of a pair as it is, and " +
                 format::number(smoothing) + " of it the other way round";
  out.cause = "it is the share of pairs that are assumed to be wrong; 0.5 is a coin";
  out.fix = "label_smoothing: 0.1";
  out.cost = smoothing > kNoPreference ? "the run learns the rejected answers" : "no preference is learned";
  return out;
}

std::optional<Verdict> check_kto_weights(const train::RunView& run) {
  const auto* const start = std::get_if<train::UnpairedStartFacts>(&run.start.method);
  if (start == nullptr) return std::nullopt;
  const data::UnpairedFacts& facts = start->data;
  const std::int64_t good = facts.desirable, all = facts.kept;
  const bool no_good = run.plan.kto.desirable_weight == 0, no_bad = run.plan.kto.undesirable_weight == 0;
  const std::int64_t lost = (no_good ? good : 0) + (no_bad ? all - good : 0);
  if (lost == 0) return std::nullopt;
  Verdict out{.code = "NUM-10", .level = Level::kWarn};
  out.what = std::string(no_good ? "desirable_weight" : "undesirable_weight") +
             " 0: " + std::to_string(lost) + " of " + format::counted(all, "row") + " have no gradient";
  out.evidence = format::counted(good, "desirable row") + ", " + std::to_string(all - good) + " undesirable";
  out.cause = "a weight multiplies the loss of its rows";
  out.fix =
      std::string(no_good ? "desirable_weight" : "undesirable_weight") + ": 1.0, or leave these rows out";
  out.cost = format::percent(static_cast<double>(lost), static_cast<double>(all)) + " of the compute";
  return out;
}

}  // namespace

Verdicts check_values(const train::RunView& run) {
  Verdicts out;
  const auto add = [&](std::optional<Verdict> one) {
    if (one) out.push_back(*std::move(one));
  };
  if (run.samples()) add(check_sampling(run));
  add(check_beta(run));
  add(check_smoothing(run));
  add(check_kto_weights(run));
  return out;
}

}  // namespace hone::doctor
