// `hone plan` measures these here: messages between ranks of this host, and passes of the run.
#pragma once

#include "train/facts/rank_plan.h"
#include "train/opening/run_view.h"

namespace hone::doctor {

struct LinkSpeed {
  double latency = 0, message = 0;  // seconds: of an exchange, and of each message in it
  double bandwidth = 0;             // bytes a second that a rank sends
};

// Two and four ranks over Gloo, as threads of this process: about a second. The time of an exchange with n peers is
// latency + n x message.
LinkSpeed probe_links();

// Seconds of a token and of an optimizer's step: passes of about `seconds` by one thread and by all. Changes nothing but
// gradients.
void probe_passes(const train::RunView& run, double seconds, train::RankSpeed& speed);

}  // namespace hone::doctor
