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

}  // namespace

void finish_sft(Plan& plan, const Settings& settings) {
  read_dataset_kwargs(plan, settings);
  if (plan.truncation_mode != "keep_end") return;
  plan.notes.emplace_back("truncation_mode: keep_end is deprecated in TRL, and removed in its version 2");
  if (plan.packing)
    plan.notes.emplace_back("truncation_mode: not used with packing, which cuts the end of a row or nothing");
}

}  // namespace hone::config
