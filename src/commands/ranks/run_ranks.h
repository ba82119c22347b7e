// A run of several processes, as its launcher started them (parallel/place.h): finding each other, and ending together.
#pragma once

#include <functional>
#include <memory>

#include "config/plan.h"
#include "parallel/ranks.h"

namespace hone::commands {

// From the environment; OneRank where no launcher is seen. UserError as read_place and open_ranks.
std::unique_ptr<parallel::Ranks> open_run_ranks();

// A launcher that starts a run again (torchrun's restarts) repeats the command: it goes on from the newest checkpoint, or
// from the beginning where there is none.
void resume_if_restarted(config::Plan& plan, parallel::Ranks& ranks);

// Rank and place into the plan: ranks of one machine share its processors and memory. The plan's time-out to the ranks.
void take_place(config::Plan& plan, parallel::Ranks& ranks);

// Rank 0 looks at output_dir, repairs it and makes its checks, before any rank reads there.
void prepare_folder(config::Plan& plan, parallel::Ranks& ranks);

// Returns what `run` returns. An error of this rank is told to the others before it goes on. After a RankFault where starting
// again may help: prints it and returns kLostRank (launch_ranks.h), for whoever restarts jobs.
int with_last_words(parallel::Ranks& ranks, const std::function<int()>& run);

}  // namespace hone::commands
