// report_to and the options of the hub, where several say together what happens.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

// The packages that report_to sends to, besides TensorBoard, which hone writes itself.
inline constexpr std::array<std::string_view, 5> kLoggers = {"wandb", "trackio", "mlflow", "comet_ml",
                                                             "swanlab"};

// report_to becomes plan.tensorboard and plan.loggers; a word of transformers that hone does not send to gets a note. UserError for
// other words, for a repository's name that the hub does not take, and for an address whose secret is ***.
void finish_report(Plan& plan, const Settings& settings);

// UserError unless `id` is "owner/name" or "name", as huggingface_hub takes them.
void require_repository_name(const Settings& settings, const std::string& option, const std::string& id);

// Environment variables of the process of a logger: those that recipes write as options.
std::vector<std::pair<std::string, std::string>> logger_variables(const LoggerPlan& plan);

// Returns what report/loggers.h's settings take of a plan, without tables; `options`: the resolved options,
// as JSON by name.
base::Json logger_settings(const LoggerPlan& plan, const base::Json& options);

}  // namespace hone::config
