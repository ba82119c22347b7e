// What the openings of all methods do alike, before and after the part that is their own:
//
//   std::unique_ptr<OpenedRun> run = open_source(asked);
//   ... the method's data, into run->data: a wrong row is found in seconds, before any weight is read
//   const Attached attached = attach(*run, file, longest, {});
//   plan_run_memory(*run, inputs);
//   run->method = ...; end_start_page(*run);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/preferences.h"
#include "text/tokenizer.h"
#include "train/memory_plan.h"
#include "train/open_run.h"
#include "train/pair_method.h"
#include "train/reference.h"
#include "train/step_facts.h"

namespace hone::train {

// Threads, the model's folder or file, tokenizer and template.
std::unique_ptr<OpenedRun> open_source(const config::Plan& asked);

// The file that is trained on.
struct DataFile {
  base::fs::path path;
  std::int64_t rows = 0;
};

struct AttachOptions {
  bool packs = true;  // weights as packs where the explicit form may run
  bool wants_reference = true;
};
struct Attached {
  std::int64_t program_bytes = 0;  // in use just before the model was read
  Reference reference;
};
// Base and adapter with what lies below it, where the run stands, and the start page's first facts. The
// reference is TRL's: of a continued adapter that adapter as it began (PEFT's "ref"), also in a resumed run;
// a PiSSA adapter took its beginning out of the base, so that beginning is its reference; else the base
// alone. `longest` sequence before the cut at max_length, where it is known.
Attached attach(OpenedRun& run, const DataFile& file, std::optional<std::int64_t> longest,
                const AttachOptions& options);

// Into run.start: the plan of the run's memory, which says what its passes keep.
void plan_run_memory(OpenedRun& run, const MemoryInputs& inputs);

// Into run.start, when the method is there: the steps.
void end_start_page(OpenedRun& run);

// ---- methods on pairs

// A file of pairs, and what was counted while it was read.
template <typename Facts>
struct PairInput {
  PairData data;
  Facts facts;
  DataFile file;
};

// Moves the pairs into the run and gives a method its parts; run.start.memory is there.
PairParts pair_parts(OpenedRun& run, std::optional<PairData> eval, Reference reference);

// What passes over the run's pairs hold at most, prompts once where they may be shared; `eval` may be null,
// `longest_prompt` is of the training pairs.
MemoryInputs pair_memory(const OpenedRun& run, std::int64_t program_bytes, const PairData* eval,
                         std::int64_t longest_prompt);

// Whether passes may share prompts, before it is known which form runs.
bool may_share(const config::Plan& plan);

// The pair's chosen side as one text: its prompt, then what is to become more likely.
std::vector<ColoredPiece> example_of(const data::PreferencePair& pair, const text::Tokenizer& tokenizer);

// describe_reference, and when its log-probabilities are computed.
std::string reference_line(const config::Plan& plan);

std::string short_number(double value);  // "0.1", "5", "1e-07"

}  // namespace hone::train
