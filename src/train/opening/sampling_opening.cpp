#include "train/opening/sampling_opening.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/file.h"
#include "base/strings/plural.h"
#include "config/method_traits.h"
#include "config/option_secrets.h"
#include "data/files/row_stream.h"
#include "model/config/rotations.h"
#include "rewards/http/judge.h"
#include "rewards/open_reward.h"
#include "rollout/drafts.h"
#include "rollout/former_texts.h"
#include "train/batches/mixed_rollouts.h"
#include "train/methods/distill/teacher_opening.h"
#include "train/notes/eval_overlap.h"
#include "train/notes/row_notes.h"
#include "train/opening/memory_inputs.h"
#include "train/opening/opening.h"
#include "train/opening/prompt_form.h"
#include "train/opening/reward_opening.h"
#include "train/opening/tool_opening.h"
#include "train/references/open_reference.h"
#include "train/references/remote_teacher.h"
#include "train/saves/run_folder.h"

namespace hone::train {

namespace fs = base::fs;

namespace {

// Tokens of rows that are read, cut to max_prompt_length.
PolicyPrompts tokenized(std::vector<data::PromptRow> rows, const OpenedRun& run) {
  const model::ModelConfig& model = run.source->config();
  PolicyPrompts out{.rows = std::move(rows), .tokens = {}};
  const ToolUse* const tools = run.data.sampled().tools.get();
  out.tokens = tools != nullptr
                   ? tools->tokenize(out.rows, run.text->tokenizer)
                   : data::tokenize_prompts(out.rows, run.text->tokenizer, run.text->chat_template.get(),
                                            template_kwargs(run.plan), model.vocab_size);
  if (tools == nullptr) limit_prompts(out.tokens, out.rows, run.text->tokenizer, prompt_limits(run));
  return out;
}

PolicyPrompts read_prompts(const data::RowSource& source, const OpenedRun& run, data::SeenRows* seen) {
  return tokenized(data::read_prompt_rows(source, prompt_form(run.plan), seen), run);
}

constexpr data::BlockSize kStreamedPrompts = {.rows = 256};  // as of records: a small one makes step 1 early

// The first rows; the others when the run needs them. `run` outlives what is returned.
PolicyPrompts stream_prompts(const data::RowSource& source, const OpenedRun& run, data::SeenRows& seen) {
  const auto noted = std::make_shared<data::SeenRows>();
  const auto begin_pass = [source, &run, noted] {
    const auto pass = std::make_shared<data::RowStream<data::PromptRows>>(
        source, data::prompt_rows(prompt_form(run.plan)), kStreamedPrompts);
    return [pass, &run, noted]() -> std::optional<PolicyPrompts> {
      std::optional<data::PromptRows> block = pass->next();
      if (!block) return std::nullopt;
      *noted = block->names.seen();
      return tokenized(std::move(block->rows), run);
    };
  };
  auto stream = std::make_shared<data::BlockStream<PolicyPrompts>>(begin_pass);
  stream->hold(0, 1);
  const PolicyPrompts* const first = stream->first_block();
  base::require(first != nullptr, "train::stream_prompts", "a pass without rows to be an error");
  PolicyPrompts out = *first;
  out.stream = std::move(stream);
  seen = *noted;
  return out;
}

void open_rewards(const config::Plan& plan, SampledData& data) {
  const rewards::OpenOptions options = reward_options(plan);
  if (!plan.online.judge.empty()) {
    data.judge.push_back(rewards::open_judge({.word = plan.online.judge,
                                              .model = plan.online.judge_model,
                                              .prompt = plan.online.judge_prompt,
                                              .key_variable = config::judge_key_variable(plan)},
                                             options));
    return;
  }
  data.rewards = rewards::open_rewards(plan.policy.reward_funcs, options);
  if (data.tools != nullptr) require_rewards(plan, *data.tools);
  data.columns = needed_columns(plan.policy.reward_funcs, data.rewards);
  if (data.function != nullptr) return;  // which may give the columns
  const auto require = [&](const PolicyPrompts& prompts) {
    require_columns("reward_funcs", plan.policy.reward_funcs, data.columns, prompts);
  };
  require(data.train_prompts);
  if (!data.eval_prompts.rows.empty()) require(data.eval_prompts);
}

void require_weights(const config::Plan& plan, const RolloutBatch& batch) {
  const std::size_t weights = plan.policy.reward_weights.size(), rewards = batch.reward_names.size();
  if (weights == 0 || weights == rewards || (batch.has_tools && weights < rewards)) return;
  throw base::UserError(
      {.where = "reward_weights",
       .expected = "one for each of the " + std::to_string(rewards) + " rewards of the replay",
       .found = std::to_string(weights)});
}

// Prompts, then rewards or the replay.
void open_prompts_and_rewards(OpenedRun& run, SampledData& data) {
  const config::Plan& plan = run.plan;
  const bool replays = !plan.policy.replay.empty();
  if (!replays && plan.acting.acts()) data.tools = open_tools(run);
  if (!replays && !plan.acting.rollout.empty()) {
    data.function = open_function(run);
    run.start.notes.push_back("rollout: " + plan.acting.rollout + " makes the completions");
  }
  data::SeenRows seen;
  if (!plan.dataset_name.empty()) {
    const data::RowSource source(plan.train_rows);
    data.train_prompts =
        plan.dataset_streaming ? stream_prompts(source, run, seen) : read_prompts(source, run, &seen);
    const RowReading reading = prompt_reading(data.train_prompts.rows.front().prompt.is_array());
    note_rows(run, seen, reading, notes_of_rows(plan, seen, reading));
  }
  if (!plan.dataset_test.empty() && !replays) data.eval_prompts = read_prompts(plan.eval_rows, run, nullptr);
  if (distill::takes_given(plan)) {
    data.train_given = distill::given_completions(data.train_prompts, run);
    data.eval_given = distill::given_completions(data.eval_prompts, run);
  }
  if (replays) {
    data.recorded = read_rollouts(plan.policy.replay);
  } else {
    open_rewards(plan, data);
  }
}

// Of streamed prompts the longest may be as long as they are cut to.
PromptSizes prompt_sizes(const SampledData& data, const config::Plan& plan) {
  PromptSizes out{.count = static_cast<std::int64_t>(data.train_prompts.rows.size()),
                  .longest = data.train_prompts.longest()};
  if (data.train_prompts.stream != nullptr) out.longest = std::max(out.longest, plan.max_prompt_length);
  for (const auto* const given : {&data.train_given, &data.eval_given}) {
    for (const data::GivenCompletion& one : *given) {
      out.longest = std::max(out.longest, std::ssize(one.prompt));
      out.longest_given = std::max(out.longest_given, std::ssize(one.ids));
    }
  }
  if (!data.train_prompts.rows.empty()) return out;
  for (const RolloutBatch& batch : data.recorded) {
    out.count += static_cast<std::int64_t>(batch.prompts.size());
    for (const RolloutPrompt& one : batch.prompts) {
      out.longest = std::max(out.longest, static_cast<std::int64_t>(one.ids.size()));
    }
  }
  return out;
}

// What a training pass is given and gives back is not among these.
bool is_kept(const MemorySegment& segment, std::size_t place) {
  return place < kFirstOfBatch || segment.name == kReferenceSegment || segment.name == kTeacherSegment ||
         segment.name == kContextSegment || segment.name == kEarlierSegment || segment.name == kGraphSegment;
}

SampledSize sampled_size(const config::Plan& plan, std::int64_t longest_prompt) {
  return {.prompts = plan.policy.generation_batch_size / plan.policy.num_generations,
          .samples = plan.policy.num_generations,
          .longest_prompt = longest_prompt};
}

// Sampling and training take turns, so that keys and values may have what training gives back.
std::int64_t kv_memory(const config::Plan& plan, const MemoryPlan& memory, std::int64_t other) {
  if (plan.policy.kv_memory > 0) return plan.policy.kv_memory;
  const bool on_device = memory.segments.at(1).on_device;
  if (!on_device && !memory.limit.is_set) return 0;
  std::int64_t held = 0;
  for (std::size_t i = 0; i < memory.segments.size(); ++i) {
    const MemorySegment& one = memory.segments[i];
    if (on_device ? one.on_device && is_kept(one, i) : i < kFirstOfBatch) held += one.bytes;
  }
  const std::int64_t left = memory.limit.bytes - held;
  if (!on_device) return std::max<std::int64_t>(1, left);
  if (memory.limit.bytes == 0) return 0;
  constexpr double kFilled = 0.97;  // of what is left: a pool of pages is one tensor a layer
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(kFilled * static_cast<double>(left - other)));
}

// Of the model that samples, or of the larger where a teacher samples too: they take turns.
std::int64_t most_sampling_bytes(const OpenedRun& run, std::int64_t longest_prompt,
                                 const rollout::GenerateOptions& sampling) {
  const SampledSize size = sampled_size(run.plan, longest_prompt);
  const std::int64_t own = sampling_bytes(*run.model, size, sampling);
  const std::shared_ptr<const model::CausalLm> teacher = run.second_model.lock();
  if (teacher == nullptr || !distill::teacher_samples(run.plan)) return own;
  return std::max(own, sampling_bytes(*teacher, size, sampling));
}

// The graphs of both have one memory.
std::int64_t most_graph_bytes(const OpenedRun& run, std::int64_t longest_prompt,
                              const rollout::GenerateOptions& sampling) {
  const std::int64_t sequences = std::min(sampling.batch_size, run.plan.policy.generation_batch_size);
  const std::int64_t tokens = longest_prompt + sampling.max_new_tokens;
  const std::int64_t own = graph_bytes(*run.model, sequences, tokens);
  const std::shared_ptr<const model::CausalLm> teacher = run.second_model.lock();
  if (teacher == nullptr || !distill::teacher_samples(run.plan)) return own;
  return std::max(own, graph_bytes(*teacher, sequences, tokens));
}

// What training batches, evaluations and a teacher that samples keep to guess from, and the places of words in the texts of the
// sequences that are sampled: in what they say, and in what was said before.
std::int64_t draft_bytes(const OpenedRun& run, const rollout::GenerateOptions& sampling) {
  if (!run.plan.policy.replay.empty() || !rollout::guesses(sampling, *run.model)) return 0;
  const SampledData& data = run.data.sampled();
  const auto most = [&](const PolicyPrompts& prompts, std::int64_t samples) {
    if (prompts.stream != nullptr) return rollout::kMostFormerBytes;
    const std::int64_t one = rollout::former_bytes(static_cast<std::int64_t>(rollout::kDraftMatches.front()) +
                                                   sampling.max_new_tokens);
    return std::min(rollout::kMostFormerBytes, static_cast<std::int64_t>(prompts.size()) * samples * one);
  };
  const std::int64_t training = most(data.train_prompts, run.plan.policy.num_generations);
  const std::int64_t sources = distill::teacher_samples(run.plan) ? 2 : 1;
  return sources * training + most(data.eval_prompts, run.plan.policy.num_generations_eval) +
         2 * sampling.batch_size * sampling.max_new_tokens * rollout::kPlaceBytes;
}

MemoryInputs sampling_memory(const OpenedRun& run, std::int64_t program_bytes, const LargestPasses& passes,
                             std::int64_t longest_prompt, const rollout::GenerateOptions& sampling) {
  MemoryInputs out = memory_inputs(*run.model, run.plan, program_bytes + draft_bytes(run, sampling),
                                   passes.train, passes.eval);
  if (passes.shares) count_shared_prompts(out, *run.model, passes.longest_prompt, passes.sharing);
  if (!run.plan.policy.replay.empty()) return out;
  out.sampling = most_sampling_bytes(run, longest_prompt, sampling);
  out.graphs = most_graph_bytes(run, longest_prompt, sampling);
  return out;
}

// The model itself, or the batches of the replay; run.start.memory says what keys and values may take.
void open_sources(OpenedRun& run, SampledData& data, rollout::GenerateOptions sampling) {
  const text::Tokenizer& tokenizer = run.text->tokenizer;
  if (!data.recorded.empty()) {
    for (const RolloutBatch& batch : data.recorded) {
      require_weights(run.plan, batch);
      distill::require_recorded(run.plan, batch);
    }
    data.train_source = std::make_unique<ReplayedRollouts>(std::move(data.recorded), tokenizer);
    return;
  }
  rollout::GenerateOptions without_keys = sampling;
  without_keys.kv_memory = 1;
  sampling.kv_memory =
      kv_memory(run.plan, run.start.memory,
                most_sampling_bytes(run, prompt_sizes(data, run.plan).longest, without_keys));
  const auto& scorers = data.judge.empty() ? data.rewards : data.judge;
  const bool by_group = run.plan.policy.reward_by_group;
  auto source = std::make_unique<LiveRollouts>(sampling, *run.model, data.train_prompts, tokenizer, scorers,
                                               by_group, data.tools.get());
  source->keep_journal({.output_dir = run.directory.output_dir(),
                        .rank = static_cast<int>(run.plan.rank),
                        .ranks = static_cast<int>(run.plan.ranks),
                        .resumes = run.directory.resuming()});
  source->roll_out_by(data.function.get());
  data.train_source = distill::with_others(run, data, sampling, std::move(source));
  if (data.eval_prompts.rows.empty()) return;
  if (!data.eval_given.empty()) {
    data.eval_source = std::make_unique<GivenRollouts>(data.eval_prompts, data.eval_given, tokenizer);
    return;
  }
  auto evaluation = std::make_unique<LiveRollouts>(sampling, *run.model, data.eval_prompts, tokenizer,
                                                   scorers, by_group, data.tools.get());
  evaluation->roll_out_by(data.function.get());
  data.eval_source = std::move(evaluation);
}

std::string sampling_line(const config::PolicyPlan& policy) {
  std::string out = "temperature " + short_number(policy.temperature);
  if (policy.top_p < 1) out += ", top_p " + short_number(policy.top_p);
  if (policy.top_k > 0) out += ", top_k " + std::to_string(policy.top_k);
  if (policy.min_p > 0) out += ", min_p " + short_number(policy.min_p);
  if (policy.repetition_penalty != 1)
    out += ", repetition_penalty " + short_number(policy.repetition_penalty);
  return out + ", at most " + base::counted(policy.max_completion_length, "new token");
}

std::vector<std::string> weighted_names(const config::PolicyPlan& policy,
                                        const std::vector<std::string>& rewards) {
  std::vector<std::string> out;
  for (std::size_t k = 0; k < rewards.size(); ++k) {
    const double weight = k < policy.reward_weights.size() ? policy.reward_weights[k] : 1;
    out.push_back((weight == 1 ? "" : short_number(weight) + " x ") + rewards[k]);
  }
  return out;
}

std::string evaluation_line(const config::PolicyPlan& policy, std::int64_t prompts) {
  if (prompts == 0) return {};
  return base::counted(prompts, "prompt") + " x " + base::counted(policy.num_generations_eval, "completion");
}

PolicyStartFacts start_facts(const OpenedRun& run, const PromptSizes& sizes, const SamplingOpening& opening) {
  const config::PolicyPlan& policy = run.plan.policy;
  const SampledData& data = run.data.sampled();
  const std::vector<std::string>& names = data.train_source->reward_names();
  return {.prompts = sizes.count,
          .longest_prompt = sizes.longest,
          .num_generations = policy.num_generations,
          .generation_batch_size = policy.generation_batch_size,
          .steps_per_batch = opening.steps_per_batch == nullptr ? 1 : opening.steps_per_batch(run.plan),
          .reward_names =
              data.judge.empty() ? weighted_names(policy, names) : std::vector{"the judge " + names.front()},
          .sampling = sampling_line(policy),
          .loss = opening.loss_line(run.plan),
          .evaluation = evaluation_line(policy, static_cast<std::int64_t>(data.eval_prompts.rows.size()))};
}

// A replay that is too short is used again from its beginning.
void note_short_replay(OpenedRun& run, std::int64_t replayed, std::int64_t prompts,
                       const SamplingOpening& opening) {
  const std::int64_t needed = opening.generation_count(run.plan, prompts, run.start.total_steps);
  if (replayed == 0 || needed <= replayed) return;
  run.start.notes.push_back("replay holds " + std::to_string(replayed) +
                            " generation batches and the run needs " + std::to_string(needed) +
                            ": they are used again" + std::string(opening.replayed_again));
}

}  // namespace

