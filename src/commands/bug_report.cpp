// hone bug-report: what a stranger needs to know of this machine and of a run, in one file without secrets.
#include <deque>
#include <iostream>
#include <sstream>

#include "base/error.h"
#include "base/files/file.h"
#include "base/json.h"
#include "base/strings/printable.h"
#include "commands/commands.h"
#include "commands/process/shareable_text.h"
#include "config/commands/bug_report_plan.h"
#include "config/commands/report_plans.h"
#include "doctor/fault_report.h"
#include "report/page/page_facts.h"
#include "train/saves/run_folder.h"

namespace hone::commands {
namespace {

constexpr std::size_t kLastLines = 5;       // of metrics.jsonl
constexpr std::size_t kLongestLine = 2000;  // of it; a record has no rows of the data

std::string section(const std::string& title, const std::string& text) {
  if (text.empty()) return "";
  return "\n## " + title + "\n\n```\n" + text + (text.ends_with('\n') ? "" : "\n") + "```\n";
}

// The options that a run had otherwise than its method's defaults.
std::string options_text(const base::fs::path& run) {
  const config::RunOptions options = config::read_run_options(run.string());
  if (!options.mistake.empty()) return options.mistake;
  std::string out = options.method.empty() ? "" : "hone " + options.method + '\n';
  for (const config::OptionRow& row : options.rows) {
    if (row.differs) out += row.name + ": " + row.value + '\n';
  }
  return out;
}

// Of each verdict that is no "ok": its step, class and what was found. Evidence may quote rows, and is left out.
std::string verdicts_text(const base::fs::path& run) {
  std::string out;
  for (const auto& [step, verdict] : report::read_page_facts(run).verdicts) {
    const auto text = [&](const char* name) {
      const auto found = verdict.find(name);
      return found != verdict.end() && found->is_string() ? found->get<std::string>() : std::string();
    };
    if (text("level") == "ok") continue;
    out += "step " + std::to_string(step) + "  " + text("level") + ' ' + text("code") + "  " + text("what") +
           '\n';
  }
  return out;
}

std::string last_lines(const base::fs::path& run) {
  const base::fs::path file = run / train::kMetricsFile;
  if (!base::fs::exists(file)) return "";
  std::istringstream lines(base::read_text(file));
  std::deque<std::string> last;
  for (std::string line; std::getline(lines, line);) {
    last.push_back(shareable(line).substr(0, kLongestLine));  // nothing is hidden in a piece of a secret
    if (last.size() > kLastLines) last.pop_front();
  }
  std::string out;
  for (const std::string& line : last) out += line + '\n';
  return out;
}

// A report that a full disk has cut is no reason to write none.
std::string end_text(const base::fs::path& run) {
  const base::fs::path report = doctor::find_report(run);
  if (report.empty()) return "";
  try {
    return doctor::explain(report, doctor::Evidence::kLeftOut);
  } catch (const base::UserError& error) {
    return error.what();
  }
}

std::string run_text(const base::fs::path& run) {
  return section("Why the run ended", end_text(run)) +
         section("Options that are not the defaults", options_text(run)) +
         section("What the doctor said", verdicts_text(run)) +
         section("The last lines of metrics.jsonl", last_lines(run));
}

}  // namespace

int bug_report(const std::vector<std::string>& arguments) {
  const config::BugReportPlan plan = config::parse_bug_report(arguments);
  std::string text =
      "# A bug report of hone\n\nWrite here what you did, what you expected, and what happened.\n" +
      section("hone env", env_text());
  if (!plan.run.empty()) text += run_text(plan.run);
  base::write_file_atomic(plan.output, shareable(base::printable(text)));
  std::cout << "written   " << plan.output << "; read it before you send it\n";
  return 0;
}

}  // namespace hone::commands
