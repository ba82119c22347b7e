// Which rows of a run's prompts a probe looks at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "train/batches/rollout_source.h"

namespace hone::doctor {

// At most `most` places of prompts.rows, ascending: the beginning of a keyed shuffle (base/rng.h), in which
// rows come first that have a value of a column with few values (a task, a source, an empty cell) which no
// earlier row has. Rows whose kind follows a period in the file are therefore all met. `draw`: another sample
// of the same rows.
std::vector<std::size_t> draw_rows(const train::PolicyPrompts& prompts, std::size_t most,
                                   std::uint64_t draw = 0);
// Draws from these places of prompts.rows only.
std::vector<std::size_t> draw_rows_of(const train::PolicyPrompts& prompts,
                                      const std::vector<std::size_t>& places, std::size_t most,
                                      std::uint64_t draw = 0);

// 0 .. count - 1 in the order of that shuffle, without regard to columns.
std::vector<std::size_t> shuffled_places(std::size_t count, std::uint64_t draw = 0);

}  // namespace hone::doctor
