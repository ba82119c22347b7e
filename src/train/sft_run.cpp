// run_sft: the order of events of an SFT run, as prose.
#include <ATen/Parallel.h>

#include "base/file.h"
#include "base/process_memory.h"
#include "data/preview.h"
#include "data/rows.h"
#include "data/shuffle.h"
#include "learn/schedule.h"
#include "model/weight_source.h"
#include "text/chat_template.h"
#include "train/machine.h"
#include "train/memory_inputs.h"
#include "train/open_model.h"
#include "train/run_setup.h"
#include "train/sft.h"

namespace hone::train {

namespace fs = base::fs;

namespace {

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

}  // namespace

LoopResult run_sft(const config::Plan& plan, RunListener& listener, const std::atomic<bool>& stop_requested) {
  at::set_num_threads(static_cast<int>(threads_or_default(plan.threads)));
  RunPlace place(plan);

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
  adapters::Adapter adapter = open_adapter(model, plan, place);
  require_room_for_checkpoint(place, adapter);
  Standing standing = find_standing(plan, place, adapter, data_print(train.file, train.file_rows));

  StartFacts start;
  start.notes = plan.notes;
  const std::int64_t longest =
      plan.max_length > 0 ? std::min(plan.max_length, train.facts.longest) : train.facts.longest;
  if (const auto note = convert_note(plan, *source)) start.notes.push_back(*note);
  start.notes.insert(start.notes.end(), standing.notes.begin(), standing.notes.end());
  if (const auto note = beyond_positions(longest, model.config())) start.notes.push_back(*note);
  start.resumed_from = standing.resumed_from;
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
  start.first_step = standing.state.step;
  start.output_dir = plan.output_dir;

  place.open(plan);
  listener.started(start);
  const LoopResult result = run_loop({.plan = plan,
                                      .adapter = adapter,
                                      .method = method,
                                      .tokenizer = opened.tokenizer,
                                      .listener = listener,
                                      .stop_requested = stop_requested,
                                      .optimizer = standing.optimizer,
                                      .state = standing.state,
                                      .planned_memory = start.memory.total});
  listener.finished(plan.output_dir, result.interrupted, result.step);
  return result;
}

}  // namespace hone::train
