// The page of a run, written while the run goes on: output_dir/report.html, with hone-page.json beside it.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "report/page/page_data.h"
#include "report/terminal/run_follower.h"

namespace hone::report {

struct RunPageOptions {
  std::string method;  // "sft"
  std::vector<PagePlanRow> plan;
  // Between two writes while the run goes on; more where a write takes long, so that all together take that share of the time.
  double least_seconds = 2, most_share = 0.02;
};

// Writes at the start, at logging steps and at the end. An error is said once; the run goes on without its page.
class RunPage final : public RunFollower {
 public:
  explicit RunPage(RunPageOptions options) : options_(std::move(options)) {}
  RunPage(const RunPage&) = delete;
  RunPage& operator=(const RunPage&) = delete;
  ~RunPage() override;  // of a run that ended with an error

  void on_start(const train::StartFacts& facts, const Say& say) override;
  void on_verdict(const base::Verdict& verdict, std::int64_t step) override;
  void on_log(const train::LogRecord& record, const Say& say) override;
  void poll(const Say& say) override;
  void on_finish(bool interrupted, std::int64_t step, const Say& say) override;

 private:
  using Clock = std::chrono::steady_clock;

  bool may_write() const;
  void write(const Say& say);
  void write_files();
  void note_failure(const std::string& why, const Say& say);

  RunPageOptions options_;
  base::fs::path folder_;
  PageFacts facts_;
  std::unique_ptr<MetricsReader> metrics_;
  std::unique_ptr<CompletionsReader> completions_;
  bool logged_ = false;  // since the last write
  bool failed_ = false;  // it was said
  Clock::time_point next_;
};

// Seconds since 1970.
std::int64_t seconds_now();

}  // namespace hone::report
