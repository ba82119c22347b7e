// NUM-11: the evaluation gets worse while the training loss falls. Methods whose loss measures progress.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "doctor/watch/finding.h"

namespace hone::doctor {

class OverfitWatch {
 public:
  // A record of the log: "loss" of a step, or "eval_loss" (with several sets "eval_NAME_loss") of an evaluation.
  Findings see(std::int64_t step, const std::vector<std::pair<std::string, double>>& values);
  // The records of a resumed run (RunState::log_history); nothing is told of them.
  void recall(const base::Json& log_history);

 private:
  struct Set {
    double lowest = 0, last = 0,
           training = 0;  // training: mean training loss up to the lowest, since the one before
    std::int64_t lowest_step = -1;
    int rising = 0;  // evaluations in a row above the one before
  };
  void see_evaluation(const std::string& name, double loss, std::int64_t step, Findings& out);

  std::map<std::string, Set> sets_;
  double sum_ = 0;  // training losses since the last evaluation
  std::int64_t count_ = 0;
};

}  // namespace hone::doctor
