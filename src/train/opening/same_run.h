// What ranks must have the same of: before the first step plan, data, model, build and kernels, and after steps the numbers of
// each. A RankFault names what differs, with the values of the ranks.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "adapters/lora.h"
#include "base/json.h"
#include "config/plan.h"
#include "parallel/ranks.h"

namespace hone::train {

struct OpenedRun;

// Holds what decides bits of a run on this machine and is no option, in the words of messages: hone,
// libtorch, compiler, kernels, the processor's maker, by which MKL chooses, and the ranks. Threads only where
// libtorch's own sums are part of the run.
using MachineFacts = std::vector<std::pair<std::string, std::string>>;
MachineFacts machine_facts(const config::Plan& plan);

// For a run that goes on from a checkpoint whose hone_state.json says `saved` (an object of machine_facts();
// empty: an older hone did not say): one sentence with all that differs here, and what makes it equal. Empty:
// nothing does.
std::string changed_machine(const base::Json& saved, const MachineFacts& here);

void require_same_run(parallel::Ranks& ranks, const OpenedRun& run);

// Throws RankFault (kDiffers) when loss, gradient norm or hash differ between ranks (DIST-03). `hash` 0: not
// taken in this step.
void require_same_step(parallel::Ranks& ranks, double loss, double grad_norm, std::uint32_t hash);

std::uint32_t parameter_hash(const adapters::Adapter& adapter);  // CRC-32C of every trained parameter

}  // namespace hone::train
