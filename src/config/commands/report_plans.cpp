#include "config/commands/report_plans.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "base/json_tools.h"
#include "config/method_of.h"
#include "config/option_secrets.h"
#include "config/reading/first_word.h"
#include "config/reading/yaml_limits.h"
#include "config/settings.h"
#include "config/write_plan.h"

namespace hone::config {

namespace {

namespace fs = std::filesystem;

constexpr double kMostPort = 65'535;

Schema folder_schema(std::string command, std::vector<Option> rows) {
  for (Option& row : rows) row.group = "options";
  return {.command = std::move(command), .options = std::move(rows)};
}

std::string without_metrics(const std::string& run) {
  std::error_code none;
  if (fs::is_regular_file(fs::path(run) / "metrics.jsonl", none)) return "";
  return fs::is_directory(run, none) ? "there is no metrics.jsonl in it"
         : fs::exists(run, none)     ? "it is no folder"
                                     : "no such folder";
}

[[noreturn]] void refuse_folder(const std::string& command, const std::string& run, const std::string& why) {
  throw base::UserError({.where = "hone " + command,
                         .expected = "the folder of a run that has logged a step",
                         .found = fmt::format("'{}': {}", run, why),
                         .fix = "name the output_dir of a run of hone"});
}

}  // namespace

const Schema& report_schema() {
  static const Schema schema = folder_schema(
      "report", {{"runs", "output_dir of a run, or of several; the first words", &ReportPlan::runs, kRepeats},
                 {"output", "the page; null: report.html in the run's folder, of several runs beside them",
                  &ReportPlan::output},
                 {"serve", "show the page at an address of this machine until Ctrl-C, instead of writing it",
                  &ReportPlan::serve},
                 {"port", "with serve: the port; 0: any that is free", &ReportPlan::port,
                  Range{.least = 0, .most = kMostPort}, with("serve")}});
  return schema;
}

const Schema& compare_schema() {
  static const Schema schema =
      folder_schema("compare", {{"first", "output_dir of a run; the first word", &CompareRunsPlan::first},
                                {"second", "of another; the second word", &CompareRunsPlan::second}});
  return schema;
}

ReportPlan parse_report(const std::vector<std::string>& arguments) {
  const Settings settings = read_first_word(report_schema(), arguments, "--runs");
  ReportPlan plan;
  plan.notes = settings.check();
  settings.fill(plan);
  if (plan.runs.empty()) {
    throw base::UserError({.where = "hone report",
                           .expected = "the folder of a run, or several",
                           .found = "none",
                           .fix = "write hone report runs/first"});
  }
  std::vector<std::string> with_metrics;
  for (const std::string& run : plan.runs) {
    const std::string why = without_metrics(run);
    if (why.empty()) with_metrics.push_back(run);
    if (!why.empty() && plan.runs.size() > 1)
      plan.notes.push_back(fmt::format("'{}' is left out: {}", run, why));
  }
  if (with_metrics.empty()) refuse_folder("report", plan.runs[0], without_metrics(plan.runs[0]));
  plan.runs = std::move(with_metrics);
  std::error_code none;
  if (!plan.output.empty() && fs::is_directory(plan.output, none)) {
    conflict(settings, "output", "a file's name", fmt::format("'{}', a folder", plan.output), "",
             fmt::format("write --output {}/report.html", plan.output));
  }
  if (plan.serve && !plan.output.empty()) plan.notes.emplace_back("output: not used, serve writes no file");
  return plan;
}

CompareRunsPlan parse_compare(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = arguments;
  if (words.size() > 1 && !words[0].starts_with("-") && !words[1].starts_with("-"))
    words.insert(words.begin() + 1, "--second");
  const Settings settings = read_first_word(compare_schema(), words, "--first");
  CompareRunsPlan plan;
  plan.notes = settings.check();
  settings.fill(plan);
  if (plan.first.empty() || plan.second.empty()) {
    throw base::UserError({.where = "hone compare",
                           .expected = "the folders of two runs",
                           .found = plan.first.empty() ? "none" : "one",
                           .fix = "write hone compare runs/first runs/second"});
  }
  for (const std::string& run : {plan.first, plan.second}) {
    const std::string why = without_metrics(run);
    if (!why.empty()) refuse_folder("compare", run, why);
  }
  return plan;
}

RunOptions run_options_of(const std::string& plan_yaml) {
  RunOptions out;
  if (plan_yaml.empty()) return out;
  const Method method = method_of(plan_yaml);
  Settings settings(method_schema(method));
  try {
    settings.read_yaml_text(plan_yaml, "plan.yaml");
  } catch (const base::UserError& error) {
    out.mistake = fmt::format("plan.yaml cannot be read: {}", error.text().found);
    return out;
  }
  out.method = method_name(method);
  for (const Option& option : settings.schema().options) {
    if (!settings.is_set(option.name)) continue;
    const base::Json standard = option.default_value();
    const base::Json& value = settings.value(option.name);
    const std::string name(option.name);
    out.rows.push_back(
        {.name = name,
         .group = std::string(option.group),
         .value = yaml_text(redact_secrets(name, value)),
         .standard = yaml_text(standard),
         .differs = value != standard && !(value.is_array() && value.size() == 1 && value[0] == standard)});
  }
  return out;
}

RunOptions read_run_options(const std::string& run) {
  const fs::path path = fs::path(run) / "plan.yaml";
  std::error_code none;
  if (!fs::is_regular_file(path, none)) return {};
  try {
    return run_options_of(base::read_settings(path.string(), kMaxYamlBytes));
  } catch (const base::UserError& error) {
    return {.mistake = fmt::format("plan.yaml cannot be read: {}", error.text().found)};
  }
}

}  // namespace hone::config
