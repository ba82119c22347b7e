#include "commands/page_runs.h"

#include "base/files/file.h"
#include "doctor/running_file.h"
#include "report/page/evaluation.h"
#include "train/saves/run_folder.h"

namespace hone::commands {

namespace {

std::string without_slashes(std::string folder) {
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  return folder;
}

// A process that was killed says nothing: the doctor's file tells.
void resolve_end(const std::string& folder, report::PageRun& run) {
  using report::RunEnd;
  const auto running = doctor::read_running(folder);
  if (running) {
    const doctor::Fate fate = doctor::fate_of(*running);
    run.facts.end = fate == doctor::Fate::kAlive ? RunEnd::kRunning : RunEnd::kKilled;
    if (run.facts.total_steps == 0) run.facts.total_steps = running->total_steps;
    if (fate != doctor::Fate::kAlive) run.notes.push_back(doctor::describe_fate(*running, fate));
    return;
  }
  if (run.facts.end != RunEnd::kRunning) return;
  run.facts.end = run.metrics->end.is_object() ? RunEnd::kFinished : RunEnd::kStopped;
}

}  // namespace

std::vector<report::PagePlanRow> page_plan(const config::RunOptions& options) {
  std::vector<report::PagePlanRow> rows;
  for (const config::OptionRow& row : options.rows)
    rows.push_back({row.name, row.group, row.value, row.standard, row.differs});
  return rows;
}

PageFolder::PageFolder(std::string folder, const report::CompletionsLimits& limits)
    : folder_(without_slashes(std::move(folder))),
      metrics_(base::fs::path(folder_) / train::kMetricsFile),
      completions_(base::fs::path(folder_) / train::kCompletionsFolder, limits) {}

const report::PageRun& PageFolder::read() {
  const config::RunOptions options = config::read_run_options(folder_);
  run_ = {.name = folder_,
          .method = options.method,
          .metrics = &metrics_.read(),
          .completions = completions_.read(),
          .samples = report::read_samples(base::fs::path(folder_) / train::kSamplesFile),
          .facts = report::read_page_facts(folder_)};
  run_.plan = page_plan(options);
  if (!options.mistake.empty()) run_.notes.push_back(options.mistake);
  if (const auto evaluation = report::read_evaluation(folder_))
    run_.facts.start.emplace_back("evaluated",
                                  evaluation->harness + "\n" + report::evaluation_table(evaluation->rows));
  resolve_end(folder_, run_);
  if (run_.metrics->unfinished && run_.facts.end != report::RunEnd::kRunning)
    run_.notes.emplace_back("The last line of metrics.jsonl was cut off and is left out.");
  return run_;
}

}  // namespace hone::commands
