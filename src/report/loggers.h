// Loggers (wandb, trackio, mlflow, comet_ml, swanlab): each gets the run's metrics from a Python process of its own, which reads
// metrics.jsonl and completions/ while the run writes them (python/logger.py). The run never waits for one of them, whatever it
// does; at the end all together get kLoggerSeconds. What was not sent can be sent later: hone log RUN --to NAME.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/process/python_process.h"
#include "report/terminal/run_follower.h"

namespace hone::report {

inline constexpr int kLoggerSeconds = 60;

struct LoggerOptions {
  std::vector<std::string> names;  // packages
  // One that is not installed says nothing (report_to: all).
  bool only_installed = false;
  std::string python;                                               // empty: base/process/active_python.h
  std::vector<std::pair<std::string, std::string>> variables = {};  // of its environment, beside ours
  int seconds = kLoggerSeconds;
  // logger.py takes these of the plan: run_name and the trackio_* (null: none), project, private, config (the
  // resolved options), tables and unique_prompts.
  base::Json settings;
};

class Loggers final : public RunFollower {
 public:
  // `stop`, where there is one, ends the wait at the end of the run; it outlives this.
  explicit Loggers(LoggerOptions options, const std::atomic<bool>* stop = nullptr)
      : options_(std::move(options)), stop_(stop) {}
  Loggers(const Loggers&) = delete;
  Loggers& operator=(const Loggers&) = delete;
  ~Loggers() override;  // of a run that ended with an error: waits as on_finish does

  void on_start(const train::StartFacts& facts, const Say& say) override;
  void poll(const Say& say) override;
  void on_finish(bool interrupted, std::int64_t step, const Say& say) override;

 private:
  struct Logger {
    std::string name;
    std::unique_ptr<base::PythonProcess> process;  // empty: it has ended
  };
  void take(Logger& logger, const std::vector<base::Json>& messages, const Say& say);
  void finish(const char* status, const Say& say);
  std::string later(const Logger& logger) const;

  LoggerOptions options_;
  const std::atomic<bool>* stop_;
  std::string folder_;
  std::vector<Logger> loggers_;
};

// hone log: sends what a finished or running run has, and waits until it is done or `stop`. The number of lines sent, and those that
// it had before. UserError when it fails.
struct LoggerResult {
  std::string run;  // where the user finds it; empty: nothing was to be sent
  std::int64_t sent = 0, known = 0;
};
LoggerResult send_run(const std::string& folder, const LoggerOptions& options, const std::atomic<bool>& stop);

}  // namespace hone::report
