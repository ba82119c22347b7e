// hone doctor: examines a run before its first step, and trains nothing.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <iostream>
#include <memory>
#include <optional>

#include "base/enum_names.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/strings/plural.h"
#include "base/strings/printable.h"
#include "commands/commands.h"
#include "commands/hub/hub_download.h"
#include "commands/own_file.h"
#include "commands/process/program_paths.h"
#include "commands/ranks/placement.h"
#include "commands/recorded/recorded_script.h"
#include "config/commands/doctor_plan.h"
#include "config/parse.h"
#include "config/reading/edit_yaml.h"
#include "config/settings.h"
#include "config/write_plan.h"
#include "doctor/catalogue/catalogue.h"
#include "doctor/error_verdict.h"
#include "doctor/exam_time.h"
#include "doctor/examination.h"
#include "report/core_only/fault_pages.h"
#include "report/fit_page.h"
#include "report/terminal/terminal.h"
#include "report/terminal/verdict_lines.h"
#include "train/opening/open_run.h"

namespace hone::commands {

namespace {

// What stopped the run from being opened, as a verdict of the part that it belongs to.
doctor::ExamPart part_of(const base::UserError& error, const config::Plan* plan) {
  const base::ErrorText& text = error.text();
  const bool data =
      plan != nullptr && !plan->dataset_name.empty() &&
      text.where.find(base::fs::path(plan->dataset_name).filename().string()) != std::string::npos;
  base::Verdict verdict = doctor::verdict_of(error);
  verdict.part = data || verdict.code.starts_with("DATA") ? "data" : "config";
  return {.name = verdict.part, .verdicts = {verdict}};
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& letter : out) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return out;
}

std::string describe_precision(config::Precision precision) {
  static constexpr std::array<const char*, 3> kNames = {"fp32", "bf16 products, fp32 weights", "bf16"};
  return base::enum_name(kNames, precision);
}

std::string heading(const config::DoctorPlan& asked, const train::OpenedRun* run) {
  const std::string method = upper(config::method_name(asked.method));
  if (run == nullptr)
    return "hone doctor   " + asked.shown() + (asked.config.empty() ? "" : " · ") + method + "\n";
  const config::Plan& plan = run->plan;
  return "hone doctor   " + base::fs::path(plan.model_name_or_path).filename().string() + " · " + method +
         (run->adapter->is_full() ? " · all weights"
                                  : " · LoRA r" + std::to_string(run->adapter->config().r)) +
         " · " + describe_precision(plan.precision) + " · " + base::counted(run->start.total_steps, "step") +
         "\n";
}

// The examination as it goes: printed part by part, or kept for --json.
class Session {
 public:
  explicit Session(const config::DoctorPlan& asked)
      : asked_(asked),
        planned_(doctor::exam_parts(config::samples(asked.method),
                                    asked.deep ? doctor::Depth::kDeep : doctor::Depth::kRun)),
        terminal_(report::terminal_of(STDOUT_FILENO)),
        lines_(planned_, terminal_, asked.verbose) {}

  void begin(const train::OpenedRun* run) const {
    if (!asked_.json) std::cout << report::fit_page(heading(asked_, run), terminal_.columns) << std::flush;
  }
  void predict(double seconds) const {
    if (!asked_.json) std::cout << "deep     about " << report::human_seconds(seconds) << '\n' << std::flush;
  }
  void add(const doctor::ExamPart& part) {
    parts_.push_back(part);
    const std::string text = lines_.part(part);
    if (!asked_.json) std::cout << text << std::flush;
  }
  // The exit code.
  int end(double seconds) {
    if (asked_.json) {
      std::cout << base::printable_json(
                       base::dump_json(report::examination_json(parts_, planned_, seconds, asked_.strict), 2))
                << "\n";
      return lines_.exit_code(asked_.strict);
    }
    std::cout << lines_.not_run();
    if (asked_.verbose) std::cout << report::impossible_lines(doctor::fault_classes(), terminal_.columns);
    std::cout << lines_.result(seconds, asked_.strict);
    return lines_.exit_code(asked_.strict);
  }
  // Every repair of the verdicts; of an option that two would change, the first.
  std::vector<std::pair<std::string, std::string>> repairs() const {
    std::vector<std::pair<std::string, std::string>> out;
    for (const doctor::ExamPart& part : parts_) {
      for (const base::Verdict& one : part.verdicts) {
        for (const auto& repair : one.repair) {
          const bool known =
              std::any_of(out.begin(), out.end(), [&](const auto& had) { return had.first == repair.first; });
          if (!known) out.push_back(repair);
        }
      }
    }
    return out;
  }

 private:
  const config::DoctorPlan& asked_;
  std::vector<std::string> planned_;
  report::Terminal terminal_;
  report::VerdictLines lines_;
  std::vector<doctor::ExamPart> parts_;
};

// A verdict holds an option's text; in YAML some texts need quotes.
std::string yaml_value(const config::Schema& schema, const std::string& option, const std::string& value) {
  const config::Option* row = schema.find(option);
  return row != nullptr && row->kind == config::Kind::kString ? config::yaml_text(value) : value;
}

// Where json is asked for, stdout is one object: the change is told on stderr.
void fix(const config::DoctorPlan& asked, const Session& session) {
  std::ostream& out = asked.json ? std::cerr : std::cout;
  auto repairs = session.repairs();
  for (auto& [option, value] : repairs)
    value = yaml_value(config::method_schema(asked.method), option, value);
  if (repairs.empty()) {
    out << "fix     nothing that can be changed without a loss\n";
    return;
  }
  const config::EditedYaml edited = config::edit_yaml(base::read_text(asked.config), repairs, asked.config);
  out << "fix     " << asked.config << '\n';
  for (const std::string& line : edited.diff) out << "        " << line << '\n';
  base::write_file_atomic(asked.config, edited.text);
  for (const auto& [option, value] : repairs) {
    for (const std::string& word : asked.arguments) {
      if (word == "--" + option)
        out << "note      --" << option << " on the command line still overrides the file\n";
    }
  }
  out << "        check it again: hone doctor " << asked.config << '\n';
}

}  // namespace

int doctor(const std::vector<std::string>& arguments) {
  config::DoctorPlan asked = config::parse_doctor(arguments);
  const RecordedScript recorded(asked);
  const OwnFile own(asked);
  Session session(asked);
  std::optional<config::Plan> plan;
  std::unique_ptr<train::OpenedRun> run;
  train::RunListener silent;
  try {
    plan = with_downloads([&] { return config::parse_run(asked.method, asked.arguments); });
    plan->token_cache = token_cache_folder().string();
    place(*plan);
    run = train::open_run(*plan, silent);
  } catch (const base::UserError& error) {
    session.begin(nullptr);
    session.add(part_of(error, plan ? &*plan : nullptr));
    return session.end(0);
  }
  session.begin(run.get());
  const doctor::ExamOptions options = {.depth = asked.deep ? doctor::Depth::kDeep : doctor::Depth::kRun,
                                       .program = own_program(),
                                       .cache_dir = cache_folder()};
  if (asked.deep) session.predict(doctor::deep_seconds(*run));
  const doctor::Examination examination =
      doctor::examine(*run, options, [&session](const doctor::ExamPart& part) { session.add(part); });
  const int code = session.end(examination.seconds);
  if (asked.fix) fix(asked, session);
  return code;
}

}  // namespace hone::commands
