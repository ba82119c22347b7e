// The families that generate, and prompts for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hone::standin {

// Folders of tests/fixtures/parity: one of each family, and of the forms of one that differ in their layers.
std::vector<std::string> generating_families();
// The first of them have an operator or a place for one that the others have not; the second are those others.
std::vector<std::string> families_of_a_day();
std::vector<std::string> families_of_slow_tests();

// A prompt longer than a tile of keys, one of a single token, one between; of those, what the family can take with the tokens
// that follow.
std::vector<std::vector<std::int32_t>> prompts_of(const std::string& family);
std::vector<std::int32_t> some_prompt(std::int32_t length, std::int32_t salt);

}  // namespace hone::standin
