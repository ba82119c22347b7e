#include "report/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"
#include "base/where.h"
#include "report/named_values.h"
#include "report/samples_text.h"
#include "report/terminal/start_page.h"
#include "report/terminal/text_width.h"
#include "report/terminal/verdict_lines.h"
#include "report/terminal/wrap_text.h"
#include "train/saves/run_folder.h"

namespace hone::report {

namespace {

constexpr double kWorthAWarning = 0.1;  // of the plan, by which the peak is above it
constexpr double kLeastGap = 100e6;     // bytes: less matters to nobody

// Which of several evaluation sets a record is of, by its eval_NAME_runtime; empty: the only one. Absent: it is of no
// evaluation.
std::optional<std::string> evaluated_set(const train::LogRecord& record) {
  constexpr std::string_view kBefore = "eval_", kAfter = "_runtime";
  for (const auto& [name, value] : record.values) {
    if (name == "eval_runtime" || name == "eval_loss") return "";
    if (!name.starts_with(kBefore) || !name.ends_with(kAfter)) continue;
    return name.substr(kBefore.size(), name.size() - kBefore.size() - kAfter.size());
  }
  return std::nullopt;
}

// The record with the names that it would have as the only set's.
train::LogRecord as_only_set(train::LogRecord record, const std::string& set) {
  const std::string prefix = "eval_" + set + "_";
  for (auto& [name, value] : record.values) {
    if (!set.empty() && name.starts_with(prefix)) name = "eval_" + name.substr(prefix.size());
  }
  return record;
}

std::string evaluation_line(const train::LogRecord& record) {
  const auto value = [&record](std::string_view name) { return finite_value(record.values, name); };
  const double loss = value_or_zero(record.values, "eval_loss");
  for (const auto& [margin, right] : {std::pair{"eval_rewards/margins", "eval_rewards/accuracies"},
                                      std::pair{"eval_margin", "eval_accuracy"}}) {
    if (!has_value(record.values, margin)) continue;
    const auto score = value("eval_objective/scores");  // Online DPO
    std::string out = fmt::format("eval at step {}  {}loss {:.4f}  margin {:.3f}", record.step,
                                  score ? fmt::format("score {:.3f}  ", *score) : "", loss,
                                  value_or_zero(record.values, margin));
    if (const auto share = value(right)) out += fmt::format("  right {:.0f}%", 100 * *share);
    return out + "\n";
  }
  if (!has_value(record.values, "eval_reward")) {
    const auto accuracy = value("eval_mean_token_accuracy");  // distillation has none
    return fmt::format("eval at step {}  loss {:.4f}{}\n", record.step, loss,
                       accuracy ? fmt::format("  acc {:.3f}", *accuracy) : "");
  }
  const auto reward = value("eval_reward"), std = value("eval_reward_std");
  std::string out = fmt::format("eval at step {}  reward ", record.step);
  out += reward ? fmt::format("{:.3f}", *reward) : "none";
  if (reward && std) out += fmt::format(" ±{:.2f}", *std);
  if (const auto cut = value("eval_completions/clipped_ratio"))
    out += fmt::format("  cut {:.0f}%", 100 * *cut);
  if (const auto length = value("eval_completions/mean_length")) out += fmt::format("  len {:.0f}", *length);
  return out + fmt::format("  loss {:.4f}\n", four_decimals(loss));
}

// Of eval_reward_funcs: "          exact_match 0.312, 95 % 0.254 to 0.376".
std::string interval_lines(const train::LogRecord& record) {
  constexpr std::string_view kBefore = "eval_rewards/", kAfter = "/ci_low";
  std::string out;
  for (const auto& [name, low] : record.values) {
    if (!name.starts_with(kBefore) || !name.ends_with(kAfter)) continue;
    const std::string reward = name.substr(kBefore.size(), name.size() - kBefore.size() - kAfter.size());
    const auto of = [&](std::string_view what) {
      return value_or_zero(record.values, fmt::format("{}{}/{}", kBefore, reward, what));
    };
    out += fmt::format("          {} {:.3f}, 95 % {:.3f} to {:.3f}\n", visible_controls(reward), of("mean"),
                       low, of("ci_high"));
  }
  return out;
}

// The rewards of all logging steps in metrics.jsonl: those before a resume too.
std::vector<double> logged_rewards(const base::fs::path& metrics) {
  std::vector<double> out;
  std::istringstream lines(base::read_text(metrics));
  for (std::string line; std::getline(lines, line);) {
    const base::Json record = base::Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object()) continue;
    for (const char* name : {"reward", "objective/scores"}) {  // GRPO's and RLOO's, Online DPO's
      if (record.contains(name) && record[name].is_number()) out.push_back(record[name].get<double>());
    }
  }
  return out;
}

}  // namespace

