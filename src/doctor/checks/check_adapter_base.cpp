// CKPT-07: an adapter that is continued or lies below, and the base it was trained on. CKPT-05: what was changed in
// place since the checkpoint that the run goes on from.

#include "adapters/peft_files.h"
#include "base/error.h"
#include "base/json_tools.h"
#include "base/strings/ascii.h"
#include "config/hub_names.h"
#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"
#include "train/opening/input_files.h"
#include "train/saves/run_folder.h"

namespace hone::doctor {

using base::Json;
using base::Level;
using base::Verdict;

namespace {

namespace fs = base::fs;

// "Qwen2.5-0.5B" of a path or of a name of the hub, in lower case.
std::string last_name(const std::string& name) {
  std::string text = name;
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return base::lower_ascii(text.substr(text.rfind('/') + 1));
}

std::string base_of(const fs::path& adapter) {
  const Json config = base::read_object(adapter / adapters::kConfigFile);
  const Json name = config.value("base_model_name_or_path", Json());
  return name.is_string() ? name.get<std::string>() : "";
}

Verdict judge_base(const train::RunView& run, const fs::path& adapter) {
  const std::string named = base_of(adapter), here = run.plan.model_name_or_path;
  const std::string hub = config::hub_id_of(here);
  Verdict out{.code = "CKPT-07"};
  const bool same_name = named.empty() || last_name(named) == last_name(here) ||
                         (!hub.empty() && last_name(named) == last_name(hub)) ||
                         last_name(named) == last_name(run.plan.base_model_name_for_adapter);
  const auto [known, changed] = train::compare_base(adapter, here);
  const std::string place = adapter.string() + "/" + std::string(adapters::kConfigFile);
  out.what = "the adapter " + adapter.string() + " is of this base (" + (named.empty() ? here : named) + ")";
  out.evidence = known && changed.empty() ? "the same files" : "by its name";
  if (known ? changed.empty() : same_name) return out;
  out.level = known ? Level::kWarn : Level::kNote;
  out.what = "the adapter " + adapter.string() +
             (known ? " was trained on another base model" : " names another base model") +
             (named.empty() ? ": its name is not known" : ": " + named) + "; the run's is " + here;
  out.evidence = place + ": " + (named.empty() ? "no name" : named) + "; the run's base: " + here +
                 (changed.empty() ? "" : "; " + changed.front() + " has other contents than that run noted");
  out.cause = known ? same_name ? "the model in " + here + " was replaced by another one of the same name"
                                : "model_name_or_path and the adapter do not belong together"
                    : "suspected: model_name_or_path is another model; or the same one under another name";
  out.not_this = known ? "a copy under another name: its files would be the same" : "";
  out.fix = "model_name_or_path: " + (same_name ? "the model that the adapter was trained on" : named);
  out.cost = "an adapter that corrects what this base does not do";
  return out;
}

Verdicts judge_resume(const train::RunView& run) {
  Verdicts out;
  for (const std::string& change : run.resume_state->changed_inputs) {
    const bool base = change.starts_with("the base model"), reward = change.starts_with("the reward");
    Verdict one{.code = "CKPT-05", .level = Level::kWarn};
    one.what = "since the checkpoint " + change;
    one.evidence = "checksums of " + run.resume_state->resumed_from + " against the files of now";
    one.cause = "a file was changed in place while the run was stopped";
    one.not_this = "the options: they name the same file as before";
    one.fix = "restore it, or begin a new run from the checkpoint's adapter (adapter_name_or_path)";
    one.cost = base     ? "an adapter that was trained on other weights"
               : reward ? "rewards before and after that cannot be compared"
                        : "rows that are rendered otherwise than in the first part of the run";
    out.push_back(one);
  }
  return out;
}

}  // namespace

Verdicts check_adapter_base(const train::RunView& run) {
  if (run.resume_state->changed_inputs.empty() && run.plan.adapter_name_or_path.empty()) return {};
  Verdicts out = judge_resume(run);
  if (!run.plan.adapter_name_or_path.empty() && !run.directory.resuming())
    out.push_back(judge_base(run, run.plan.adapter_name_or_path));
  return out;
}

}  // namespace hone::doctor
