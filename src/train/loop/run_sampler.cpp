#include "train/loop/run_sampler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/strings/plural.h"
#include "data/forms/row_prompts.h"
#include "learn/mean_interval.h"
#include "model/config/rotations.h"
#include "rewards/open_reward.h"
#include "rollout/kv_memory.h"
#include "train/opening/memory_inputs.h"
#include "train/opening/open_run.h"
#include "train/opening/reward_opening.h"
#include "train/steps/micro_batches.h"

namespace hone::train {

namespace {

constexpr const char* kRewards = "eval_reward_funcs";
constexpr std::int64_t kAtOnce = 16;  // sequences that decode together

data::RowSource source_of(const OpenedRun& run, const base::RowFiles& files) {
  return data::RowSource(rows_for(run.text->tokenizer, run.plan, files));
}

PolicyPrompts first_of(const PolicyPrompts& all, std::int64_t most) {
  const auto count = static_cast<std::ptrdiff_t>(
      most == 0 ? all.rows.size() : std::min(all.rows.size(), static_cast<std::size_t>(most)));
  return {.rows = {all.rows.begin(), all.rows.begin() + count},
          .tokens = {all.tokens.begin(), all.tokens.begin() + count}};
}

bool has_conversations(const OpenedRun& run) {
  if (run.data.samples()) {
    const auto& rows = run.data.sampled().train_prompts.rows;
    return !rows.empty() && rows.front().prompt.is_array();
  }
  return data::are_conversations(source_of(run, run.plan.train_rows), run.plan.dataset_text_field);
}

// A text as the user's turn, after the system turn that the run's rows get.
base::Json turns_of(const std::string& text, const OpenedRun& run) {
  const base::RowFiles rows = rows_for(run.text->tokenizer, run.plan, run.plan.train_rows);
  const std::string& system =
      run.plan.system_prompt.empty() ? rows.mapping.system_prompt : run.plan.system_prompt;
  base::Json out = base::Json::array();
  if (!system.empty() || rows.empty_system_turn) out.push_back({{"role", "system"}, {"content", system}});
  out.push_back({{"role", "user"}, {"content", text}});
  return out;
}

// What the user wrote, or the rows of a file.
std::vector<data::PromptRow> written_prompts(const OpenedRun& run) {
  std::vector<data::PromptRow> out;
  if (!run.plan.sample_file.empty())
    out = data::read_prompt_rows(data::RowSource(base::fs::path(run.plan.sample_file)));
  for (std::size_t i = 0; i < run.plan.sample_texts.size(); ++i) {
    out.push_back({.prompt = run.plan.sample_texts[i],
                   .columns = base::Json::object(),
                   .where = "sample_prompts " + std::to_string(i + 1)});
  }
  const bool are_texts = std::ranges::any_of(out, [](const auto& row) { return row.prompt.is_string(); });
  if (!are_texts || run.text->chat_template == nullptr || !has_conversations(run)) return out;
  for (data::PromptRow& row : out) {
    if (row.prompt.is_string()) row.prompt = turns_of(row.prompt.get<std::string>(), run);
  }
  return out;
}

std::vector<config::EvalSet> sets_of(const config::DataPlan& plan) {
  if (plan.dataset_test.empty()) return {};
  if (!plan.eval_sets.empty()) return plan.eval_sets;
  return {{.name = "", .rows = plan.eval_rows}};
}

rollout::GenerateOptions greedy_options(const OpenedRun& run, std::int64_t kv_memory) {
  rollout::GenerateOptions out = sampling_options(run.plan, run.source->config(), run.text->tokenizer);
  out.sampler = {};
  out.max_new_tokens = run.plan.sample_max_new_tokens;
  out.min_new_tokens = 0;
  out.batch_size = kAtOnce;
  out.kv_memory = kv_memory;
  out.entropies = out.logprobs = false;
  out.keeps_texts = false;
  return out;
}

std::string names_of(const std::vector<std::unique_ptr<rewards::Reward>>& rewards) {
  std::string out;
  for (const auto& one : rewards) out += (out.empty() ? "" : ", ") + one->name();
  return out;
}

}  // namespace

RunSampler::RunSampler(const OpenedRun& run) : plan_(run.plan) {
  if (plan_.samples_prompts()) read_samples(run);
  if (plan_.scores_completions()) read_scored(run);
  require_room(run, samples_.prompts);
  for (const auto& set : scored_) require_room(run, set->prompts);
}

void RunSampler::read_samples(const OpenedRun& run) {
  if (plan_.sample_rows == 0) {
    samples_.prompts = tokenized(run, written_prompts(run));
  } else if (run.data.samples()) {
    const SampledData& data = run.data.sampled();
    const PolicyPrompts& rows = data.eval_prompts.rows.empty() ? data.train_prompts : data.eval_prompts;
    samples_.prompts = first_of(rows, plan_.sample_rows);
  } else {
    const std::vector<config::EvalSet> sets = sets_of(plan_);
    const base::RowFiles& rows = sets.empty() ? plan_.train_rows : sets.front().rows;
    samples_.prompts = tokenized(
        run, data::read_row_prompts(source_of(run, rows), plan_.dataset_text_field, plan_.sample_rows));
  }
  if (!samples_.prompts.rows.empty()) return;
  throw base::UserError({.where = "sample_prompts",
                         .expected = "rows to take prompts from",
                         .found = "a replay without a data set",
                         .fix = "write the prompts themselves in sample_prompts, or name a dataset_name"});
}

void RunSampler::read_scored(const OpenedRun& run) {
  if (run.data.samples()) {
    scored_.push_back(std::make_unique<Set>());
    scored_.back()->prompts = first_of(run.data.sampled().eval_prompts, plan_.eval_reward_rows);
  } else {
    for (const config::EvalSet& set : sets_of(plan_)) {
      scored_.push_back(std::make_unique<Set>());
      scored_.back()->name = set.name;
      scored_.back()->prompts = tokenized(
          run,
          data::read_row_prompts(source_of(run, set.rows), plan_.dataset_text_field, plan_.eval_reward_rows));
    }
  }
  if (scored_.empty() || scored_.front()->prompts.rows.empty()) {
    throw base::UserError({.where = kRewards,
                           .expected = "rows to evaluate",
                           .found = "none",
                           .fix = "name them with eval_dataset"});
  }
  open_rewards();
}

void RunSampler::open_rewards() {
  try {
    rewards_ = rewards::open_rewards(plan_.eval_reward_funcs, reward_options(plan_));
  } catch (const base::UserError& error) {  // which names the option of a method that samples
    base::ErrorText text = error.text();
    if (text.where.starts_with("reward_funcs")) text.where = "eval_" + text.where;
    throw base::UserError(std::move(text));
  }
  columns_ = needed_columns(plan_.eval_reward_funcs, rewards_);
  for (const auto& set : scored_) require_columns(kRewards, plan_.eval_reward_funcs, columns_, set->prompts);
}

PolicyPrompts RunSampler::tokenized(const OpenedRun& run, std::vector<data::PromptRow> rows) const {
  PolicyPrompts out{.rows = std::move(rows), .tokens = {}};
  out.tokens = data::tokenize_prompts(out.rows, run.text->tokenizer, run.text->chat_template.get(),
                                      template_kwargs(plan_), run.source->config().vocab_size);
  const auto kept = static_cast<std::size_t>(plan_.max_prompt_length);
  for (data::TokenizedPrompt& prompt : out.tokens) {
    std::vector<std::int32_t>& ids = prompt.ids;
    if (kept > 0 && ids.size() > kept) ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(kept));
  }
  return out;
}

