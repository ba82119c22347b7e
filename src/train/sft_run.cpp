// run_sft: the order of events of an SFT run, as prose.
#include <ATen/Parallel.h>

#include "adapters/lora.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/file.h"
#include "base/process_memory.h"
#include "config/write_plan.h"
#include "data/preview.h"
#include "data/rows.h"
#include "data/shuffle.h"
#include "learn/schedule.h"
#include "model/weight_source.h"
#include "text/chat_template.h"
#include "train/checkpoint.h"
#include "train/machine.h"
#include "train/memory_inputs.h"
#include "train/open_model.h"
#include "train/run_folder.h"
#include "train/sft.h"

namespace hone::train {

namespace fs = base::fs;

namespace {

constexpr const char* kAnotherRun = "another run of hone";

// What adapter_config.json names as its base: PEFT needs a Hugging Face folder, so for a GGUF it is the
// folder that `hone convert` is told to write beside it.
std::string base_model_name(const config::Plan& plan) {
  if (!plan.base_model_name_for_adapter.empty()) return plan.base_model_name_for_adapter;
  const fs::path model = plan.model_name_or_path;
  if (fs::is_directory(model)) return plan.model_name_or_path;
  return (model.parent_path() / model.stem()).string() + "-hf";
}

std::string convert_note(const config::Plan& plan) {
  return "the base is a GGUF; PEFT and transformers need a folder: hone convert --input " +
         plan.model_name_or_path + " --output " + base_model_name(plan) +
         " (recorded in adapter_config.json)";
}

adapters::LoraConfig lora_config(const config::Plan& plan) {
  adapters::LoraConfig out;
  out.r = plan.lora_r;
  out.alpha = plan.lora_alpha;
  out.dropout = plan.lora_dropout;
  out.target_modules = plan.lora_target_modules;
  out.target_is_regex = plan.lora_target_modules.size() == 1;  // TRL collapses a list of one to a string
  out.exclude_modules = plan.lora_exclude_modules;
  out.exclude_is_regex = plan.lora_exclude_modules.size() == 1;
  out.rslora = plan.use_rslora;
  out.init = plan.init_lora_weights;
  out.base_model_name_or_path = base_model_name(plan);
  return out;
}

// A continued adapter brings its own options, but for what the user says of them.
adapters::Adapter load_adapter(model::CausalLm& model, const fs::path& folder, const config::Plan& plan) {
  adapters::Adapter adapter = adapters::Adapter::load(model, folder);
  const bool continues = !plan.adapter_name_or_path.empty();
  if (!continues || plan.continued_dropout) adapter.set_dropout(plan.lora_dropout);
  if (!plan.base_model_name_for_adapter.empty())
    adapter.set_base_model_name(plan.base_model_name_for_adapter);
  return adapter;
}

struct SftInput {
  SftData data;
  data::DataFacts facts;
  fs::path file;
  std::int64_t file_rows = 0;
  std::vector<ColouredPiece> example;
};

SftInput read_data(const fs::path& path, bool packing, const config::Plan& plan,
                   const text::Tokenizer& tokenizer, const text::ChatTemplate* chat_template,
                   std::int64_t vocab_size) {
  const data::Rows rows = data::read_rows(path, plan.dataset_text_field);
  data::Dataset dataset = data::tokenise_rows(rows, tokenizer, chat_template,
                                              {.max_length = plan.max_length,
                                               .completion_only_loss = plan.completion_only_loss,
                                               .assistant_only_loss = plan.assistant_only_loss,
                                               .vocab_size = vocab_size,
                                               .packing = packing,
                                               .threads = static_cast<int>(plan.threads)});
  SftInput out;
  out.facts = dataset.facts;
  out.file_rows = static_cast<std::int64_t>(rows.rows.size());
  out.file = rows.path;
  for (const auto& piece : data::preview(dataset.examples.front(), tokenizer)) {
    out.example.push_back({.text = piece.text, .supervised = piece.supervised});
  }
  // As TRL: before packing, so that chunks of 1,000 are not the file's; and the rows that come of it.
  const auto seed = static_cast<std::uint64_t>(plan.seed);
  if (plan.shuffle_dataset && packing) data::dataset_shuffle(dataset.examples, seed);
  out.data.rows =
      packing ? data::pack_bfd(dataset.examples, plan.max_length) : data::no_packing(dataset.examples);
  if (plan.shuffle_dataset) data::dataset_shuffle(out.data.rows, seed);
  out.data.examples = std::move(dataset.examples);
  return out;
}

// What the checkpoint's run was trained on, when it was something else.
std::optional<std::string> changed_rows(const RunState& saved, const SftInput& train, std::uint32_t crc32c) {
  if (saved.data_rows == 0) return std::nullopt;
  if (saved.data_rows == train.file_rows && saved.data_crc32c == crc32c) return std::nullopt;
  const std::string what =
      saved.data_rows == train.file_rows
          ? std::to_string(train.file_rows) + " rows with another checksum"
          : std::to_string(saved.data_rows) + " rows -> " + std::to_string(train.file_rows) + " rows";
  return "differs from the checkpoint: the training rows changed (" + what +
         "): the resumed run is not the uninterrupted one";
}

// transformers trains on such rows too, without a word.
std::optional<std::string> beyond_positions(const data::DataFacts& facts, const config::Plan& plan,
                                            const model::ModelConfig& model) {
  const std::int64_t longest = plan.max_length > 0 ? std::min(plan.max_length, facts.longest) : facts.longest;
  if (longest <= model.max_position_embeddings) return std::nullopt;
  return "the longest row has " + std::to_string(longest) +
         " tokens, the model's max_position_embeddings is " + std::to_string(model.max_position_embeddings) +
         ": it has never seen the positions after that; lower max_length";
}

TrainedFacts trained_facts(const model::CausalLm& model, const adapters::Adapter& adapter) {
  TrainedFacts out;
  out.tensors = static_cast<std::int64_t>(adapter.tensors().size());
  out.parameters = adapter.flat().numel();
  out.bytes = static_cast<std::int64_t>(adapter.flat().nbytes());
  out.base_parameters = model.parameter_count();
  out.base_bytes = model.parameter_bytes();
  for (const ops::Linear* linear : model.linears()) {
    if (!linear->lora) continue;
    out.modules_matched += 1;
    const std::string shortened = linear->name.substr(linear->name.rfind('.') + 1);
    if (std::find(out.modules.begin(), out.modules.end(), shortened) == out.modules.end()) {
      out.modules.push_back(shortened);
    }
  }
  return out;
}

std::int64_t checkpoint_bytes(const adapters::Adapter& adapter) {
  return 3 * static_cast<std::int64_t>(adapter.flat().nbytes()) +
         (32LL << 20);  // adapter, two moments, tokenizer
}

}  // namespace

LoopResult run_sft(const config::Plan& plan, RunListener& listener, const std::atomic<bool>& stop_requested) {
  at::set_num_threads(static_cast<int>(threads_or_default(plan.threads)));
  const fs::path output_dir = plan.output_dir;
  const bool resuming = !plan.resume_from_checkpoint.empty();
  std::optional<base::FolderLock> lock;
  if (fs::is_directory(output_dir)) {
    lock.emplace(output_dir, kAnotherRun);
    recover_run_folder(output_dir);
  }
  const fs::path resume_from =
      resuming ? find_checkpoint(output_dir, plan.resume_from_checkpoint) : fs::path();
  std::error_code ignored;
  const bool in_place =
      resuming && fs::equivalent(fs::absolute(resume_from / "..").lexically_normal(), output_dir, ignored);
  if (!in_place) require_fresh(output_dir);

  // Data before weights: a wrong row is found in seconds.
  const auto source = model::open_weights(plan.model_name_or_path);
  const OpenedText opened = open_text(plan);
  SftInput train = read_data(plan.dataset_name, plan.packing, plan, opened.tokenizer,
                             opened.chat_template.get(), source->config().vocab_size);
  std::optional<SftData> eval;
  if (!plan.dataset_test.empty()) {
    eval = read_data(plan.dataset_test, plan.eval_packing.value_or(plan.packing), plan, opened.tokenizer,
                     opened.chat_template.get(), source->config().vocab_size)
               .data;
  }

  const std::int64_t program_bytes = base::process_memory().resident;
  model::CausalLm model(*source, numbers(plan.precision));
  const fs::path adapter_from = resuming ? resume_from : fs::path(plan.adapter_name_or_path);
  adapters::Adapter adapter = adapter_from.empty()
                                  ? adapters::Adapter::attach(model, lora_config(plan), plan_seed(plan))
                                  : load_adapter(model, adapter_from, plan);
  base::require_free_space(output_dir, static_cast<std::uint64_t>(checkpoint_bytes(adapter)), "a checkpoint");

  const std::uint32_t data_crc32c = base::crc32c(base::MappedFile::open(train.file).bytes());
  RunState state;
  learn::AdamWState optimizer = learn::AdamWState::zeros_like(adapter.flat());
  StartFacts start;
  start.notes = plan.notes;
  if (source->is_gguf() && !fs::exists(base_model_name(plan))) start.notes.push_back(convert_note(plan));
  if (resuming) {
    LoadedCheckpoint loaded = load_checkpoint(resume_from, adapter.flat().numel(), plan);
    state = std::move(loaded.state);
    optimizer = std::move(loaded.optimizer);
    start.resumed_from = resume_from.string();
    for (const auto& change : loaded.changed_options)
      start.notes.push_back("differs from the checkpoint: " + change);
    if (const auto note = changed_rows(state, train, data_crc32c)) start.notes.push_back(*note);
  }
  state.data_rows = train.file_rows;
  state.data_crc32c = data_crc32c;

  if (const auto note = beyond_positions(train.facts, plan, model.config())) start.notes.push_back(*note);
  start.trained = trained_facts(model, adapter);
  start.train_data = train.facts;
  start.train_rows = static_cast<std::int64_t>(train.data.rows.size());
  start.example = std::move(train.example);
  start.memory = plan_memory(
      memory_inputs(
          model, plan, program_bytes,
          longest_batch(train.data.examples, train.data.rows, plan.per_device_train_batch_size),
          eval ? longest_batch(eval->examples, eval->rows, plan.per_device_eval_batch_size) : LongestBatch()),
      plan.layer_form, plan.recompute, memory_limit(plan));
  SftMethod method(plan, model, std::move(train.data), std::move(eval), pass_form(start.memory));
  start.total_steps = method.total_steps();
  start.steps_per_epoch = method.steps_per_epoch();
  start.warmup_steps = learn::resolve_warmup(plan.warmup_steps, start.total_steps);
  start.first_step = state.step;
  start.output_dir = output_dir.string();

  fs::create_directories(output_dir);
  if (!lock) {
    lock.emplace(output_dir, kAnotherRun);
    require_fresh(output_dir);  // another run may have come and gone since the first look
  }
  base::write_file_atomic(output_dir / kPlanFile, config::write_plan(plan));
  listener.started(start);
  const LoopResult result = run_loop({.plan = plan,
                                      .adapter = adapter,
                                      .method = method,
                                      .tokenizer = opened.tokenizer,
                                      .listener = listener,
                                      .stop_requested = stop_requested,
                                      .optimizer = optimizer,
                                      .state = state,
                                      .planned_memory = start.memory.total});
  listener.finished(output_dir.string(), result.interrupted, result.step);
  return result;
}

}  // namespace hone::train
