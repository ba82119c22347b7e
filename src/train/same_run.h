// What ranks must have the same of: before the first step plan, data, model, build and kernels, and after steps the numbers of
// each. A RankFault names what differs, with the values of the ranks.
#pragma once

#include <cstdint>

#include "adapters/lora.h"
#include "parallel/ranks.h"

namespace hone::train {

struct OpenedRun;

void require_same_run(parallel::Ranks& ranks, const OpenedRun& run);

// Of ranks that have agreed that something differs (DIST-03). `hash` 0: not taken in this step.
void require_same_step(parallel::Ranks& ranks, double loss, double grad_norm, std::uint32_t hash);

std::uint32_t parameter_hash(const adapters::Adapter& adapter);  // CRC-32C of every trained parameter

}  // namespace hone::train
