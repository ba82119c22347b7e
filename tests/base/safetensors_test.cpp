#include "base/files/safetensors.h"

#include <sys/resource.h>
#include <algorithm>
#include <csignal>
#include <cstring>

#include "base/make_files.h"

namespace hone::base {
namespace safetensors_test {

std::string fault(const std::string& bytes) {
  const TempFolder folder;
  put(folder / "m.safetensors", bytes);
  return message_of([&] { SafetensorsFile::open(folder / "m.safetensors"); });
}

std::string fault_of_header(const std::string& header, std::size_t data = 8) {
  return fault(safetensors_bytes(header, std::string(data, 'd')));
}

// A header with one tensor "w".
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"w":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(Safetensors, RoundTripKeepsOrderAndBytes) {
  const TempFolder folder;
  const std::string data = "abcdefghijklmnop";
  const auto bytes = std::as_bytes(std::span(data.data(), data.size()));
  const std::vector<StoredTensor> tensors{{"z", DType::kF32, {2, 1}, bytes.first(8)},
                                          {"empty", DType::kI64, {0, 3}, bytes.first(0)},
                                          {"a", DType::kBF16, {}, bytes.subspan(8, 2)},
                                          {"ü", DType::kU8, {3}, bytes.subspan(10, 3)}};
  write_safetensors(folder / "m", tensors, {{"format", "pt"}});
  const SafetensorsFile file = SafetensorsFile::open(folder / "m");
  ASSERT_EQ(file.tensors().size(), 4U);
  for (const StoredTensor& wanted : tensors) {
    const StoredTensor* found = file.find(wanted.name);
    ASSERT_NE(found, nullptr) << wanted.name;
    EXPECT_EQ(found->dtype, wanted.dtype);
    EXPECT_EQ(found->shape, wanted.shape);
    EXPECT_EQ(text_of(found->bytes), text_of(wanted.bytes));
  }
  EXPECT_EQ(file.find("b"), nullptr);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.tensors()[0].name, "z");
}

TEST(Safetensors, TheHeaderIsHuggingFaces) {
  const TempFolder folder;
  const std::string data = "abcd";
  const std::vector<StoredTensor> tensors{
      {"w", DType::kF32, {1}, std::as_bytes(std::span(data.data(), data.size()))}};
  write_safetensors(folder / "m", tensors, {{"format", "pt"}});
  std::string header =
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(read_text(folder / "m"), safetensors_bytes(header, data));
}

TEST(Safetensors, FilesWithoutTensorsAreLegal) {
  const TempFolder folder;
  write_safetensors(folder / "m", {}, {});
  EXPECT_TRUE(SafetensorsFile::open(folder / "m").tensors().empty());
}

TEST(Safetensors, ShortFiles) {
  expect_says(fault(""),
              {"m.safetensors]", "expected a safetensors file", "0 bytes", "perhaps an incomplete"});
  expect_says(fault("1234567"), {"7 bytes", "incomplete download"});
  const std::string whole = safetensors_bytes(one(R"("F32")", "[2]", "[0,8]"), "12345678");
  expect_says(fault(whole.substr(0, 20)), {"a header of", "a file of 20 bytes", "incomplete download"});
  expect_says(
      fault(whole.substr(0, whole.size() - 1)),
      {"m.safetensors: tensor w]", "up to byte 8", "7 bytes of data", "incomplete download", "download"});
}

TEST(Safetensors, LyingHeaderLengths) {
  expect_says(fault("version https://git-lfs.github.com/spec/v1"), {"at most 95.4 MiB", "Git LFS pointer"});
  expect_says(fault(std::string(8, '\xFF') + "{}"), {"header length of 16.0 EiB"});
}

TEST(Safetensors, HeadersThatAreNotObjects) {
  expect_says(fault_of_header("[1]"), {"a JSON object as header", "[1]"});
  expect_says(fault_of_header("{\"w\":"), {"m.safetensors (header):1:", "expected JSON"});
  expect_says(fault_of_header(R"({"w":3})"), {"tensor w]", "an object in the header", "found:  3"});
  expect_says(fault_of_header(R"({"__metadata__":[]})", 0), {"an object as __metadata__"});
  expect_says(fault_of_header(R"({"__metadata__":{"a":1}})", 0), {"strings in __metadata__", "'a' is 1"});
  expect_says(fault_of_header(R"({"w":{"dtype":"F32","shape":[2]}})"), {"tensor w]", "no data_offsets"});
  expect_says(fault_of_header(R"({"w":{"dtype":"F32","data_offsets":[0,8]}})"), {"no shape"});
  expect_says(fault_of_header(R"({"w":{"shape":[2],"data_offsets":[0,8]}})"), {"no dtype"});
  const std::string w = R"("w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  expect_says(fault_of_header("{" + w + "," + w + "}"), {"each name only once", "'w' twice"});
}

TEST(Safetensors, Dtypes) {
  expect_says(
      fault_of_header(one(R"("F8_E4M3")", "[8]", "[0,8]")),
      {"tensor w]", "one of the dtypes F64, F32, F16, BF16", "dtype \"F8_E4M3\"", "convert the model"});
  expect_says(fault_of_header(one("7", "[8]", "[0,8]")), {"dtype 7"});
}

TEST(Safetensors, Shapes) {
  for (const char* shape : {"[-2]", "[2.0]", "[\"2\"]", "[18446744073709551615]", "[[2]]", "[null]"}) {
    expect_says(fault_of_header(one(R"("F32")", shape, "[0,8]")),
                {"tensor w]", "whole numbers, 0 or more", shape});
  }
  expect_says(fault_of_header(one(R"("F32")", "2", "[0,8]")), {"a list as shape"});
  for (const char* shape : {"[4611686018427387904,4]", "[9223372036854775807,9223372036854775807]",
                            "[9223372036854775807,9223372036854775807,0]"}) {
    expect_says(fault_of_header(one(R"("F32")", shape, "[0,8]")), {"a shape that fits in memory"});
  }
  expect_says(fault_of_header(one(R"("F32")", "[3]", "[0,8]")),
              {"12 bytes for \"F32\" [3]", "[0,8], 8 bytes"});
}

TEST(Safetensors, Offsets) {
  for (const char* offsets :
       {"[8,0]", "[0]", "[0,8,16]", "[-8,0]", "[0.0,8]", "8", "[0,9223372036854775808]"}) {
    expect_says(fault_of_header(one(R"("F32")", "[2]", offsets)), {"tensor w]", "0 <= begin <= end"});
  }
  expect_says(fault_of_header(one(R"("F32")", "[2]", "[8,16]")),
              {"tensor w]", "up to byte 16", "8 bytes of data"});
  expect_says(fault_of_header(one(R"("F32")", "[2]", "[8,16]"), 16), {"without gaps", "8 bytes before it"});
  expect_says(fault_of_header(one(R"("F32")", "[2]", "[0,8]"), 9), {"the file to end", "1 more bytes"});
  const std::string overlap = R"({"a":{"dtype":"U8","shape":[6],"data_offsets":[0,6]},)"
                              R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})";
  expect_says(fault_of_header(overlap),
              {"tensor b]", "do not overlap", "begins at byte 4, but a ends at byte 6"});
}

