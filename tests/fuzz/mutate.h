// Deterministic mutations for the fuzz tests: of bytes, and of JSON with its structure kept.
//
//   TEST(ConfigFuzz, Config) {
//     fuzz::run(fuzz::seconds(2), corpus, fuzz::mutated_json, [](const std::string& text) { read(text); });
//   }
//
// Round n mutates corpus[n % size] by random numbers of n alone, so a failing round repeats by itself:
// HONE_FUZZ_ROUND=n runs that one and prints its input. HONE_FUZZ_SECONDS sets the time of every fuzz test.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace hone::fuzz {

// SplitMix64: small, and a pure function of the seed.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U + 1) {}
  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }
  std::size_t below(std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(bits() % n); }
  template <typename List>
  const auto& one_of(const List& list) {
    return list[below(list.size())];
  }

 private:
  std::uint64_t state_;
};

// ---- bytes

inline const std::vector<std::string>& nasty_bytes() {
  static const std::vector<std::string> all = {std::string(8, '\xFF'),
                                               "\xFF\xFF\xFF\x7F",
                                               "18446744073709551615",
                                               "9223372036854775807",
                                               "-9223372036854775808",
                                               "2147483648",
                                               "-1",
                                               "0",
                                               "1e999",
                                               "1e308",
                                               "NaN",
                                               "null",
                                               std::string(8, '\0'),
                                               std::string(1, '\0'),
                                               "[[[[[[",
                                               "{\"a\":{\"a\":",
                                               "\"\\u0000\"",
                                               "\\ud800",
                                               "\xEF\xBB\xBF",
                                               "\xC0\x80",
                                               "\xED\xA0\x80",
                                               "&a *a",
                                               "<<: *a",
                                               "../../",
                                               std::string(300, '['),
                                               std::string(300, '('),
                                               "\n",
                                               "\x1B[2J",
                                               std::string(4000, 'a'),
                                               "\"",
                                               "'",
                                               ","};
  return all;
}

// One to four edits: a bit, a byte, a cut, a doubled or moved piece, or bytes that like to break readers.
inline std::string mutated_bytes(std::string text, Random& random) {
  const std::size_t edits = 1 + random.below(4);
  for (std::size_t e = 0; e < edits && !text.empty(); ++e) {
    const std::size_t place = random.below(text.size());
    switch (random.below(7)) {
      case 0:
        text[place] = static_cast<char>(text[place] ^ (1 << random.below(8)));
        break;
      case 1:
        text[place] = static_cast<char>(random.below(256));
        break;
      case 2:
        if (random.below(4) == 0) text.resize(place);
        break;
      case 3:
        text.insert(place, text.substr(random.below(text.size()), random.below(60)));
        break;
      case 4:
        text.erase(place, random.below(16));
        break;
      case 5:
        text.insert(place, random.one_of(nasty_bytes()));
        break;
      default: {
        const std::string& nasty = random.one_of(nasty_bytes());
        text.replace(place, std::min(nasty.size(), text.size() - place), nasty);
      }
    }
  }
  return text;
}

// ---- JSON

inline const std::vector<base::Json>& nasty_values() {
  using base::Json;
  static const std::vector<Json> all = {nullptr,
                                        true,
                                        false,
                                        0,
                                        1,
                                        -1,
                                        2,
                                        255,
                                        256,
                                        65536,
                                        2147483647,
                                        2147483648,
                                        4294967296,
                                        1000000000,
                                        4611686018427387904,
                                        9223372036854775807,
                                        -9223372036854775807 - 1,
                                        18446744073709551615U,
                                        0.5,
                                        -0.0,
                                        1e-320,
                                        1e38,
                                        1e308,
                                        "",
                                        "0",
                                        "-1",
                                        "none",
                                        "../../etc/passwd",
                                        "/dev/zero",
                                        std::string("a\0b", 3),
                                        "\x1B[2J",
                                        "é漢\U0001F600",
                                        std::string(5000, 'x'),
                                        std::string(5000, '('),
                                        Json::array(),
                                        Json::object(),
                                        Json::array({1, 2, 3}),
                                        Json::array({nullptr, "a", Json::object()}),
                                        Json::object({{"a", 1}, {"", nullptr}}),
                                        Json::array({Json::array({Json::array({Json::array()})})})};
  return all;
}

// A value somewhere in `root`; each level is left with the same chance, so that outer ones are met often.
inline base::Json* place_in(base::Json& root, Random& random) {
  base::Json* at = &root;
  while (at->is_structured() && !at->empty() && random.below(5) != 0) {
    auto child = at->begin();
    std::advance(child, static_cast<std::ptrdiff_t>(random.below(at->size())));
    at = &*child;
  }
  return at;
}

inline void change_number(base::Json& value, Random& random) {
  if (!value.is_number_integer()) {
    value = value.get<double>() * (random.below(2) == 0 ? -1e30 : 1e-30);
    return;
  }
  const auto old = value.get<std::uint64_t>();
  switch (random.below(5)) {
    case 0:
      value = static_cast<std::int64_t>(old + 1);
      break;
    case 1:
      value = static_cast<std::int64_t>(old - 1);
      break;
    case 2:
      value = static_cast<std::int64_t>(0 - old);
      break;
    case 3:
      value = static_cast<std::int64_t>(old << random.below(63));
      break;
    default:
      value = static_cast<double>(static_cast<std::int64_t>(old)) + 0.5;
  }
}

