// hone sft, grpo, rloo, dpo, online-dpo, kto, cpo, orpo, reward: open a run of the method, examine it, train.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <iostream>
#include <memory>
#include <utility>

#include "base/files/retry.h"
#include "commands/commands.h"
#include "commands/hub/hub_download.h"
#include "commands/hub/hub_push.h"
#include "commands/page_runs.h"
#include "commands/process/crash_signals.h"
#include "commands/process/program_paths.h"
#include "commands/process/run_signals.h"
#include "commands/ranks/caller_link.h"
#include "commands/ranks/placement.h"
#include "commands/ranks/run_ranks.h"
#include "config/commands/report_plans.h"
#include "config/commands/send_plans.h"
#include "config/derived/finish_report.h"
#include "config/parse.h"
#include "config/write_plan.h"
#include "doctor/examiner.h"
#include "doctor/watch/watch.h"
#include "report/loggers.h"
#include "report/page/run_page.h"
#include "report/run_report.h"
#include "report/terminal/terminal.h"
#include "train/opening/host_base.h"
#include "train/opening/open_run.h"
#include "train/saves/run_folder.h"

namespace hone::commands {

namespace {

// The doctor's watch found a fault (on_fault: pause): the run can be resumed, or has ended with it.
constexpr int kPaused = 3;

// The last lines of a paused run, or of one whose last step was at fault.
void say_pause(const doctor::Watch& watch, const config::Plan& plan, bool ended) {
  for (const base::Verdict& one : watch.failures()) {
    std::cout << (ended ? "failed    " : "paused    ") << one.code << "  "
              << report::visible_controls(one.what) << "\n";
    if (!one.fix.empty()) std::cout << "change    " << report::visible_controls(one.fix) << "\n";
  }
  if (ended) {
    std::cout << "ended     the adapter is written as it is\n"
              << "why       hone explain " << plan.output_dir << "\n";
    return;
  }
  const std::int64_t healthy = watch.healthy_checkpoint();
  const bool harmed = watch.harmed();
  if (harmed && healthy < 0) {
    std::cout << "continue  start again with changed options: no checkpoint is from before the fault\n";
  } else {
    std::cout << "continue  the same command with changed options and --resume_from_checkpoint "
              << (harmed ? train::checkpoint_path(plan.output_dir, healthy).string() : "true")
              << " (or unchanged, with on_fault: warn)\n";
  }
  std::cout << "why       hone explain " << plan.output_dir << "\n";
}

// Starts what follows a run when the guards before this one have examined it.
class FollowersStart final : public train::RunGuard {
 public:
  explicit FollowersStart(report::RunReport& report) : report_(report) {}
  void before_first_step(const train::RunView&) override { report_.start_followers(); }

 private:
  report::RunReport& report_;
};

report::RunPageOptions page_options(const config::Plan& plan) {
  const config::RunOptions options = config::run_options_of(config::write_plan(plan));
  return {.method = options.method, .plan = page_plan(options)};
}

// The run's page; loggers and the hub, where the plan asks for them: nothing is sent to anybody otherwise.
void add_followers(report::RunReport& report, const config::Plan& plan, const std::atomic<bool>& stop) {
  if (!plan.loggers.empty()) {
    report::LoggerOptions options{
        .names = plan.loggers,
        .only_installed = plan.installed_loggers,
        .python = plan.policy.python,
        .variables = config::logger_variables(plan),
        .settings = config::logger_settings(plan, config::plan_values(config::write_plan(plan)))};
    options.settings["tables"] = plan.policy.log_completions;
    options.settings["unique_prompts"] = plan.policy.log_unique_prompts;
    report.add_follower(std::make_unique<report::Loggers>(std::move(options), &stop));
  }
  if (plan.report_page) report.add_follower(std::make_unique<report::RunPage>(page_options(plan)));
  if (plan.push_to_hub) report.add_follower(std::make_unique<HubPush>(plan, &stop));
}

// For two minutes, or half of what other ranks wait for this one.
void wait_for_storage(const config::Plan& plan, const parallel::Ranks& ranks) {
  base::RetryRules rules;
  std::chrono::milliseconds left =
      ranks.several() ? std::chrono::milliseconds(plan.ddp_timeout * 500) : std::chrono::minutes(2);
  for (const int seconds : {1, 2, 4, 8, 15, 30, 60}) {
    const std::chrono::milliseconds wait = std::chrono::seconds(seconds);
    if (wait > left) break;
    left -= wait;
    rules.waits.push_back(wait);
  }
  rules.on_wait = [](const base::ErrorText& error, std::chrono::milliseconds wait) {
    std::cerr << report::visible_controls("storage   " + error.where + ": " + error.found + "; again in " +
                                          std::to_string(wait.count() / 1000) + " s")
              << std::endl;
  };
  base::set_retry_rules(std::move(rules));
}

// A rank other than 0: the same run without a word, and without the doctor, whose verdict on rank 0 is for all.
int follow(const config::Plan& plan, parallel::Ranks& ranks) {
  train::RunListener silent;
  const std::atomic<bool>& stop_requested = watch_stop_signals(plan.stop_grace);
  watch_crash_signals(plan.output_dir);
  const std::unique_ptr<train::OpenedRun> run = train::open_run(plan, silent);
  const train::LoopResult result = train::begin_run(*run, silent, stop_requested, nullptr, &ranks);
  ranks.finish();
  if (result.paused) return kPaused;
  return result.interrupted ? kInterrupted : 0;
}

int lead(const config::Plan& plan, parallel::Ranks& ranks) {
  report::RunReport report(std::cout, report::terminal_of(STDOUT_FILENO), plan.tensorboard,
                           {.table = plan.policy.log_completions,
                            .most = plan.policy.num_completions_to_print,
                            .unique_prompts = plan.policy.log_unique_prompts});
  const std::atomic<bool>& stop_requested = watch_stop_signals(plan.stop_grace);
  add_followers(report, plan, stop_requested);
  report.show_progress_in_steps();
  if (!plan.skip_doctor) report.leave_data_to_examination();
  watch_crash_signals(plan.output_dir);
  wait_for_storage(plan, ranks);
  CallerLink caller(report, caller_socket());
  doctor::Watch watch(caller, plan.on_fault);
  const std::unique_ptr<train::OpenedRun> run = train::open_run(plan, watch);
  doctor::Examiner examiner({.program = own_program(), .cache_dir = cache_folder(), .reuse = true}, watch);
  doctor::Guards guards;
  guards.add(watch.guard());
  if (!plan.skip_doctor) guards.add(examiner);
  FollowersStart followers(report);
  guards.add(followers);
  const train::LoopResult result = train::begin_run(*run, watch, stop_requested, &guards, &ranks);
  ranks.finish();
  if (result.paused) {
    say_pause(watch, plan, !result.interrupted);
    return kPaused;
  }
  return result.interrupted ? kInterrupted : 0;
}

}  // namespace

int train_method(config::Method method, const std::vector<std::string>& arguments) {
  const std::unique_ptr<parallel::Ranks> ranks = open_run_ranks();
  return with_last_words(*ranks, [&] {
    config::Plan plan = with_downloads([&] { return config::parse_run(method, arguments, ranks->size()); });
    plan.token_cache = token_cache_folder().string();
    take_place(plan, *ranks);
    place(plan);
    resume_if_restarted(plan, *ranks);
    prepare_folder(plan, *ranks);
    train::find_shared_base(plan, *ranks);
    return ranks->leads() ? lead(plan, *ranks) : follow(plan, *ranks);
  });
}

}  // namespace hone::commands
