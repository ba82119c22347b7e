// The rules of sft.
#include "config/methods.h"

namespace hone::config {

void resolve_sft(Settings& settings) {
  // TRL's aliases, so that plan.yaml has what is used
  if (settings.text("packing_strategy") == "bfd-requeue") settings.replace("packing_strategy", "bfd_split");
  if (settings.text("packing_strategy") == "ffd") settings.replace("packing_strategy", "bfd");
  if (settings.text("loss_type") == "chunked_nll") settings.replace("loss_type", "nll");
  const base::Json& prepared = settings.value("dataset_kwargs");
  if (prepared.is_object() && prepared.value("skip_prepare_dataset", base::Json()) == true) {
    conflict(
        settings, "dataset_kwargs", "skip_prepare_dataset: false", "skip_prepare_dataset: true",
        "it is for rows that a script has made tokens of, or for a data collator of its own; hone reads text "
        "and messages",
        "remove it, and give the rows as text, messages, or prompt and completion");
  }
}

namespace {

// What needs all rows before the first step.
void check_streaming(const Plan& plan, const Settings& settings) {
  const std::string off = "no dataset_streaming, or ";
  if (plan.max_steps <= 0) {
    conflict(settings, "max_steps", "max_steps with dataset_streaming", std::to_string(plan.max_steps),
             "the number of streamed rows is not known, so that epochs cannot be counted",
             "set max_steps: the schedule of the learning rate needs it too");
  }
  if (plan.shuffle_dataset) {
    conflict(
        settings, "shuffle_dataset", off + "shuffle_dataset: false", "shuffle_dataset: true",
        "datasets mixes streamed rows within a buffer of 1,000, which hone does not",
        "shuffle the file, or train without dataset_streaming: rows are then shuffled by transformers' order");
  }
  if (plan.train_sampling_strategy == RowOrder::kByLength) {
    conflict(settings, "train_sampling_strategy", off + "another order than group_by_length",
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

void finish_sft(Plan& plan, const Settings& settings) {
  plan.dataset_streaming = plan.dataset_streaming || settings.flag("streaming");
  if (plan.dataset_streaming) check_streaming(plan, settings);
  if (plan.truncation_mode != "keep_end") return;
  plan.notes.emplace_back("truncation_mode: keep_end is deprecated in TRL, and removed in its version 2");
  if (plan.packing)
    plan.notes.emplace_back("truncation_mode: not used with packing, which cuts the end of a row or nothing");
}

}  // namespace hone::config
