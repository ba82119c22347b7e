#include "commands/ranks/run_ranks.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <thread>

#include "base/error.h"
#include "commands/process/environment.h"
#include "commands/ranks/launch_ranks.h"
#include "parallel/gloo/c10d_ranks.h"
#include "parallel/place.h"
#include "parallel/turns.h"
#include "report/terminal/terminal.h"
#include "train/opening/run_setup.h"
#include "train/saves/run_folder.h"

namespace hone::commands {

namespace {

// What this process may use: its share, unless its launcher has pinned it to fewer processors already.
std::int64_t threads_of(const parallel::Ranks& ranks) {
  const auto all = static_cast<std::int64_t>(sysconf(_SC_NPROCESSORS_ONLN));
  const auto mine = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  if (mine < all) return std::max<std::int64_t>(1, mine);
  return std::max<std::int64_t>(1, all / ranks.local_size());
}

}  // namespace

std::unique_ptr<parallel::Ranks> open_run_ranks() {
  const parallel::RankPlace place = parallel::read_place(own_environment());
  if (!place.several()) return std::make_unique<parallel::OneRank>();
  parallel::RankOptions options;
  options.on_wait = [](const std::string& words) {
    std::cerr << report::visible_controls("waiting   " + words + "\n") << std::flush;
  };
  return parallel::open_ranks(place, options);
}

void resume_if_restarted(config::Plan& plan, parallel::Ranks& ranks) {
  if (parallel::read_place(own_environment()).restart == 0 || !plan.resume_from_checkpoint.empty()) return;
  const bool saved = !train::checkpoint_steps(plan.output_dir).empty();
  // Rank 0's answer: a folder of another host may not be the same one.
  if (ranks.broadcast(saved ? "saved" : "", "restart") == "saved") {
    plan.resume_from_checkpoint = "true";
  } else {
    plan.overwrite_output_dir = true;
  }
}

void take_place(config::Plan& plan, parallel::Ranks& ranks) {
  ranks.set_timeout(std::chrono::seconds(plan.ddp_timeout));
  plan.rank = ranks.rank();
  plan.local_ranks = ranks.local_size();
  if (!ranks.several()) return;
  if (plan.threads == 0) plan.threads = threads_of(ranks);
  plan.memory_limit /= plan.local_ranks;
  plan.notes.push_back(std::to_string(ranks.size()) +
                       " ranks share each step: " + std::to_string(plan.per_device_train_batch_size) + " x " +
                       std::to_string(plan.gradient_accumulation_steps) + " rows a rank, " +
                       std::to_string(plan.per_device_train_batch_size * plan.accumulation()) + " together");
}

void prepare_folder(config::Plan& plan, parallel::Ranks& ranks) {
  if (!ranks.several()) return;
  const auto prepare = [&] {
    if (ranks.leads()) train::prepare_run_folder(plan);
  };
  parallel::all_or_none(ranks, prepare, "the run's folder");
}

int with_last_words(parallel::Ranks& ranks, const std::function<int()>& run) {
  try {
    return run();
  } catch (const parallel::RankFault& fault) {
    if (!fault.restart_may_help()) throw;
    std::cerr << report::visible_controls(fault.what()) << "\n";
    return kLostRank;
  } catch (const std::exception& error) {
    ranks.last_words(error.what());
    throw;
  }
}

}  // namespace hone::commands
