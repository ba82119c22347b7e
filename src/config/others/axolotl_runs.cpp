// Evaluation, saves and the machine of axolotl.
#include <fmt/format.h>

#include "base/files/file.h"
#include "config/others/axolotl.h"

namespace hone::config::axolotl {
namespace {

using base::Json;

// evals_per_epoch: a share of the whole run.
void set_share(Translation& t, std::string_view option, std::string_view from) {
  const double times = t.number(from).value_or(0), epochs = t.number("num_epochs").value_or(1);
  if (times > 0 && epochs > 0) t.set(option, 1.0 / (times * epochs), from);
}

void add_evaluation(Translation& t) {
  const double size = t.number("val_set_size").value_or(0);
  const Json& sets = t.value("test_datasets");
  if (size > 0) t.set("test_split_size", t.value("val_set_size"), "val_set_size");
  if (sets.is_array() && !sets.empty()) {
    Json entries = Json::array();
    for (const Json& set : sets) {
      if (!set.is_object() || !set.contains("path") || !set["path"].is_string()) continue;
      Json entry = set_entry(set);
      const bool is_file = entry["path"] != set["path"];
      if (is_file)
        entry.erase("split");
      else if (!entry.contains("split"))
        entry["split"] = "test";
      entries.push_back(entry);
    }
    if (entries.empty())
      t.unknown("test_datasets", "no set is written with a path", "eval_datasets", "write path");
    else
      t.set("eval_datasets", entries, "test_datasets");
  }
  const bool has_rows = size > 0 || !sets.empty();
  if (!has_rows) {
    t.set_default("eval_strategy", "no", "no set to evaluate");
    for (const char* name : {"eval_steps", "evals_per_epoch", "eval_strategy", "evaluation_strategy",
                             "early_stopping_patience", "load_best_model_at_end", "eval_table_size"}) {
      const std::string asked = t.text(name);
      if (!asked.empty() && asked != "no" && asked != "false" && asked != "0")
        t.note(name, "evaluation is asked for, but there is no set to evaluate: it does nothing");
    }
    return;
  }
  const std::string strategy = t.text(t.has("eval_strategy") ? "eval_strategy" : "evaluation_strategy");
  if (t.has("eval_steps")) {
    t.set("eval_strategy", "steps", "eval_steps");
    t.set("eval_steps", t.value("eval_steps"), "eval_steps");
  } else if (t.number("evals_per_epoch").value_or(0) > 0) {
    t.set("eval_strategy", "steps", "evals_per_epoch");
    set_share(t, "eval_steps", "evals_per_epoch");
  } else if (!strategy.empty()) {
    t.set("eval_strategy", strategy, t.has("eval_strategy") ? "eval_strategy" : "evaluation_strategy");
  } else {
    t.set_default("eval_strategy", "epoch", "a set to evaluate, and no steps");
  }
  if (t.has("load_best_model_at_end"))
    t.set("load_best_model_at_end", t.value("load_best_model_at_end"), "load_best_model_at_end");
  if (t.has("early_stopping_patience"))
    t.note("early_stopping_patience",
           "axolotl ends after that many evaluations without a better one; hone goes on");
}

void add_saves(Translation& t) {
  if (t.has("save_steps")) {
    t.set("save_strategy", "steps", "save_steps");
    t.set("save_steps", t.value("save_steps"), "save_steps");
  } else if (t.number("saves_per_epoch").value_or(0) > 0) {
    t.set("save_strategy", "steps", "saves_per_epoch");
    set_share(t, "save_steps", "saves_per_epoch");
  } else if (t.has("save_strategy")) {
    t.set("save_strategy", t.value("save_strategy"), "save_strategy");
  } else {
    t.set_default("save_strategy", "epoch");
  }
  if (!t.text("wandb_project").empty()) {
    t.set("report_to", Json::array({"wandb"}), "wandb_project");
    t.set("wandb_project", t.value("wandb_project"), "wandb_project");
  }
}

void add_machine(Translation& t) {
  if (const std::string file = t.text("deepspeed"); !file.empty()) {
    if (t.value("deepspeed").is_object() || base::fs::is_regular_file(file)) {
      t.set("deepspeed", t.value("deepspeed"), "deepspeed");
    } else {
      t.note("deepspeed", fmt::format("{} is not here; by its name {}", file,
                                      file.find("zero3") != std::string::npos   ? "stage 3"
                                      : file.find("zero2") != std::string::npos ? "stage 2"
                                      : file.find("zero1") != std::string::npos ? "stage 1"
                                                                                : "its stage is not known"));
    }
  }
  if (!t.value("fsdp").empty() || !t.value("fsdp_config").empty())
    t.note(t.has("fsdp") ? "fsdp" : "fsdp_config", "how the model is divided among ranks (docs/ranks.md)");
  const Json& plugins = t.value("plugins");
  if (!plugins.is_array()) return;
  for (const Json& one : plugins) {
    const std::string name = one.is_string() ? one.get<std::string>() : base::dump_json(one);
    if (name.find("liger") != std::string::npos || name.find("cut_cross_entropy") != std::string::npos) {
      t.note("plugins", name + ": how it is computed, not what");
    } else {
      t.refuse("plugins", name + " is code, which hone does not run", "remove it");
    }
  }
}

}  // namespace

void add_runs(Translation& t) {
  add_evaluation(t);
  add_saves(t);
  add_machine(t);
}

}  // namespace hone::config::axolotl