std::unique_ptr<OpenedRun> open_sampling(const config::Plan& asked, RunListener& listener,
                                         const SamplingOpening& opening) {
  auto run = open_source(asked);
  const std::shared_ptr<RemoteTeacher> teacher = opening.has_teacher ? distill::open_teacher(*run) : nullptr;
  const config::Plan& plan = run->plan;
  SampledData& data = run->data.emplace<SampledData>();
  open_prompts_and_rewards(*run, data);
  const PromptSizes sizes = prompt_sizes(data, plan);
  const LargestPasses passes = opening.passes(plan, sizes);
  if (teacher) teacher->require_length(std::max(passes.train.segment, passes.eval.segment));
  const auto replayed = static_cast<std::int64_t>(data.recorded.size());
  const RolloutPrompt rehearsed = replayed > 0 ? data.recorded.front().prompts.front()
                                               : RolloutPrompt{.ids = data.train_prompts.tokens.front().ids};
  const DataFile file = {
      .files = replayed > 0 ? std::vector<fs::path>{plan.policy.replay} : plan.train_rows.files(),
      .rows = replayed > 0 ? replayed : sizes.count};
  Attached attached = attach(*run, file, std::nullopt, {.wants_reference = opening.wants_reference(plan)});
  if (opening.has_teacher) distill::require_plain_head(*run);

  StartFacts& start = run->start;
  start.streamed = plan.dataset_streaming;
  if (data.train_prompts.stream != nullptr && plan.max_prompt_length == 0) {
    start.notes.push_back(
        "dataset_streaming: memory is planned for prompts of at most " + std::to_string(sizes.longest) +
        " tokens, the longest of the first rows; max_prompt_length would be a bound for all");
  }
  start.train_rows = sizes.count;
  start.overlap = eval_overlap(data.train_prompts, data.eval_prompts);
  start.conversational =
      !data.train_prompts.rows.empty() && data.train_prompts.rows.front().prompt.is_array();
  rollout::GenerateOptions sampling = sampling_options(plan, run->model->config(), run->text->tokenizer);
  sampling.samples = plan.policy.num_generations;
  plan_run_memory(*run, sampling_memory(*run, attached.program_bytes, passes, sizes.longest, sampling));
  open_sources(*run, data, sampling);
  run->method = opening.method(
      {.plan = plan,
       .model = *run->model,
       .source = *data.train_source,
       .evaluation = data.eval_source.get(),
       .prompts = sizes.count,
       .evaluation_prompts = static_cast<std::int64_t>(data.eval_prompts.rows.size()),
       .streamed = streamed_rows(plan, data.train_prompts.stream, run->resume_state->state.step),
       .form = pass_form(start.memory),
       .pass_tokens = passes.train.tokens,
       .dropout = run->adapter->config().dropout > 0 && !plan.disable_dropout,
       .listener = listener,
       .reference = std::move(attached.reference),
       .teacher = teacher,
       .rollouts_file = plan.policy.dump_rollouts && plan.leads()
                            ? run->directory.output_dir() / kRolloutsFile
                            : fs::path(),
       .rehearsal_prompt = rehearsed,
       .sampling = sampling},
      *run, opening);
  start.method = start_facts(*run, sizes, opening);
  if (!data.train_prompts.tokens.empty()) {
    start.example = {{.text = data.train_prompts.tokens.front().text, .supervised = false}};
  }
  end_start_page(*run);
  note_short_replay(*run, replayed, sizes.count, opening);
  return run;
}

}  // namespace hone::train
