// The order of events before the first step of an SFT run, as prose.
#include <array>
#include <cstdint>
#include <memory>

#include "base/enum_names.h"
#include "base/error.h"
#include "data/preview.h"
#include "data/shuffle.h"
#include "data/token_cache.h"
#include "data/tokenize.h"
#include "train/eval_overlap.h"
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

// In the words of the option.
const char* strategy_name(config::PackingStrategy strategy) {
  constexpr std::array<const char*, 3> kNames = {"bfd", "bfd_split", "wrapped"};
  return base::enum_name(kNames, strategy);
}

data::RecordBlock packed_of(const data::Records& examples, const config::DataPlan& plan, bool packing) {
  if (keeps_all(plan, packing)) {
    data::PackedRecords packed = plan.packing_strategy == config::PackingStrategy::kWrapped
                                     ? data::pack_wrapped(examples, plan.max_length)
                                     : data::pack_bfd_split(examples, plan.max_length);
    return {.records = std::move(packed.records), .rows = std::move(packed.rows)};
  }
  return {.records = examples,
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

// As TRL's map(batched=True) packs them.
constexpr data::BlockSize kPackedBlock = {.rows = 1000, .bytes = SIZE_MAX};

// `chat_template`: the one that renders, or null; it outlives the run.
RecordMaking making_of(const OpenedRun& run, const text::ChatTemplate* chat_template,
                       const data::TokenizeOptions& options) {
  data::Rows empty;
  empty.text_field = run.plan.dataset_text_field;
  RecordMaking out = {
      .options = data::token_options(options),
      .begin = passes_of(std::move(empty), data::BlockTokenizer(run.text->tokenizer, chat_template, options)),
      .pack = [&plan = run.plan](const data::Records& records) {
        return packed_of(records, plan, plan.packing);
      }};
  if (run.plan.packing) out.streamed = kPackedBlock;
  return out;
}

// Of rows that are all there.
void shuffle_and_pack(RecordData& data, const config::Plan& plan, bool packing) {
  // As TRL: before packing, so that chunks of 1,000 are not the file's; and the rows that come of it.
  const auto shuffle = [&plan](auto& what) {
    what.reorder(
        data::dataset_shuffle(static_cast<std::int64_t>(what.size()), static_cast<std::uint64_t>(plan.seed)));
  };
  if (plan.shuffle_dataset && packing) shuffle(data.records);
  data::RecordBlock packed = packed_of(data.records, plan, packing);
  data.records = std::move(packed.records);
  data.rows = std::move(packed.rows);
  if (plan.shuffle_dataset) shuffle(data.rows);
}

std::unique_ptr<OpenedRun> open(const config::Plan& asked, RunListener& /*listener*/) {
  auto run = open_source(asked);
  const config::Plan& plan = run->plan;
  if (auto training = open_training_template(plan, *run->text, run->start.notes))
    run->text->training = std::move(training);
  const text::ChatTemplate* chat_template =
      run->text->training ? run->text->training.get() : run->text->chat_template.get();
  RecordInput input =
      training_records(*run, making_of(*run, chat_template, tokenize_options(*run, plan.packing)));
  const auto facts = std::get<data::DataFacts>(input.facts);
  for (const auto& piece : data::preview(input.data.records[0], run->text->tokenizer))
    run->start.example.push_back({.text = piece.text, .supervised = piece.supervised});
  if (!plan.dataset_streaming) shuffle_and_pack(input.data, plan, plan.packing);
  const bool packs_eval = plan.eval_packing.value_or(plan.packing);
  std::optional<RecordData> eval = read_eval(plan, [&](const base::RowFiles& files) {
    data::TokenizeOptions options = tokenize_options(*run, packs_eval);
    options.completion_only_loss = completion_only_for_eval(plan, facts);
    RecordData set = read_records(*run, files, making_of(*run, chat_template, options)).data;
    shuffle_and_pack(set, plan, packs_eval);
    return set;
  });
  note_rows(*run, input.seen, example_reading(facts), example_notes(plan, input.seen, facts));
  if (data::counts_of(input.facts).plain_prompts) note_plain_texts(*run);
  note_sharegpt_roles(*run, facts.rows_with_sharegpt_roles);
  const Attached attached =
      attach(*run, input.file, facts.longest, {.packs = false, .wants_reference = false});
  const RecordData& train = run->data.emplace<RecordData>(std::move(input.data));

  StartFacts& start = run->start;
  start.train_rows = static_cast<std::int64_t>(train.rows.size());
  start.mean_length = facts.mean_length;
  start.conversational = facts.conversational;
  if (eval) start.overlap = eval_overlap(train, *eval, plan.dataset_test);
  start.streamed = plan.dataset_streaming;
  start.method = ExampleStartFacts{
      .data = facts, .packed_rows = start.train_rows, .packing = strategy_name(plan.packing_strategy)};
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
