#include "train/batches/rollout_source.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/step_progress.h"
#include "base/stopwatch.h"
#include "rollout/drafts.h"
#include "rollout/generate.h"
#include "rollout/kv_memory.h"
#include "text/token_pattern.h"
#include "train/batches/call_notes.h"
#include "train/batches/dialogue_facts.h"
#include "train/batches/function_rollouts.h"
#include "train/batches/tool_rollouts.h"
#include "train/opening/generate_options.h"

namespace hone::train {

namespace {

using base::Clock;
using base::Json;
using base::seconds_since;

// Evaluation's samples are keyed apart from every training batch (base/rng.h takes steps below 2^32).
constexpr std::uint64_t kEvaluationStep = 0xFFFFFFFE;

// What TRL hands to a reward function as a completion.
Json completion_json(const Json& prompt, const std::string& text) {
  if (!prompt.is_array()) return text;
  return Json::array({{{"role", "assistant"}, {"content", text}}});
}

// The last turn of the user; empty: no conversation, or its content is no text.
std::string asked_by_user(const Json& prompt) {
  std::string out;
  if (!prompt.is_array()) return out;
  for (const Json& turn : prompt) {
    if (turn.value("role", "") == "user" && turn.contains("content") && turn["content"].is_string())
      out = turn["content"].get<std::string>();
  }
  return out;
}

RolloutSample sample_of(const rollout::Completion& done, const text::Tokenizer& tokenizer) {
  RolloutSample out;
  out.ids = done.ids;
  out.truncated = done.finish_reason == rollout::FinishReason::kLength;
  out.text = tokenizer.decode(done.ids, true);
  out.old_logprobs = done.logprobs;
  out.sampling_logprobs = done.sampled_logprobs;
  out.entropies = done.entropies;
  return out;
}

// What the doctor looks for: one token over and over.
void add_token_facts(CompletionFacts& to, const std::vector<std::int32_t>& ids,
                     const text::Tokenizer& tokenizer) {
  std::map<std::int32_t, std::int64_t> counts;
  for (const std::int32_t id : ids) counts[id] += 1;
  to.tokens = static_cast<std::int64_t>(ids.size());
  const auto most = std::max_element(counts.begin(), counts.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == counts.end()) return;
  to.most_common_token = tokenizer.decode(std::span(&most->first, 1), false);
  to.most_common_fraction = static_cast<double>(most->second) / static_cast<double>(ids.size());
}

}  // namespace

std::int64_t PolicyPrompts::longest() const {
  std::size_t out = 0;
  for (const data::TokenizedPrompt& one : tokens) out = std::max(out, one.ids.size());
  return static_cast<std::int64_t>(out);
}

const data::PromptRow& PolicyPrompts::row(std::int64_t index) const {
  if (stream == nullptr) return rows.at(static_cast<std::size_t>(index));
  const auto at = stream->place(index);
  return at.block.row(at.index);
}

const data::TokenizedPrompt& PolicyPrompts::token_row(std::int64_t index) const {
  if (stream == nullptr) return tokens.at(static_cast<std::size_t>(index));
  const auto at = stream->place(index);
  return at.block.token_row(at.index);
}

namespace {

// Completions that match vllm_structured_outputs_regex as a whole.
void constrain(rollout::GenerateOptions& options, const config::PolicyPlan& policy,
               const text::Tokenizer& tokenizer) {
  if (policy.vllm_structured_outputs_regex.empty()) return;
  const auto pattern = std::make_shared<const text::TokenPattern>(
      tokenizer, policy.vllm_structured_outputs_regex, "vllm_structured_outputs_regex");
  options.constrain = [pattern, stops = options.stop_ids](std::span<const std::int32_t> ids,
                                                          std::span<float> scores) {
    pattern->constrain(ids, stops, scores);
  };
}

}  // namespace

rollout::GenerateOptions sampling_options(const config::Plan& plan, const model::ModelConfig& config,
                                          const text::Tokenizer& tokenizer) {
  const config::PolicyPlan& policy = plan.policy;
  rollout::GenerateOptions out = generate_options_of(policy, config, tokenizer);
  out.max_new_tokens = policy.max_completion_length;
  out.seed = static_cast<std::uint64_t>(plan.seed);
  out.stop_ids.insert(out.stop_ids.end(), policy.stop_token_ids.begin(), policy.stop_token_ids.end());
  out.kv_memory = policy.kv_memory;
  out.batch_size = policy.generation_batch_size;
  out.share_prompt = plan.share_prompt;
  out.entropies = true;
  constrain(out, policy, tokenizer);
  return out;
}

void UnscoredBatches::see(bool none, std::int64_t generation) {
  constexpr int kMost = 3;  // after so many without one reward nothing will come of the run
  count_ = none ? count_ + 1 : 0;
  if (count_ < kMost) return;
  throw base::UserError(
      {.where = "generation batch " + std::to_string(generation),
       .expected = "completions that a reward function scores",
       .found = "not one in " + std::to_string(kMost) + " batches in a row",
       .cause = "the reward functions return None, hang or crash for every completion; the warnings name "
                "them",
       .fix = "`hone reward-test` calls them with known answers; raise reward_timeout if they are slow"});
}

Json trainer_state(const config::Plan& plan, std::int64_t step, std::int64_t total_steps, double epoch) {
  return {{"global_step", step},
          {"max_steps", total_steps},
          {"epoch", epoch},
          {"num_train_epochs", plan.num_train_epochs},
          {"train_batch_size", plan.per_device_train_batch_size},
          {"is_local_process_zero", true},
          {"is_world_process_zero", true},
          {"log_history", Json::array()}};
}

void add_counts(std::vector<NamedValue>& to, const std::vector<NamedValue>& more) {
  for (const auto& [name, value] : more) {
    const auto place =
        std::find_if(to.begin(), to.end(), [&name](const auto& one) { return one.first == name; });
    if (place == to.end()) {
      to.emplace_back(name, value);
    } else {
      place->second += value;
    }
  }
}

LiveRollouts::LiveRollouts(rollout::GenerateOptions options, const model::CausalLm& model,
                           const PolicyPrompts& prompts, const text::Tokenizer& tokenizer,
                           const std::vector<std::unique_ptr<rewards::Reward>>& rewards, bool by_group,
                           ToolUse* tools)
    : model_(model),
      prompts_(prompts),
      tokenizer_(tokenizer),
      options_(std::move(options)),
      by_group_(by_group),
      tools_(tools),
      queue_(rewards) {
  for (const auto& reward : rewards) names_.push_back(reward->name());
  if (options_.drafts != rollout::Drafts::kOff) options_.draft_learning = rollout::draft_learning();
  if (options_.keeps_texts && rollout::guesses(options_, model_)) former_.emplace();
  if (tools_ == nullptr) return;
  for (std::string& name : tools_->reward_names()) names_.push_back(std::move(name));
}

namespace {

// Of sample `i` of this request among those of the whole batch.
std::size_t sample_number(const RolloutRequest& request, std::size_t i) {
  const auto group = static_cast<std::size_t>(request.num_generations);
  return request.places.empty() ? i : request.places.at(i / group) * group + i % group;
}

}  // namespace

struct LiveRollouts::Making {
  const RolloutRequest& request;
  rollout::DraftFacts* drafts = nullptr;
  SourcedRollouts out = {};
  std::vector<ActingPrompt> acting = {};    // with tools: its prompts
  std::vector<std::size_t> left = {};       // completions of each prompt that are not there yet
  std::vector<std::size_t> submitted = {};  // first samples of what rewards were asked for
  std::vector<Json> columns = {};           // of a rollout function: of each sample, beside its row's
};

// `count` samples from `first` on. A column that some rows lack is None there, as in TRL's data.
rewards::Request LiveRollouts::reward_request(const Making& making, std::size_t first,
                                              std::size_t count) const {
  const RolloutBatch& batch = making.out.batch;
  const auto group = static_cast<std::size_t>(making.request.num_generations);
  rewards::Request out;
  out.trainer_state = making.request.trainer_state;
  out.first_sample = static_cast<std::int64_t>(sample_number(making.request, first));
  for (std::size_t i = 0; i < count; ++i) {
    const RolloutSample& sample = batch.samples[first + i];
    const data::PromptRow& row = prompts_.row(batch.prompts[sample.prompt].row);
    out.prompts.push_back(making.acting.empty() ? row.prompt : making.acting[sample.prompt].prompt);
    out.completions.push_back(sample.messages.is_null() ? completion_json(row.prompt, sample.text)
                                                        : sample.messages);
    out.completion_ids.push_back(sample.ids);
    if (!making.acting.empty()) {
      const Actor& actor = making.acting[sample.prompt].actors.at((first + i) % group);
      if (actor.instance >= 0) out.environments.push_back({actor.environment, actor.instance});
    }
    const auto take = [&](const Json& columns) {
      for (const auto& [name, value] : columns.items()) {
        Json& column = out.columns[name];
        if (column.is_null()) column = std::vector<Json>(count);
        column[i] = value;
      }
    };
    take(row.columns);
    if (!making.columns.empty()) take(making.columns[first + i]);
  }
  return out;
}

void LiveRollouts::take_sample(Making& making, std::size_t index, RolloutSample sample) {
  const auto group = static_cast<std::size_t>(making.request.num_generations);
  const std::size_t prompt = index / group;
  const auto callees = by_group_ ? rewards::Callees::kAll : rewards::Callees::kOfGroups;
  base::advance_part();
  sample.prompt = prompt;
  sample.rewards.assign(names_.size(), rewards::kNone);
  making.out.batch.samples[index] = std::move(sample);
  if (--making.left[prompt] > 0 || !queue_.has(callees)) return;
  making.submitted.push_back(prompt * group);
  queue_.submit(reward_request(making, prompt * group, group), callees);
}

void LiveRollouts::sample(Making& making) {
  const RolloutRequest& request = making.request;
  RolloutBatch& batch = making.out.batch;
  ToolJournal* journal = nullptr;
  FewNotes calls(making.out.facts.warnings), changed(making.out.facts.warnings);
  std::vector<const data::PromptRow*> rows;
  std::vector<std::vector<std::int32_t>> prompts;
  for (const std::int64_t row : request.rows) {
    rows.push_back(&prompts_.row(row));
    prompts.push_back(prompts_.token_row(row).ids);
  }
  rollout::GenerateOptions options = options_;
  options.samples = request.num_generations;
  options.draft_facts = making.drafts;
  options.prompt_keys = request.places;
  options.step = request.evaluation ? kEvaluationStep : static_cast<std::uint64_t>(request.generation);
  if (request.evaluation) options.seed += static_cast<std::uint64_t>(request.generation) << 32;
  if (function_ != nullptr) return sample_by_function(making, rows, options);
  if (tools_ != nullptr) {
    journal = request.evaluation ? nullptr : journal_from(options.step);
    std::vector<std::string> resets;
    making.acting = begin_dialogues(rows, options, tokenizer_, *tools_, journal, &resets);
    changed.tell("generation " + std::to_string(request.generation), resets);
    for (std::size_t i = 0; i < prompts.size(); ++i) prompts[i] = making.acting[i].ids;
  }
  for (std::size_t i = 0; i < prompts.size(); ++i)
    batch.prompts.push_back({.row = request.rows[i], .ids = prompts[i]});
  if (former_)
    for (const std::int64_t row : request.rows) options.former.push_back(former_->find(row));
  batch.samples.resize(prompts.size() * static_cast<std::size_t>(request.num_generations));
  making.left.assign(prompts.size(), static_cast<std::size_t>(request.num_generations));
  base::begin_part("sampling", "completions", static_cast<std::int64_t>(batch.samples.size()));
  if (tools_ == nullptr) {
    rollout::generate(model_, prompts, options, [&](std::size_t index, const rollout::Completion& done) {
      take_sample(making, index, sample_of(done, tokenizer_));
    });
    return;
  }
  const auto start = base::Clock::now();
  making.out.facts.tool_wait_seconds =
      generate_with_tools(model_, making.acting, options, tokenizer_, *tools_, journal,
                          [&](std::size_t index, RolloutSample sample, const ActingNotes& notes) {
                            const std::string who = "sample " + std::to_string(sample_number(request, index));
                            calls.tell(who, notes.calls);
                            changed.tell(who, notes.changed);
                            take_sample(making, index, std::move(sample));
                          });
  making.out.facts.sampling_seconds = seconds_since(start);
  calls.end("such calls in this batch");
  changed.end("changed answers in this batch");
}

void LiveRollouts::keep_texts(const Making& making) {
  const RolloutBatch& batch = making.out.batch;
  std::vector<std::vector<std::span<const std::int32_t>>> said(batch.prompts.size());
  for (const RolloutSample& sample : batch.samples) said[sample.prompt].emplace_back(sample.ids);
  for (std::size_t p = 0; p < said.size(); ++p)
    former_->keep(batch.prompts[p].row, batch.prompts[p].ids, said[p]);
}

bool LiveRollouts::has_the_trainers_scores() const {
  return rollout::attends_as_trained(model_.device());
}

void LiveRollouts::forget_before(std::int64_t generation) {
  if (journal_ != nullptr) journal_->trim(static_cast<std::uint64_t>(generation));
}

void LiveRollouts::sample_by_function(Making& making, const std::vector<const data::PromptRow*>& rows,
                                      const rollout::GenerateOptions& options) {
  const RolloutRequest& request = making.request;
  RolloutBatch& batch = making.out.batch;
  FunctionBatch made = roll_out(model_, rows, request.rows, options, tokenizer_, *function_,
                                request.trainer_state, request.evaluation);
  making.columns = std::move(made.columns);
  for (const std::int64_t row : request.rows) batch.prompts.push_back({.row = row, .ids = {}});
  batch.samples.resize(made.samples.size());
  making.left.assign(rows.size(), static_cast<std::size_t>(request.num_generations));
  if (!made.printed.empty()) {
    making.out.facts.printed.push_back({.reward = "rollout",
                                        .first = static_cast<std::int64_t>(sample_number(request, 0)),
                                        .count = std::ssize(made.samples),
                                        .text = std::move(made.printed)});
  }
  for (std::size_t i = 0; i < made.samples.size(); ++i) take_sample(making, i, std::move(made.samples[i]));
  set_prompts(batch, std::move(made.prompts), request.num_generations);
}

// get_reward() of the environments: the last reward functions.
void LiveRollouts::ask_environments(Making& making) {
  if (tools_ == nullptr) return;
  std::vector<RolloutSample>& samples = making.out.batch.samples;
  const auto warn = [&](std::size_t sample, const std::string& what) {
    making.out.facts.warnings.push_back(
        "reward " + what + ": sample " + std::to_string(sample_number(making.request, sample)) +
        " of generation " + std::to_string(making.request.generation) + " is not scored by it");
  };
  const std::vector<std::vector<double>> found = environment_rewards(making.acting, *tools_, warn);
  for (std::size_t i = 0; i < samples.size(); ++i)
    std::copy(found[i].begin(), found[i].end(), samples[i].rewards.end() - std::ssize(found[i]));
}

void LiveRollouts::fill_facts(Making& making) const {
  RolloutFacts& facts = making.out.facts;
  for (const RolloutSample& sample : making.out.batch.samples) {
    const std::int64_t row = making.out.batch.prompts[sample.prompt].row;
    const bool acts = !making.acting.empty();
    facts.completions.push_back(
        {.prompt = function_ != nullptr
                       ? tokenizer_.decode(making.out.batch.prompts[sample.prompt].ids, false)
                   : acts ? making.acting[sample.prompt].text
                          : prompts_.token_row(row).text,
         .asked = asked_by_user(acts ? making.acting[sample.prompt].prompt : prompts_.row(row).prompt),
         .completion = sample.text,
         .truncated = sample.truncated});
    add_token_facts(facts.completions.back(), sample.ids, tokenizer_);
    add_dialogue(facts.completions.back(), sample, tokenizer_, acts ? &tools_->parser : nullptr);
  }
  facts.reward_names = names_;
}

SourcedRollouts LiveRollouts::make(const RolloutRequest& request) {
  const auto start = Clock::now();
  Making making{.request = request};
  RolloutBatch& batch = making.out.batch;
  batch.generation = request.generation;
  batch.reward_names = names_;
  batch.has_tools = has_tools();
  rollout::DraftFacts drafts;
  making.drafts = &drafts;
  const ops::StepGraphFacts before = ops::step_graph_facts();
  sample(making);
  if (former_ && function_ == nullptr) keep_texts(making);
  making.out.rollout_seconds = seconds_since(start);
  tell_of_graphs(making, before);
  if (options_.drafts != rollout::Drafts::kOff) {
    add_counts(making.out.counts, {{"spec/drafted", static_cast<double>(drafts.drafted)},
                                   {"spec/accepted", static_cast<double>(drafts.accepted)},
                                   {"spec/passes", static_cast<double>(drafts.passes)},
                                   {"spec/seconds_saved", drafts.seconds_saved}});
  }
  const auto waiting = Clock::now();
  if (!names_.empty()) base::begin_part("waiting for rewards", "", 0);
  ask_environments(making);
  if (!by_group_ && queue_.has(rewards::Callees::kOfBatches)) {
    making.submitted.push_back(0);
    queue_.submit(reward_request(making, 0, batch.samples.size()), rewards::Callees::kOfBatches);
  }
  const std::vector<std::vector<rewards::Scores>> scores = queue_.collect();
  making.out.reward_seconds = seconds_since(waiting);
  fill_facts(making);
  for (std::size_t i = 0; i < making.submitted.size(); ++i)
    take_scores(making.out, request, making.submitted[i], scores[i]);
  for (std::size_t i = 0; i < batch.samples.size(); ++i)
    making.out.facts.completions[i].rewards = batch.samples[i].rewards;
  return std::move(making.out);
}

void LiveRollouts::tell_of_graphs(Making& making, const ops::StepGraphFacts& before) {
  if (!ops::step_graphs_wanted()) return;
  const ops::StepGraphFacts now = ops::step_graph_facts();
  add_counts(making.out.counts, {{"graphs/recorded", static_cast<double>(now.recorded - before.recorded)},
                                 {"graphs/started", static_cast<double>(now.started - before.started)}});
  const std::string note = ops::step_graphs_note();
  if (note.empty() || has_told_of_graphs_) return;
  has_told_of_graphs_ = true;
  making.out.facts.warnings.push_back(note);
}

// A request's scores by each function that it called, from sample `first` on.
void LiveRollouts::take_scores(SourcedRollouts& out, const RolloutRequest& request, std::size_t first,
                               const std::vector<rewards::Scores>& by_function) const {
  for (std::size_t k = 0; k < by_function.size(); ++k) {
    const rewards::Scores& one = by_function[k];
    for (std::size_t i = 0; i < one.values.size(); ++i) {
      const bool fits = std::isnan(one.values[i]) || std::isfinite(static_cast<float>(one.values[i]));
      out.batch.samples[first + i].rewards[k] = fits ? one.values[i] : rewards::kNone;
      if (!fits) {
        out.facts.warnings.push_back("reward " + names_[k] + " gave sample " +
                                     std::to_string(sample_number(request, first + i)) +
                                     " a value that is not finite in fp32: not scored");
      }
      CompletionFacts& completion = out.facts.completions[first + i];
      for (const auto& [column, values] : one.extra) completion.extra.emplace_back(column, values[i]);
    }
    for (const rewards::Failure& failure : one.failures) {
      out.facts.warnings.push_back("reward " + names_[k] + " could not score sample " +
                                   std::to_string(failure.sample) + " of generation " +
                                   std::to_string(out.batch.generation) + ": " + failure.what);
    }
    for (const rewards::Printed& printed : one.printed) {
      out.facts.printed.push_back(
          {.reward = names_[k], .first = printed.first, .count = printed.count, .text = printed.text});
    }
    for (const std::string& note : one.notes)
      out.facts.warnings.push_back("reward " + names_[k] + ": " + note);
    out.metrics.insert(out.metrics.end(), one.metrics.begin(), one.metrics.end());
  }
}

// What tools answered in training batches from this one on; null: it is kept nowhere.
ToolJournal* LiveRollouts::journal_from(std::uint64_t generation) {
  if (tools_ == nullptr || !journal_place_) return nullptr;
  if (journal_ == nullptr) journal_ = std::make_unique<ToolJournal>(*journal_place_, generation);
  journal_->forget_before(generation);
  return journal_.get();
}

ReplayedRollouts::ReplayedRollouts(std::vector<RolloutBatch> batches, const text::Tokenizer& tokenizer)
    : batches_(std::move(batches)), tokenizer_(tokenizer) {
  base::require(!batches_.empty(), "ReplayedRollouts", "a batch");
}

SourcedRollouts ReplayedRollouts::make(const RolloutRequest& request) {
  SourcedRollouts out;
  out.batch = batches_[static_cast<std::size_t>(request.generation) % batches_.size()];
  out.batch.generation = request.generation;
  out.facts.reward_names = out.batch.reward_names;
  for (const RolloutSample& sample : out.batch.samples) {
    out.facts.completions.push_back(
        {.prompt = tokenizer_.decode(out.batch.prompts[sample.prompt].ids, false),
         .completion = sample.text.empty() ? tokenizer_.decode(sample.ids, true) : sample.text,
         .truncated = sample.truncated,
         .rewards = sample.rewards});
    add_dialogue(out.facts.completions.back(), sample, tokenizer_, nullptr);
    add_token_facts(out.facts.completions.back(), sample.ids, tokenizer_);
  }
  return out;
}

}  // namespace hone::train
