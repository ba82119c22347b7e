// The order of events before the first step of an SFT run, as prose.
#include <array>
#include <cstdint>

#include "base/enum_names.h"
#include "data/forms/token_cache.h"
#include "data/forms/tokenize.h"
#include "train/methods/sft/sft.h"
#include "train/opening/record_opening.h"

namespace hone::train::sft {

namespace {

// Packing that cuts rows instead of dropping what is longer than max_length.
bool keeps_all(const config::DataPlan& plan, bool packing) {
  return packing && plan.packing_strategy != config::PackingStrategy::kBfd;
}

data::TokenizeOptions tokenize_options(const RowText& text, bool packing) {
  const config::Plan& plan = text.plan;
  return {.max_length = keeps_all(plan, packing) ? 0 : plan.max_length,
          // TRL's packing cuts the ends of rows itself
          .keep_end = !packing && plan.truncation_mode == "keep_end",
          .drop_long = plan.truncation_mode == "drop" && !keeps_all(plan, packing),
          .completion_only_loss = plan.completion_only_loss,
          .assistant_only_loss = plan.assistant_only_loss,
          .vocab_size = text.vocab_size,
          .packing = packing,
          .prepared = plan.skip_prepare_dataset,
          .threads = static_cast<int>(plan.threads)};
}

// In the words of the option.
const char* strategy_name(config::PackingStrategy strategy) {
  constexpr std::array<const char*, 3> kNames = {"bfd", "bfd_split", "wrapped"};
  return base::enum_name(kNames, strategy);
}

data::RecordBlock pack(const data::Records& examples, const config::DataPlan& plan) {
  if (keeps_all(plan, /*packing=*/true)) {
    data::PackedRecords packed = plan.packing_strategy == config::PackingStrategy::kWrapped
                                     ? data::pack_wrapped(examples, plan.max_length)
                                     : data::pack_bfd_split(examples, plan.max_length);
    return {.records = std::move(packed.records), .rows = std::move(packed.rows)};
  }
  return {.records = examples, .rows = data::pack_bfd(examples, plan.max_length)};
}

// TRL decides by the first training row, for rows to evaluate too: those of another form have no completions
// then.
std::optional<bool> completion_only_for_eval(const config::Plan& plan, const data::DataFacts& train) {
  const bool trains_whole =
      train.form != data::RowForm::kPromptCompletion && !train.token_columns.completions;
  return plan.completion_only_loss || !trains_whole ? plan.completion_only_loss : false;
}

// As TRL's map(batched=True) packs them.
constexpr data::BlockSize kPackedBlock = {.rows = 1000, .bytes = SIZE_MAX};

RecordMaking making_of(const RowText& text, const data::TokenizeOptions& options) {
  data::Rows empty;
  empty.text_field = text.plan.dataset_text_field;
  RecordMaking out = {.options = data::token_options(options),
                      .begin = passes_of(std::move(empty),
                                         data::BlockTokenizer(text.tokenizer, text.chat_template, options))};
  if (!options.packing) return out;
  out.pack = [&plan = text.plan](const data::Records& records) { return pack(records, plan); };
  out.streamed = kPackedBlock;
  return out;
}

RecordMaking making(const RowText& text) {
  return making_of(text, tokenize_options(text, text.plan.packing));
}

RecordMaking eval_making(const RowText& text, const data::RowFacts& train) {
  const config::Plan& plan = text.plan;
  data::TokenizeOptions options = tokenize_options(text, plan.eval_packing.value_or(plan.packing));
  options.completion_only_loss = completion_only_for_eval(plan, std::get<data::DataFacts>(train));
  return making_of(text, options);
}

MemoryInputs begin(OpenedRun& run, const OpenedRecords& records) {
  const config::Plan& plan = run.plan;
  run.start.method = ExampleStartFacts{.data = std::get<data::DataFacts>(records.facts),
                                       .packed_rows = run.start.train_rows,
                                       .packing = strategy_name(plan.packing_strategy)};
  const RecordData* const eval = records.eval;
  return memory_inputs(
      *run.model, plan, records.program_bytes, longest_batch(records.train, plan.per_device_train_batch_size),
      eval == nullptr ? LongestBatch() : longest_batch(*eval, plan.per_device_eval_batch_size));
}

constexpr RecordOpening kOpening = {.attach = {.packs = false, .wants_reference = false},
                                    .making = &making,
                                    .eval_making = &eval_making,
                                    .begin = &begin,
                                    .method = &new_method<Sft>};

}  // namespace

MethodOpening row() {
  return {.method = config::Method::kSft,
          .records = &kOpening,
          .columns = &data::sft_columns,
          .rates = {1e-5, 2e-4, 5e-3},
          .experts_balance = ExpertsBalance::kByOption};
}

}  // namespace hone::train::sft
