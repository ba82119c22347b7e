#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"

namespace hone::doctor {

namespace {

constexpr double kOverlapWarn = 0.01;  // of the rows to evaluate; below it an average hardly moves

}  // namespace

Verdicts check_evaluation(const train::OpenedRun& run) {
  const train::EvalOverlap& overlap = run.start.overlap;
  if (overlap.rows == 0) return {};
  base::Verdict out{.code = "DATA-11"};
  const std::string rows = format::counted(overlap.rows, run.samples() ? "prompt" : "row");
  out.what = "the evaluation is held out: none of its " + rows + " is in the training data";
  if (overlap.trained == 0) return {out};
  const bool few = static_cast<double>(overlap.trained) <= kOverlapWarn * static_cast<double>(overlap.rows);
  out.level = few ? base::Level::kNote : base::Level::kWarn;
  out.what = std::to_string(overlap.trained) + " of " + rows + " to evaluate are in the training data too";
  out.evidence = "the same tokens; the first is " + overlap.first;
  out.cause = overlap.trained == overlap.rows
                  ? "suspected: the evaluation file is a part of the training file"
                  : "suspected: duplicates, which a random split puts on both sides";
  out.fix = "remove these rows from one of the two files";
  out.cost = "the evaluation improves while the model only memorizes";
  return {out};
}

}  // namespace hone::doctor