RunReport::~RunReport() {
  ticker_.reset();
  if (passing_) end_live_line();  // an error ended the run
}

void RunReport::on_start(const train::StartFacts& facts) {
  const Lock lock(mutex_);
  end_live_line();
  out_ << start_page(facts, line_.terminal(), examined_) << std::flush;
  const base::fs::path folder = facts.output_dir;
  folder_ = folder;
  full_ = facts.trained.full;
  first_step_ = facts.first_step;
  metrics_ =
      std::make_unique<MetricsFile>(folder / train::kMetricsFile, facts.first_step, facts.evaluation_due);
  if (tensorboard_) events_ = std::make_unique<TensorboardWriter>(folder, facts.first_step);
  if (!followers_.empty()) start_ = facts;
  printed_.emplace(folder, facts.first_step);
  samples_.emplace(folder / train::kSamplesFile, facts.first_step, facts.evaluation_due);
  total_steps_ = facts.total_steps;
  note_event();
}

void RunReport::show_progress_in_steps() {
  note_event();
  ticker_ = std::make_unique<StepTicker>([this] { tick(); });
}

void RunReport::tick() {
  constexpr auto kShort = std::chrono::seconds(2), kLogged = std::chrono::seconds(30);
  const Lock lock(mutex_);
  if (const std::int64_t step = base::where.step.load(std::memory_order_relaxed); step != ticked_step_) {
    ticked_step_ = step;
    note_event();  // the examination before step 1, an evaluation, a checkpoint
  }
  const auto now = Clock::now();
  if (now - last_event_ < kShort) return;
  const bool interactive = line_.terminal().interactive;
  if (!interactive && now - last_tick_ < kLogged) return;
  last_tick_ = now;
  const std::string text =
      step_progress_text(total_steps_, std::chrono::duration<double>(now - last_event_).count());
  if (!interactive) {
    out_ << text << '\n' << std::flush;
    return;
  }
  const int columns = line_.terminal().columns;
  if (live_ && !passing_) out_ << '\n';  // the line of the last step stays
  out_ << "\r\x1b[K" << (columns > 1 ? fit_line(text, columns - 1) : text) << std::flush;
  live_ = passing_ = true;
}

void RunReport::start_followers() {
  const Lock lock(mutex_);
  if (!start_) return;
  following_ = true;
  tell_followers([this](RunFollower& one) { one.on_start(*start_, say_line()); });
  for (const auto& [verdict, step] : early_verdicts_)
    tell_followers([&](RunFollower& one) { one.on_verdict(verdict, step); });
  early_verdicts_.clear();
  start_.reset();
}

void RunReport::on_verdict(const base::Verdict& verdict, std::int64_t step) {
  const Lock lock(mutex_);
  end_live_line();
  out_ << run_verdict_lines(verdict, step, line_.terminal()) << std::flush;
  if (!following_ && !followers_.empty()) early_verdicts_.emplace_back(verdict, step);
  tell_followers([&](RunFollower& one) { one.on_verdict(verdict, step); });
}

void RunReport::on_rollout(const train::RolloutFacts& facts) {
  const Lock lock(mutex_);
  const bool has_completions = !facts.completions.empty();  // an evaluation has only warnings
  if (has_completions && !completions_)
    completions_ = std::make_unique<CompletionsFiles>(folder_, first_step_);
  if (has_completions) completions_->write(facts);
  if (has_completions && shown_.table) to_show_ = facts;
  if (printed_ && !facts.printed.empty()) {
    end_live_line();
    out_ << printed_->take(facts, line_.terminal().columns) << std::flush;
  }
  for (const std::string& warning : facts.warnings) {
    if (!warnings_.add(warning)) continue;
    end_live_line();
    const int columns = line_.terminal().columns;
    const std::string text = visible_controls(warning);
    out_ << "warning   " << (columns > 0 ? wrap_text(text, 10, page_columns(columns)) : text) << '\n'
         << std::flush;
  }
}

void RunReport::on_samples(const train::SampleFacts& facts) {
  const Lock lock(mutex_);
  note_event();
  if (samples_) samples_->write(facts);
  const train::SampleFacts* const first = samples_ && samples_->first() ? &*samples_->first() : nullptr;
  end_live_line();
  out_ << samples_lines(first, facts, line_.terminal()) << std::flush;
  if (!events_) return;
  for (std::size_t i = 0; i < facts.completions.size(); ++i)
    events_->text(fmt::format("samples/{}", i + 1), sample_markdown(facts.completions[i]), facts.step);
  events_->flush();
}

