// Completions beside the training, greedy, with the weights of that moment and dropout off: of fixed prompts, which show how the
// model changes (sample_prompts), and of the rows to evaluate, which eval_reward_funcs score. They change no bit of the run.
//
// A text of sample_prompts is the user's turn where the run's rows are conversations, else what the model continues.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/plan.h"
#include "model/causal_lm.h"
#include "rewards/reward.h"
#include "rollout/completion.h"
#include "train/batches/rollout_source.h"
#include "train/facts/step_facts.h"
#include "train/loop/loop.h"

namespace hone::train {

struct OpenedRun;

class RunSampler {
 public:
  // Reads prompts and opens rewards, before the weights: the run has its text, and of a method that samples its prompts. UserError:
  // rows without a prompt, prompts that leave no room for a completion, rewards that do not open or lack a column. The run must
  // outlive it.
  explicit RunSampler(const OpenedRun& run);

  // Returns what sampling takes at most, for the memory plan.
  std::int64_t bytes(const model::CausalLm& model);
  std::int64_t graph_bytes(const model::CausalLm& model) const;  // train::graph_bytes() of its sequences
  // The run is open: what follows may be called, and its start page has their lines.
  void begin(OpenedRun& run);

  // Returns whether sample_prompts are completed after `step` steps; `evaluated`: at this step.
  bool is_due(std::int64_t step, bool evaluated) const;
  // Those of the rows to evaluate are not sampled again where score() has just done so.
  SampleFacts sample(std::int64_t step);
  // Adds the rewards of each set's completions to its metrics: rewards/NAME/mean, std, ci_low and ci_high (learn/mean_interval.h;
  // left out where there is none), and what the functions log. A method that samples has rewards of its own there: NAME_greedy.
  // `listener` is told what rewards warn of and print. UserError of a reward function.
  void score(std::int64_t step, double epoch, std::vector<EvalFacts>& sets, RunListener& listener);

  // For the doctor: the rewards, their columns (rewards::required_columns), and the first set's rows.
  const std::vector<std::unique_ptr<rewards::Reward>>& rewards() const { return rewards_; }
  const std::vector<std::vector<std::string>>& columns() const { return columns_; }
  const PolicyPrompts& scored_prompts() const { return scored_.front()->prompts; }

 private:
  struct Set {
    std::string name;  // EvalFacts::set
    PolicyPrompts prompts;
    std::unique_ptr<LiveRollouts> source;
  };

  void read_samples(const OpenedRun& run);
  void read_scored(const OpenedRun& run);
  PolicyPrompts tokenized(const OpenedRun& run, std::vector<data::PromptRow> rows) const;
  void require_room(const OpenedRun& run, const PolicyPrompts& prompts) const;
  void open_rewards();
  SourcedRollouts complete(Set& set, base::Json trainer_state) const;
  void add_metrics(const SourcedRollouts& made, EvalFacts& to) const;

  const config::Plan& plan_;
  Set samples_;
  std::vector<std::unique_ptr<Set>> scored_;
  std::vector<std::unique_ptr<rewards::Reward>> rewards_, none_;
  std::vector<std::vector<std::string>> columns_;
  std::int64_t kv_memory_ = 0, total_steps_ = 0;
  std::optional<RolloutFacts> last_scored_;  // of the first set
};

// Null: the plan asks for neither.
std::unique_ptr<RunSampler> open_sampler(const OpenedRun& run);

}  // namespace hone::train
