// The reference model of a run, as its options ask for one: the model itself, another one, or one that moves.
#pragma once

#include "config/plan.h"
#include "train/facts/memory_plan.h"
#include "train/passes/reference.h"

namespace hone::train {

struct OpenedRun;  // train/opening/open_run.h

// The reference is the run's own model, without its adapter or as it began: no second set of weights is read. ref_model may
// name the same folder.
bool reference_is_model(const config::Plan& plan);

// The reference is another model beside the run's own.
bool has_second_model(const config::Plan& plan);

// Where the reference is not the run's own model: opens ref_model like the model, without an adapter; or makes the parameters
// that move, which a resumed run has from its checkpoint. The adapter is attached. UserError when ref_model has another
// vocabulary, or, where it moves, tensors of other shapes.
Reference open_reference(OpenedRun& run, bool packs);

// Into the numbers of the memory plan: the bytes of such a reference, and what a pass of it needs.
void count_reference(MemoryInputs& inputs, const OpenedRun& run);

}  // namespace hone::train
