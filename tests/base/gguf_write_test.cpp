#include "base/gguf/gguf_write.h"

#include <cstring>

#include "base/helpers.h"

namespace hone::base {
namespace gguf_write_test {

std::span<const std::byte> bytes_of(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}

std::vector<GgufEntry> metadata() {
  return {{"general.architecture", std::string("llama")},
          {"count", std::uint32_t{7}},
          {"size", 0.5F},
          {"yes", true},
          {"words", std::vector<std::string>{"a", "", "é"}},
          {"ints", std::vector<std::int32_t>{-2, 3}}};
}

TEST(GgufWrite, IsReadBack) {
  const TempFolder folder;
  const std::vector<float> first = {1, 2, 3, 4, 5, 6}, second = {7};
  GgufWriter writer(folder / "m.gguf", metadata(),
                    {{"w", GgmlType::kF32, {3, 2}}, {"b", GgmlType::kF32, {1}}});
  writer.append(bytes_of(first).first(8));  // in pieces
  writer.append(bytes_of(first).subspan(8));
  EXPECT_FALSE(fs::exists(folder / "m.gguf"));
  writer.append(bytes_of(second));
  writer.finish();
  const GgufFile file = GgufFile::open(folder / "m.gguf");
  EXPECT_EQ(file.require_string("general.architecture"), "llama");
  EXPECT_EQ(file.require_int("count"), 7);
  EXPECT_EQ(file.require_float("size"), 0.5);
  EXPECT_TRUE(file.bool_or("yes", false));
  EXPECT_EQ(*file.strings("words"), (std::vector<std::string>{"a", "", "é"}));
  EXPECT_EQ(*file.ints("ints"), (std::vector<std::int64_t>{-2, 3}));
  ASSERT_EQ(file.tensors().size(), 2U);
  const GgufTensor& w = *file.find("w");
  EXPECT_EQ(w.shape, (std::vector<std::int64_t>{3, 2}));
  std::vector<float> back(6);
  dequantize(w, back);
  EXPECT_EQ(back, first);
  EXPECT_EQ(file.find("b")->numel(), 1);
}

TEST(GgufWrite, ATensorThatIsMissingLeavesNothingBehind) {
  const TempFolder folder;
  {
    GgufWriter writer(folder / "m.gguf", metadata(), {{"w", GgmlType::kF32, {2}}});
    EXPECT_THROW(writer.finish(), InternalError);
    const std::vector<float> three = {1, 2, 3};
    EXPECT_THROW(writer.append(bytes_of(three)), InternalError);
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(GgufWrite, SizesAreThoseOfTheBlocks) {
  EXPECT_EQ((GgufPlanned{"w", GgmlType::kQ4_K, {2, 512}}).bytes(), 4U * 144);
  EXPECT_EQ((GgufPlanned{"w", GgmlType::kQ5_K, {256}}).bytes(), 176U);
  EXPECT_EQ((GgufPlanned{"w", GgmlType::kQ6_K, {1, 256}}).bytes(), 210U);
  EXPECT_EQ((GgufPlanned{"w", GgmlType::kQ5_0, {32}}).bytes(), 22U);
  EXPECT_THROW((GgufPlanned{"w", GgmlType::kQ8_0, {33}}).bytes(), InternalError);
}

}  // namespace gguf_write_test
}  // namespace hone::base
