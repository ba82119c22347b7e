// hone lr-find: a learning rate from a short range test.
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <iostream>

#include "base/error.h"
#include "base/files/apart.h"
#include "base/json.h"
#include "base/strings/printable.h"
#include "commands/commands.h"
#include "commands/hub/hub_download.h"
#include "commands/process/own_output.h"
#include "commands/process/program_paths.h"
#include "commands/process/run_signals.h"
#include "commands/ranks/placement.h"
#include "config/commands/tool_plans.h"
#include "config/method_of.h"
#include "config/parse.h"
#include "config/write_plan.h"
#include "doctor/tools/lr_range.h"
#include "report/terminal/range_plot.h"
#include "train/opening/open_run.h"
#include "train/saves/run_inputs.h"

namespace hone::commands {

namespace fs = base::fs;

namespace {

constexpr int kNoProposal = 1;
const std::string kTitle = "change of the loss over the learning rate: ";  // of the picture

std::string text(const char* format, double value) {
  std::array<char, 48> out{};
  std::snprintf(out.data(), out.size(), format, value);
  return out.data();
}

// The run as its file says, but for its folder: none is made, and what lies there is not looked at.
config::Plan plan_of(const std::string& file) {
  const config::Method method = config::method_of(base::read_text(file));
  if (config::samples(method)) {
    throw base::UserError({.where = file,
                           .expected = "a run whose loss measures progress, such as an sft run",
                           .found = "one of " + std::string(config::method_name(method)),
                           .cause = "its loss does not measure progress (the advantages of a group sum to "
                                    "0), and a reward needs many completions per point: a range test would "
                                    "cost as much as a run",
                           .fix = "compare two short runs by their reward; TRL's default for grpo, 1e-6, is "
                                  "for full fine-tuning: an adapter needs ten to a hundred times that"});
  }
  const fs::path nowhere = fs::temp_directory_path() / ("hone-lr-find-" + std::to_string(getpid()));
  config::Plan plan = with_downloads([&] {
    return config::parse_run(
        method, {"--config", file, "--output_dir", nowhere.string(), "--resume_from_checkpoint", "false"});
  });
  plan.token_cache = token_cache_folder().string();
  return plan;
}

// The two files that are written are new ones, or those of an earlier call, and nothing that is read.
void require_own_curve(const std::string& output, const std::vector<base::ReadPlace>& read) {
  const std::string numbers = output + ".json", picture = output + ".svg";
  const auto is_curve = [](const std::string& text) { return is_object_with(text, "proposal", "points"); };
  const auto is_picture = [](const std::string& text) {
    return text.starts_with("<svg") && text.find(kTitle) != std::string::npos;
  };
  base::require_apart({{.option = "output", .path = numbers, .own = is_own_output(numbers, is_curve)},
                       {.option = "output", .path = picture, .own = is_own_output(picture, is_picture)}},
                      read);
  require_own_output(numbers, "a curve of hone lr-find", "curve", is_curve);
  require_own_output(picture, "a curve of hone lr-find", "curve", is_picture);
}

base::Json as_json(const doctor::RangeResult& result, const config::LrFindPlan& asked, double configured) {
  base::Json points = base::Json::array();
  for (std::size_t i = 0; i < result.points.size(); ++i) {
    const doctor::RangePoint& one = result.points[i];
    points.push_back({{"learning_rate", one.learning_rate},
                      {"loss", one.loss},
                      {"change", one.change},
                      {"smoothed", result.smoothed[i]}});
  }
  const auto rate_at = [&](const std::optional<std::size_t>& at) {
    return at ? base::Json(result.points[*at].learning_rate) : base::Json(nullptr);
  };
  return {{"run", asked.run},
          {"proposal", result.proposal ? base::Json(*result.proposal) : base::Json(nullptr)},
          {"configured", configured},
          {"first_loss", result.first_loss},
          {"steepest", rate_at(result.steepest)},
          {"lowest", rate_at(result.lowest)},
          {"diverged", rate_at(result.diverged)},
          {"points", std::move(points)}};
}

void tell(const doctor::RangeResult& result, double configured) {
  if (!result.proposal) {
    std::cout << "RESULT    no learning rate of this range lowers the loss of "
              << text("%.4f", result.first_loss)
              << " by 1 %: first check the data and the trained modules (hone doctor)\n";
    return;
  }
  const auto at = [&](std::size_t i) { return text("%.1e", result.points[i].learning_rate); };
  std::cout << "RESULT    learning_rate: " << text("%g", *result.proposal) << "   (the file has "
            << text("%g", configured) << ")\n"
            << "evidence  the loss falls fastest at " << at(*result.steepest) << ", is lowest at "
            << at(*result.lowest) << " (" << text("%+.4f", result.smoothed[*result.lowest]) << " of "
            << text("%.4f", result.first_loss) << "), "
            << (result.diverged ? "has lost half of that gain at " + at(*result.diverged)
                                : std::string("does not diverge within the range"))
            << '\n'
            << "          proposed for the peak of a schedule; a short test does not show overfitting\n";
}

}  // namespace

int lr_find(const std::vector<std::string>& arguments) {
  const config::LrFindPlan asked = config::parse_lr_find(arguments);
  print_notes(asked.notes);
  config::Plan plan = plan_of(asked.run);
  place(plan);
  std::vector<base::ReadPlace> read = train::run_inputs(plan);
  read.push_back({.option = "run", .path = asked.run});
  require_own_curve(asked.output, read);
  const std::atomic<bool>& stop_requested = watch_stop_signals(plan.stop_grace);
  train::RunListener silent;
  const auto run = train::open_run(plan, silent);
  if (!asked.json) {
    std::cout << "lr-find   " << asked.steps << " steps, learning rate " << text("%g", asked.lowest) << " to "
              << text("%g", asked.highest) << "; nothing of them is kept\n"
              << std::flush;
  }
  const bool live = !asked.json && isatty(STDOUT_FILENO) == 1;
  const doctor::RangeResult result = doctor::range_test(
      *run, {.steps = asked.steps, .lowest = asked.lowest, .highest = asked.highest},
      [live](const doctor::RangePoint& point) {
        if (!live) return;
        std::cout << "\r\x1b[K  " << text("%.2e", point.learning_rate) << "  loss "
                  << text("%.4f", point.loss) << std::flush;
      },
      stop_requested);
  if (live) std::cout << "\r\x1b[K";
  if (stop_requested.load()) return kInterrupted;

  report::RangePlot plot{
      .values = result.smoothed, .proposal = result.proposal.value_or(0), .title = kTitle + asked.run};
  for (const doctor::RangePoint& one : result.points) plot.rates.push_back(one.learning_rate);
  const base::Json json = as_json(result, asked, plan.learning_rate);
  base::write_file_atomic(asked.output + ".json", base::dump_json(json, 2) + "\n");
  base::write_file_atomic(asked.output + ".svg", report::plot_svg(plot));
  if (asked.json) {
    std::cout << base::printable_json(base::dump_json(json, 2)) << '\n';
  } else {
    std::cout << report::plot_text(plot);
    tell(result, plan.learning_rate);
    std::cout << "written   " << asked.output << ".json, " << asked.output << ".svg\n";
  }
  return result.proposal ? 0 : kNoProposal;
}

}  // namespace hone::commands
