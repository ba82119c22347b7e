// A run opened and not yet begun: everything between the plan and step 1. The training commands begin it,
// `hone doctor` examines it and lets it go.
//
//   const std::unique_ptr<OpenedRun> run = open_run(plan, listener);
//   const LoopResult result = begin_run(*run, listener, stop_requested, &guard);
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "adapters/lora.h"
#include "config/plan.h"
#include "data/preferences.h"
#include "model/causal_lm.h"
#include "model/weight_source.h"
#include "rewards/reward.h"
#include "train/guard.h"
#include "train/loop.h"
#include "train/open_model.h"
#include "train/run_setup.h"
#include "train/step_facts.h"

namespace hone::train {

struct SftData;
struct PolicyPrompts;

// Its parts refer to each other: it stays where it was made. Methods derive from it what they own besides.
struct OpenedRun {
  explicit OpenedRun(const config::Plan& of) : plan(of), place(of) {}
  virtual ~OpenedRun() = default;
  OpenedRun(const OpenedRun&) = delete;
  OpenedRun& operator=(const OpenedRun&) = delete;

  const config::Plan plan;
  RunPlace place;
  std::unique_ptr<model::WeightSource> source;
  std::optional<OpenedText> text;
  std::optional<model::CausalLm> model;
  std::optional<adapters::Adapter> adapter;
  std::optional<Standing> standing;
  StartFacts start;
  std::unique_ptr<Method> method;

  // What a method of that kind reads; null or empty for others.
  virtual const SftData* examples() const { return nullptr; }
  virtual const PolicyPrompts* prompts() const { return nullptr; }
  virtual const std::vector<data::PreferencePair>* pairs() const { return nullptr; }
  virtual std::span<const std::unique_ptr<rewards::Reward>> rewards() const { return {}; }
  // Of each of them, the columns that it cannot do without (rewards::needed_columns).
  virtual std::span<const std::vector<std::string>> reward_columns() const { return {}; }
  // Just before step 1, when output_dir is there.
  virtual void opened() {}
};

// Reads, checks, attaches, plans; writes nothing. UserError when the input is at fault. `listener` must
// outlive the run.
std::unique_ptr<OpenedRun> open_run(const config::Plan& plan, RunListener& listener);
std::unique_ptr<OpenedRun> open_sft(const config::Plan& plan, RunListener& listener);
std::unique_ptr<OpenedRun> open_policy(const config::Plan& plan, RunListener& listener);  // GRPO and RLOO
std::unique_ptr<OpenedRun> open_dpo(const config::Plan& plan, RunListener& listener);
std::unique_ptr<OpenedRun> open_online_dpo(const config::Plan& plan, RunListener& listener);
std::unique_ptr<OpenedRun> open_reward_model(const config::Plan& plan, RunListener& listener);
std::unique_ptr<OpenedRun> open_kto(const config::Plan& plan, RunListener& listener);

// Makes output_dir, announces, trains, saves. `guard` may be null.
LoopResult begin_run(OpenedRun& run, RunListener& listener, const std::atomic<bool>& stop_requested,
                     RunGuard* guard = nullptr);

}  // namespace hone::train
