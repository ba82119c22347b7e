#include "config/commands/doctor_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <type_traits>

#include "base/error.h"
#include "base/files/file.h"
#include "base/strings/split.h"
#include "base/strings/suggest.h"
#include "config/method_of.h"
#include "config/reading/first_word.h"
#include "config/reading/user_paths.h"
#include "config/settings.h"

namespace hone::config {

namespace {

using base::UserError;

bool is_file_word(const std::string& word) {
  return word.ends_with(".yaml") || word.ends_with(".yml") || base::fs::is_regular_file(word);
}

void require_one(const Schema& schema, const std::string& first, const std::string& second) {
  if (first.empty()) return;
  throw UserError({.where = "hone " + schema.command,
                   .expected = "one YAML file",
                   .found = fmt::format("'{}' and '{}'", first, second),
                   .fix = "name one run"});
}

Method method_from_name(const Schema& schema, const std::string& word) {
  if (const auto method = find_method(word)) return *method;
  const std::vector<std::string> known = method_names();
  throw UserError({.where = "hone " + schema.command,
                   .expected = fmt::format("a method ({}) or a YAML file", fmt::join(known, ", ")),
                   .found = fmt::format("'{}'.{}", word, base::did_you_mean(word, known)),
                   .fix = fmt::format("write hone {} run.yaml", schema.command)});
}

// What belongs to a script that is executed, and nothing else has; one that is read has arguments too.
void require_run(const Schema& schema, const DoctorPlan& plan) {
  if (plan.run) return;
  const DoctorPlan none;
  const bool is_script = plan.config.ends_with(".py") || plan.config.ends_with(".ipynb");
  const bool strange = !plan.script_arguments.empty() && !is_script;
  const std::string given = strange                            ? "-- " + plan.script_arguments.front()
                            : plan.online                      ? "--online"
                            : plan.run_limit != none.run_limit ? "--run_limit"
                            : !plan.keep.empty()               ? "--keep"
                                                               : "";
  if (given.empty()) return;
  throw UserError({.where = "hone " + schema.command,
                   .expected = "--run beside what is of a script that is executed",
                   .found = given,
                   .fix = fmt::format("write hone {} SCRIPT --run, which executes it; or leave that out",
                                      schema.command)});
}

template <typename Plan>
Plan parse_examined(const Schema& schema, const std::vector<std::string>& arguments) {
  Plan plan;
  std::optional<Method> method;
  std::vector<std::string> names, own;
  for (std::size_t at = 0; at < arguments.size();) {
    const std::string& given = arguments[at++];
    if (given == "--") {
      plan.script_arguments.assign(arguments.begin() + static_cast<std::ptrdiff_t>(at), arguments.end());
      break;
    }
    const std::string word = is_option_word(given) ? given : user_path(given, "hone " + schema.command);
    if (word == "-v") {
      own.emplace_back("--verbose");
    } else if (!is_option_word(word)) {
      if (is_file_word(word)) {
        require_one(schema, plan.config, word);
        plan.config = word;
      } else {
        method = method_from_name(schema, word);
      }
    } else if (word.starts_with("--") && schema.find(option_name(word)) != nullptr) {
      own.push_back(word);
      const bool is_flag = schema.find(option_name(word))->kind == Kind::kBool;
      const bool has_value = word.find('=') == std::string::npos && at < arguments.size() &&
                             (!is_flag || arguments[at] == "true" || arguments[at] == "false");
      if (has_value) own.push_back(arguments[at++]);
    } else if (option_name(word) == "config") {
      const bool joined = word.find('=') != std::string::npos;
      const std::string file = joined                  ? word.substr(word.find('=') + 1)
                               : at < arguments.size() ? arguments[at++]
                                                       : "";
      require_one(schema, plan.config, file);
      plan.config = user_path(file, "--config");
    } else {
      if (word.starts_with("--")) names.push_back(option_name(word));
      plan.arguments.push_back(word);
      while (at < arguments.size() && !is_option_word(arguments[at]))
        plan.arguments.push_back(arguments[at++]);
    }
  }
  Settings settings(schema);
  settings.read_arguments(own);
  settings.collect_values();
  settings.throw_mistakes();
  settings.fill<DoctorPlan>(plan);
  if constexpr (!std::is_same_v<Plan, DoctorPlan>) settings.fill<Plan>(plan);
  if (plan.config.empty() && plan.arguments.empty()) {
    throw UserError({.where = "hone " + schema.command,
                     .expected = "a run to examine",
                     .found = "none",
                     .fix = fmt::format("write hone {} run.yaml", schema.command)});
  }
  if (plan.fix && plan.config.empty()) {
    throw UserError({.where = "--fix",
                     .expected = "a YAML file to change",
                     .found = "only options on the command line",
                     .fix = fmt::format("put them into a file: hone {} run.yaml --fix", schema.command)});
  }
  require_run(schema, plan);
  const std::string yaml = plan.config.empty() || plan.run ? "" : base::read_text(plan.config);
  plan.method = method ? *method : method_of(yaml, names);
  if (!plan.config.empty()) plan.arguments.insert(plan.arguments.begin(), {"--config", plan.config});
  return plan;
}

}  // namespace

DoctorPlan parse_doctor(const std::vector<std::string>& arguments) {
  return parse_examined<DoctorPlan>(doctor_schema(), arguments);
}

DoctorPlan parse_check(const std::vector<std::string>& arguments) {
  return parse_examined<DoctorPlan>(check_schema(), arguments);
}

const Schema& check_schema() {
  static const Schema schema = [] {
    Schema out{.command = "check", .options = {}};
    add(out.options, {"check", kHone, kAll},
        {{"fix", "write today's names into the YAML file, and show the difference", &DoctorPlan::fix},
         {"as",
          "whose names it has: axolotl, llamafactory, swift, torchtune, trl, unsloth, transformers or hone; null: recognized by them",
          &DoctorPlan::as},
         {"data", "another trainer's file: rows to examine in the place of those that it names",
          &DoctorPlan::data},
         {"dataset_info", "LLaMA-Factory's table of data sets; null: dataset_info.json of its dataset_dir",
          &DoctorPlan::dataset_info},
         {"json", "of another trainer's run: print what it becomes as JSON", &DoctorPlan::json},
         {"write", "another trainer's file: write hone's own file of the run", &DoctorPlan::write},
         {"run",
          "execute the script until its train(), and examine the very options, rows and rewards that it made",
          &DoctorPlan::run},
         {"online", "with run: the script has the network", &DoctorPlan::online},
         {"run_limit", "with run: seconds until train()", &DoctorPlan::run_limit, kWhole, above(0)},
         {"keep", "with run: a new folder in which its options and rows stay", &DoctorPlan::keep}});
    return out;
  }();
  return schema;
}

RanksPlan parse_ranks_plan(const std::vector<std::string>& arguments) {
  auto plan = parse_examined<RanksPlan>(plan_schema(), arguments);
  plan.ranks_per_host = counts_of(plan.nproc, "--nproc");
  plan.host_counts = counts_of(plan.hosts, "--hosts");
  if (plan.step_seconds > 0 && !plan.measured.empty()) {
    throw UserError({.where = "--step_seconds",
                     .expected = "step_seconds, or measured with a folder to read them from",
                     .found = "both",
                     .fix = "leave one out"});
  }
  return plan;
}

std::vector<std::int64_t> counts_of(const std::string& text, const std::string& where) {
  constexpr std::int64_t kMost = 4096;
  const auto refuse = [&](const std::string& cause) {
    throw UserError({.where = where,
                     .expected = "a number, or several that rise: 1,2,4 or 1,2,...,256",
                     .found = fmt::format("'{}'", text),
                     .cause = cause,
                     .fix = fmt::format("write {} 1,2,4,8", where)});
  };
  std::vector<std::int64_t> out;
  bool doubles = false;
  for (std::string word : base::split_text(text, ',')) {
    std::erase(word, ' ');
    if (word == "..." && !out.empty() && !doubles) {
      doubles = true;
      continue;
    }
    std::int64_t value = 0;
    const auto [rest, failed] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (word.empty() || failed != std::errc() || rest != word.data() + word.size()) refuse("");
    if (value < 1 || value > kMost) refuse(fmt::format("each is from 1 to {}", kMost));
    if (!out.empty() && value <= out.back()) refuse("each is above the one before");
    if (doubles) {
      for (std::int64_t next = 2 * out.back(); next < value; next *= 2) out.push_back(next);
      doubles = false;
    }
    out.push_back(value);
  }
  if (doubles) refuse("... stands between two numbers");
  return out;
}

FaultsPlan parse_faults(const std::vector<std::string>& arguments) {
  const Settings settings = read_first_word(faults_schema(), arguments, "--code");
  FaultsPlan plan;
  settings.fill(plan);
  return plan;
}

}  // namespace hone::config
