// Probe P8 (docs/design.md): rewards tried on answers whose quality is known, right ones from a column of the
// data that holds them, and junk; and by experiment what a score depends on. Before a run for at most ten
// seconds in all, unless probe_rewards is false; with `--deep` twice as many rows are asked.
#include <algorithm>
#include <optional>

#include "doctor/checks/check_format.h"
#include "doctor/examination.h"
#include "doctor/probes/rewards/judge_reward.h"
#include "doctor/probes/rewards/reward_sums.h"
#include "doctor/probes/rewards/tried_reward.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

constexpr std::size_t kQuickRows = 8, kDeepRows = 16;
constexpr double kPatience = 10;  // seconds of all rewards together, before a run
constexpr const char* kNoted = "rewards were not called: probe_rewards is false";
constexpr const char* kByFunction =
    "rewards were not called: they may read columns that only the rollout function gives";

// For judge_sums(); none where it was asked other rows than the others, or otherwise.
std::optional<ScoredAnswers> scored_answers(const TriedReward& tried, double weight) {
  if (tried.asked_own_rows() || tried.asked_together() || tried.calls().empty() || !tried.error().empty())
    return std::nullopt;
  const Answered* const junk = tried.asked("junk");
  const bool pays =
      tried.reads_gold() && junk != nullptr && tried.golds() > 0 && tried.best().mean > junk->mean;
  return ScoredAnswers{.name = tried.reward().name(),
                       .weight = weight,
                       .pays_right = pays,
                       .golds = tried.golds(),
                       .calls = &tried.calls()};
}

// Rewards of the run's own training; `left` seconds.
Verdicts probe_training(const train::RunView& run, Depth depth, double& left) {
  const train::SampledData& data = run.sampled();
  const RewardRows rows(run, data.train_prompts, depth == Depth::kDeep ? kDeepRows : kQuickRows);
  const std::string gold = format::gold_column(data.train_prompts);
  std::vector<TriedReward> trials;
  for (std::size_t i = 0; i < data.rewards.size(); ++i) {
    if (data.rewards[i]->wants_environments()) continue;  // probe_rollout asks it, with those of dialogues
    AskedReward asked{.word = run.plan.policy.reward_funcs[i],
                      .needed = i < data.columns.size() ? data.columns[i] : std::vector<std::string>(),
                      .depth = depth,
                      .patience = left,
                      .most_tokens = run.plan.policy.max_completion_length};
    trials.emplace_back(*data.rewards[i], std::move(asked), rows);
    trials.back().run(gold);
    left = std::max(0.0, left - trials.back().seconds());
  }
  const bool silent = std::all_of(trials.begin(), trials.end(), [](const TriedReward& one) {
    return one.constant() || one.same_in_each_row() || one.scores_none();
  });
  Verdicts out;
  std::vector<ScoredAnswers> scored;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    for (Verdict& one : judge_reward(trials[i], silent)) out.push_back(std::move(one));
    const std::vector<double>& weights = run.plan.policy.reward_weights;
    if (auto one = scored_answers(trials[i], i < weights.size() ? weights[i] : 1.0))
      scored.push_back(*std::move(one));
  }
  if (scored.size() == data.rewards.size()) {
    for (Verdict& one : judge_sums(scored)) out.push_back(std::move(one));
  }
  // The run's calls find them as a run without an examination does.
  for (const auto& reward : data.rewards) reward->reset();
  return out;
}

// The column with right answers: the data's own name for it, or what the rows are trained to say.
std::string gold_of_evaluation(const train::PolicyPrompts& prompts) {
  std::string out = format::gold_column(prompts);
  for (const char* name : {"completion", "chosen"}) {
    if (out.empty() && prompts.rows.front().columns.contains(name)) out = name;
  }
  return out;
}

// What a fault costs where nothing is trained on the scores: only a function that cannot be called stops the run.
Verdict of_evaluation(Verdict one) {
  one.what = "evaluation: " + one.what;
  if (one.code != "RL-05" && one.level == Level::kFail) one.level = Level::kWarn;
  if (!one.cost.empty()) one.cost = "its numbers in evaluations say little of the model";
  return one;
}

// Those of eval_reward_funcs that the training does not have.
Verdicts probe_evaluation(const train::RunView& run, Depth depth, double& left) {
  const train::RunSampler& sampler = *run.sampler;
  const std::vector<std::string>& known = run.plan.policy.reward_funcs;
  const RewardRows rows(run, sampler.scored_prompts(), depth == Depth::kDeep ? kDeepRows : kQuickRows);
  Verdicts out;
  for (std::size_t i = 0; i < sampler.rewards().size(); ++i) {
    const std::string& word = run.plan.eval_reward_funcs[i];
    if (std::find(known.begin(), known.end(), word) != known.end()) continue;
    TriedReward trial(*sampler.rewards()[i],
                      {.word = word,
                       .needed = sampler.columns()[i],
                       .depth = depth,
                       .patience = left,
                       .most_tokens = run.plan.sample_max_new_tokens},
                      rows);
    trial.run(gold_of_evaluation(sampler.scored_prompts()));
    left = std::max(0.0, left - trial.seconds());
    for (Verdict& one : judge_reward(trial, /*only=*/false)) out.push_back(of_evaluation(std::move(one)));
    sampler.rewards()[i]->reset();
  }
  return out;
}

}  // namespace

bool has_rewards(const train::RunView& run) {
  const bool trains =
      run.samples() && !run.sampled().train_prompts.rows.empty() && !run.sampled().rewards.empty();
  return trains || run.plan.scores_completions();
}

Verdicts probe_reward(const train::RunView& run, Depth depth) {
  if (!has_rewards(run)) return {};
  if (!run.plan.probe_rewards && depth == Depth::kRun)
    return {{.code = "RL-05", .level = Level::kNote, .what = kNoted}};
  double left = kPatience;
  Verdicts out;
  if (run.samples() && run.sampled().function != nullptr) {
    out.push_back({.code = "RL-05", .level = Level::kNote, .what = kByFunction});
  } else if (run.samples() && !run.sampled().train_prompts.rows.empty() && !run.sampled().rewards.empty()) {
    out = probe_training(run, depth, left);
  }
  if (run.plan.scores_completions()) {
    for (Verdict& one : probe_evaluation(run, depth, left)) out.push_back(std::move(one));
  }
  return out;
}

}  // namespace hone::doctor