// Of the model's positions, beside the prompt.
void RunSampler::require_room(const OpenedRun& run, const PolicyPrompts& prompts) const {
  const std::int64_t positions = model::longest_generated(run.source->config());
  for (std::size_t i = 0; i < prompts.rows.size(); ++i) {
    const auto length = static_cast<std::int64_t>(prompts.tokens[i].ids.size());
    if (length + plan_.sample_max_new_tokens <= positions) continue;
    throw base::UserError(
        {.where = prompts.rows[i].where,
         .expected = "a prompt that leaves room for sample_max_new_tokens " +
                     std::to_string(plan_.sample_max_new_tokens) + " within the model's " +
                     std::to_string(positions) + " positions",
         .found = base::counted(length, "token"),
         .cause = "completions of such prompts are sampled beside the training",
         .fix =
             "lower sample_max_new_tokens, or the number of rows with sample_prompts and eval_reward_rows"});
  }
}

std::int64_t RunSampler::bytes(const model::CausalLm& model) {
  std::int64_t most = static_cast<std::int64_t>(samples_.prompts.rows.size()),
               longest = samples_.prompts.longest();
  for (const auto& set : scored_) {
    most = std::max(most, static_cast<std::int64_t>(set->prompts.rows.size()));
    longest = std::max(longest, set->prompts.longest());
  }
  rollout::GenerateOptions options;
  options.max_new_tokens = plan_.sample_max_new_tokens;
  options.batch_size = kAtOnce;
  options.share_prompt = plan_.share_prompt;
  const std::int64_t together = std::min(most, kAtOnce);
  const rollout::KvBytes kv =
      rollout::kv_bytes(model.config(), model.dtypes().linear, longest, options, model.device());
  kv_memory_ = together * (kv.prompt + kv.sample);
  return sampling_bytes(model, {.prompts = together, .longest_prompt = longest}, options);
}

std::int64_t RunSampler::graph_bytes(const model::CausalLm& model) const {
  std::size_t most = samples_.prompts.rows.size();
  std::int64_t longest = samples_.prompts.longest();
  for (const auto& set : scored_) {
    most = std::max(most, set->prompts.rows.size());
    longest = std::max(longest, set->prompts.longest());
  }
  return train::graph_bytes(model, std::min(static_cast<std::int64_t>(most), kAtOnce),
                            longest + plan_.sample_max_new_tokens);
}

