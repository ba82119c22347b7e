// Everything a run says while it goes on: terminal, metrics.jsonl, TensorBoard.
#pragma once

#include <memory>
#include <ostream>

#include "report/metrics_file.h"
#include "report/progress_line.h"
#include "report/tensorboard.h"
#include "report/terminal.h"
#include "train/step_facts.h"

namespace hone::report {

class RunReport final : public train::RunListener {
 public:
  // `out` outlives the report.
  RunReport(std::ostream& out, Terminal terminal, bool tensorboard)
      : out_(out), line_(terminal), tensorboard_(tensorboard) {}

  void started(const train::StartFacts& facts) override;
  void stepped(const train::StepFacts& facts, std::int64_t total_steps) override;
  void logged(const train::LogRecord& record) override;
  void measured(const train::MemoryFacts& facts) override;
  void saved(const std::string& folder, std::int64_t step) override;
  void finished(const std::string& folder, bool interrupted, std::int64_t step) override;

 private:
  void end_live_line();

  std::ostream& out_;
  ProgressLine line_;
  bool tensorboard_;
  bool live_ = false;      // an unfinished line stands in the terminal
  std::string last_line_;  // of the newest step, for logs
  std::unique_ptr<MetricsFile> metrics_;
  std::unique_ptr<TensorboardWriter> events_;
};

}  // namespace hone::report