TEST(Safetensors, AFullDiskLeavesTheOldFile) {
  const TempFolder folder;
  put(folder / "m", "old");
  const std::string data(64 * 1024, 'x');
  const std::vector<StoredTensor> tensors{
      {"w", DType::kU8, {64 * 1024}, std::as_bytes(std::span(data.data(), data.size()))}};
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const rlimit limit{8192, old.rlim_max};
  auto* handler = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &limit);
  const std::string message = message_of([&] { write_safetensors(folder / "m", tensors, {}); });
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  expect_says(message, {"room for 64.1 KiB", "raise the limit"});
  EXPECT_EQ(read_text(folder / "m"), "old");
  EXPECT_FALSE(fs::exists(folder / "m.partial"));
}

TEST(Safetensors, WritingWrongSizesIsOurBug) {
  const TempFolder folder;
  const std::string data = "abcd";
  const auto bytes = std::as_bytes(std::span(data.data(), data.size()));
  const std::vector<StoredTensor> wrong{{"w", DType::kF32, {2}, bytes}};
  const std::vector<StoredTensor> twice{{"w", DType::kF32, {1}, bytes}, {"w", DType::kF32, {1}, bytes}};
  expect_says(message_of<InternalError>([&] { write_safetensors(folder / "m", wrong, {}); }),
              {"dtype and shape of w"});
  expect_says(message_of<InternalError>([&] { write_safetensors(folder / "m", twice, {}); }),
              {"the name w once"});
  EXPECT_FALSE(fs::exists(folder / "m"));
}

}  // namespace safetensors_test
}  // namespace hone::base
