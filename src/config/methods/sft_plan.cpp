// The rules of sft.
#include "config/methods.h"

namespace hone::config {

void resolve_sft(Settings& settings) {
  // TRL's aliases, so that plan.yaml has what is used
  if (settings.text("packing_strategy") == "bfd-requeue") settings.replace("packing_strategy", "bfd_split");
  if (settings.text("packing_strategy") == "ffd") settings.replace("packing_strategy", "bfd");
  if (settings.text("loss_type") == "chunked_nll") settings.replace("loss_type", "nll");
}

namespace {

// TRL reads one key, and with it takes rows as they are: no tokens, no labels, no cut, no packing, no
// shuffle.
void read_dataset_kwargs(Plan& plan, const Settings& settings) {
  const base::Json& given = settings.value("dataset_kwargs");
  if (!given.is_object()) return;
  plan.skip_prepare_dataset = given.value("skip_prepare_dataset", base::Json()) == true;
  for (const auto& [key, value] : given.items()) {
    if (key != "skip_prepare_dataset")
      plan.notes.push_back("dataset_kwargs: " + key + " is not used: TRL reads only skip_prepare_dataset");
  }
  if (!plan.skip_prepare_dataset) {
    std::erase_if(plan.row_options, [](const RowOption& one) { return one.name == "dataset_kwargs"; });
    plan.notes.emplace_back("dataset_kwargs: changes nothing without skip_prepare_dataset: true");
    return;
  }
  const std::string note = ": not used with skip_prepare_dataset: true, as in TRL";
  if (plan.packing) plan.notes.push_back("packing" + note);
  if (plan.shuffle_dataset) plan.notes.push_back("shuffle_dataset" + note);
  if (settings.is_set("max_length")) plan.notes.push_back("max_length" + note);
  plan.packing = plan.shuffle_dataset = false;
  plan.eval_packing = false;
  plan.max_length = 0;
}

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

void finish_sft(Plan& plan, const Settings& settings) {
  read_dataset_kwargs(plan, settings);
  plan.dataset_streaming = plan.dataset_streaming || settings.flag("streaming");
  if (plan.dataset_streaming) check_streaming(plan, settings);
  if (plan.truncation_mode != "keep_end") return;
  plan.notes.emplace_back("truncation_mode: keep_end is deprecated in TRL, and removed in its version 2");
  if (plan.packing)
    plan.notes.emplace_back("truncation_mode: not used with packing, which cuts the end of a row or nothing");
}

}  // namespace hone::config
