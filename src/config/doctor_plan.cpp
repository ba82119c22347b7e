#include "config/doctor_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"
#include "config/method_of.h"
#include "config/settings.h"

namespace hone::config {

namespace {

using base::UserError;

bool is_file_word(const std::string& word) {
  return word.ends_with(".yaml") || word.ends_with(".yml") || base::fs::is_regular_file(word);
}

void require_one(const std::string& first, const std::string& second) {
  if (first.empty()) return;
  throw UserError({.where = "hone doctor",
                   .expected = "one YAML file",
                   .found = fmt::format("'{}' and '{}'", first, second),
                   .fix = "name one run"});
}

Method method_from_name(const std::string& word) {
  if (const auto method = find_method(word)) return *method;
  const std::vector<std::string> known = method_names();
  throw UserError({.where = "hone doctor",
                   .expected = fmt::format("a method ({}) or a YAML file", fmt::join(known, ", ")),
                   .found = fmt::format("'{}'.{}", word, base::did_you_mean(word, known)),
                   .fix = "write hone doctor run.yaml"});
}

}  // namespace

DoctorPlan parse_doctor(const std::vector<std::string>& arguments) {
  DoctorPlan plan;
  std::optional<Method> method;
  std::vector<std::string> names, own;
  for (std::size_t at = 0; at < arguments.size();) {
    const std::string& word = arguments[at++];
    if (word == "-v") {
      own.emplace_back("--verbose");
    } else if (!is_option_word(word)) {
      if (is_file_word(word)) {
        require_one(plan.config, word);
        plan.config = word;
      } else {
        method = method_from_name(word);
      }
    } else if (word.starts_with("--") && doctor_schema().find(option_name(word)) != nullptr) {
      own.push_back(word);
      const bool has_value = at < arguments.size() && (arguments[at] == "true" || arguments[at] == "false");
      if (has_value) own.push_back(arguments[at++]);
    } else if (option_name(word) == "config") {
      const bool joined = word.find('=') != std::string::npos;
      const std::string file = joined                  ? word.substr(word.find('=') + 1)
                               : at < arguments.size() ? arguments[at++]
                                                       : "";
      require_one(plan.config, file);
      plan.config = file;
    } else {
      if (word.starts_with("--")) names.push_back(option_name(word));
      plan.arguments.push_back(word);
      while (at < arguments.size() && !is_option_word(arguments[at]))
        plan.arguments.push_back(arguments[at++]);
    }
  }
  Settings settings(doctor_schema());
  settings.read_arguments(own);
  settings.fill(plan);
  if (plan.config.empty() && plan.arguments.empty()) {
    throw UserError({.where = "hone doctor",
                     .expected = "a run to examine",
                     .found = "none",
                     .fix = "write hone doctor run.yaml"});
  }
  if (plan.fix && plan.config.empty()) {
    throw UserError({.where = "--fix",
                     .expected = "a YAML file to change",
                     .found = "only options on the command line",
                     .fix = "put them into a file: hone doctor run.yaml --fix"});
  }
  const std::string yaml = plan.config.empty() ? "" : base::read_text(plan.config);
  plan.method = method ? *method : method_of(yaml, names);
  if (!plan.config.empty()) plan.arguments.insert(plan.arguments.begin(), {"--config", plan.config});
  return plan;
}

FaultsPlan parse_faults(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = arguments;
  if (!words.empty() && !words[0].starts_with("-")) words.insert(words.begin(), "--code");
  Settings settings(faults_schema());
  settings.read_arguments(words);
  FaultsPlan plan;
  settings.fill(plan);
  return plan;
}

}  // namespace hone::config
