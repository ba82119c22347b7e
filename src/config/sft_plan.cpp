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

void finish_sft(Plan& plan, const Settings& /*settings*/) {
  if (plan.truncation_mode != "keep_end") return;
  plan.notes.emplace_back("truncation_mode: keep_end is deprecated in TRL, and removed in its version 2");
  if (plan.packing)
    plan.notes.emplace_back("truncation_mode: not used with packing, which cuts the end of a row or nothing");
}

}  // namespace hone::config