void RunSampler::begin(OpenedRun& run) {
  total_steps_ = run.start.total_steps;
  const rollout::GenerateOptions options = greedy_options(run, kv_memory_);
  const text::Tokenizer& tokenizer = run.text->tokenizer;
  const std::string how = "at most " + base::counted(plan_.sample_max_new_tokens, "new token");
  if (!samples_.prompts.rows.empty()) {
    samples_.source = std::make_unique<LiveRollouts>(options, *run.model, samples_.prompts, tokenizer, none_);
    const std::string when =
        plan_.sample_steps > 0 ? "every " + base::counted(plan_.sample_steps, "step") : "at each evaluation";
    run.start.samples = "completions of " +
                        base::counted(static_cast<std::int64_t>(samples_.prompts.rows.size()), "prompt") +
                        ", greedy, " + how + ": before step 1, " + when + ", at the end";
  }
  std::int64_t rows = 0;
  for (const auto& set : scored_) {
    set->source = std::make_unique<LiveRollouts>(options, *run.model, set->prompts, tokenizer, rewards_);
    rows += static_cast<std::int64_t>(set->prompts.rows.size());
  }
  if (rows > 0) {
    run.start.scored =
        names_of(rewards_) + " of greedy completions of " + base::counted(rows, "row") + ", " + how;
  }
}

bool RunSampler::is_due(std::int64_t step, bool evaluated) const {
  if (samples_.source == nullptr) return false;
  if (step == 0 || step == total_steps_) return true;
  return plan_.sample_steps > 0 ? step % plan_.sample_steps == 0 : evaluated;
}

SourcedRollouts RunSampler::complete(Set& set, base::Json trainer_state) const {
  return set.source->make({.generation = 0,
                           .rows = row_range(0, static_cast<std::int64_t>(set.prompts.rows.size())),
                           .num_generations = 1,
                           .evaluation = true,
                           .trainer_state = std::move(trainer_state)});
}

SampleFacts RunSampler::sample(std::int64_t step) {
  SampleFacts out{.step = step, .total_steps = total_steps_};
  const std::size_t count = samples_.prompts.rows.size();
  const bool are_scored = plan_.sample_rows > 0 && last_scored_ && last_scored_->step == step &&
                          last_scored_->completions.size() >= count;
  if (are_scored) {
    out.reward_names = last_scored_->reward_names;
    const auto begin = last_scored_->completions.begin();
    out.completions.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
    return out;
  }
  out.completions = complete(samples_, base::Json::object()).facts.completions;
  return out;
}

void RunSampler::add_metrics(const SourcedRollouts& made, EvalFacts& to) const {
  const std::string suffix = config::samples(plan_.method) ? "_greedy" : "";
  for (std::size_t k = 0; k < rewards_.size(); ++k) {
    std::vector<double> values;
    for (const RolloutSample& sample : made.batch.samples) values.push_back(sample.rewards[k]);
    const learn::MeanInterval found = learn::mean_interval(values);
    const std::string name = "rewards/" + rewards_[k]->name() + suffix;
    to.metrics.emplace_back(name + "/mean", found.mean);
    if (found.count > 1) to.metrics.emplace_back(name + "/std", found.std);
    if (std::isnan(found.low)) continue;
    to.metrics.emplace_back(name + "/ci_low", found.low);
    to.metrics.emplace_back(name + "/ci_high", found.high);
  }
  to.metrics.insert(to.metrics.end(), made.metrics.begin(), made.metrics.end());
}

void RunSampler::score(std::int64_t step, double epoch, std::vector<EvalFacts>& sets, RunListener& listener) {
  for (const auto& set : scored_) {
    const auto to = std::ranges::find(sets, set->name, &EvalFacts::set);
    base::require(to != sets.end(), "RunSampler::score", "the set among those that were evaluated");
    const SourcedRollouts made = complete(*set, trainer_state(plan_, step, total_steps_, epoch));
    add_metrics(made, *to);
    to->seconds += made.rollout_seconds + made.reward_seconds;
    if (!made.facts.warnings.empty() || !made.facts.printed.empty()) {
      RolloutFacts told{.step = step, .reward_names = made.facts.reward_names};
      told.printed = made.facts.printed;
      for (const std::string& warning : made.facts.warnings)
        told.warnings.push_back("evaluation: " + warning);
      listener.on_rollout(told);
    }
    if (set != scored_.front()) continue;
    last_scored_ = made.facts;
    last_scored_->step = step;
  }
}

std::unique_ptr<RunSampler> open_sampler(const OpenedRun& run) {
  if (!run.plan.samples_prompts() && !run.plan.scores_completions()) return nullptr;
  return std::make_unique<RunSampler>(run);
}

}  // namespace hone::train
