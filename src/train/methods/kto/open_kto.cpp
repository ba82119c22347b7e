// The order of events before the first step of a KTO run, as prose.
#include <algorithm>
#include <cmath>

#include "data/forms/token_cache.h"
#include "train/methods/kto/kto.h"
#include "train/opening/record_opening.h"

namespace hone::train::kto {

namespace {

// TRL exchanges the completions of evaluation rows within training's batch size too.
RecordMaking making(const RowText& text) {
  const config::Plan& plan = text.plan;
  const data::UnpairedOptions options = {.max_length = plan.max_length,
                                         .max_prompt_length = plan.max_prompt_length,
                                         .batch_size = plan.per_device_train_batch_size,
                                         .vocab_size = text.vocab_size,
                                         .threads = static_cast<int>(plan.threads)};
  return {.options = data::token_options(options),
          .begin = passes_of(data::UnpairedRows(),
                             data::UnpairedMaker(text.tokenizer, text.chat_template, options)),
          .block = data::kUnpairedBlock,
          .streamed = data::kUnpairedBlock};
}

// The largest pass that any order of the rows can make: of their own completions, which trains, or of both
// of each prompt, which the reference scores.
LongestBatch longest_rows(const RecordData& data, std::int64_t batch_size, bool both) {
  return longest_records(data, batch_size, [both](const data::RecordView& record) {
    const data::SequencePair row = data::sides_of(record);
    const auto other = both ? std::ssize(row.second.scored) : 0;
    return RowSize{.tokens = both ? row.tokens(/*share=*/true) : row.first.tokens(),
                   .scored = std::ssize(row.first.scored) + other,
                   .segment = std::max(row.first.tokens(), row.second.tokens())};
  });
}

// The largest pass without gradients.
LongestBatch longest_scored(const config::Plan& plan, const RecordData& train, const RecordData* eval) {
  const bool both = plan.kto.loss_type == "kto";
  const std::int64_t batch =
      std::max(plan.per_device_train_batch_size, plan.precompute_ref_batch_size.value_or(0));
  LongestBatch out = longest_rows(train, batch, both);
  if (eval == nullptr) return out;
  const LongestBatch other = longest_rows(*eval, plan.per_device_eval_batch_size, both);
  out.tokens = std::max(out.tokens, other.tokens);
  out.scored = std::max(out.scored, other.scored);
  out.segment = std::max(out.segment, other.segment);
  return out;
}

std::string loss_line(const config::KtoPlan& plan) {
  std::string out = plan.loss_type + ", beta " + short_number(plan.beta);
  if (plan.desirable_weight != 1 || plan.undesirable_weight != 1) {
    out += ", weights " + short_number(plan.desirable_weight) + " (desirable) and " +
           short_number(plan.undesirable_weight);
  }
  return out;
}

// TRL's warning (KTO, Eq. 8): weights that do not make up for unequal numbers of the two kinds.
std::optional<std::string> balance_note(const config::KtoPlan& plan, const data::UnpairedFacts& facts) {
  if (facts.desirable == 0 || facts.desirable == facts.kept)
    return std::nullopt;  // of one kind: nothing to balance
  const auto desirable = static_cast<double>(std::max<std::int64_t>(facts.desirable, 1));
  const auto undesirable = std::max(static_cast<double>(facts.kept) - desirable, 1.0);
  if (desirable == undesirable) return std::nullopt;
  const auto rounded = [](double x) { return std::round(x * 100) / 100; };
  const double least_d = rounded(undesirable * plan.undesirable_weight / desirable);
  const double most_d = rounded(undesirable * plan.undesirable_weight / desirable * 1.33);
  const double least_u = rounded(desirable * plan.desirable_weight / undesirable / 1.33);
  const double most_u = rounded(desirable * plan.desirable_weight / undesirable);
  if (least_d <= plan.desirable_weight && plan.desirable_weight <= most_d) return std::nullopt;
  if (least_u <= plan.undesirable_weight && plan.undesirable_weight <= most_u) return std::nullopt;
  return std::to_string(facts.desirable) + " desirable and " + std::to_string(facts.kept - facts.desirable) +
         " undesirable rows, and the weights do not balance them: either desirable_weight from " +
         short_number(least_d) + " to " + short_number(most_d) + ", or undesirable_weight from " +
         short_number(least_u) + " to " + short_number(most_u) + " (not both)";
}

MemoryInputs begin(OpenedRun& run, const OpenedRecords& records) {
  const config::Plan& plan = run.plan;
  const auto& facts = std::get<data::UnpairedFacts>(records.facts);
  const bool counted = !plan.dataset_streaming;  // TRL counts only rows that it has
  if (const auto note = counted ? balance_note(plan.kto, facts) : std::nullopt)
    run.start.notes.push_back(*note);
  run.start.method = UnpairedStartFacts{.data = facts,
                                        .eval_rows = records.eval_rows(),
                                        .loss = loss_line(plan.kto),
                                        .reference = reference_line(plan)};
  return memory_inputs(*run.model, plan, records.program_bytes,
                       longest_rows(records.train, plan.per_device_train_batch_size, /*both=*/false),
                       longest_scored(plan, records.train, records.eval));
}

constexpr RecordOpening kOpening = {.making = &making, .begin = &begin, .method = &new_method<Kto>};

}  // namespace

MethodOpening row() {
  return {.method = config::Method::kKto,
          .records = &kOpening,
          .columns = &data::kto_columns,
          .experts_balance = ExpertsBalance::kByOption};
}

}  // namespace hone::train::kto
