#include "base/gguf/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>

#include "base/gguf/ggml_types.h"
#include "base/half.h"
#include "base/json.h"
#include "base/make_files.h"
#include "base/rng.h"

namespace hone::base {
namespace quantize_test {

std::vector<float> normal_values(std::size_t count, std::uint64_t seed, float size = 1) {
  const Stream stream(seed, Purpose::kLoraInit, 0, 7);
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = size * stream.normal(i);
  return out;
}

std::vector<std::byte> blocks_of(GgmlType type, const std::vector<float>& values) {
  std::vector<std::byte> out(static_cast<std::size_t>(ggml_bytes(type, values.size())));
  quantize(type, values, out);
  return out;
}

std::vector<float> floats_of(GgmlType type, std::span<const std::byte> bytes, std::size_t count) {
  std::vector<float> out(count);
  dequantize({"w", type, {static_cast<std::int64_t>(count)}, bytes}, out);
  return out;
}

std::vector<float> there_and_back(GgmlType type, const std::vector<float>& values) {
  return floats_of(type, blocks_of(type, values), values.size());
}

double rms_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - double{b[i]}, 2);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

std::vector<std::byte> from_hex(const std::string& hex) {
  std::vector<std::byte> out(hex.size() / 2);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<std::byte>(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
  return out;
}

std::vector<float> floats_from_hex(const std::string& hex) {
  const std::vector<std::byte> bytes = from_hex(hex);
  std::vector<float> out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

GgmlType type_named(const std::string& name) {
  for (std::uint32_t number = 0; number < 64; ++number) {
    if (find_ggml_type(number) != nullptr && ggml_type_name(number) == name)
      return static_cast<GgmlType>(number);
  }
  throw std::runtime_error("no type " + name);
}

Json golden() {
  return parse_json(read_text(fs::path(HONE_FIXTURES) / "gguf" / "blocks.json"), "blocks.json");
}

// tests/parity/record_gguf.py: blocks of random bits and what gguf-py makes of them.
TEST(Quantize, BlocksReadAsGgufPyReadsThemBitForBit) {
  const Json cases = golden()["dequantise"];
  ASSERT_EQ(cases.size(), 4U);
  for (const Json& one : cases) {
    const GgmlType type = type_named(one["type"]);
    const std::vector<float> expected = floats_from_hex(one["floats"]);
    const std::vector<std::byte> bytes = from_hex(one["blocks"]);
    ASSERT_EQ(bytes.size(), ggml_bytes(type, expected.size()));
    const std::vector<float> found = floats_of(type, bytes, expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(found[i]), std::bit_cast<std::uint32_t>(expected[i]))
          << one["type"] << i;
  }
}

// The same of values: F16, BF16, Q8_0 and Q5_0 are those for which gguf-py has ggml's own quantizer.
TEST(Quantize, BlocksAreGgufPysBitForBit) {
  const Json cases = golden()["quantise"];
  ASSERT_EQ(cases.size(), 4U);
  for (const Json& one : cases) {
    const std::vector<float> values = floats_from_hex(one["floats"]);
    EXPECT_EQ(blocks_of(type_named(one["type"]), values), from_hex(one["blocks"])) << one["type"];
  }
}

// ggml's own quantizers, on values that take every way through them.
TEST(Quantize, KBlocksAreGgmlsBitForBit) {
  const Json known =
      parse_json(read_text(fs::path(HONE_FIXTURES) / "gguf" / "k_blocks.json"), "k_blocks.json");
  const std::vector<float> values = floats_from_hex(known["floats"]);
  for (const char* type : {"Q4_K", "Q5_K", "Q6_K"}) {
    EXPECT_EQ(blocks_of(type_named(type), values), from_hex(known[type])) << type;
  }
}

struct Bound {
  GgmlType type;
  double least, most;  // of the RMS error of normal values, in their standard deviations
};

// A step of q bits over the range of a sub-block, divided by sqrt 12: what such a format can do.
TEST(Quantize, ErrorsAreThoseOfTheBits) {
  const std::vector<float> values = normal_values(64 * 256, 3);
  for (const Bound& bound : {Bound{GgmlType::kQ8_0, 0.003, 0.008}, Bound{GgmlType::kQ6_K, 0.01, 0.022},
                             Bound{GgmlType::kQ5_K, 0.025, 0.045}, Bound{GgmlType::kQ5_0, 0.03, 0.06},
                             Bound{GgmlType::kQ4_K, 0.05, 0.085}}) {
    const double error = rms_difference(there_and_back(bound.type, values), values);
    EXPECT_GT(error, bound.least) << static_cast<int>(bound.type);
    EXPECT_LT(error, bound.most) << static_cast<int>(bound.type);
  }
}

// No element is further off than one step of its sub-block, and 6-bit scales cost at most 1 part in 126 of
// it.
TEST(Quantize, NoElementOfQ4kIsFarOff) {
  const std::vector<float> values = normal_values(256, 5);
  const std::vector<float> back = there_and_back(GgmlType::kQ4_K, values);
  for (std::size_t s = 0; s < 8; ++s) {
    const auto [low, high] = std::minmax_element(values.begin() + static_cast<std::ptrdiff_t>(32 * s),
                                                 values.begin() + static_cast<std::ptrdiff_t>(32 * s + 32));
    const float step = (std::max(*high, 0.0F) - std::min(*low, 0.0F)) / 15;
    for (std::size_t i = 32 * s; i < 32 * s + 32; ++i)
      EXPECT_LT(std::fabs(back[i] - values[i]), 1.5F * step) << i;
  }
}

TEST(Quantize, WhatEveryFormatKeepsExactly) {
  for (const GgmlType type :
       {GgmlType::kQ8_0, GgmlType::kQ5_0, GgmlType::kQ4_K, GgmlType::kQ5_K, GgmlType::kQ6_K}) {
    const std::vector<float> zeros(512, 0.0F);
    EXPECT_EQ(there_and_back(type, zeros), zeros) << static_cast<int>(type);
    // A row that is zero but for one block.
    std::vector<float> values(512, 0.0F);
    for (std::size_t i = 256; i < 512; ++i) values[i] = static_cast<float>(i % 16);
    const std::vector<float> back = there_and_back(type, values);
    for (std::size_t i = 0; i < 256; ++i) EXPECT_EQ(back[i], 0.0F);
    EXPECT_LT(rms_difference(back, values), 0.5) << static_cast<int>(type);
  }
  // Values that lie on the grid of a format come back as they are.
  std::vector<float> grid(256);
  for (std::size_t i = 0; i < grid.size(); ++i) grid[i] = static_cast<float>(i % 16) * 0.5F;
  grid[0] = 7.5F;
  EXPECT_LT(rms_difference(there_and_back(GgmlType::kQ4_K, grid), grid), 0.004);
}

TEST(Quantize, LargeAndSmallValuesKeepTheirScale) {
  for (const GgmlType type :
       {GgmlType::kQ8_0, GgmlType::kQ5_0, GgmlType::kQ4_K, GgmlType::kQ5_K, GgmlType::kQ6_K}) {
    for (const float size : {1e-4F, 1.0F, 1e4F}) {
      const std::vector<float> values = normal_values(512, 9, size);
      EXPECT_LT(rms_difference(there_and_back(type, values), values), 0.1 * double{size})
          << static_cast<int>(type) << " " << size;
    }
  }
}

TEST(Quantize, WrongSizesAreOurBug) {
  std::vector<float> values(100);
  std::vector<std::byte> out(1000);
  EXPECT_THROW(quantize(GgmlType::kQ8_0, values, out), InternalError);
  EXPECT_THROW(quantize(GgmlType::kF32, values, out), InternalError);
  values.resize(256);
  out.resize(144);
  EXPECT_NO_THROW(quantize(GgmlType::kQ4_K, values, out));
  out.resize(256 / 32 * 18);
  EXPECT_THROW(quantize(GgmlType::kQ4_0, values, out), InternalError);  // read, not written
}

}  // namespace quantize_test
}  // namespace hone::base
