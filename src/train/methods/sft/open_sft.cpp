// The order of events before the first step of an SFT run, as prose.
#include <array>
#include <cstdint>
#include <memory>

#include "base/enum_names.h"
#include "base/error.h"
#include "data/example_writer.h"
#include "data/preview.h"
#include "data/row_stream.h"
#include "data/shuffle.h"
#include "data/tokenize.h"
#include "train/cached_tokens.h"
#include "train/memory_inputs.h"
#include "train/methods/sft/sft.h"
#include "train/opening.h"
#include "train/read_eval.h"
#include "train/row_notes.h"

namespace hone::train {

namespace {

// Packing that cuts rows instead of dropping what is longer than max_length.
bool keeps_all(const config::DataPlan& plan, bool packing) {
  return packing && plan.packing_strategy != config::PackingStrategy::kBfd;
}

}  // namespace

data::TokenizeOptions example_options(const config::Plan& plan, std::int64_t vocab_size, bool packing) {
  return {.max_length = keeps_all(plan, packing) ? 0 : plan.max_length,
          // TRL's packing cuts the ends of rows itself
          .keep_end = !packing && plan.truncation_mode == "keep_end",
          .completion_only_loss = plan.completion_only_loss,
          .assistant_only_loss = plan.assistant_only_loss,
          .vocab_size = vocab_size,
          .packing = packing,
          .prepared = plan.skip_prepare_dataset,
          .threads = static_cast<int>(plan.threads)};
}

namespace sft {

namespace {

struct Input {
  ExampleData data;
  data::DataFacts facts;
  DataFile file;
  std::vector<ColoredPiece> example;
  base::fs::path kept_in;  // cached_tokens.h
  data::SeenRows seen;
};

// In the words of the option.
const char* strategy_name(config::PackingStrategy strategy) {
  constexpr std::array<const char*, 3> kNames = {"bfd", "bfd_split", "wrapped"};
  return base::enum_name(kNames, strategy);
}

data::ExampleBlock packed_of(const data::Examples& examples, const config::DataPlan& plan, bool packing) {
  if (keeps_all(plan, packing)) {
    data::PackedExamples packed = plan.packing_strategy == config::PackingStrategy::kWrapped
                                      ? data::pack_wrapped(examples, plan.max_length)
                                      : data::pack_bfd_split(examples, plan.max_length);
    return {.examples = std::move(packed.examples), .rows = std::move(packed.rows)};
  }
  return {.examples = examples,
          .rows = packing ? data::pack_bfd(examples, plan.max_length) : data::no_packing(examples)};
}

// TRL decides by the first training row, for rows to evaluate too: those of another form have no completions
// then.
std::optional<bool> completion_only_for_eval(const config::Plan& plan, const data::DataFacts& train) {
  const bool trains_whole =
      train.form != data::RowForm::kPromptCompletion && !train.token_columns.completions;
  return plan.completion_only_loss || !trains_whole ? plan.completion_only_loss : false;
}

data::TokenizeOptions tokenize_options(const OpenedRun& run, bool packing) {
  return example_options(run.plan, run.source->config().vocab_size, packing);
}

void set_example(Input& out, const OpenedRun& run) {
  for (const auto& piece : data::preview(out.data.examples[0], run.text->tokenizer))
    out.example.push_back({.text = piece.text, .supervised = piece.supervised});
}

Input read_data(const base::RowFiles& files, const data::TokenizeOptions& options, const OpenedRun& run,
                const text::ChatTemplate* chat_template) {
  const bool packing = options.packing;
  const config::Plan& plan = run.plan;
  const data::RowSource source(rows_for(run.text->tokenizer, plan, files));
  CachedTokens tokens = cached_tokens(source, run, chat_template, options);
  data::Dataset& dataset = tokens.dataset;
  Input out;
  out.facts = dataset.facts;
  out.kept_in = std::move(tokens.from);
  out.seen = std::move(tokens.seen);
  out.file = {.files = source.files().files(), .rows = dataset.facts.rows};
  out.data.examples = dataset.examples;
  set_example(out, run);
  // As TRL: before packing, so that chunks of 1,000 are not the file's; and the rows that come of it.
  const auto seed = static_cast<std::uint64_t>(plan.seed);
  const auto shuffle = [seed](auto& what) {
    what.reorder(data::dataset_shuffle(static_cast<std::int64_t>(what.size()), seed));
  };
  if (plan.shuffle_dataset && packing) shuffle(dataset.examples);
  data::ExampleBlock packed = packed_of(dataset.examples, plan, packing);
  out.data.examples = std::move(packed.examples);
  out.data.rows = std::move(packed.rows);
  if (plan.shuffle_dataset) shuffle(out.data.rows);
  return out;
}

// ---- streamed rows

// As TRL's map(batched=True) packs them; without packing no block is seen, and small ones make the first step early.
constexpr std::size_t kPackedBlock = 1000, kBlock = 256;

// What a pass over the rows needs, longer than open().
struct Streamed {
  data::RowSource source;
  const OpenedRun& run;
  std::shared_ptr<const text::ChatTemplate> training;  // null: the run's
  data::DataFacts facts = {};                          // of the rows so far
  data::SeenRows seen = {};                            // the same

