// open_dpo: the order of events before the first step of a DPO run, as prose.
#include <ATen/Parallel.h>

#include <algorithm>

#include "base/file.h"
#include "base/process_memory.h"
#include "model/weight_source.h"
#include "train/dpo.h"
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

using Pairs = std::vector<data::PreferencePair>;

struct DpoInput {
  data::PreferenceData data;
  fs::path file;
  std::int64_t file_rows = 0;
};

DpoInput read_pairs(const fs::path& path, const config::Plan& plan, const OpenedText& opened,
                    std::int64_t vocab_size) {
  const data::PreferenceRows rows = data::read_preference_rows(path);
  return {.data = data::tokenise_preferences(rows, opened.tokenizer, opened.chat_template.get(),
                                             {.max_length = plan.max_length,
                                              .keep_end = plan.preference.truncation_mode == "keep_end",
                                              .vocab_size = vocab_size,
                                              .threads = static_cast<int>(plan.threads)}),
          .file = rows.path,
          .file_rows = static_cast<std::int64_t>(rows.rows.size())};
}

bool may_share(const config::Plan& plan) {
  return plan.preference.share_prompt && plan.layer_form != config::LayerForm::kPlain;
}

LongestBatch longest_pairs(const Pairs& pairs, std::int64_t batch_size, bool share) {
  std::vector<RowSize> rows;
  for (const data::PreferencePair& pair : pairs) {
    rows.push_back(
        {.tokens = pair.tokens(share),
         .scored = static_cast<std::int64_t>(pair.chosen.scored.size() + pair.rejected.scored.size()),
         .segment = std::max(pair.chosen.tokens(), pair.rejected.tokens())});
  }
  return largest_batch(rows, batch_size);
}

MemoryInputs dpo_inputs(const model::CausalLm& model, const config::Plan& plan, std::int64_t program_bytes,
                        const data::PreferenceData& train, const Pairs* eval) {
  const bool share = may_share(plan);
  MemoryInputs out = memory_inputs(
      model, plan, program_bytes, longest_pairs(train.pairs, plan.per_device_train_batch_size, share),
      eval == nullptr ? LongestBatch() : longest_pairs(*eval, plan.per_device_eval_batch_size, share));
  if (share) count_shared_prompts(out, model, train.facts.longest_prompt, out.train.scored);
  return out;
}

std::string loss_line(const config::PreferencePlan& plan) {
  std::string out;
  for (std::size_t i = 0; i < plan.loss_type.size(); ++i) {
    if (i > 0) out += " + ";
    if (!plan.loss_weights.empty()) out += short_number(plan.loss_weights[i]) + " x ";
    out += plan.loss_type[i];
  }
  out += ", beta " + short_number(plan.beta);
  if (plan.f_divergence_type != "reverse_kl") out += ", " + plan.f_divergence_type;
  if (plan.label_smoothing > 0) out += ", label_smoothing " + short_number(plan.label_smoothing);
  if (plan.ld_alpha) out += ", ld_alpha " + short_number(*plan.ld_alpha);
  if (plan.use_weighting) out += ", weighted (WPO)";
  return out;
}

std::string reference_line(const config::Plan& plan) {
  std::string out = reference_words(plan);
  if (plan.preference.precompute_ref_log_probs) out += ", computed once, before step 1";
  return out;
}

struct OpenedDpo final : OpenedRun {
  using OpenedRun::OpenedRun;
  const Pairs* pairs() const override {
    return method == nullptr ? nullptr : &static_cast<const DpoMethod&>(*method).pairs();
  }
};

}  // namespace

std::unique_ptr<OpenedRun> open_dpo(const config::Plan& asked, RunListener& /*listener*/) {
  at::set_num_threads(static_cast<int>(threads_or_default(asked.threads)));
  auto run = std::make_unique<OpenedDpo>(asked);
  const config::Plan& plan = run->plan;

  // Data before weights: a wrong row is found in seconds.
  run->source = model::open_weights(plan.model_name_or_path);
  const OpenedText& opened = run->text.emplace(open_text(plan));
  const std::int64_t vocab_size = run->source->config().vocab_size;
  DpoInput train = read_pairs(plan.dataset_name, plan, opened, vocab_size);
  std::optional<Pairs> eval;
  if (!plan.dataset_test.empty()) {
    eval = read_pairs(plan.dataset_test, plan, opened, vocab_size).data.pairs;
  }

  const std::int64_t program_bytes = base::process_memory().resident;
  model::CausalLm& model = read_base(*run);
  const at::Tensor reference = open_adapter_and_reference(*run);
  adapters::Adapter& adapter = *run->adapter;
  if (plan.preference.disable_dropout) adapter.set_dropout(0);
  require_room_for_checkpoint(run->place, adapter);
  run->standing.emplace(find_standing(plan, run->place, adapter, data_print(train.file, train.file_rows)));

  StartFacts& start = run->start;
  const data::PreferenceFacts& facts = train.data.facts;
  begin_start_page(*run, facts.longest);
  start.preference = PreferenceStartFacts{.data = facts,
                                          .eval_pairs = eval ? static_cast<std::int64_t>(eval->size()) : 0,
                                          .loss = loss_line(plan.preference),
                                          .reference = reference_line(plan)};
  start.train_rows = facts.kept;
  start.example = example_of(train.data.pairs.front(), opened.tokenizer);
  start.memory = plan_memory(dpo_inputs(model, plan, program_bytes, train.data, eval ? &*eval : nullptr),
                             plan.layer_form, plan.recompute, memory_limit(plan));
  run->method = std::make_unique<DpoMethod>(DpoParts{.plan = plan,
                                                     .model = model,
                                                     .train = std::move(train.data.pairs),
                                                     .eval = std::move(eval),
                                                     .form = pass_form(start.memory),
                                                     .parameters = adapter.flat(),
                                                     .reference = reference});
  end_start_page(*run);
  return run;
}

LoopResult run_dpo(const config::Plan& plan, RunListener& listener, const std::atomic<bool>& stop_requested) {
  const std::unique_ptr<OpenedRun> run = open_dpo(plan, listener);
  return begin_run(*run, listener, stop_requested);
}

}  // namespace hone::train
