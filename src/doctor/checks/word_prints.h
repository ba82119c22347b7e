// Texts as words and hashes of word runs, to find rows that are nearly the same, or that hold a known text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hone::doctor {

// Letters and digits of a text in lower case, with one space between words. + - * / count as letters, and so does every
// byte above ASCII.
std::string words_of(const std::string& text);

// The hashes of each `length` words in a row of words_of's text, as they follow each other; empty: it has fewer words.
// A hash is the upper half of base::hash64 xor its lower half.
std::vector<std::uint32_t> word_runs(std::string_view words, std::size_t length);

// Finds for each text the first earlier one that it nearly repeats: the sets of their runs of 5 words have a Jaccard
// similarity of at least 0.8. Runs that more than a tenth of the texts have are the task's wording, and do not count;
// neither does a text with fewer than 8 other ones. Texts with the same words are twins too. Candidates are found by
// MinHash with 16 bands of 4 hashes, which misses one pair in 5,000 at 0.8, and are then compared exactly.
std::vector<std::optional<std::size_t>> near_twins(const std::vector<std::string>& words);

}  // namespace hone::doctor
