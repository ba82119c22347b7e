// open_dpo: the order of events before the first step of a DPO run, as prose.
#include <ATen/Parallel.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/file.h"
#include "base/process_memory.h"
#include "learn/schedule.h"
#include "model/weight_source.h"
#include "ops/attention.h"
#include "train/dpo.h"
#include "train/machine.h"
#include "train/memory_inputs.h"
#include "train/open_model.h"
#include "train/open_run.h"
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

std::int64_t sum_of_largest(std::vector<std::int64_t> values, std::int64_t count) {
  const auto kept = std::min(static_cast<std::ptrdiff_t>(count), static_cast<std::ptrdiff_t>(values.size()));
  std::partial_sort(values.begin(), values.begin() + kept, values.end(), std::greater<>());
  return std::accumulate(values.begin(), values.begin() + kept, std::int64_t{0});
}

bool may_share(const config::Plan& plan) {
  return plan.preference.share_prompt && plan.layer_form != config::LayerForm::kPlain;
}

// The largest micro-batch that any order of the pairs can make.
LongestBatch longest_pairs(const Pairs& pairs, std::int64_t batch_size, bool share) {
  std::vector<std::int64_t> tokens, scored;
  LongestBatch out;
  for (const data::PreferencePair& pair : pairs) {
    tokens.push_back(pair.tokens(share));
    scored.push_back(static_cast<std::int64_t>(pair.chosen.scored.size() + pair.rejected.scored.size()));
    for (const data::PreferenceSide* side : {&pair.chosen, &pair.rejected}) {
      out.segment = std::max(out.segment, side->tokens());
    }
  }
  out.tokens = sum_of_largest(std::move(tokens), batch_size);
  out.scored = sum_of_largest(std::move(scored), batch_size);
  return out;
}

MemoryInputs dpo_inputs(const model::CausalLm& model, const config::Plan& plan, std::int64_t program_bytes,
                        const data::PreferenceData& train, const Pairs* eval) {
  const bool share = may_share(plan);
  MemoryInputs out = memory_inputs(
      model, plan, program_bytes, longest_pairs(train.pairs, plan.per_device_train_batch_size, share),
      eval == nullptr ? LongestBatch() : longest_pairs(*eval, plan.per_device_eval_batch_size, share));
  if (share) {
    out.attention_backward = ops::packed_attention_backward_bytes({.tokens = out.train.tokens,
                                                                   .longest = out.train.segment,
                                                                   .prefix = train.facts.longest_prompt,
                                                                   .sharing = out.train.scored,
                                                                   .heads = out.model.num_attention_heads,
                                                                   .kv_heads = out.model.num_key_value_heads,
                                                                   .head_dim = out.model.head_dim,
                                                                   .threads = out.threads,
                                                                   .dtype = model.numbers().linear});
  }
  return out;
}

std::string short_number(double value) {
  std::string out = std::to_string(value);
  out.erase(out.find_last_not_of('0') + 1);
  if (out.back() == '.') out.pop_back();
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

// The first pair as one text: its prompt, then what is to become likelier.
std::vector<ColouredPiece> example_of(const data::PreferencePair& pair, const text::Tokenizer& tokenizer) {
  return {{.text = tokenizer.decode(pair.chosen.context, false), .supervised = false},
          {.text = tokenizer.decode(pair.chosen.scored, false), .supervised = true}};
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
  const bool plain = plan.layer_form == config::LayerForm::kPlain;
  model::CausalLm& model =
      run->model.emplace(*run->source, numbers(plan.precision),
                         plain ? model::Storage::kPlain : model::Storage::kPacked, quantise(plan));
  const at::Tensor reference = open_adapter_and_reference(*run);
  adapters::Adapter& adapter = *run->adapter;
  if (plan.preference.disable_dropout) adapter.set_dropout(0);
  require_room_for_checkpoint(run->place, adapter);
  const Standing& standing = run->standing.emplace(
      find_standing(plan, run->place, adapter, data_print(train.file, train.file_rows)));

  StartFacts& start = run->start;
  const data::PreferenceFacts& facts = train.data.facts;
  start.notes = plan.notes;
  const std::int64_t longest = plan.max_length > 0 ? std::min(plan.max_length, facts.longest) : facts.longest;
  if (const auto note = convert_note(plan, *run->source)) start.notes.push_back(*note);
  if (const auto note = quantised_note(plan, model)) start.notes.push_back(*note);
  start.notes.insert(start.notes.end(), standing.notes.begin(), standing.notes.end());
  if (const auto note = beyond_positions(longest, model.config())) start.notes.push_back(*note);
  start.resumed_from = standing.resumed_from;
  start.trained = trained_facts(model, adapter);
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
  start.total_steps = run->method->total_steps();
  start.steps_per_epoch = run->method->steps_per_epoch();
  start.warmup_steps = learn::resolve_warmup(plan.warmup_steps, start.total_steps);
  start.first_step = standing.state.step;
  start.output_dir = plan.output_dir;
  return run;
}

LoopResult run_dpo(const config::Plan& plan, RunListener& listener, const std::atomic<bool>& stop_requested) {
  const std::unique_ptr<OpenedRun> run = open_dpo(plan, listener);
  return begin_run(*run, listener, stop_requested);
}

}  // namespace hone::train
