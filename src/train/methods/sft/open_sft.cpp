// The order of events before the first step of an SFT run, as prose.
#include "data/preview.h"
#include "data/rows.h"
#include "data/shuffle.h"
#include "data/tokenize.h"
#include "train/memory_inputs.h"
#include "train/methods/sft/sft.h"
#include "train/opening.h"

namespace hone::train::sft {

namespace {

struct Input {
  ExampleData data;
  data::DataFacts facts;
  DataFile file;
  std::vector<ColoredPiece> example;
};

Input read_data(const data::RowSource& source, bool packing, const OpenedRun& run) {
  const config::Plan& plan = run.plan;
  const data::Rows rows = data::read_rows(source, plan.dataset_text_field);
  data::Dataset dataset = data::tokenize_rows(rows, run.text->tokenizer, run.text->chat_template.get(),
                                              {.max_length = plan.max_length,
                                               .completion_only_loss = plan.completion_only_loss,
                                               .assistant_only_loss = plan.assistant_only_loss,
                                               .vocab_size = run.source->config().vocab_size,
                                               .packing = packing,
                                               .threads = static_cast<int>(plan.threads)});
  Input out;
  out.facts = dataset.facts;
  out.file = {.files = source.files().files(), .rows = static_cast<std::int64_t>(rows.rows.size())};
  for (const auto& piece : data::preview(dataset.examples.front(), run.text->tokenizer)) {
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

std::unique_ptr<OpenedRun> open(const config::Plan& asked, RunListener& /*listener*/) {
  auto run = open_source(asked);
  const config::Plan& plan = run->plan;
  Input input = read_data(plan.train_rows, plan.packing, *run);
  std::optional<ExampleData> eval;
  if (!plan.dataset_test.empty()) {
    eval = read_data(plan.eval_rows, plan.eval_packing.value_or(plan.packing), *run).data;
  }
  const Attached attached =
      attach(*run, input.file, input.facts.longest, {.packs = false, .wants_reference = false});
  const ExampleData& train = run->data.emplace<ExampleData>(std::move(input.data));

  StartFacts& start = run->start;
  start.train_rows = static_cast<std::int64_t>(train.rows.size());
  start.mean_length = input.facts.mean_length;
  start.conversational = input.facts.conversational;
  if (eval) start.overlap = eval_overlap(train, *eval, plan.dataset_test);
  start.method = ExampleStartFacts{.data = input.facts, .packed_rows = start.train_rows};
  start.example = std::move(input.example);
  const LongestBatch longest = longest_batch(train.examples, train.rows, plan.per_device_train_batch_size);
  plan_run_memory(
      *run, memory_inputs(*run->model, plan, attached.program_bytes, longest,
                          eval ? longest_batch(eval->examples, eval->rows, plan.per_device_eval_batch_size)
                               : LongestBatch()));
  run->method = std::make_unique<Sft>(plan, *run->model, train, std::move(eval), pass_form(start.memory));
  end_start_page(*run);
  return run;
}

}  // namespace

MethodRow row() {
  return {.method = config::Method::kSft, .open = &open, .rates = {1e-5, 2e-4, 5e-3}};
}

}  // namespace hone::train::sft
