// open_kto: the order of events before the first step of a KTO run, as prose.
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/process_memory.h"
#include "train/kto.h"
#include "train/machine.h"
#include "train/memory_inputs.h"
#include "train/open_model.h"
#include "train/open_run.h"
#include "train/opening.h"
#include "train/reference.h"
#include "train/run_setup.h"

namespace hone::train {

namespace fs = base::fs;

namespace {

struct KtoInput {
  data::UnpairedData data;
  fs::path file;
  std::int64_t file_rows = 0;
};

// TRL exchanges the completions of evaluation rows within training's batch size too.
KtoInput read_rows(const fs::path& path, const config::Plan& plan, const OpenedText& opened,
                   std::int64_t vocab_size) {
  const data::UnpairedRows rows = data::read_unpaired_rows(path);
  return {.data = data::tokenise_unpaired(rows, opened.tokenizer, opened.chat_template.get(),
                                          {.max_length = plan.max_length,
                                           .batch_size = plan.per_device_train_batch_size,
                                           .vocab_size = vocab_size,
                                           .threads = static_cast<int>(plan.threads)}),
          .file = rows.path,
          .file_rows = rows.file_rows};
}

// The largest pass that any order of the rows can make: of their own completions, which trains, or of both
// of each prompt, which the reference scores.
LongestBatch longest_rows(const std::vector<data::PreferencePair>& rows, std::int64_t batch_size, bool both) {
  std::vector<RowSize> sizes;
  for (const data::PreferencePair& row : rows) {
    const std::size_t other = both ? row.rejected.scored.size() : 0;
    sizes.push_back({.tokens = both ? row.tokens(/*share=*/true) : row.chosen.tokens(),
                     .scored = static_cast<std::int64_t>(row.chosen.scored.size() + other),
                     .segment = std::max(row.chosen.tokens(), row.rejected.tokens())});
  }
  return largest_batch(sizes, batch_size);
}

// The largest pass without gradients.
LongestBatch longest_scored(const config::Plan& plan, const data::UnpairedData& train,
                            const data::UnpairedData* eval) {
  const bool both = plan.kto.loss_type == "kto";
  const std::int64_t batch =
      std::max(plan.per_device_train_batch_size, plan.kto.precompute_ref_batch_size.value_or(0));
  LongestBatch out = longest_rows(train.rows, batch, both);
  if (eval == nullptr) return out;
  const LongestBatch other = longest_rows(eval->rows, plan.per_device_eval_batch_size, both);
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

std::string reference_line(const config::Plan& plan) {
  std::string out = reference_words(plan);
  if (plan.kto.precompute_ref_log_probs) out += ", computed once, before step 1";
  return out;
}

// TRL's warning (KTO, Eq. 8): weights that do not make up for unequal numbers of the two kinds.
std::optional<std::string> balance_note(const config::KtoPlan& plan, const data::UnpairedFacts& facts) {
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
         " undesirable rows, and the weights do not make up for it: either desirable_weight from " +
         short_number(least_d) + " to " + short_number(most_d) + ", or undesirable_weight from " +
         short_number(least_u) + " to " + short_number(most_u) + " (not both)";
}

struct OpenedKto final : OpenedRun {
  using OpenedRun::OpenedRun;
  // What its passes are made of: each prompt with its own and with another row's completion.
  const std::vector<data::PreferencePair>* pairs() const override {
    return method == nullptr ? nullptr : &static_cast<const KtoMethod&>(*method).train_rows();
  }
};

}  // namespace

std::unique_ptr<OpenedRun> open_kto(const config::Plan& asked, RunListener& /*listener*/) {
  at::set_num_threads(static_cast<int>(threads_or_default(asked.threads)));
  auto run = std::make_unique<OpenedKto>(asked);
  const config::Plan& plan = run->plan;

  // Data before weights: a wrong row is found in seconds.
  run->source = model::open_weights(plan.model_name_or_path);
  const OpenedText& opened = run->text.emplace(open_text(plan));
  const std::int64_t vocab_size = run->source->config().vocab_size;
  KtoInput train = read_rows(plan.dataset_name, plan, opened, vocab_size);
  std::optional<data::UnpairedData> eval;
  if (!plan.dataset_test.empty()) eval = read_rows(plan.dataset_test, plan, opened, vocab_size).data;

  const std::int64_t program_bytes = base::process_memory().resident;
  model::CausalLm& model = read_base(*run);
  const at::Tensor reference = open_adapter_and_reference(*run);
  adapters::Adapter& adapter = *run->adapter;
  if (plan.kto.disable_dropout) adapter.set_dropout(0);
  require_room_for_checkpoint(run->place, adapter);
  run->standing.emplace(find_standing(plan, run->place, adapter, data_print(train.file, train.file_rows)));

  StartFacts& start = run->start;
  const data::UnpairedFacts& facts = train.data.facts;
  begin_start_page(*run, facts.longest);
  if (const auto note = balance_note(plan.kto, facts)) start.notes.push_back(*note);
  start.unpaired = UnpairedStartFacts{.data = facts,
                                      .eval_rows = eval ? static_cast<std::int64_t>(eval->rows.size()) : 0,
                                      .loss = loss_line(plan.kto),
                                      .reference = reference_line(plan)};
  start.train_rows = facts.kept;
  start.train_data.mean_length = static_cast<double>(facts.tokens) / static_cast<double>(facts.kept);
  start.example = example_of(train.data.rows.front(), opened.tokenizer);
  start.memory = plan_memory(
      memory_inputs(model, plan, program_bytes,
                    longest_rows(train.data.rows, plan.per_device_train_batch_size, /*both=*/false),
                    longest_scored(plan, train.data, eval ? &*eval : nullptr)),
      plan.layer_form, plan.recompute, memory_limit(plan));
  run->method = std::make_unique<KtoMethod>(KtoParts{.plan = plan,
                                                     .model = model,
                                                     .train = std::move(train.data),
                                                     .eval = std::move(eval),
                                                     .form = pass_form(start.memory),
                                                     .parameters = adapter.flat(),
                                                     .reference = reference});
  end_start_page(*run);
  return run;
}

LoopResult run_kto(const config::Plan& plan, RunListener& listener, const std::atomic<bool>& stop_requested) {
  const std::unique_ptr<OpenedRun> run = open_kto(plan, listener);
  return begin_run(*run, listener, stop_requested);
}

}  // namespace hone::train