void RunReport::on_step(const train::StepFacts& facts, std::int64_t total_steps) {
  const Lock lock(mutex_);
  note_event();
  tell_followers([this](RunFollower& one) { one.poll(say_line()); });
  last_line_ = line_.text(facts, total_steps);
  if (!line_.terminal().interactive) return;
  out_ << "\r\x1b[K" << last_line_ << std::flush;
  live_ = true;
  passing_ = false;
}

void RunReport::on_log(const train::LogRecord& record) {
  const Lock lock(mutex_);
  metrics_->write(record);
  if (events_) {
    for (const auto& [name, value] : record.values) {
      if (std::isnan(value)) continue;  // TRL's None: a reward that scored nothing
      events_->scalar(tensorboard_tag(name), static_cast<float>(value), record.step);
    }
    events_->scalar(tensorboard_tag("epoch"), static_cast<float>(record.epoch), record.step);
    events_->flush();
  }
  if (evaluated_set(record)) {
    print_evaluation(record);
  } else if (has_value(record.values, "loss")) {
    print_logged_step();
  }
  tell_followers([&](RunFollower& one) { one.on_log(record, say_line()); });
}

void RunReport::print_evaluation(const train::LogRecord& record) {
  end_live_line();
  const std::string set = evaluated_set(record).value_or("");
  const train::LogRecord only = as_only_set(record, set);
  out_ << (set.empty() ? "" : set + ": ") << evaluation_line(only) << interval_lines(only) << std::flush;
}

void RunReport::print_logged_step() {
  if (!line_.terminal().interactive) out_ << last_line_ << '\n';
  if (to_show_) {
    end_live_line();
    out_ << completions_table(*to_show_, shown_, line_.terminal());
    to_show_.reset();
  }
  out_ << std::flush;
}

void RunReport::print_run_reward() {
  if (!metrics_) return;
  const std::vector<double> rewards = logged_rewards(folder_ / train::kMetricsFile);
  if (rewards.size() < 2) return;
  const std::size_t tenth = std::max<std::size_t>(1, rewards.size() / 10);
  const auto mean = [tenth](const auto& begin) {
    return std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(tenth), 0.0) /
           static_cast<double>(tenth);
  };
  out_ << fmt::format("reward    {:.3f} -> {:.3f} (means of the first and the last {} of {} logged)\n",
                      mean(rewards.begin()), mean(rewards.rbegin()), tenth, rewards.size());
}

void RunReport::on_memory(const train::MemoryFacts& facts) {
  const Lock lock(mutex_);
  end_live_line();
  const std::string peak = base::gigabytes(facts.peak), planned = base::gigabytes(facts.planned);
  out_ << fmt::format("memory    peak {}{}, planned {}\n", peak,
                      facts.at_end ? "" : fmt::format(" after step {}", facts.step), planned);
  const double above = static_cast<double>(facts.peak) - static_cast<double>(facts.planned);
  const bool is_above = above > kLeastGap && above > kWorthAWarning * static_cast<double>(facts.planned);
  if (is_above && !peak_told_) {
    peak_told_ = true;
    out_ << fmt::format(
        "warning   the peak of {} is more than 10 % above the planned {}: the plan was too low for this run; "
        "if memory is short, lower memory_limit by the difference\n",
        peak, planned);
  }
  out_ << std::flush;  // and not in metrics.jsonl, which is the same bits when a run is repeated or resumed
}

void RunReport::on_save(const std::string& folder, std::int64_t step) {
  const Lock lock(mutex_);
  end_live_line();
  out_ << "saved     " << folder << '\n' << std::flush;
  tell_followers([&](RunFollower& one) { one.on_save(folder, step, say_line()); });
}

void RunReport::on_finish(const std::string& folder, bool interrupted, std::int64_t step) {
  ticker_.reset();
  const Lock lock(mutex_);
  end_live_line();
  print_run_reward();
  for (const std::string& warning : warnings_.repeated())
    out_ << "warning   " << visible_controls(warning) << '\n';
  if (interrupted && step == 0) {
    out_ << "stopped   before the first step was done; start again with the same command\n";
  } else if (interrupted) {
    out_ << fmt::format(
        "stopped   after step {}, nothing lost; continue with --resume_from_checkpoint "
        "true\n",
        step);
  } else {
    out_ << "done      " << (full_ ? "model" : "adapter") << " in " << folder << '\n';
  }
  out_ << std::flush;
  tell_followers([&](RunFollower& one) { one.on_finish(interrupted, step, say_line()); });
}

RunFollower::Say RunReport::say_line() {
  return [this](std::string_view line) {
    end_live_line();
    out_ << visible_controls(line) << '\n' << std::flush;
  };
}

void RunReport::end_live_line() {
  if (live_) out_ << (passing_ ? "\r\x1b[K" : "\n");
  live_ = passing_ = false;
}

}  // namespace hone::report
