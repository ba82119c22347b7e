// PREF-05 by the base model's own likelihood: which side of a pair it would write itself.
#pragma once

#include <vector>

#include "base/verdict.h"
#include "doctor/probes/loss_identities.h"

namespace hone::doctor {

// -log p in nats; of pairs one each, of KTO's rows as many as were drawn.
struct SideLosses {
  std::vector<double> wanted, unwanted;  // chosen and rejected, or desirable and undesirable
  bool paired = true;
  // Nearly all sides are a few tokens long: sums, of more pairs. Else means of tokens.
  bool brief = false;
};

// A few short pairs (or rows of KTO), drawn by a keyed shuffle, forward only. Empty for other data.
SideLosses measure_sides(const train::RunView& run, const ScoredPass& pass);

// A warning where the drawn pairs are one-sided against the data: short answers in most pairs, longer ones in
// each of them and by a large distance, since a model prefers its own words to another's text. A sample
// proves no more. `ok` else.
base::Verdict judge_sides(const SideLosses& losses);

}  // namespace hone::doctor