inline void change_members(base::Json& value, Random& random) {
  const std::size_t which = random.below(value.size());
  auto child = value.begin();
  std::advance(child, static_cast<std::ptrdiff_t>(which));
  switch (random.below(3)) {
    case 0:
      if (value.is_object()) {
        value.erase(std::string(child.key()));
      } else {
        value.erase(which);
      }
      break;
    case 1:
      if (value.is_object()) {  // the member under another name
        base::Json copy = *child;
        value[random.below(2) == 0 ? child.key() + "_" : "x"] = std::move(copy);
      } else {
        base::Json copy = *child;
        for (std::size_t n = random.below(19); n > 0; --n) value.push_back(copy);
        value.push_back(std::move(copy));
      }
      break;
    default: {
      base::Json copy = *child;
      base::Json& other = *place_in(value, random);
      other = std::move(copy);
    }
  }
}

// One to three changes of values, names and shapes.
inline base::Json mutated_json(base::Json root, Random& random) {
  const std::size_t edits = 1 + random.below(3);
  for (std::size_t e = 0; e < edits; ++e) {
    base::Json& value = *place_in(root, random);
    const std::size_t how = random.below(6);
    if (how == 0 && value.is_number()) {
      change_number(value, random);
    } else if (how <= 1 && value.is_structured() && !value.empty()) {
      change_members(value, random);
    } else if (how == 2 && value.is_string()) {
      value = mutated_bytes(value.get<std::string>(), random);
    } else if (how == 3) {
      base::Json inner = value;
      value = base::Json::array({std::move(inner)});
    } else {
      value = random.one_of(nasty_values());
    }
  }
  return root;
}

// JSON text as text: of four rounds three change the structure, one the bytes.
inline std::string mutated_json_text(const std::string& text, Random& random) {
  if (random.below(4) == 0) return mutated_bytes(text, random);
  const base::Json root = base::Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) return mutated_bytes(text, random);
  return base::dump_json(mutated_json(root, random));
}

// ---- the loop

// Returns what HONE_FUZZ_SECONDS says, else `otherwise` (2 in the fast suite, 60 in a test with "Slow" in its
// name).
inline double seconds(double otherwise) {
  const char* set = std::getenv("HONE_FUZZ_SECONDS");
  return set != nullptr ? std::strtod(set, nullptr) : otherwise;
}

inline std::int64_t peak_bytes() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return std::int64_t{used.ru_maxrss} * 1024;
}

struct Count {
  std::uint64_t rounds = 0, taken = 0, refused = 0;
};

using Mutate = std::function<std::string(const std::string&, Random&)>;
using Take = std::function<void(const std::string&)>;

inline constexpr double kMaxSeconds = 20;
inline constexpr std::int64_t kMaxBytes = std::int64_t{2} << 30;

// If a signal ends the process, the last lines of stderr name the round.
inline void say_round(std::uint64_t round) {
  static const bool wanted = std::getenv("HONE_FUZZ_VERBOSE") != nullptr;
  if (wanted) std::fprintf(stderr, "fuzz: round %llu\n", static_cast<unsigned long long>(round));
}

// take(input): for every entry of the corpus, then for its mutations until the time is over. It may return or
// throw UserError; any other exception, 20 s of work or 2 GB for one input is a failure.
inline Count run(double most_seconds, const std::vector<std::string>& corpus, const Mutate& mutate,
                 const Take& take) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  Count count;
  const auto one = [&](const std::string& input, const std::string& name) {
    const std::clock_t begin = std::clock();  // of this process alone, however busy the machine is
    const std::int64_t before = peak_bytes();
    ++count.rounds;
    try {
      take(input);
      ++count.taken;
    } catch (const base::UserError& error) {
      EXPECT_FALSE(std::string_view(error.what()).empty()) << name;
      EXPECT_LT(std::string_view(error.what()).size(), 100'000U) << name << ": an endless message";
      ++count.refused;
    } catch (const std::exception& error) {
      ADD_FAILURE() << name << ": " << error.what();
    }
    EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, kMaxSeconds) << name;
    EXPECT_LT(peak_bytes() - before, kMaxBytes) << name;
  };
  const auto input_of = [&](std::uint64_t round) {
    Random random(round);
    return mutate(corpus[static_cast<std::size_t>(round % corpus.size())], random);
  };
  if (const char* only = std::getenv("HONE_FUZZ_ROUND")) {
    const std::uint64_t round = std::strtoull(only, nullptr, 10);
    const std::string input = input_of(round);
    std::fprintf(stderr, "fuzz: round %s:\n%.*s\n", only,
                 static_cast<int>(std::min<std::size_t>(input.size(), 8000)), input.c_str());
    one(input, std::string("round ") + only);
    return count;
  }
  for (std::size_t i = 0; i < corpus.size(); ++i) one(corpus[i], "corpus entry " + std::to_string(i));
  const auto begin = Clock::now();
  for (std::uint64_t round = 0; since(begin) < most_seconds && !::testing::Test::HasFailure(); ++round) {
    say_round(round);
    one(input_of(round), "round " + std::to_string(round));
  }
  const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf("[fuzz] %llu inputs: %llu taken, %llu refused\n", number(count.rounds), number(count.taken),
              number(count.refused));
  return count;
}

}  // namespace hone::fuzz
