#include "train/opening/opening.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "adapters/saved_vocabulary.h"
#include "base/error.h"
#include "base/files/release_pages.h"
#include "base/strings/plural.h"
#include "config/method_traits.h"
#include "config/write_plan.h"
#include "learn/schedule.h"
#include "model/files/vocabulary_source.h"
#include "text/clone_template.h"
#include "train/facts/device_facts.h"
#include "train/facts/machine.h"
#include "train/facts/product_facts.h"
#include "train/loop/optimizer.h"
#include "train/opening/host_base.h"
#include "train/opening/input_files.h"
#include "train/opening/score_source.h"
#include "train/references/open_reference.h"

namespace hone::train {

namespace {

void begin_start_page(OpenedRun& run, std::optional<std::int64_t> longest) {
  const config::Plan& plan = run.plan;
  StartFacts& start = run.start;
  start.notes.insert(start.notes.begin(), plan.notes.begin(), plan.notes.end());
  if (const auto note = convert_note(plan, *run.source)) start.notes.push_back(*note);
  if (const auto note = quantized_note(plan, *run.model)) start.notes.push_back(*note);
  start.notes.insert(start.notes.end(), run.resume_state->notes.begin(), run.resume_state->notes.end());
  if (longest) {
    const std::int64_t kept = plan.max_length > 0 ? std::min(plan.max_length, *longest) : *longest;
    if (const auto note = beyond_positions(kept, run.model->config())) start.notes.push_back(*note);
  }
  start.resumed_from = run.resume_state->resumed_from;
  const learn::Optimizer& optimizer = run.resume_state->optimizer;
  if (plan.optim != learn::OptimizerKind::kAdamW) {
    start.optimizer = optimizer.name() + ", " +
                      base::human_bytes(static_cast<std::uint64_t>(optimizer.state_bytes())) + " of state";
  }
  start.trained = trained_facts(*run.model, *run.adapter);
}

// A GGUF's blocks: not where training changes the base's matrices.
bool keeps_blocks(const config::Plan& plan) {
  return plan.use_peft && plan.init_lora_weights != config::LoraInit::kPissa &&
         plan.lora_modules_to_save.empty();
}

// Those that the model is opened with.
std::vector<base::fs::path> adapters_of(const OpenedRun& run) {
  const config::Plan& plan = run.plan;
  std::vector<base::fs::path> out(plan.base_adapters.begin(), plan.base_adapters.end());
  if (!plan.use_peft) return out;
  const base::fs::path from =
      run.directory.resuming() ? run.directory.resume_from() : base::fs::path(plan.adapter_name_or_path);
  if (!from.empty()) out.push_back(from);
  return out;
}

// A checkpoint's tokenizer may have tokens that the run adds itself: those of a folder as chat_template_path.
base::fs::path tokenizer_of(const OpenedRun& run) {
  if (!run.directory.resuming()) return run.source->tokenizer_path();
  std::vector<base::fs::path> began(run.plan.base_adapters.begin(), run.plan.base_adapters.end());
  if (!run.plan.adapter_name_or_path.empty()) began.emplace_back(run.plan.adapter_name_or_path);
  return adapters::open_base(run.plan.model_name_or_path, began)->tokenizer_path();
}

bool names_module(const std::vector<std::string>& entries, const std::string& module) {
  return std::any_of(entries.begin(), entries.end(),
                     [&](const std::string& entry) { return module.ends_with(entry); });
}

// TRL's SFTTrainer and RewardTrainer: rows of added tokens are trained, and with them an untied head in full.
void train_rows(config::Plan& plan, const model::ModelConfig& model, const std::vector<std::int64_t>& ids) {
  const std::vector<std::string> modules = adapters::vocabulary_modules(model);
  std::vector<std::string> named = plan.lora_modules_to_save;
  named.insert(named.end(), plan.lora_target_modules.begin(), plan.lora_target_modules.end());
  std::vector<std::int64_t>& trained = plan.trainable_token_indices;
  for (const std::int64_t id : ids) {
    if (names_module(named, modules[0])) break;
    if (std::find(trained.begin(), trained.end(), id) == trained.end()) trained.push_back(id);
  }
  const bool has_head = !config::method_traits(plan.method).scores && !model.tie_word_embeddings;
  if (has_head && !names_module(named, modules[1])) plan.lora_modules_to_save.push_back(modules[1]);
}

// A row of the embedding, and of the head, for each token that a folder as chat_template_path brought.
void add_rows(OpenedRun& run) {
  std::vector<std::int64_t> ids = run.text->added;
  config::Plan& plan = run.plan;
  if (ids.empty()) return;
  if (!plan.adapter_name_or_path.empty()) {
    throw base::UserError(
        {.where = "option chat_template_path",
         .expected = "a folder whose tokens the continued adapter's model has",
         .found = base::counted(static_cast<std::int64_t>(ids.size()), "token") + " that it does not have",
         .cause = "adapter_name_or_path trains what it was made with, and no added rows",
         .fix = "start a new adapter with this chat_template_path, or name a .jinja file"});
  }
  const std::int64_t own = run.source->config().vocab_size, tokens = run.text->tokenizer.vocab_size();
  const std::int64_t rows = (tokens + text::kRowsOfCloned - 1) / text::kRowsOfCloned * text::kRowsOfCloned;
  const std::size_t named = ids.size();
  if (tokens > own)
    run.source = std::make_unique<model::VocabularySource>(std::move(run.source), rows,
                                                           std::map<std::string, at::Tensor>());
  if (!run.source->replaced().empty()) {
    const auto fillers = text::fill_vocabulary(run.source->config().vocab_size, run.text->tokenizer);
    ids.insert(ids.end(), fillers.begin(), fillers.end());
  }
  if (plan.use_peft) train_rows(plan, run.source->config(), ids);
  const std::int64_t now = run.source->config().vocab_size;
  run.start.notes.push_back(
      "chat_template_path brings " + base::counted(static_cast<std::int64_t>(named), "token") +
      " that the model does not have" +
      (run.source->replaced().empty()
           ? ", which have rows already"
           : ": the embedding has " + std::to_string(now) + " rows, the new ones begin as the mean of all") +
      (plan.use_peft ? "; they are trained (trainable_token_indices)" : ""));
}

}  // namespace

std::unique_ptr<OpenedRun> open_source(const config::Plan& asked) {
  at::set_num_threads(static_cast<int>(threads_or_default(asked.threads)));
  auto run = std::make_unique<OpenedRun>(asked);
  if (run->directory.resuming()) require_same_method(run->directory.resume_from(), run->plan);
  run->source = adapters::open_base(run->plan.model_name_or_path, adapters_of(*run), &run->start.notes);
  run->text.emplace(open_text(run->plan, tokenizer_of(*run)));
  for (const std::string& note : run->text->tokenizer.notes()) run->start.notes.push_back(note);
  add_rows(*run);
  if (config::method_traits(run->plan.method).scores)
    run->source = std::make_unique<DecoderSource>(std::move(run->source));
  // Known before the weights are read, because only the fused form reads packs and shares prompts.
  const bool fused = fused_trains(run->plan, run->directory, run->source->config());
  if (run->plan.layer_form == config::LayerForm::kAuto && !fused)
    run->plan.layer_form = config::LayerForm::kAutograd;
  return run;
}

void require_experts(const model::ModelConfig& model, const config::Plan& plan) {
  const double factor = plan.router_aux_loss_coef.value_or(0);
  if (factor == 0 || model.experts.count > 0) return;
  throw base::UserError({.where = "option router_aux_loss_coef",
                         .expected = "a model with experts",
                         .found = "none",
                         .cause = "",
                         .fix = "remove it"});
}

Attached attach(OpenedRun& run, const DataFile& file, std::optional<std::int64_t> longest,
                const AttachOptions& options) {
  const config::Plan& plan = run.plan;
  run.sampler = open_sampler(run);
  Attached out{.program_bytes = bytes_in_use(plan), .reference = {}};
  require_experts(run.source->config(), plan);
  require_room_for_base(*run.source, plan, keeps_blocks(plan));
  const bool packs = options.packs && plan.layer_form != config::LayerForm::kAutograd;
  const bool from_model = options.wants_reference && reference_is_model(plan);
  HostBase host_base(run, from_model);
  model::CausalLm& model = run.model.emplace(
      *run.source, dtype_policy(plan), packs ? model::Storage::kPacked : model::Storage::kPlain,
      quantize(plan), device(plan), keeps_blocks(plan), host_base.while_read());
  at::Tensor continued;  // before the run's own is attached: the model holds one at a time
  if (from_model && plan.ref_model.empty() && !plan.adapter_name_or_path.empty()) {
    continued = adapters::Adapter::load(model, plan.adapter_name_or_path).flat().clone();
  }
  adapters::Adapter& adapter =
      run.adapter.emplace(open_adapter(model, plan, run.directory, *run.source, from_model));
  if (!run.source->replaced().empty() && !adapter.is_full()) adapter.set_vocabulary(*run.source);
  host_base.finish(run);
  if (options.wants_reference && !from_model) {
    out.reference = open_reference(run, packs);
  } else {
    out.reference = {
        .parameters = adapter.flat(),
        .values = from_model && adapter.initial_values().defined() ? adapter.initial_values() : continued};
  }
  if (adapter.is_full()) base::return_freed_memory();  // the numbers of the base, where they were replaced
  if (plan.disable_dropout) adapter.set_dropout(0);
  run.resume_state.emplace(find_resume_state(
      plan, run.directory, adapter, data_fingerprint(file.files, file.rows), input_files(plan, *run.text)));
  require_room_to_save(
      run.directory, plan,
      bytes_to_save(plan, adapter, run.resume_state->optimizer, run.moving_reference != nullptr));
  begin_start_page(run, longest);
  return out;
}

void plan_run_memory(OpenedRun& run, MemoryInputs inputs) {
  inputs.optimizer_bytes = run.resume_state->optimizer.memory_bytes();
  count_reference(inputs, run);
  if (run.sampler != nullptr) {
    inputs.sampling = std::max(inputs.sampling, run.sampler->bytes(*run.model));
    inputs.graphs = std::max(inputs.graphs, run.sampler->graph_bytes(*run.model));
  }
  run.memory_inputs = inputs;
  MemoryLimit limit = memory_limit(run.plan);
  // A limit that was set is divided among the ranks of the host, and the plan of each has the whole base.
  if (limit.is_set) limit.bytes += run.shared_base.spared();
  run.start.memory = plan_memory(inputs, run.plan.layer_form, run.plan.recompute, limit);
  const DividedState divided = divided_state(run.plan);
  run.model->set_keeps_casts(run.start.memory.keeps_casts);
  if (!run.start.memory.layer_steps && !(divided.divides() && divided.stage >= 2))
    run.adapter->hold_gradient();
}

void end_start_page(OpenedRun& run) {
  StartFacts& start = run.start;
  start.total_steps = run.method->total_steps();
  start.steps_per_epoch = run.method->steps_per_epoch();
  start.warmup_steps = learn::resolve_warmup(run.plan.warmup_steps, start.total_steps);
  start.first_step = run.resume_state->state.step;
  start.evaluation_due = run.resume_state->state.evaluation_due;
  start.output_dir = run.plan.output_dir;
  start.device = device_facts(*run.model, run.plan);
  start.products = product_facts(*run.model);
  if (run.sampler != nullptr) run.sampler->begin(run);
}

bool may_share(const config::Plan& plan) {
  return plan.share_prompt && plan.layer_form != config::LayerForm::kAutograd;
}

std::string reference_line(const config::Plan& plan) {
  return describe_reference(plan) + (plan.precompute_ref_log_probs ? ", computed once, before step 1" : "");
}

std::string short_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", value);
  return text.data();
}

}  // namespace hone::train