  const text::ChatTemplate* chat_template() const {
    return training != nullptr ? training.get() : run.text->chat_template.get();
  }
};

data::ExampleStream::NextBlock begin_pass(const std::shared_ptr<Streamed>& all) {
  const config::Plan& plan = all->run.plan;
  const data::RowBlock size = {.rows = plan.packing ? kPackedBlock : kBlock,
                               .bytes = plan.packing ? SIZE_MAX : data::RowBlock().bytes};
  const auto rows = std::make_shared<data::RowStream>(all->source, plan.dataset_text_field, size);
  const auto tokenizing = std::make_shared<data::BlockTokenizer>(
      all->run.text->tokenizer, all->chat_template(), tokenize_options(all->run, plan.packing));
  return [all, rows, tokenizing, &plan]() -> std::optional<data::ExampleBlock> {
    const std::optional<data::Rows> block = rows->next();
    if (!block) {
      (void)tokenizing->finish();  // a pass without a target
      return std::nullopt;
    }
    data::ExampleWriter writer;
    tokenizing->add(*block, [&writer](const data::Example& example) { writer.add(data::view(example)); });
    all->facts = tokenizing->facts();
    all->seen = block->names.seen();
    return packed_of(writer.finish(), plan, plan.packing);
  };
}

// The first rows; the others when the run needs them.
Input begin_stream(const OpenedRun& run, std::shared_ptr<const text::ChatTemplate> training) {
  const config::Plan& plan = run.plan;
  const auto all = std::make_shared<Streamed>(
      Streamed{.source = data::RowSource(rows_for(run.text->tokenizer, plan, plan.train_rows)),
               .run = run,
               .training = std::move(training)});
  Input out;
  out.data.stream = std::make_shared<data::ExampleStream>([all] { return begin_pass(all); });
  out.data.stream->hold(0, 1);
  const data::ExampleBlock* const first = out.data.stream->first_block();
  base::require(first != nullptr, "train::sft::begin_stream", "a pass without rows to be an error");
  out.data.examples = first->examples;
  out.data.rows = first->rows;
  out.data.longest_row = plan.max_length;
  out.facts = all->facts;
  out.seen = all->seen;
  set_example(out, run);
  return out;
}

std::unique_ptr<OpenedRun> open(const config::Plan& asked, RunListener& /*listener*/) {
  auto run = open_source(asked);
  const config::Plan& plan = run->plan;
  const std::shared_ptr<const text::ChatTemplate> training =
      open_training_template(plan, *run->text, run->start.notes);
  const text::ChatTemplate* chat_template = training ? training.get() : run->text->chat_template.get();
  Input input = plan.dataset_streaming
                    ? begin_stream(*run, training)
                    : read_data(plan.train_rows, tokenize_options(*run, plan.packing), *run, chat_template);
  const bool packs_eval = plan.eval_packing.value_or(plan.packing);
  std::optional<ExampleData> eval = read_eval<ExampleData>(plan, [&](const base::RowFiles& files) {
    data::TokenizeOptions options = tokenize_options(*run, packs_eval);
    options.completion_only_loss = completion_only_for_eval(plan, input.facts);
    return std::move(read_data(files, options, *run, chat_template).data);
  });
  note_rows(*run, input.seen, example_reading(input.facts), example_notes(plan, input.seen, input.facts));
  if (input.facts.form == data::RowForm::kPromptCompletion && !input.facts.conversational)
    note_plain_texts(*run);
  note_sharegpt_roles(*run, input.facts.rows_with_sharegpt_roles);
  if (!input.kept_in.empty()) note_kept_tokens(*run);
  if (plan.dataset_streaming && plan.max_length == 0) {
    run->start.notes.emplace_back(
        "streamed rows without max_length: memory is planned for the longest of the first rows, and a longer one may come");
  }
  const Attached attached =
      attach(*run, input.file, input.facts.longest, {.packs = false, .wants_reference = false});
  const ExampleData& train = run->data.emplace<ExampleData>(std::move(input.data));

  StartFacts& start = run->start;
  start.train_rows = static_cast<std::int64_t>(train.rows.size());
  start.mean_length = input.facts.mean_length;
  start.conversational = input.facts.conversational;
  if (eval) start.overlap = eval_overlap(train, *eval, plan.dataset_test);
  start.method = ExampleStartFacts{.data = input.facts,
                                   .packed_rows = start.train_rows,
                                   .packing = strategy_name(plan.packing_strategy),
                                   .streamed = plan.dataset_streaming};
  start.example = std::move(input.example);
  const LongestBatch longest = longest_batch(train, plan.per_device_train_batch_size);
  plan_run_memory(
      *run, memory_inputs(*run->model, plan, attached.program_bytes, longest,
                          eval ? longest_batch(*eval, plan.per_device_eval_batch_size) : LongestBatch()));
  run->method = std::make_unique<Sft>(plan, *run->model, train, std::move(eval), pass_form(start.memory),
                                      run->resume_state->state.step);
  end_start_page(*run);
  return run;
}

}  // namespace

MethodOpening row() {
  return {
      .method = config::Method::kSft, .open = &open, .rates = {1e-5, 2e-4, 5e-3}, .balances_experts = true};
}

}  // namespace sft
}  // namespace hone::train
