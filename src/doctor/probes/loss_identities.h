// Probe P3 with the pass over the model as a parameter: tests pass a broken one.
#pragma once

#include <functional>

#include "data/records/record.h"
#include "doctor/examination.h"
#include "train/passes/scored_pass.h"

namespace hone::doctor {

// train::score_batch, or score_and_backward with a denominator above 0: gradients are added to the adapter's.
using ScoredPass = std::function<train::ScoredFacts(const data::Batch& batch, double denominator)>;

// Properties that hold for all data:
//   NUM-02   the first loss against ln V: a pretrained base is far below
//   NUM-04   a row has the same loss alone and packed after another row
//   NUM-05   two rows in one micro-batch and in two give the same gradient
//   GRAD-07  the loss moves when the adapter does
// and PREF-05 of pairs (likelier_side.h).
Verdicts examine_loss(const train::RunView& run, const ScoredPass& pass);

}  // namespace hone::doctor
