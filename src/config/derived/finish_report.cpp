#include "config/derived/finish_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/strings/secrets.h"
#include "base/strings/suggest.h"
#include "config/option_secrets.h"
#include "config/reading/environment_text.h"

namespace hone::config {
namespace {

// transformers' other words of report_to.
constexpr std::array<std::string_view, 8> kOtherLoggers = {"neptune",    "clearml",  "dagshub", "dvclive",
                                                           "codecarbon", "azure_ml", "flyte",   "kubeflow"};

bool is_among(const auto& words, std::string_view word) {
  return std::ranges::find(words, word) != std::end(words);
}

void read_report_to(Plan& plan, const Settings& settings) {
  std::vector<std::string> known = {"none", "all", "tensorboard"};
  known.insert(known.end(), kLoggers.begin(), kLoggers.end());
  for (const std::string& name : settings.list("report_to")) {
    if (is_among(kOtherLoggers, name)) {
      plan.notes.push_back(
          fmt::format("report_to: {}: hone sends to tensorboard, {}", name, fmt::join(kLoggers, ", ")));
      continue;
    }
    if (!is_among(known, name)) {
      conflict(settings, "report_to", fmt::format("one of {} for report_to", fmt::join(known, ", ")),
               fmt::format("'{}'.{}", name, base::did_you_mean(name, known)));
    }
    if (name == "all") plan.installed_loggers = true;
    if (name == "all" || name == "tensorboard") plan.tensorboard = true;
    for (const std::string_view logger : kLoggers) {
      const bool wanted = name == "all" || name == logger;
      if (wanted && !is_among(plan.loggers, logger)) plan.loggers.emplace_back(logger);
    }
  }
}

}  // namespace

void require_repository_name(const Settings& settings, const std::string& option, const std::string& id) {
  const auto part = [](std::string_view text) {  // huggingface_hub's validate_repo_id
    const auto allowed = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
             c == '_' || c == '.';
    };
    return !text.empty() && text.size() <= 96 && std::ranges::all_of(text, allowed) && text.front() != '-' &&
           text.front() != '.' && text.back() != '-' && text.back() != '.' &&
           text.find("--") == std::string_view::npos && text.find("..") == std::string_view::npos;
  };
  const std::size_t slash = id.find('/');
  const std::string_view whole = id;
  if (slash == std::string::npos ? part(whole)
                                 : part(whole.substr(0, slash)) && part(whole.substr(slash + 1)))
    return;
  const std::vector<std::string> missing = expand_environment(id).missing;
  if (!missing.empty()) {
    conflict(settings, option,
             fmt::format("the environment variable {}, which {} names", missing.front(), option),
             fmt::format("'{}': it is not set", id), "",
             fmt::format("export {}=..., or write the value into the file", missing.front()));
  }
  conflict(settings, option, fmt::format("a repository of the hub, owner/name, for {}", option),
           fmt::format("'{}'", id), "letters, digits, '-', '_' and '.' only");
}

void finish_report(Plan& plan, const Settings& settings) {
  read_report_to(plan, settings);
  if (plan.loggers.empty()) plan.installed_loggers = false;
  if (!plan.mlflow_tracking_uri.empty())
    require_unredacted_url(plan.mlflow_tracking_uri, settings.where("mlflow_tracking_uri"));
  if (plan.hub_token == base::kRedacted) plan.hub_token.clear();  // a written plan has no token
  if (plan.push_to_hub && !plan.hub_model_id.empty())
    require_repository_name(settings, "hub_model_id", plan.hub_model_id);
}

std::vector<std::pair<std::string, std::string>> logger_variables(const LoggerPlan& plan) {
  return {{"WANDB_PROJECT", plan.wandb_project},
          {"WANDB_ENTITY", plan.wandb_entity},
          {"WANDB_RUN_GROUP", plan.wandb_run_group},
          {"MLFLOW_TRACKING_URI", plan.mlflow_tracking_uri},
          {"MLFLOW_EXPERIMENT_NAME", plan.mlflow_experiment_name}};
}

base::Json logger_settings(const LoggerPlan& plan, const base::Json& options) {
  const auto maybe = [](const std::string& text) { return text.empty() ? base::Json() : base::Json(text); };
  base::Json out = {{"run_name", maybe(plan.run_name)},
                    {"project", plan.project},
                    {"trackio_space_id", maybe(plan.trackio_space_id)},
                    {"trackio_bucket_id", maybe(plan.trackio_bucket_id)},
                    {"private", base::Json()},
                    {"config", options}};
  const auto hidden = options.find("hub_private_repo");  // trackio's Space is private where the repository is
  if (hidden != options.end()) out["private"] = *hidden;
  return out;
}

}  // namespace hone::config
