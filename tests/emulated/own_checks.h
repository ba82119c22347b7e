// Checks of kernels that are no rows of the operators' table. Each says what is wrong first, or nothing.
#pragma once

#include <cstdint>
#include <string>

namespace hone::emulated {

// `draws` tokens by the sampler's kernel, in batches of many kinds, are those of the CPU: ids, states, log-probabilities, entropies.
std::string wrong_tokens(std::int64_t draws);

// Attention to pages is that of the reference, in every grouping of the rows, and a row's bits are those that it has alone.
std::string wrong_pages();

// Heads of a step that are normed, rotated and put into pages have the bits of norm_rope and write_pages, in every order of threads.
std::string wrong_step_heads();

}  // namespace hone::emulated
