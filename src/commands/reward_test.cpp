// hone reward-test: rewards on good and bad answers, before a run is spent on them.
#include <ATen/Parallel.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "commands/commands.h"
#include "commands/hub/hub_download.h"
#include "commands/ranks/placement.h"
#include "config/commands/tool_plans.h"
#include "data/forms/prompts.h"
#include "ops/machine/cuda.h"
#include "report/reward_output.h"
#include "report/terminal/terminal.h"
#include "rewards/open_reward.h"
#include "rewards/reward_trial.h"
#include "train/facts/machine.h"
#include "train/opening/model_reward.h"

namespace hone::commands {

namespace {

rewards::TrialData trial_data(const config::RewardTestPlan& plan) {
  const auto rows = data::read_prompt_rows(plan.rows);
  const std::size_t count = std::min(rows.size(), static_cast<std::size_t>(plan.limit));
  rewards::TrialData out;
  out.long_words = plan.max_completion_length;
  for (std::size_t i = 0; i < count; ++i) {
    out.prompts.push_back(rows[i].prompt);
    for (const auto& [name, value] : rows[i].columns.items()) {
      if (!out.columns.contains(name)) out.columns[name] = base::Json::array();
      out.columns[name].push_back(value);
    }
  }
  return out;
}

std::string in_column(const std::string& text, std::size_t width) {
  return text + std::string(text.size() < width ? width - text.size() : 0, ' ');
}

std::string number(double value, const char* format) {
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), format, value);
  return out.data();
}

void print(const rewards::Trial& trial) {
  std::cout << trial.name << (trial.gold_column.empty() ? "" : ", which reads " + trial.gold_column) << '\n';
  for (const auto& row : trial.rows) {
    std::cout << "  " << in_column(row.kind, 20)
              << (std::isnan(row.mean) ? in_column("", 7) + "-" : number(row.mean, "%8.3f"));
    if (row.none > 0) std::cout << "   None for " << row.none << " of " << row.rows;
    std::cout << '\n';
  }
  if (!trial.rows.empty())
    std::cout << "  " << in_column("a call", 20) << number(trial.seconds, "%8.3f") << " s\n";
  if (trial.safe_by_group) {
    std::cout << "  by group            "
              << (*trial.safe_by_group
                      ? "the same scores: reward_by_group: true lets a run score while it samples"
                      : "other scores: leave reward_by_group false")
              << '\n';
  }
  if (!trial.printed.empty()) {
    std::cout << "  it prints\n"
              << report::printed_lines(trial.printed, report::terminal_of(STDOUT_FILENO).columns, "");
  }
  for (const auto& one : trial.failures) std::cout << "  failed: " << report::visible_controls(one) << '\n';
  for (const auto& one : trial.suspicious) std::cout << "  suspicious: " << one << '\n';
  if (trial.suspicious.empty()) std::cout << "  nothing suspicious\n";
}

}  // namespace

int reward_test(const std::vector<std::string>& arguments) {
  config::RewardTestPlan plan = with_downloads([&] { return config::parse_reward_test(arguments); });
  place_and_tell(plan.device, plan.notes);
  print_notes(plan.notes);
  at::set_num_threads(static_cast<int>(train::threads_or_default(0)));
  const rewards::OpenOptions options{.python = plan.python,
                                     .workers = static_cast<int>(plan.reward_workers),
                                     .timeout = plan.reward_timeout,
                                     .open_model = [&plan](const std::string& folder) {
                                       return train::open_model_reward(folder, config::Precision::kAutocast,
                                                                       {}, ops::open_device(plan.device));
                                     }};
  const rewards::TrialData data = trial_data(plan);
  const auto rewards = rewards::open_rewards(plan.reward_funcs, options);
  bool suspicious = false;
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    const auto trial =
        rewards::try_reward(*rewards[i], rewards::required_columns(plan.reward_funcs[i], *rewards[i]), data);
    if (i > 0) std::cout << '\n';
    print(trial);
    suspicious = suspicious || !trial.suspicious.empty();
  }
  return suspicious ? 1 : 0;
}

}  // namespace hone::commands
