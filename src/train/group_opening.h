// The order of events before the first step of a run whose advantages compare the completions of a prompt.
#pragma once

#include <memory>
#include <string>

#include "train/open_run.h"
#include "train/policy_step.h"

namespace hone::train {

// A method of the kind of GRPO.
struct GroupKind {
  GroupLoss loss;
  std::string (*loss_line)(const config::PolicyPlan&);  // of the start page
};

// `kind` must outlive the run.
std::unique_ptr<OpenedRun> open_group(const config::Plan& asked, RunListener& listener,
                                      const GroupKind& kind);

// ", beta 0.04, epsilon 0.2 to 0.28"
std::string clipped_words(const config::PolicyPlan& policy);

}  // namespace hone::train
