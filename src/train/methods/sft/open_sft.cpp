// The order of events before the first step of an SFT run, as prose.
#include "data/preview.h"
#include "data/shuffle.h"
#include "data/tokenize.h"
#include "train/cached_tokens.h"
#include "train/memory_inputs.h"
#include "train/methods/sft/sft.h"
#include "train/opening.h"
#include "train/read_eval.h"
#include "train/row_notes.h"

namespace hone::train::sft {

namespace {

struct Input {
  ExampleData data;
  data::DataFacts facts;
  DataFile file;
  std::vector<ColoredPiece> example;
  base::fs::path kept_in;  // cached_tokens.h
};

// Packing that cuts rows instead of dropping what is longer than max_length.
bool keeps_all(const config::DataPlan& plan, bool packing) {
  return packing && plan.packing_strategy != config::PackingStrategy::kBfd;
}

ExampleData packed_of(std::vector<data::Example> examples, const config::DataPlan& plan, bool packing) {
  ExampleData out;
  if (keeps_all(plan, packing)) {
    data::PackedExamples packed = plan.packing_strategy == config::PackingStrategy::kWrapped
                                      ? data::pack_wrapped(examples, plan.max_length)
                                      : data::pack_bfd_split(std::move(examples), plan.max_length);
    return {.examples = std::move(packed.examples), .rows = std::move(packed.rows)};
  }
  out.rows = packing ? data::pack_bfd(examples, plan.max_length) : data::no_packing(examples);
  out.examples = std::move(examples);
  return out;
}

Input read_data(const base::RowFiles& files, bool packing, const OpenedRun& run,
                const text::ChatTemplate* chat_template) {
  const config::Plan& plan = run.plan;
  const data::RowSource source(rows_for(run.text->tokenizer, plan, files));
  CachedTokens tokens = cached_tokens(source, run, chat_template,
                                      {.max_length = keeps_all(plan, packing) ? 0 : plan.max_length,
                                       // TRL's packing cuts the ends of rows itself
                                       .keep_end = !packing && plan.truncation_mode == "keep_end",
                                       .completion_only_loss = plan.completion_only_loss,
                                       .assistant_only_loss = plan.assistant_only_loss,
                                       .vocab_size = run.source->config().vocab_size,
                                       .packing = packing,
                                       .threads = static_cast<int>(plan.threads)});
  data::Dataset& dataset = tokens.dataset;
  Input out;
  out.facts = dataset.facts;
  out.kept_in = std::move(tokens.from);
  out.file = {.files = source.files().files(), .rows = dataset.facts.rows};
  for (const auto& piece : data::preview(dataset.examples.front(), run.text->tokenizer)) {
    out.example.push_back({.text = piece.text, .supervised = piece.supervised});
  }
  // As TRL: before packing, so that chunks of 1,000 are not the file's; and the rows that come of it.
  const auto seed = static_cast<std::uint64_t>(plan.seed);
  if (plan.shuffle_dataset && packing) data::dataset_shuffle(dataset.examples, seed);
  out.data = packed_of(std::move(dataset.examples), plan, packing);
  if (plan.shuffle_dataset) data::dataset_shuffle(out.data.rows, seed);
  return out;
}

std::unique_ptr<OpenedRun> open(const config::Plan& asked, RunListener& /*listener*/) {
  auto run = open_source(asked);
  const config::Plan& plan = run->plan;
  const std::unique_ptr<text::ChatTemplate> training =
      open_training_template(plan, *run->text, run->start.notes);
  const text::ChatTemplate* chat_template = training ? training.get() : run->text->chat_template.get();
  Input input = read_data(plan.train_rows, plan.packing, *run, chat_template);
  const bool packs_eval = plan.eval_packing.value_or(plan.packing);
  std::optional<ExampleData> eval = read_eval<ExampleData>(plan, [&](const base::RowFiles& files) {
    return std::move(read_data(files, packs_eval, *run, chat_template).data);
  });
  if (input.facts.form == data::RowForm::kPromptCompletion && !input.facts.conversational)
    note_plain_texts(*run);
  note_sharegpt_roles(*run, input.facts.rows_with_sharegpt_roles);
  if (!input.kept_in.empty())
    run->start.notes.push_back(
        "the tokens of an earlier run with these rows and options are used (cache_tokens)");
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
