#include "config/commands/eval_plan.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/strings/split.h"
#include "config/option_table.h"
#include "config/settings.h"

namespace hone::config {

namespace {

// Options of `hone serve` that mean nothing here.
constexpr std::array<std::string_view, 11> kNetwork = {
    "host", "port",           "api_key_env",    "host_names",    "max_waiting",      "drain",
    "root", "adapter_memory", "training_share", "gradient_sums", "served_model_name"};

std::vector<std::string> names_in(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (const std::string& word : words) {
    for (const std::string& name : base::split_text(word, ','))
      if (!name.empty()) out.push_back(name);
  }
  return out;
}

}  // namespace

const Schema& eval_schema() {
  static const Schema schema = [] {
    Schema out{.command = "eval", .options = {}};
    const std::vector<Option> own = {
        {"tasks", "tasks of lm-eval, such as arc_easy,gsm8k", &EvalPlan::tasks, kRepeats},
        {"output", "folder for results; null: that of the run whose model it is, or `evaluation`",
         &EvalPlan::output},
        {"num_fewshot", "examples before each question; -1: as the task says", &EvalPlan::num_fewshot,
         Range{.least = -1, .most = 1000}},
        {"limit", "rows of each task; 0: all", &EvalPlan::limit, at_least(0)},
        {"batch_size", "prompts of a request", &EvalPlan::batch_size, Range{.least = 1, .most = 1024}},
        {"apply_chat_template", "put prompts into the model's chat template", &EvalPlan::apply_chat_template},
        {"include_path", "folder of tasks of your own", &EvalPlan::include_path},
        {"python", "the interpreter of your Python, which has lm-eval", &EvalPlan::python}};
    for (Option row : own) {
      row.group = "evaluation";
      out.options.push_back(std::move(row));
    }
    for (const Option& row : serve_schema().options)
      if (std::find(kNetwork.begin(), kNetwork.end(), row.name) == kNetwork.end()) out.options.push_back(row);
    return out;
  }();
  return schema;
}

EvalPlan parse_eval(const std::vector<std::string>& arguments) {
  EvalPlan plan;
  const Settings settings =
      read_served(eval_schema(), arguments, "hone eval", "a model to evaluate", plan.serve);
  settings.fill(plan);
  if (!plan.serve.adapters.empty()) {
    throw base::UserError({.where = settings.where("adapters"),
                           .expected = "one adapter, as adapter_name_or_path",
                           .found = "adapters, of which a server has several",
                           .fix = "write hone eval once for each, with --adapter_name_or_path"});
  }
  plan.serve.port = 0;
  plan.serve.root.clear();  // nobody trains
  plan.tasks = names_in(plan.tasks);
  if (!plan.tasks.empty()) return plan;
  throw base::UserError({.where = "hone eval",
                         .expected = "tasks of lm-eval",
                         .found = "none",
                         .fix = "write --tasks arc_easy,gsm8k; `lm-eval ls tasks` lists them"});
}

}  // namespace hone::config
