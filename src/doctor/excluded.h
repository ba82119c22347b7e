// What was tested before a verdict names its cause, and the two rules that hold for every verdict.
//
//   Excluded excluded;
//   if (rows_have_targets) excluded.add("the data", "412 targets in the rehearsal");
//   verdict.not_this = excluded.text();
//   verdict.fix = report_fix(excluded);         // "please report" only here
//
// tests/doctor/excluded_test.cpp: no other file of doctor/ asks for a report.
#pragma once

#include <string>
#include <vector>

#include "base/verdict.h"
#include "config/plan.h"

namespace hone::doctor {

// Alternatives that were tested and are not the cause, in the order in which they were tested.
class Excluded {
 public:
  // `what`: a cause that a user would suspect; `how`: the number or the fact that excludes it, may be empty.
  Excluded& add(std::string what, std::string how = {});
  bool empty() const { return found_.empty(); }
  // "the data (412 targets); the learning rate (a gradient does not depend on it)"; empty for none.
  std::string text() const;

 private:
  struct One {
    std::string what, how;
  };
  std::vector<One> found_;
};

// The fix of a fault of hone or of this machine: `first` (what may help meanwhile; may be empty), then the
// request to report it. InternalError when nothing was excluded.
std::string report_fix(const Excluded& excluded, const std::string& first = {});

// The same for a verdict: sets not_this and fix.
void ask_to_report(base::Verdict& verdict, const Excluded& excluded, const std::string& first = {});

// The options that the fix sets to the value that the plan already has: {"learning_rate"} for
// "learning_rate: 2e-4 is common" of a plan with 0.0002. Empty: none. Values are compared as the option's kind.
std::vector<std::string> already_set(const config::Plan& plan, const base::Verdict& verdict);

// Removes those parts of the fix, and of the repair; parts of a fix are separated by "; ". The examination and
// the watch call it on every verdict before it is told.
void drop_what_is_set(const config::Plan& plan, base::Verdict& verdict);

}  // namespace hone::doctor
