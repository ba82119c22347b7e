// The strings and hashes of tests/parity/record_text.py, made again in C++.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/file.h"
#include "base/hash.h"
#include "base/json.h"

namespace hone::text {

class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}
  std::uint64_t below(std::uint64_t n) {
    state_ += 0x9E3779B97F4A7C15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return (z ^ (z >> 31)) % n;
  }

 private:
  std::uint64_t state_;
};

inline void append_utf8(std::string& out, std::uint64_t code) {
  const auto put = [&out](std::uint64_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xE0 | code >> 12);
    } else {
      put(0xF0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3F));
    }
    put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

// The curated strings of strings.json, then the generated ones: 1 to 40 pieces, a quarter of them fragments,
// the rest single characters.
inline std::vector<std::string> golden_strings() {
  const base::fs::path path = base::fs::path(HONE_FIXTURES) / "text" / "strings.json";
  const base::Json source = base::parse_json(base::read_text(path), path.string());
  auto out = source["curated"].get<std::vector<std::string>>();
  const auto fragments = source["fragments"].get<std::vector<std::string>>();
  const auto ranges = source["ranges"].get<std::vector<std::pair<std::uint64_t, std::uint64_t>>>();
  SplitMix64 random(source["seed"].get<std::uint64_t>());
  for (int i = 0; i < source["count"].get<int>(); ++i) {
    std::string& text = out.emplace_back();
    for (std::uint64_t pieces = 1 + random.below(40); pieces > 0; --pieces) {
      if (random.below(4) == 0) {
        text += fragments[random.below(fragments.size())];
      } else {
        const auto& [low, high] = ranges[random.below(ranges.size())];
        append_utf8(text, low + random.below(high - low + 1));
      }
    }
  }
  return out;
}

// FNV-1a of 64 bits, folded to 32, as eight hexadecimal digits.
inline std::string hash32(std::string_view text) {
  const std::uint64_t full = base::hash64(text);
  return fmt::format("{:08x}", static_cast<std::uint32_t>(full >> 32 ^ full));
}

// Numbers with blanks between them; pairs are two numbers.
template <typename T>
std::string numbers(const std::vector<T>& values) {
  return fmt::format("{}", fmt::join(values, " "));
}

template <typename T>
std::string numbers(const std::vector<std::pair<T, T>>& pairs) {
  std::vector<T> flat;
  for (const auto& [a, b] : pairs) flat.insert(flat.end(), {a, b});
  return numbers(flat);
}

}  // namespace hone::text
