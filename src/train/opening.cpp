#include "train/opening.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "learn/schedule.h"

namespace hone::train {

model::CausalLm& read_base(OpenedRun& run) {
  const bool plain = run.plan.layer_form == config::LayerForm::kPlain;
  return run.model.emplace(*run.source, numbers(run.plan.precision),
                           plain ? model::Storage::kPlain : model::Storage::kPacked, quantise(run.plan));
}

void begin_start_page(OpenedRun& run, std::optional<std::int64_t> longest) {
  const config::Plan& plan = run.plan;
  StartFacts& start = run.start;
  start.notes = plan.notes;
  if (const auto note = convert_note(plan, *run.source)) start.notes.push_back(*note);
  if (const auto note = quantised_note(plan, *run.model)) start.notes.push_back(*note);
  start.notes.insert(start.notes.end(), run.standing->notes.begin(), run.standing->notes.end());
  if (longest) {
    const std::int64_t kept = plan.max_length > 0 ? std::min(plan.max_length, *longest) : *longest;
    if (const auto note = beyond_positions(kept, run.model->config())) start.notes.push_back(*note);
  }
  start.resumed_from = run.standing->resumed_from;
  start.trained = trained_facts(*run.model, *run.adapter);
}

void end_start_page(OpenedRun& run) {
  StartFacts& start = run.start;
  start.total_steps = run.method->total_steps();
  start.steps_per_epoch = run.method->steps_per_epoch();
  start.warmup_steps = learn::resolve_warmup(run.plan.warmup_steps, start.total_steps);
  start.first_step = run.standing->state.step;
  start.evaluation_due = run.standing->state.evaluation_due;
  start.output_dir = run.plan.output_dir;
}

std::vector<ColouredPiece> example_of(const data::PreferencePair& pair, const text::Tokenizer& tokenizer) {
  return {{.text = tokenizer.decode(pair.chosen.context, false), .supervised = false},
          {.text = tokenizer.decode(pair.chosen.scored, false), .supervised = true}};
}

std::string short_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", value);
  return text.data();
}

}  // namespace hone::train
