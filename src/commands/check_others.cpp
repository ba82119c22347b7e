#include "commands/check_others.h"

#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "base/exit_codes.h"
#include "base/files/file.h"
#include "base/json.h"
#include "base/strings/printable.h"
#include "base/strings/utf8.h"
#include "commands/trainer_template.h"
#include "config/option_secrets.h"
#include "config/others/other_plan.h"
#include "config/parse.h"
#include "config/write_plan.h"

namespace hone::commands {

namespace {

using base::printable;

constexpr std::size_t kShown = 60, kPlaceColumns = 5, kNameColumns = 28;

std::string in_field(const std::string& text, std::size_t width) {
  return text.size() < width ? text + std::string(width - text.size(), ' ') : text;
}

// "7" of "run.yaml:7", "info.json:3" of another file than `file`.
std::string place(const std::string& where, const std::string& file) {
  return where.starts_with(file + ":") ? where.substr(file.size() + 1) : where;
}

// "TRL's", "transformers'".
std::string owner_of(config::Trainer trainer) {
  const std::string title(config::trainer_title(trainer));
  return title + (title.ends_with('s') ? "'" : "'s");
}

std::string shown(const config::OtherValue& one) {
  return base::cut_text(config::yaml_text(config::redact_secrets(one.option, one.value)), kShown);
}

void print_options(const config::OtherRun& run) {
  const std::string owner = owner_of(run.trainer);
  for (const config::OtherValue& one : run.options) {
    if (one.is_default()) continue;
    std::cout << printable(in_field(place(one.where, run.file), kPlaceColumns) + "  " +
                           in_field(one.from, kNameColumns) + "  " + one.option + ": " + shown(one))
              << '\n';
  }
  for (const config::OtherValue& one : run.options) {
    if (!one.is_default()) continue;
    const std::string why = one.from.empty() ? "" : ": " + one.from;
    std::cout << printable(in_field("-", kPlaceColumns) + "  " + one.option + ": " + shown(one) + "  (" +
                           owner + " default" + why + ")")
              << '\n';
  }
}

// Names without effect, by their reason.
void print_ignored(const config::OtherRun& run) {
  std::vector<std::pair<std::string, std::string>> reasons;  // and the names
  for (const config::OtherNote& one : run.ignored) {
    auto found =
        std::find_if(reasons.begin(), reasons.end(), [&](const auto& r) { return r.first == one.text; });
    if (found == reasons.end()) found = reasons.insert(reasons.end(), {one.text, {}});
    found->second += (found->second.empty() ? "" : ", ") + one.name;
  }
  for (const auto& [why, names] : reasons) std::cout << printable("ignored   " + names + ": " + why) << '\n';
}

std::string title(const std::string& where, const std::string& name, const std::string& file) {
  const std::string at = place(where, file);
  const std::string line =
      !at.empty() && at.find_first_not_of("0123456789") == std::string::npos ? "line " + at : at;
  if (line.empty() || line == file) return name;
  return name.empty() ? line : name + " (" + line + ")";
}

void print_findings(const config::OtherRun& run) {
  for (const config::OtherNote& one : run.notes) {
    const std::string of = title(one.where, one.name, run.file);
    std::cout << "note      " << printable(of.empty() ? one.text : of + ": " + one.text) << '\n';
  }
  for (const config::OtherUnknown& one : run.unknown) {
    std::cout << "unknown   " << printable(title(one.where, one.name, run.file) + ": " + one.why) << '\n'
              << "          not examined: " << printable(one.depends) << '\n'
              << "          do: " << printable(one.fix) << '\n';
  }
  for (const config::OtherRefusal& one : run.refused) {
    std::cout << "refused   " << printable(title(one.where, one.name, run.file) + ": " + one.why) << '\n';
    if (!one.fix.empty()) std::cout << "          do: " << printable(one.fix) << '\n';
  }
}

// Model and rows, where they are here.
std::optional<config::Plan> plan_with_rows(const config::OtherRun& run) {
  if (!run.refused.empty()) return std::nullopt;
  try {
    config::Plan plan = config::parse_run_text(run.method, config::hone_file(run), "hone.yaml");
    if (!plan.downloads.empty() || plan.train_rows.sets.empty()) return std::nullopt;
    return plan;
  } catch (const base::UserError&) {
    return std::nullopt;  // a file that is not here; what else it may be was among the refused
  }
}

void print_waiting(const config::OtherRun& run) {
  std::string of;
  for (const char* option : {"model_name_or_path", "dataset_name", "datasets"}) {
    if (const config::OtherValue* one = run.find(option)) of += (of.empty() ? "" : " and ") + shown(*one);
  }
  std::cout << "waiting   " << printable(of) << (of.empty() ? "model and rows" : "")
            << ": not both are here\n";
  for (const config::OtherCheck& one : config::other_checks()) {
    if (one.needs == config::CheckNeeds::kRows) std::cout << "          " << one.what << '\n';
  }
  std::cout
      << "          do: --data ROWS.jsonl gives rows, and a model of the hub is fetched with `hf download`\n";
}

}  // namespace

std::optional<config::Recognized> recognized_file(const config::DoctorPlan& asked) {
  if (asked.config.empty() || asked.as == "hone") return std::nullopt;
  if (asked.as.empty()) return config::recognize(base::read_text(asked.config), asked.config);
  const auto trainer = config::trainer_of_word(asked.as);
  if (!trainer) return std::nullopt;
  return config::Recognized{.trainer = *trainer, .by = "--as " + asked.as};
}

std::optional<config::Recognized> whose_file(const config::DoctorPlan& asked) {
  std::optional<config::Recognized> out = recognized_file(asked);
  const bool others =
      !asked.data.empty() || !asked.dataset_info.empty() || !asked.write.empty() || asked.json;
  if (!out && others) {
    throw base::UserError(
        {.where = "hone check",
         .expected = "another trainer's file for --data, --dataset_info, --json and --write",
         .found = asked.config.empty() ? "no file" : asked.config + ", a file of hone's or TRL's names",
         .fix = "leave them out, or say whose file it is: --as axolotl"});
  }
  if (out && (asked.fix || asked.arguments.size() > 2)) {
    throw base::UserError(
        {.where = "hone check",
         .expected = owner_of(out->trainer) + " file alone",
         .found = asked.fix ? "--fix" : asked.arguments.back(),
         .fix = "write hone's own file first: hone check FILE --write run.yaml; or say --as hone"});
  }
  return out;
}

config::OtherRun read_asked(const config::DoctorPlan& asked, const config::Recognized& whose) {
  return config::read_other(base::read_text(asked.config),
                            {.path = asked.config,
                             .dataset_info = asked.dataset_info,
                             .data = asked.data,
                             .script_arguments = asked.script_arguments},
                            whose);
}

int check_others(const config::DoctorPlan& asked, const config::Recognized& whose) {
  const config::OtherRun run = read_asked(asked, whose);
  bool refuses_rows = false;
  if (asked.json) {
    base::Json out = config::other_json(run);
    out["checks"] = config::counted_checks(false);
    std::cout << base::dump_json(out) << '\n';
  } else {
    std::cout << "hone check   " << printable(asked.config) << " · " << owner_of(run.trainer) << ", by "
              << printable(run.recognized) << " · hone " << config::method_name(run.method) << '\n';
    print_options(run);
    print_ignored(run);
    print_findings(run);
    const std::optional<config::Plan> plan = plan_with_rows(run);
    if (plan) {
      refuses_rows = print_example(*plan);
      if (!refuses_rows) print_trainer_template(run, *plan);
    }
    if (!plan && run.refused.empty()) print_waiting(run);
    if (config::is_script(run.trainer) && !run.unknown.empty())
      std::cout << "          or: --run executes the script until its train(), and knows what it has made\n";
    const auto defaults = std::count_if(run.options.begin(), run.options.end(),
                                        [](const config::OtherValue& one) { return one.is_default(); });
    std::cout << "result    " << run.options.size() << " options, " << defaults << " of them "
              << owner_of(run.trainer) << " defaults; " << run.ignored.size() << " ignored, "
              << run.unknown.size() << " unknown, " << run.refused.size() << " refused"
              << (refuses_rows ? ", and rows\n" : "\n");
    std::cout << config::counted_checks(plan.has_value()) << '\n';
  }
  if (!asked.write.empty()) {
    base::write_file_atomic(asked.write, config::hone_file(run));
    if (!asked.json) std::cout << "written   " << printable(asked.write) << '\n';
  }
  return run.refused.empty() && !refuses_rows ? 0 : base::kUserMistake;
}

}  // namespace hone::commands
