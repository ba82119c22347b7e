// hone report: the page of a run, or of several.
#include <algorithm>
#include <iostream>
#include <memory>

#include "commands/commands.h"
#include "commands/page_runs.h"
#include "commands/process/own_output.h"
#include "commands/process/run_signals.h"
#include "config/commands/report_plans.h"
#include "report/page/page_text.h"
#include "report/page/run_page.h"
#include "report/page/serve_page.h"
#include "report/terminal/terminal.h"
#include "train/saves/run_folder.h"

namespace hone::commands {

namespace {

namespace fs = base::fs;

constexpr int kSeconds = 5;  // between two readings of an open page of a run that goes on

class PagesOfRuns {
 public:
  explicit PagesOfRuns(const std::vector<std::string>& folders) {
    report::CompletionsLimits limits;
    limits.bytes /= folders.size();
    limits.files = std::max<std::size_t>(4, limits.files / folders.size());
    for (const std::string& folder : folders)
      folders_.push_back(std::make_unique<PageFolder>(folder, limits));
  }

  std::string page() {
    std::vector<report::PageRun> runs;
    for (const auto& folder : folders_) runs.push_back(folder->read());
    const bool goes_on =
        std::ranges::any_of(runs, [](const auto& run) { return run.facts.end == report::RunEnd::kRunning; });
    return report::page_text(report::page_data(
        runs, {.written = report::seconds_now(), .refresh_seconds = goes_on ? kSeconds : 0}));
  }

 private:
  std::vector<std::unique_ptr<PageFolder>> folders_;
};

// In the run's folder; of several beside them, or here where they are in several places.
fs::path place_of_page(const config::ReportPlan& plan) {
  if (!plan.output.empty()) return plan.output;
  if (plan.runs.size() == 1) return fs::path(plan.runs[0]) / train::kPageFile;
  const auto above = [](const std::string& run) {
    return (fs::path(run) / "").lexically_normal().parent_path().parent_path();
  };
  const bool together = std::ranges::all_of(
      plan.runs, [&](const std::string& run) { return above(run) == above(plan.runs[0]); });
  return (together ? above(plan.runs[0]) : fs::path()) / train::kPageFile;
}

}  // namespace

int report_runs(const std::vector<std::string>& arguments) {
  const config::ReportPlan plan = config::parse_report(arguments);
  print_notes(plan.notes);
  PagesOfRuns pages(plan.runs);
  if (plan.serve) {
    report::PageServer server(static_cast<std::uint16_t>(plan.port), [&pages] { return pages.page(); });
    const std::atomic<bool>& stop = watch_stop_signals();
    std::cout << "page      " << server.address() << "\n          only at this machine; Ctrl-C ends it\n"
              << std::flush;
    server.serve(stop);
    return 0;
  }
  const fs::path path = place_of_page(plan);
  require_own_output(path, "a page of hone", "page.html", report::is_page);
  const std::string text = pages.page();
  base::write_file_atomic(path, text);
  std::cout << "page      " << path.string() << " ("
            << report::human_bytes(static_cast<std::int64_t>(text.size())) << ")\n";
  return 0;
}

}  // namespace hone::commands
