#include "config/commands/send_plans.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/files/file.h"
#include "base/json_tools.h"
#include "base/strings/secrets.h"
#include "base/strings/suggest.h"
#include "config/derived/finish_report.h"
#include "config/method_of.h"
#include "config/reading/yaml_limits.h"
#include "config/settings.h"
#include "config/write_plan.h"

namespace hone::config {
namespace {

namespace fs = std::filesystem;
using base::Json;
using base::UserError;

// The row of the training methods, which fills the same field.
Option training_row(std::string_view name) {
  const std::vector<Option>& all = method_options();
  const auto row = std::ranges::find_if(all, [&](const Option& one) { return one.name == name; });
  base::require(row != all.end(), "config::training_row", "the name of a row");
  Option own = *row;
  own.group = "options", own.origin = kHone, own.changes = {}, own.methods = kAll;
  own.needed_option = own.needed_values = {};
  return own;
}

Schema schema_of(std::string command, std::vector<Option> rows) {
  for (Option& row : rows) row.group = "options";
  return {.command = std::move(command), .options = std::move(rows)};
}

// The first word is the run's folder; whatever is in it, RUN/plan.yaml says what the command line does not.
Settings read_send(const Schema& schema, std::vector<std::string> words, const std::string& example) {
  if (words.empty() || words[0].starts_with("-")) {
    throw UserError({.where = fmt::format("hone {}", schema.command),
                     .expected = "the folder of a run",
                     .found = "none",
                     .fix = fmt::format("write {}", example)});
  }
  words.insert(words.begin(), "--run");
  Settings settings(schema);
  settings.read_arguments(words);
  settings.throw_mistakes();
  return settings;
}

std::string plan_text(const std::string& run) {
  for (const fs::path& path : {fs::path(run) / "plan.yaml", fs::path(run) / ".." / "plan.yaml"}) {
    std::error_code none;
    const bool above = path.parent_path().filename() == "..";
    if (above && !fs::path(run).lexically_normal().filename().string().starts_with("checkpoint-")) continue;
    if (fs::is_regular_file(path, none)) return base::read_settings(path.string(), kMaxYamlBytes);
  }
  return "";
}

void require_in_run(const std::string& run, const char* file, const Settings& settings) {
  std::error_code none;
  if (fs::is_regular_file(fs::path(run) / file, none)) return;
  conflict(settings, "run", fmt::format("the folder of a run, with {}", file), fmt::format("'{}'", run),
           fs::exists(run, none) ? fmt::format("there is no {} in it", file) : "no such folder",
           "name the output_dir of a run of hone");
}

// Values of the run's plan for rows that the command line does not set.
void inherit_from_run(Settings& settings, const Json& plan) {
  for (const Option& option : settings.schema().options) {
    const auto found = plan.find(std::string(option.name));
    if (found != plan.end() && !settings.is_set(option.name)) settings.replace(option.name, *found);
  }
}

}  // namespace

const Schema& log_schema() {
  static const Schema schema = schema_of(
      "log", {{"run", "output_dir of a run, with its metrics.jsonl; the first word", &LogPlan::run},
              {"to", "wandb, trackio, mlflow, comet_ml or swanlab", &LogPlan::to},
              training_row("run_name"),
              training_row("project"),
              training_row("trackio_space_id"),
              training_row("trackio_bucket_id"),
              training_row("wandb_project"),
              training_row("wandb_entity"),
              training_row("wandb_run_group"),
              training_row("mlflow_tracking_uri"),
              training_row("mlflow_experiment_name"),
              {"log_completions", "send the tables of completions/ too", &LogPlan::log_completions},
              {"log_unique_prompts", "one completion per prompt", &LogPlan::log_unique_prompts},
              {"python", "the interpreter of your Python, which has the package", &LogPlan::python}});
  return schema;
}

const Schema& push_schema() {
  static const Schema schema = schema_of(
      "push", {{"run", "a folder with an adapter: output_dir of a run, or a checkpoint; the first word",
                &PushPlan::run},
               training_row("hub_model_id"),
               training_row("hub_private_repo"),
               training_row("hub_revision"),
               training_row("hub_token"),
               {"python", "the interpreter of your Python, which has huggingface_hub", &PushPlan::python}});
  return schema;
}

Json plan_values(const std::string& plan_yaml) {
  Json out = Json::object();
  if (plan_yaml.empty()) return out;
  Settings settings(method_schema(method_of(plan_yaml)));
  settings.read_yaml_text(plan_yaml, "plan.yaml");
  for (const Option& option : settings.schema().options) {
    if (settings.is_set(option.name)) out[std::string(option.name)] = settings.value(option.name);
  }
  return out;
}

LogPlan parse_log(const std::vector<std::string>& arguments) {
  Settings settings = read_send(log_schema(), arguments, "hone log RUN --to wandb");
  LogPlan plan;
  const std::string run = settings.text("run");
  require_in_run(run, "metrics.jsonl", settings);
  plan.config = plan_values(plan_text(run));
  Json inherited = plan.config;
  inherited.erase("log_completions");  // that of a run is of its terminal too; here it is asked for by itself
  inherit_from_run(settings, inherited);
  settings.check();
  settings.fill<LoggerPlan>(plan);
  settings.fill(plan);
  if (std::ranges::find(kLoggers, plan.to) == kLoggers.end()) {
    const std::vector<std::string> known(kLoggers.begin(), kLoggers.end());
    throw UserError({.where = settings.is_set("to") ? settings.where("to") : "hone log",
                     .expected = fmt::format("--to one of {}", fmt::join(known, ", ")),
                     .found = plan.to.empty()
                                  ? "it is not set"
                                  : fmt::format("'{}'.{}", plan.to, base::did_you_mean(plan.to, known)),
                     .fix = "write hone log RUN --to wandb"});
  }
  if (base::is_redacted(plan.mlflow_tracking_uri))
    plan.mlflow_tracking_uri.clear();  // the environment has it
  return plan;
}

PushPlan parse_push(const std::vector<std::string>& arguments) {
  Settings settings = read_send(push_schema(), arguments, "hone push RUN --hub_model_id owner/name");
  PushPlan plan;
  const std::string run = settings.text("run");
  std::error_code none;
  const bool full =
      fs::is_regular_file(fs::path(run) / "config.json", none);  // a model that was trained whole
  if (!full) require_in_run(run, "adapter_config.json", settings);
  const std::string yaml = plan_text(run);
  plan.config = plan_values(yaml);
  if (!yaml.empty()) plan.method = method_name(method_of(yaml));
  inherit_from_run(settings, plan.config);
  settings.check();
  settings.fill<HubPlan>(plan);
  settings.fill(plan);
  if (plan.hub_token == base::kRedacted) plan.hub_token.clear();
  if (!plan.hub_model_id.empty()) require_repository_name(settings, "hub_model_id", plan.hub_model_id);
  return plan;
}

}  // namespace hone::config
