// What the openings of all methods do alike, before and after the part that is their own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/preferences.h"
#include "text/tokenizer.h"
#include "train/open_run.h"
#include "train/step_facts.h"

namespace hone::train {

// run.model, from run.source: packed, but for the plain form of the layers.
model::CausalLm& read_base(OpenedRun& run);

// Into run.start, when adapter and standing are there: what is resumed, what is trained, and the notes of the
// plan, the base and the checkpoint; of sequences of `longest` tokens, cut at max_length, when that is known.
void begin_start_page(OpenedRun& run, std::optional<std::int64_t> longest);

// Into run.start, when the method is there: the steps.
void end_start_page(OpenedRun& run);

// The pair's chosen side as one text: its prompt, then what is to become likelier.
std::vector<ColouredPiece> example_of(const data::PreferencePair& pair, const text::Tokenizer& tokenizer);

std::string short_number(double value);  // "0.1", "5", "1e-07"

}  // namespace hone::train
