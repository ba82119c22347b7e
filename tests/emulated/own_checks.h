// Checks of kernels that are no rows of the operators' table. Each says what is wrong first, or nothing.
#pragma once

#include <cstdint>
#include <string>

namespace hone::emulated {

// `draws` tokens by the sampler's kernel, in batches of many kinds, are those of the CPU: ids, states, log-probabilities, entropies.
std::string wrong_tokens(std::int64_t draws);

// Attention to pages is that of the reference, in every grouping of the rows, and a row's bits are those that it has alone.
std::string wrong_pages();

}  // namespace hone::emulated
