// The common steps of opening a run, before and after the method's own part:
//
//   std::unique_ptr<OpenedRun> run = open_source(asked);
//   ... the data, into run->data: a wrong row is found in seconds, before any weight is read
//   const Attached attached = attach(*run, file, longest, {});
//   plan_run_memory(*run, inputs);
//   run->method = ...; end_start_page(*run);
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/facts/memory_plan.h"
#include "train/facts/step_facts.h"
#include "train/opening/memory_inputs.h"
#include "train/opening/open_run.h"
#include "train/opening/record_input.h"
#include "train/passes/reference.h"

namespace hone::train {

// Threads, the model's folder or file, tokenizer and template.
std::unique_ptr<OpenedRun> open_source(const config::Plan& asked);

struct AttachOptions {
  bool packs = true;  // packed weights where the fused form may run
  bool wants_reference = true;
};
struct Attached {
  std::int64_t program_bytes = 0;  // in use just before the model was read
  Reference reference;
};
// Base, adapter and the adapters below it, the resume state, and the start page's first facts. The reference
// is TRL's: ref_model, or one that moves (train/references/open_reference.h); for a continued adapter its initial
// values (PEFT's "ref"), also in a resumed run; for a PiSSA
// adapter, whose initial values were subtracted from the base, those values; else only the base. `longest`
// sequence before the cut at max_length, where it is known.
Attached attach(OpenedRun& run, const DataFile& file, std::optional<std::int64_t> longest,
                const AttachOptions& options);

// Into run.start: the plan of the run's memory, which says what its passes keep.
void plan_run_memory(OpenedRun& run, MemoryInputs inputs);

// Into run.start, when the method is there: the steps.
void end_start_page(OpenedRun& run);

// Whether passes may share prompts, before it is known which form runs.
bool may_share(const config::Plan& plan);

// describe_reference, and when its log-probabilities are computed.
std::string reference_line(const config::Plan& plan);

std::string short_number(double value);  // "0.1", "5", "1e-07"

}  // namespace hone::train
