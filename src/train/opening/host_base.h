// The ranks of one host hold the frozen base once (model/layers/shared_base.h).
#pragma once

#include <memory>

#include "config/plan.h"
#include "model/layers/shared_base.h"
#include "parallel/ranks.h"

namespace hone::train {

struct OpenedRun;

// Before a run of several ranks is opened: the file in which those of this host will share the base, into the plan. Where one of
// them cannot open it (another user, another namespace), each has its own copy, with a note. Two collectives.
void find_shared_base(config::Plan& plan, parallel::Ranks& ranks);

// One run's part in it.
class HostBase {
 public:
  // Takes the file from run.plan. `keeps_base`: full fine-tuning will need the base as it was read.
  HostBase(OpenedRun& run, bool keeps_base);
  // For the model's constructor; null where there is nothing to share, or the adapter changes the base first.
  model::SharedBase* while_read() { return late_ ? nullptr : shared_.get(); }
  // After the adapter was attached: shares what could not be shared before, lets the file go, and tells run.shared_base and
  // the start page.
  void finish(OpenedRun& run);

 private:
  std::unique_ptr<model::SharedBase> shared_;
  bool late_ = false;
};

}  // namespace hone::train
