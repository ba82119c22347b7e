// Whether two tokenizers have the same tokens: their distributions can be compared only then.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"

namespace hone::text {

// Returns a hash of every token's text, in order of id.
std::uint64_t vocabulary_hash(const Tokenizer& tokenizer);

// The same as 16 hexadecimal digits, which a server says of its model's vocabulary.
std::string vocabulary_name(const Tokenizer& tokenizer);

}  // namespace hone::text
