// Why the first loss is high (NUM-02): experiments that tell an untrained or damaged base from data in a form
// that the base does not know.
#pragma once

#include <cstdint>
#include <optional>

#include "base/verdict.h"
#include "doctor/probes/loss_identities.h"

namespace hone::doctor {

// A first loss above this share of ln V is investigated.
inline constexpr double kPretrained = 0.6;

// Holds what the experiments found; losses are mean -log p in nats.
struct FirstLossFacts {
  double loss = 0, uniform = 0;  // of the rows; ln V
  std::int64_t scored = 0;
  double own_loss = 0, own_entropy = 0;  // of text that the base generates itself; its mean entropy
  double own_kept = 1;                // share of that text's tokens that survive decoding and encoding again
  double english = 0;                 // of a few plain English sentences
  std::optional<double> in_template;  // of the same rows as turns of the chat template
  double ends = 0;                    // share of the targets that are an end token or nothing but white space
  bool samples = false;               // the rows are what the run itself samples
};

// Samples, and runs passes over a few short rows. Changes nothing.
FirstLossFacts measure_first_loss(const train::RunView& run, const ScoredPass& pass, double loss,
                                  std::int64_t scored);

// The verdict. In this order: an untrained base (a note), rows that belong into the chat template, targets that
// are only ends of sequence, a tokenizer of another model, text that this base hardly knows (a note), a base whose
// weights are wrong.
base::Verdict judge_high_loss(const FirstLossFacts& facts);

}  // namespace hone::doctor
