#include "config/derived/finish_streaming.h"

#include <string>

namespace hone::config {

namespace {

// TRL's default where it samples: datasets then mixes streamed rows.
void leave_in_order(Plan& plan) {
  if (!plan.shuffle_dataset) return;
  plan.shuffle_dataset = false;
  plan.notes.emplace_back(
      "streamed prompts come in the order of their file; TRL mixes them within a buffer of 1,000: shuffle the "
      "file if its order has a meaning");
}

// What needs all rows before the first step.
void check_streaming(const Plan& plan, const Settings& settings) {
  const std::string off = "no dataset_streaming, or ";
  if (plan.max_steps <= 0) {
    conflict(settings, "max_steps", "max_steps with dataset_streaming", std::to_string(plan.max_steps),
             "the number of streamed rows is not known, so that epochs cannot be counted",
             "set max_steps: the schedule of the learning rate needs it too");
  }
  if (plan.precompute_ref_log_probs) {
    conflict(settings, "precompute_ref_log_probs", off + "precompute_ref_log_probs: false",
             "precompute_ref_log_probs: true", "it goes over all rows before step 1; TRL refuses it too",
             "leave it out: the reference is then computed with each micro-batch");
  }
  if (plan.shuffle_dataset && settings.is_set("shuffle_dataset")) {
    conflict(settings, "shuffle_dataset", off + "shuffle_dataset: false", "shuffle_dataset: true",
             "datasets mixes streamed rows within a buffer of 1,000, which hone does not",
             "shuffle the file, or train without dataset_streaming: rows are then in transformers' order");
  }
  if (plan.train_sampling_strategy == RowOrder::kByLength) {
    conflict(settings, "train_sampling_strategy", off + "train_sampling_strategy: random or sequential",
             "group_by_length", "the lengths of streamed rows are not known before they come");
  }
  if (plan.train_rows.test_split) {
    conflict(settings, "test_split_size", off + "test_split_size: null", "test_split_size",
             "it draws from all rows, which are not known; TRL refuses it too",
             "name a file with eval_dataset");
  }
  const auto& sets = plan.train_rows.sets;
  const bool shares = !sets.empty() && sets.front().fraction.has_value();
  if (shares || plan.train_rows.shuffle_seed) {
    conflict(settings, "datasets", off + (shares ? "no fraction" : "no seed"), shares ? "fraction" : "a seed",
             "it needs all rows of the mixture, which are not known", "leave it out, or leave streaming out");
  }
}

}  // namespace

void finish_streaming(Plan& plan, const Settings& settings) {
  plan.dataset_streaming = plan.dataset_streaming || settings.flag("streaming");
  if (!plan.dataset_streaming) return;
  check_streaming(plan, settings);
  leave_in_order(plan);
}

}  // namespace hone::config
