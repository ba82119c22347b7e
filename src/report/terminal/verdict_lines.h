// Verdicts as lines: what, evidence, cause, what it is not, fix, cost.
//
//   [1/7] config     ok    41 options; 84 steps, 3 of warm-up
//   [4/7] gradient   FAIL  GRAD-02  24 of 96 trainable tensors receive no gradient
//           evidence   layers 0 to 5, lora_B: |g| exactly 0 in 2 rehearsed steps
//           fix        ...
//   RESULT  FAIL 1 error. Nothing was trained; the checks took 2.1 s. exit 2
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/verdict.h"
#include "doctor/exam_part.h"
#include "report/terminal/terminal.h"

namespace hone::report {

// The lines of one examination, part by part. Texts end in a newline.
class VerdictLines {
 public:
  // `parts`: the names of all parts, in order. Without `verbose` an examination fits on a screen: a part
  // without faults is one line, and lines that do not fit are counted in result().
  VerdictLines(std::vector<std::string> parts, Terminal terminal, bool verbose);

  std::string part(const doctor::ExamPart& part);
  // Parts that were not run because a failure blocked them.
  std::vector<std::string> blocked() const;
  std::string not_run() const;
  // "RESULT  OK ..." with the exit code.
  std::string result(double seconds, bool strict) const;
  // 0; 1 for warnings with `strict`; 2 for a failure.
  int exit_code(bool strict) const;

 private:
  std::string prefix(const std::string& name, base::Level level) const;
  std::string verdict(const base::Verdict& one, const std::string& name);

  std::vector<std::string> parts_;
  Terminal terminal_;
  bool verbose_;
  int lines_left_;                 // of the screen
  std::vector<std::string> come_;  // names
  std::size_t errors_ = 0, warnings_ = 0, hidden_ = 0;
  std::string first_code_;  // of the failure that blocks
};

// A verdict of a training run: "doctor    FAIL  RL-03  ..." with its detail below; `step` > 0 is named.
std::string run_verdict_lines(const base::Verdict& verdict, std::int64_t step, const Terminal& terminal);

// {"code", "level", "part", "what", ...}: empty fields left out.
base::Json verdict_json(const base::Verdict& verdict);
// The whole examination: {"result", "exit", "seconds", "parts": [{"name", "seconds", "verdicts"}],
// "not_run"}.
base::Json examination_json(const std::vector<doctor::ExamPart>& parts,
                            const std::vector<std::string>& planned, double seconds, bool strict);

// "ok", "note", "warn", "FAIL"
std::string_view level_name(base::Level level);

}  // namespace hone::report
