#include "train/steps/sampling_method.h"

#include "base/files/file.h"
#include "train/batches/kl_by_depth.h"

namespace hone::train {

namespace {

namespace fs = base::fs;

void trim_rollouts(const fs::path& path, std::int64_t first_generation) {
  if (!fs::exists(path)) return;
  const std::string text = base::read_text(path);
  std::string kept;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = text.substr(begin, end - begin);
    const base::Json json = base::Json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto generation = json.is_object() ? json.find("generation") : json.end();
    if (generation != json.end() && generation->is_number_integer() && *generation < first_generation)
      kept += line + "\n";
  }
  base::write_file_atomic(path, kept);
}

}  // namespace

// The file too of a fresh start, after one that was stopped before its first checkpoint.
void SamplingMethod::resume_after(std::int64_t steps) {
  last_step_ = steps - 1;
  saved_ = steps;
  if (!parts_.rollouts_file.empty()) trim_rollouts(parts_.rollouts_file, next_generation(steps));
}

// A run goes on from the last checkpoint, or from the one before where that is damaged.
void SamplingMethod::on_saved(std::int64_t steps) {
  parts_.source.forget_before(next_generation(saved_));
  saved_ = steps;
}

void SamplingMethod::tell(RolloutFacts& facts, const RolloutBatch& batch, std::int64_t step,
                          std::int64_t left_out, const std::string& why, bool nothing_scored) {
  facts.step = step + 1;
  facts.kl = kl_by_depth(batch);
  if (left_out > 0) facts.warnings.push_back(std::to_string(left_out) + why);
  parts_.listener.on_rollout(facts);
  unscored_.see(nothing_scored, batch.generation);
  if (!parts_.rollouts_file.empty()) append_rollouts(parts_.rollouts_file, batch);
}

void SamplingMethod::share(SharedWork* with) {
  TrainingMethod::share(with);
  shared_.reset();
  shared_evaluation_.reset();
  if (!work().ranks().several()) return;
  if (parts_.source.has_parts()) shared_.emplace(parts_.source, work().ranks());
  if (parts_.evaluation != nullptr && parts_.evaluation->has_parts())
    shared_evaluation_.emplace(*parts_.evaluation, work().ranks());
}

SourcedRollouts SamplingMethod::sample_evaluation(std::int64_t completions_a_prompt) {
  RolloutSource& source = shared_evaluation_ ? *shared_evaluation_ : *parts_.evaluation;
  SourcedRollouts out = source.make({.generation = 0,
                                     .rows = row_range(0, parts_.evaluation_prompts),
                                     .num_generations = completions_a_prompt,
                                     .evaluation = true,
                                     .trainer_state = state_of(last_step_ + 1)});
  if (out.facts.warnings.empty() && out.facts.printed.empty()) return out;
  RolloutFacts told{.step = last_step_ + 1, .reward_names = out.facts.reward_names};
  told.printed = out.facts.printed;
  for (const std::string& warning : out.facts.warnings) told.warnings.push_back("evaluation: " + warning);
  parts_.listener.on_rollout(told);
  return out;
}

base::Json SamplingMethod::state_of(std::int64_t step) const {
  return trainer_state(parts_.plan, step, total_steps_, epoch_after(step));
}

RngKey SamplingMethod::training_key(std::int64_t step) const {
  return pass_key(parts_.plan, step, !parts_.plan.disable_dropout);
}

}  // namespace hone::train
