#include "base/gguf/gguf.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/gguf/ggml_types.h"
#include "base/json.h"
#include "base/make_files.h"

namespace hone::base {
namespace gguf_test {

std::string fault(const std::string& bytes) {
  const TempFolder folder;
  put(folder / "m.gguf", bytes);
  return message_of([&] { GgufFile::open(folder / "m.gguf"); });
}

std::string fault_of_tensors(std::vector<std::string> tensors, std::size_t data = 256) {
  return fault(gguf_bytes({.metadata = {}, .tensors = std::move(tensors), .data = std::string(data, 'd')}));
}

std::string fault_of_metadata(std::string entry) {
  return fault(gguf_bytes({.metadata = {std::move(entry)}, .tensors = {}, .data = {}}));
}

GgufFile opened(const TempFolder& folder, const GgufParts& parts) {
  put(folder / "m.gguf", gguf_bytes(parts));
  return GgufFile::open(folder / "m.gguf");
}

TEST(Gguf, ReadsEveryKindOfMetadata) {
  const TempFolder folder;
  std::string words = gguf_string("a") + gguf_string("b");
  std::string floats;
  append_le(floats, std::bit_cast<std::uint32_t>(1.5F), 4);
  std::string ints;
  append_le(ints, 0xFFFFFFFE, 4);
  GgufParts parts;
  parts.version = 2;
  parts.metadata = {gguf_number("u8", 0, 200, 1),
                    gguf_number("i8", 1, 0xFF, 1),
                    gguf_number("u16", 2, 65535, 2),
                    gguf_number("i16", 3, 0xFFFE, 2),
                    gguf_number("u32", 4, 7, 4),
                    gguf_number("i32", 5, ~0ULL, 4),
                    gguf_number("f32", 6, std::bit_cast<std::uint32_t>(0.5F), 4),
                    gguf_number("yes", 7, 1, 1),
                    gguf_text("text", "tëxt"),
                    gguf_list("words", 8, 2, words),
                    gguf_list("floats", 6, 1, floats),
                    gguf_list("ints", 5, 1, ints),
                    gguf_list("none", 4, 0, ""),
                    gguf_number("u64", 10, ~0ULL, 8),
                    gguf_number("i64", 11, ~0ULL, 8),
                    gguf_number("f64", 12, std::bit_cast<std::uint64_t>(0.1), 8)};
  const GgufFile file = opened(folder, parts);
  EXPECT_EQ(file.require_int("u8"), 200);
  EXPECT_EQ(file.require_int("i8"), -1);
  EXPECT_EQ(file.require_int("u16"), 65535);
  EXPECT_EQ(file.require_int("i16"), -2);
  EXPECT_EQ(file.require_int("u32"), 7);
  EXPECT_EQ(file.require_int("i32"), -1);
  EXPECT_EQ(file.require_int("i64"), -1);
  EXPECT_EQ(file.require_float("f32"), 0.5);
  EXPECT_EQ(file.require_float("f64"), 0.1);
  EXPECT_EQ(file.require_float("u32"), 7.0);
  EXPECT_TRUE(file.bool_or("yes", false));
  EXPECT_EQ(file.require_string("text"), "tëxt");
  EXPECT_EQ(*file.strings("words"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(*file.ints("ints"), std::vector<std::int64_t>{-2});
  EXPECT_TRUE(file.ints("none")->empty());
  EXPECT_EQ(std::get<std::vector<double>>(file.metadata().at("floats")), std::vector<double>{1.5});
  EXPECT_EQ(file.int_or("absent", 3), 3);
  EXPECT_EQ(file.float_or("absent", 2.5), 2.5);
  EXPECT_TRUE(file.bool_or("absent", true));
  EXPECT_EQ(file.strings("absent"), nullptr);
  EXPECT_EQ(file.ints("absent"), nullptr);
  EXPECT_TRUE(file.has("text"));
  EXPECT_FALSE(file.has("absent"));
  expect_says(message_of([&] { file.require_int("u46"); }),
              {"metadata u46]", "no such key. Did you mean 'u16' or 'u64'?"});
  expect_says(message_of([&] { file.require_int("u64"); }), {"metadata u64]", "a whole number below 2^63"});
  expect_says(message_of([&] { file.require_int("text"); }), {"expected a whole number", "found:  a string"});
  expect_says(message_of([&] { file.int_or("text", 1); }), {"found:  a string"});
  expect_says(message_of([&] { file.float_or("words", 1); }), {"expected a number", "a list of strings"});
  expect_says(message_of([&] { file.bool_or("u8", true); }), {"expected a boolean", "a whole number"});
  expect_says(message_of([&] { file.require_string("f32"); }), {"expected a string", "a float"});
  expect_says(message_of([&] { file.strings("ints"); }), {"a list of strings", "a list of integers"});
  expect_says(message_of([&] { file.ints("floats"); }), {"a list of integers", "a list of floats"});
}

TEST(Gguf, ShapesAreRowMajorAndAlignmentIsKept) {
  const TempFolder folder;
  GgufParts parts;
  parts.alignment = 64;
  parts.metadata = {gguf_number("general.alignment", 4, 64, 4)};
  parts.tensors = {gguf_tensor("w", {2, 3, 4}, 0, 128), gguf_tensor("scalar", {}, 0, 0),
                   gguf_tensor("empty", {0, 5}, 0, 64)};
  parts.data = std::string(128 + 96, 'd');
  const GgufFile file = opened(folder, parts);
  EXPECT_EQ(file.find("w")->shape, (std::vector<std::int64_t>{4, 3, 2}));
  EXPECT_EQ(file.find("w")->numel(), 24);
  EXPECT_EQ(file.find("w")->bytes.size(), 96U);
  EXPECT_EQ(file.find("scalar")->numel(), 1);
  EXPECT_EQ(file.find("empty")->numel(), 0);
  EXPECT_EQ(file.find("none"), nullptr);
  EXPECT_EQ(file.tensors().front().name, "w");
}

TEST(Gguf, HeadersThatLie) {
  expect_says(fault(""), {"m.gguf]", "expected a GGUF file", "incomplete download"});
  expect_says(fault("GGML and more"), {"expected a GGUF file"});
  expect_says(fault("GGUF"), {"header]", "4 more bytes", "incomplete download"});
  expect_says(fault(gguf_bytes({.version = 1, .metadata = {}, .tensors = {}, .data = {}})),
              {"GGUF version 2 or 3", "version 1", "llama.cpp"});
  expect_says(fault(gguf_bytes({.version = 0x03000000, .metadata = {}, .tensors = {}, .data = {}})),
              {"a big-endian file"});
  std::string many = gguf_bytes({.metadata = {}, .tensors = {}, .data = {}});
  many[8 + 7] = '\x7F';
  expect_says(fault(many), {"tensor table]", "a count of 9151314442816847872"});
  std::string keys = gguf_bytes({.metadata = {}, .tensors = {}, .data = {}});
  keys[16 + 7] = '\x7F';
  expect_says(fault(keys), {"metadata]", "a count of"});
}

TEST(Gguf, MetadataThatLies) {
  expect_says(fault_of_metadata(gguf_number("k", 13, 0, 8)),
              {"metadata k]", "value type from 0 to 12", "13"});
  expect_says(fault_of_metadata(gguf_number("k", 7, 2, 1)), {"metadata k]", "0 or 1 as a boolean", "2"});
  expect_says(fault_of_metadata(gguf_list("k", 9, 1, std::string(64, '\0'))),
              {"metadata k]", "a list of lists"});
  expect_says(fault_of_metadata(gguf_list("k", 77, 1, std::string(64, '\0'))),
              {"value type from 0 to 12", "77"});
  expect_says(fault_of_metadata(gguf_list("k", 4, 1ULL << 60, "")),
              {"metadata k]", "a count of 1152921504606846976"});
  expect_says(fault_of_metadata(gguf_list("k", 10, 1, std::string(8, '\xFF'))), {"a number below 2^63"});
  std::string long_text = gguf_string("k");
  append_le(long_text, 8, 4);
  append_le(long_text, 1ULL << 63, 8);
  expect_says(fault_of_metadata(long_text), {"metadata k]", "9223372036854775808 more bytes", "incomplete"});
  const std::string twice = gguf_number("k", 4, 1, 4);
  expect_says(fault(gguf_bytes({.metadata = {twice, twice}, .tensors = {}, .data = {}})), {"each key only "
                                                                                           "once"});
  for (const std::uint64_t alignment : {0ULL, 3ULL, 1ULL << 31}) {
    expect_says(fault_of_metadata(gguf_number("general.alignment", 4, alignment, 4)),
                {"general.alignment]", "a power of two", std::to_string(alignment)});
  }
  expect_says(fault_of_metadata(gguf_text("general.alignment", "32")), {"another kind of value"});
}

TEST(Gguf, TensorsThatLie) {
  expect_says(
      fault_of_tensors({gguf_tensor("w", {8, 8, 2}, 0, 0)}),
      {"m.gguf: tensor w]", "512 bytes of data at offset 0", "256 bytes of tensor data", "incomplete"});
  expect_says(fault_of_tensors({gguf_tensor("w", {8}, 0, 1ULL << 63)}),
              {"tensor w]", "at offset 9223372036854775808"});
  expect_says(fault_of_tensors({gguf_tensor("w", {8}, 0, 33)}), {"multiple of the alignment 32", "33"});
  expect_says(fault_of_tensors({gguf_tensor("a", {16}, 0, 0), gguf_tensor("b", {8}, 0, 32)}),
              {"tensor b]", "do not overlap", "begins inside a"});
  expect_says(fault_of_tensors({gguf_tensor("a", {8}, 0, 0), gguf_tensor("b", {8}, 0, 0)}),
              {"do not overlap"});
  expect_says(fault_of_tensors({gguf_tensor("a", {8}, 0, 0), gguf_tensor("a", {8}, 0, 32)}),
              {"each tensor only once"});
  expect_says(fault_of_tensors({gguf_tensor("w", {1, 1, 1, 1, 1}, 0, 0)}), {"at most 4 dimensions", "5"});
  expect_says(fault_of_tensors({gguf_tensor("w", {33}, 2, 0)}), {"multiple of 32 long for Q4_0", "33"});
  expect_says(fault_of_tensors({gguf_tensor("w", {1ULL << 63}, 0, 0)}), {"a shape that fits in memory"});
  expect_says(fault_of_tensors({gguf_tensor("w", {1ULL << 40, 1ULL << 40}, 0, 0)}),
              {"whose product overflows"});
  expect_says(fault_of_tensors({gguf_tensor("w", {1ULL << 40, 1ULL << 40, 0}, 0, 0)}), {"product overflows"});
  expect_says(fault_of_tensors({gguf_tensor("w", {256}, 10, 0)}),
              {"one of the types F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q4_K, Q5_K, Q6_K", "type Q2_K",
               "llama-quantize", "safetensors"});
  expect_says(fault_of_tensors({gguf_tensor("w", {256}, 1000, 0)}), {"type 1000 (unknown)"});
  expect_says(fault_of_tensors({gguf_tensor("w\x1B[2J", {5, 5, 5, 5, 5}, 0, 0)}), {"tensor w?[2J]"});
}

// tests/fixtures/gguf is llama.cpp's own Python writer's file and its dequantized floats.
TEST(Gguf, DequantizesAsGgmlBitForBit) {
  const fs::path fixtures = fs::path(HONE_FIXTURES) / "gguf";
  const GgufFile file = GgufFile::open(fixtures / "tiny.gguf");
  const Json golden = parse_json(read_text(fixtures / "tiny.json"), "tiny.json");
  ASSERT_EQ(file.tensors().size(), golden["tensors"].size());
  ASSERT_EQ(file.tensors().size(), 6U);
  for (const GgufTensor& tensor : file.tensors()) {
    const Json& expected = golden["tensors"][tensor.name];
    EXPECT_EQ(tensor.shape, expected["shape"].get<std::vector<std::int64_t>>());
    std::vector<float> out(static_cast<std::size_t>(tensor.numel()));
    dequantize(tensor, out);
    const auto hex = expected["floats"].get<std::string>();
    ASSERT_EQ(hex.size(), out.size() * 8);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto swapped = static_cast<std::uint32_t>(std::stoul(hex.substr(8 * i, 8), nullptr, 16));
      ASSERT_EQ(std::bit_cast<std::uint32_t>(out[i]), __builtin_bswap32(swapped)) << tensor.name << " " << i;
    }
  }
  EXPECT_EQ(file.require_string("general.architecture"), "llama");
  EXPECT_EQ(file.require_int("llama.block_count"), 2);
  EXPECT_EQ(file.require_float("llama.attention.layer_norm_rms_epsilon"), double{1e-5F});
  EXPECT_TRUE(file.bool_or("tokenizer.ggml.add_bos_token", false));
  EXPECT_EQ(file.strings("tokenizer.ggml.tokens")->at(2), "é");
  EXPECT_EQ(file.ints("tokenizer.ggml.token_type")->at(0), 3);
  EXPECT_EQ(file.require_int("test.negative"), -7);
}

TEST(Gguf, DequantizingIntoTheWrongRoomIsOurBug) {
  const GgufFile file = GgufFile::open(fs::path(HONE_FIXTURES) / "gguf/tiny.gguf");
  std::vector<float> out(7);
  expect_says(message_of<InternalError>([&] { dequantize(file.tensors()[0], out); }),
              {"room for every element"});
}

}  // namespace gguf_test
}  // namespace hone::base
