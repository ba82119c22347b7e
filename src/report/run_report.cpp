#include "report/run_report.h"

#include <fmt/format.h>

#include "base/file.h"
#include "report/start_page.h"
#include "train/run_folder.h"

namespace hone::report {

namespace {

constexpr double kWorthAWarning = 1.1;  // peak over plan

// Whether a record is of training steps ("loss"), of an evaluation, or the end's ("train_loss").
bool has(const train::LogRecord& record, std::string_view name) {
  for (const auto& [key, value] : record.values) {
    if (key == name) return true;
  }
  return false;
}

double value_of(const train::LogRecord& record, std::string_view name) {
  for (const auto& [key, value] : record.values) {
    if (key == name) return value;
  }
  return 0;
}

}  // namespace

void RunReport::started(const train::StartFacts& facts) {
  out_ << start_page(facts, line_.terminal()) << std::flush;
  const base::fs::path folder = facts.output_dir;
  metrics_ = std::make_unique<MetricsFile>(folder / train::kMetricsFile, facts.first_step);
  if (tensorboard_) events_ = std::make_unique<TensorboardWriter>(folder);
}

void RunReport::stepped(const train::StepFacts& facts, std::int64_t total_steps) {
  last_line_ = line_.text(facts, total_steps);
  if (!line_.terminal().interactive) return;
  out_ << "\r\x1b[K" << last_line_ << std::flush;
  live_ = true;
}

void RunReport::logged(const train::LogRecord& record) {
  metrics_->write(record);
  if (events_) {
    for (const auto& [name, value] : record.values) {
      events_->scalar(tensorboard_tag(name), static_cast<float>(value), record.step);
    }
    events_->scalar(tensorboard_tag("epoch"), static_cast<float>(record.epoch), record.step);
    events_->flush();
  }
  if (has(record, "eval_loss")) {
    end_live_line();
    out_ << fmt::format("eval at step {}  loss {:.4f}  acc {:.3f}\n", record.step,
                        value_of(record, "eval_loss"), value_of(record, "eval_mean_token_accuracy"))
         << std::flush;
  } else if (has(record, "loss") && !line_.terminal().interactive) {
    out_ << last_line_ << '\n' << std::flush;
  }
}

void RunReport::measured(const train::MemoryFacts& facts) {
  end_live_line();
  const std::string peak = base::gigabytes(facts.peak), planned = base::gigabytes(facts.planned);
  out_ << fmt::format("memory    peak {}{}, planned {}\n", peak,
                      facts.at_end ? "" : fmt::format(" after step {}", facts.step), planned);
  if (static_cast<double>(facts.peak) > kWorthAWarning * static_cast<double>(facts.planned)) {
    out_ << fmt::format(
        "warning   the peak of {} is more than 10 % above the planned {}: the plan is wrong for this "
        "run; lower memory_limit by the difference if memory is short\n",
        peak, planned);
  }
  out_ << std::flush;  // and not in metrics.jsonl, which is the same bits when a run is repeated or resumed
}

void RunReport::saved(const std::string& folder, std::int64_t) {
  end_live_line();
  out_ << "saved     " << folder << '\n' << std::flush;
}

void RunReport::finished(const std::string& folder, bool interrupted, std::int64_t step) {
  end_live_line();
  if (interrupted) {
    out_ << fmt::format("stopped   after step {}, nothing lost; go on with --resume_from_checkpoint true\n",
                        step);
  } else {
    out_ << "done      adapter in " << folder << '\n';
  }
  out_ << std::flush;
}

void RunReport::end_live_line() {
  if (live_) out_ << '\n';
  live_ = false;
}

}  // namespace hone::report
