#include "text/vocabulary_hash.h"

#include <fmt/format.h>

#include <string_view>

#include "base/hash.h"

namespace hone::text {

std::uint64_t vocabulary_hash(const Tokenizer& tokenizer) {
  std::uint64_t out = base::kHashStart;
  for (std::int64_t id = 0; id < tokenizer.vocab_size(); ++id) {
    out = base::hash64(tokenizer.id_to_token(static_cast<std::int32_t>(id)).value_or(""), out);
    out = base::hash64(std::string_view("\0", 1), out);  // "ab", "c" is not "a", "bc"
  }
  return out;
}

std::string vocabulary_name(const Tokenizer& tokenizer) {
  return fmt::format("{:016x}", vocabulary_hash(tokenizer));
}

}  // namespace hone::text
