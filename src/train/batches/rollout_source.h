// Generation batches are sampled by the trained model and scored during sampling, or read from a file
// (--replay).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/plan.h"
#include "data/files/block_stream.h"
#include "data/forms/prompts.h"
#include "model/causal_lm.h"
#include "ops/machine/step_graphs.h"
#include "rewards/reward_queue.h"
#include "rollout/completion.h"
#include "rollout/former_texts.h"
#include "text/tokenizer.h"
#include "train/batches/rollout_batch.h"
#include "train/batches/tool_journal.h"
#include "train/facts/step_facts.h"

namespace hone::train {

struct PolicyPrompts {
  std::vector<data::PromptRow> rows;
  std::vector<data::TokenizedPrompt> tokens;
  // Of streamed rows the first ones are above, for what looks at the data before step 1; null: all are there.
  std::shared_ptr<data::BlockStream<PolicyPrompts>> stream = nullptr;

  std::size_t size() const { return rows.size(); }
  std::int64_t longest() const;
  // By the numbers of the run's order; streamed rows are held (data/files/block_stream.h).
  const data::PromptRow& row(std::int64_t index) const;
  const data::TokenizedPrompt& token_row(std::int64_t index) const;
};

struct RolloutRequest {
  std::int64_t generation = 0;  // number of the batch in the run; with `evaluation` of the evaluation batch
  std::vector<std::int64_t> rows;  // prompts, num_generations completions each
  // Gives each row its number among the rows of the whole batch, of which this is a rank's part; it keys the
  // randomness, and numbers samples for reward functions. Empty: these are all.
  std::vector<std::size_t> places = {};
  std::int64_t num_generations = 1;
  bool evaluation = false;                          // its own randomness, the same in each evaluation
  base::Json trainer_state = base::Json::object();  // what reward functions see
};

struct SourcedRollouts {
  RolloutBatch batch;
  RolloutFacts facts;               // completions without advantages
  std::vector<NamedValue> metrics;  // log_metric of reward functions
  double rollout_seconds = 0;
  double reward_seconds = 0;  // waited for after the last token
  // StepLoss::counts, with drafts: spec/drafted, spec/accepted, spec/passes, spec/seconds_saved (rollout::DraftFacts). With
  // HONE_STEP_GRAPHS=on: graphs/recorded, graphs/started (ops/machine/step_graphs.h).
  std::vector<NamedValue> counts = {};
};

void add_counts(std::vector<NamedValue>& to, const std::vector<NamedValue>& more);  // by name

class RolloutSource {
 public:
  virtual ~RolloutSource() = default;
  virtual const std::vector<std::string>& reward_names() const = 0;
  virtual SourcedRollouts make(const RolloutRequest& request) = 0;
  virtual bool has_tools() const { return false; }  // of its batches: RolloutBatch::has_tools
  // No batch before that one is made again, also not by a run that goes on from a checkpoint.
  virtual void forget_before(std::int64_t /*generation*/) {}
  // Whether parts of a batch may be made by several ranks, and the tokens of a prompt, by which they are balanced.
  virtual bool has_parts() const { return false; }
  virtual std::int64_t prompt_tokens(std::int64_t /*row*/) const { return 1; }
  // Whether what the model says of the completions is to be computed by a pass: a function of the user's has made them.
  virtual bool lacks_scores() const { return false; }
  // Whether the log-probabilities of a batch are the trainer's own, as far as rounding goes; false: the sampler has other kernels, and
  // they are near.
  virtual bool has_the_trainers_scores() const { return true; }
};

struct ToolUse;      // train/batches/tool_rollouts.h
struct FunctionUse;  // train/batches/function_rollouts.h

// Samples with the trainer's own weights and adapter, dropout off. All must outlive it.
class LiveRollouts final : public RolloutSource {
 public:
  // `options` are sampling_options(), or more exact ones. `by_group`: every function is called by group, while others
  // are sampled; otherwise those with Reward::takes_batch() get the whole batch, after sampling. `tools`: what the model may call
  // while it samples; null: nothing.
  LiveRollouts(rollout::GenerateOptions options, const model::CausalLm& model, const PolicyPrompts& prompts,
               const text::Tokenizer& tokenizer, const std::vector<std::unique_ptr<rewards::Reward>>& rewards,
               bool by_group = false, ToolUse* tools = nullptr);

