// open_sft: the order of events before the first step of an SFT run, as prose.
#include <ATen/Parallel.h>

#include "base/file.h"
#include "base/process_memory.h"
#include "data/preview.h"
#include "data/rows.h"
#include "data/shuffle.h"
#include "model/weight_source.h"
#include "text/chat_template.h"
#include "train/machine.h"
#include "train/memory_inputs.h"
#include "train/open_model.h"
#include "train/open_run.h"
#include "train/opening.h"
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

struct OpenedSft final : OpenedRun {
  using OpenedRun::OpenedRun;
  const SftData* examples() const override { return rows; }

  const SftData* rows = nullptr;  // of the method, which somebody may have wrapped since
};

}  // namespace

std::unique_ptr<OpenedRun> open_sft(const config::Plan& asked, RunListener& /*listener*/) {
  at::set_num_threads(static_cast<int>(threads_or_default(asked.threads)));
  auto run = std::make_unique<OpenedSft>(asked);
  const config::Plan& plan = run->plan;

  // Data before weights: a wrong row is found in seconds.
  run->source = model::open_weights(plan.model_name_or_path);
  run->text.emplace(open_text(plan));
  const std::int64_t vocab_size = run->source->config().vocab_size;
  SftInput train = read_data(plan.dataset_name, plan.packing, plan, run->text->tokenizer,
                             run->text->chat_template.get(), vocab_size);
  std::optional<SftData> eval;
  if (!plan.dataset_test.empty()) {
    eval = read_data(plan.dataset_test, plan.eval_packing.value_or(plan.packing), plan, run->text->tokenizer,
                     run->text->chat_template.get(), vocab_size)
               .data;
  }

  const std::int64_t program_bytes = base::process_memory().resident;
  const model::CausalLm& model =
      run->model.emplace(*run->source, numbers(plan.precision), model::Storage::kPlain, quantise(plan));
  const adapters::Adapter& adapter = run->adapter.emplace(open_adapter(*run->model, plan, run->place));
  require_room_for_checkpoint(run->place, adapter);
  run->standing.emplace(find_standing(plan, run->place, adapter, data_print(train.file, train.file_rows)));

  StartFacts& start = run->start;
  begin_start_page(*run, train.facts.longest);
  start.train_data = train.facts;
  start.train_rows = static_cast<std::int64_t>(train.data.rows.size());
  start.example = std::move(train.example);
  start.memory = plan_memory(
      memory_inputs(
          model, plan, program_bytes,
          longest_batch(train.data.examples, train.data.rows, plan.per_device_train_batch_size),
          eval ? longest_batch(eval->examples, eval->rows, plan.per_device_eval_batch_size) : LongestBatch()),
      plan.layer_form, plan.recompute, memory_limit(plan));
  auto method = std::make_unique<SftMethod>(plan, model, std::move(train.data), std::move(eval),
                                            pass_form(start.memory));
  run->rows = &method->train_data();
  run->method = std::move(method);
  end_start_page(*run);
  return run;
}

LoopResult run_sft(const config::Plan& plan, RunListener& listener, const std::atomic<bool>& stop_requested) {
  const std::unique_ptr<OpenedRun> run = open_sft(plan, listener);
  return begin_run(*run, listener, stop_requested);
}

}  // namespace hone::train
