// Deterministic mutations of small valid files: the readers either take the file or throw UserError, and
// every byte they hand out can be read. Meant for the sanitizer build; the mutations are the same everywhere.
#include <functional>
#include <vector>

#include "base/files/safetensors.h"
#include "base/gguf/gguf.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/make_files.h"
#include "base/rng.h"

namespace hone::base {
namespace fuzz_test {

constexpr std::uint64_t kMutations = 4000;

// One to four edits: a bit, a byte, a cut, a doubled piece, or a number that likes to overflow.
std::string mutated(std::string text, std::uint64_t round) {
  const Stream random(42, Purpose::kDemoData, round);
  std::uint64_t at = 0;
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random.bits(at++) % n; };
  const std::size_t edits = 1 + below(4);
  for (std::size_t e = 0; e < edits && !text.empty(); ++e) {
    const std::size_t place = below(text.size());
    switch (below(6)) {
      case 0:
        text[place] = static_cast<char>(text[place] ^ (1 << below(8)));
        break;
      case 1:
        text[place] = static_cast<char>(below(256));
        break;
      case 2:
        text.resize(place);
        break;
      case 3:
        text.insert(place, text.substr(place, below(40)));
        break;
      case 4:
        text.erase(place, below(16));
        break;
      default: {
        static const std::vector<std::string> kNasty{"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
                                                     "\xFF\xFF\xFF\x7F",
                                                     "18446744073709551615",
                                                     "9223372036854775807",
                                                     "-1",
                                                     std::string(8, '\0'),
                                                     "[[[[[[",
                                                     "\"\\u0000\""};
        const std::string& nasty = kNasty[below(kNasty.size())];
        text.replace(place, nasty.size(), nasty);
      }
    }
  }
  return text;
}

struct Count {
  int taken = 0;
  int refused = 0;
};

// Runs `read` on every mutation of `valid`; anything but UserError escapes and fails the test.
Count fuzz(const std::string& valid, const std::function<void(const std::string&)>& read) {
  Count count;
  read(valid);
  for (std::uint64_t round = 0; round < kMutations; ++round) {
    try {
      read(mutated(valid, round));
      ++count.taken;
    } catch (const UserError& error) {
      EXPECT_FALSE(std::string_view(error.what()).empty());
      ++count.refused;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "mutation " << round << ": " << error.what();
    }
  }
  return count;
}

TEST(Fuzz, Json) {
  const std::string valid =
      R"({"a": [1, -2.5e3, true, null, "té\u00e9\n"], "b": {"c": {"d": [[]]}}, "e": 1e300})";
  const Count count = fuzz(valid, [](const std::string& text) {
    dump_json(parse_json(text, "fuzz"));
    parse_json_unique(text, "fuzz");
  });
  EXPECT_GT(count.taken, 50);
  EXPECT_GT(count.refused, 1000);
}

TEST(Fuzz, Safetensors) {
  const TempFolder folder;
  std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
      R"("b":{"dtype":"BF16","shape":[0],"data_offsets":[16,16]},)"
      R"("c":{"dtype":"U8","shape":[5],"data_offsets":[16,21]}})";
  const Count count = fuzz(safetensors_bytes(header, std::string(21, 'd')), [&](const std::string& bytes) {
    put(folder / "m", bytes);
    const SafetensorsFile file = SafetensorsFile::open(folder / "m");
    std::uint64_t hash = kHashStart;
    for (const StoredTensor& tensor : file.tensors()) hash = hash64(tensor.bytes, hash);
    EXPECT_NE(hash, 0U);
  });
  EXPECT_GT(count.taken, 50);
  EXPECT_GT(count.refused, 1000);
}

TEST(Fuzz, Gguf) {
  const TempFolder folder;
  GgufParts parts;
  parts.metadata = {gguf_text("general.architecture", "llama"), gguf_number("general.alignment", 4, 32, 4),
                    gguf_list("words", 8, 2, gguf_string("a") + gguf_string("bc")),
                    gguf_list("numbers", 4, 2, std::string(8, '\1')), gguf_number("yes", 7, 1, 1)};
  parts.tensors = {gguf_tensor("f", {4, 2}, 0, 0), gguf_tensor("q4", {32}, 2, 32),
                   gguf_tensor("q8", {32}, 8, 64)};
  parts.data = std::string(64 + 34, 'd');
  const Count count = fuzz(gguf_bytes(parts), [&](const std::string& bytes) {
    put(folder / "m", bytes);
    const GgufFile file = GgufFile::open(folder / "m");
    for (const GgufTensor& tensor : file.tensors()) {
      std::vector<float> out(static_cast<std::size_t>(tensor.numel()));
      dequantize(tensor, out);
    }
  });
  EXPECT_GT(count.taken, 50);
  EXPECT_GT(count.refused, 1000);
}

}  // namespace fuzz_test
}  // namespace hone::base