  const std::vector<std::string>& reward_names() const override { return names_; }
  bool has_tools() const override { return tools_ != nullptr; }
  // UserError of a reward function; rollout::generate's.
  SourcedRollouts make(const RolloutRequest& request) override;
  void forget_before(std::int64_t generation) override;
  bool has_parts() const override { return true; }
  // For training batches what tools answer is kept at `place`, and looked up by a run that goes on.
  void keep_journal(JournalPlace place) { journal_place_ = std::move(place); }
  // A function of the user's makes the completions; it must outlive this.
  void roll_out_by(FunctionUse* function) { function_ = function; }
  bool lacks_scores() const override { return function_ != nullptr; }
  bool has_the_trainers_scores() const override;
  std::int64_t prompt_tokens(std::int64_t row) const override {
    return static_cast<std::int64_t>(prompts_.token_row(row).ids.size());
  }

 private:
  struct Making;  // a batch under way
  void sample(Making& making);
  void keep_texts(const Making& making);
  void sample_by_function(Making& making, const std::vector<const data::PromptRow*>& rows,
                          const rollout::GenerateOptions& options);
  void take_sample(Making& making, std::size_t index, RolloutSample sample);
  void ask_environments(Making& making);
  void tell_of_graphs(Making& making, const ops::StepGraphFacts& before);
  void fill_facts(Making& making) const;
  rewards::Request reward_request(const Making& making, std::size_t first, std::size_t count) const;
  void take_scores(SourcedRollouts& out, const RolloutRequest& request, std::size_t first,
                   const std::vector<rewards::Scores>& by_function) const;
  ToolJournal* journal_from(std::uint64_t generation);

  const model::CausalLm& model_;
  const PolicyPrompts& prompts_;
  const text::Tokenizer& tokenizer_;
  std::vector<std::string> names_;
  rollout::GenerateOptions options_;
  bool by_group_;
  ToolUse* tools_;
  FunctionUse* function_ = nullptr;
  std::optional<JournalPlace> journal_place_;
  std::unique_ptr<ToolJournal> journal_;  // once there was a training batch
  rewards::RewardQueue queue_;
  // What was said of each row before; nothing: nothing is guessed from it. A run that goes on from a checkpoint begins without.
  std::optional<rollout::FormerTexts> former_;
  bool has_told_of_graphs_ = false;
};

// The batches of a file, in order; after the last it starts again.
class ReplayedRollouts final : public RolloutSource {
 public:
  ReplayedRollouts(std::vector<RolloutBatch> batches, const text::Tokenizer& tokenizer);

  const std::vector<std::string>& reward_names() const override { return batches_.front().reward_names; }
  SourcedRollouts make(const RolloutRequest& request) override;

 private:
  std::vector<RolloutBatch> batches_;
  const text::Tokenizer& tokenizer_;
};

// Ends a run whose rewards score no completion in several batches in a row.
class UnscoredBatches {
 public:
  // `none`: not one completion of the batch was scored. UserError after three such, one after another.
  void see(bool none, std::int64_t generation);

 private:
  int count_ = 0;
};

// transformers' TrainerState after `step` steps, as reward functions see it; log_history stays empty.
base::Json trainer_state(const config::Plan& plan, std::int64_t step, std::int64_t total_steps, double epoch);

// How a run samples: the plan's words for rollout/. The tokenizer must outlive it.
rollout::GenerateOptions sampling_options(const config::Plan& plan, const model::ModelConfig& config,
                                          const text::Tokenizer& tokenizer);

}  // namespace hone::train
