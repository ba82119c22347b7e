// The layout, all little-endian (ggml/docs/gguf.md):
//   "GGUF", u32 version, u64 tensor count, u64 metadata count
//   metadata: string key, u32 value type, value         (string: u64 length, bytes)
//   tensors:  string name, u32 dimensions, u64 extents (fastest first), u32 ggml type, u64 offset
//   padding to general.alignment (default 32), then the tensors' data at their offsets
#include "base/gguf/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/gguf/ggml_types.h"

namespace hone::base {

namespace {

enum ValueType : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};

constexpr std::uint64_t kMaxDimensions = 4;  // GGML_MAX_DIMS
constexpr std::int64_t kMaxInt = std::numeric_limits<std::int64_t>::max();

[[noreturn]] void refuse(const fs::path& path, const std::string& entry, std::string expected,
                         std::string found, std::string cause = "a damaged file, or one from a faulty writer",
                         std::string fix = "download or convert the file again") {
  throw UserError({.where = path.string() + (entry.empty() ? "" : ": " + entry),
                   .expected = std::move(expected),
                   .found = std::move(found),
                   .cause = std::move(cause),
                   .fix = std::move(fix)});
}

// Names come from the file: control characters and excess length do not reach a terminal.
std::string printable(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::string out;
  for (const char c : text.substr(0, kMost))
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  return text.size() > kMost ? out + "..." : out;
}

// Reads forward through the header; every read is checked against the file's end first.
class Cursor {
 public:
  Cursor(const fs::path& path, std::span<const std::byte> bytes) : path_(path), bytes_(bytes) {}

  template <typename T>
  T read(const std::string& entry) {
    need(sizeof(T), entry);
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  std::string read_string(const std::string& entry) {
    const auto length = read<std::uint64_t>(entry);
    need(length, entry);
    std::string out(reinterpret_cast<const char*>(bytes_.data() + at_), static_cast<std::size_t>(length));
    at_ += static_cast<std::size_t>(length);
    return out;
  }

  // `count` things of at least `each` bytes must fit into the rest; so that no count makes us allocate.
  void need_items(std::uint64_t count, std::uint64_t each, const std::string& entry) const {
    if (count <= remaining() / each) return;
    refuse(path_, entry, "at most " + std::to_string(remaining() / each) + " entries in the rest of the file",
           "a count of " + std::to_string(count), "a damaged file, or an incomplete download");
  }

  std::uint64_t position() const { return at_; }
  std::uint64_t remaining() const { return bytes_.size() - at_; }
  const fs::path& path() const { return path_; }

 private:
  void need(std::uint64_t count, const std::string& entry) const {
    if (count <= remaining()) return;
    refuse(path_, entry, std::to_string(count) + " more bytes",
           "the end of the file after " + std::to_string(remaining()), "perhaps an incomplete download");
  }

  const fs::path& path_;
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

std::uint64_t smallest_size(std::uint32_t type) {
  switch (type) {
    case kU8:
    case kI8:
    case kBool:
      return 1;
    case kU16:
    case kI16:
      return 2;
    case kU32:
    case kI32:
    case kF32:
      return 4;
    case kU64:
    case kI64:
    case kF64:
    case kString:
      return 8;
    default:
      return 0;  // unknown, or a list
  }
}

bool read_bool(Cursor& cursor, const std::string& entry) {
  const auto byte = cursor.read<std::uint8_t>(entry);
  if (byte > 1) refuse(cursor.path(), entry, "0 or 1 as a boolean", std::to_string(byte));
  return byte == 1;
}

[[noreturn]] void refuse_type(const Cursor& cursor, const std::string& entry, std::uint32_t type) {
  refuse(cursor.path(), entry, "a value type from 0 to 12", std::to_string(type),
         "a damaged file, or a newer version of GGUF");
}

GgufValue read_scalar(Cursor& cursor, std::uint32_t type, const std::string& entry) {
  switch (type) {
    case kU8:
      return std::uint64_t{cursor.read<std::uint8_t>(entry)};
    case kU16:
      return std::uint64_t{cursor.read<std::uint16_t>(entry)};
    case kU32:
      return std::uint64_t{cursor.read<std::uint32_t>(entry)};
    case kU64:
      return cursor.read<std::uint64_t>(entry);
    case kI8:
      return std::int64_t{cursor.read<std::int8_t>(entry)};
    case kI16:
      return std::int64_t{cursor.read<std::int16_t>(entry)};
    case kI32:
      return std::int64_t{cursor.read<std::int32_t>(entry)};
    case kI64:
      return cursor.read<std::int64_t>(entry);
    case kF32:
      return double{cursor.read<float>(entry)};
    case kF64:
      return cursor.read<double>(entry);
    case kBool:
      return read_bool(cursor, entry);
    case kString:
      return cursor.read_string(entry);
    default:
      refuse_type(cursor, entry, type);
  }
}

// Whole numbers and booleans as one type; refused when 64 signed bits do not hold it.
std::int64_t as_int(const GgufValue& value, const fs::path& path, const std::string& entry) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
  const auto number = std::get<std::uint64_t>(value);
  if (number > static_cast<std::uint64_t>(kMaxInt)) {
    refuse(path, entry, "a number below 2^63", std::to_string(number));
  }
  return static_cast<std::int64_t>(number);
}

GgufValue read_array(Cursor& cursor, const std::string& entry) {
  const auto type = cursor.read<std::uint32_t>(entry);
  const auto count = cursor.read<std::uint64_t>(entry);
  if (type == kArray) {
    refuse(cursor.path(), entry, "a list of numbers or strings", "a list of lists", "a newer version of GGUF",
           "convert the file with a current release of llama.cpp");
  }
  const std::uint64_t each = smallest_size(type);
  if (each == 0) refuse_type(cursor, entry, type);
  cursor.need_items(count, each, entry);
  const auto size = static_cast<std::size_t>(count);
  if (type == kString) {
    std::vector<std::string> out(size);
    for (std::string& text : out) text = cursor.read_string(entry);
    return out;
  }
  if (type == kF32 || type == kF64) {
    std::vector<double> out(size);
    for (double& number : out) number = std::get<double>(read_scalar(cursor, type, entry));
    return out;
  }
  std::vector<std::int64_t> out(size);
  for (std::int64_t& number : out) number = as_int(read_scalar(cursor, type, entry), cursor.path(), entry);
  return out;
}

struct TensorInfo {
  GgufTensor tensor;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

TensorInfo read_tensor_info(Cursor& cursor, std::uint64_t number) {
  const fs::path& path = cursor.path();
  TensorInfo info;
  info.tensor.name = cursor.read_string("tensor " + std::to_string(number));
  const std::string entry = "tensor " + printable(info.tensor.name);
  const auto dimensions = cursor.read<std::uint32_t>(entry);
  if (dimensions > kMaxDimensions) {
    refuse(path, entry, "at most 4 dimensions", std::to_string(dimensions));
  }
  std::uint64_t count = 1;
  bool fits = true;
  bool empty = false;
  std::uint64_t row = 1;
  for (std::uint32_t d = 0; d < dimensions; ++d) {
    const auto extent = cursor.read<std::uint64_t>(entry);
    if (d == 0) row = extent;
    empty = empty || extent == 0;
    fits = fits && extent <= static_cast<std::uint64_t>(kMaxInt) &&
           !__builtin_mul_overflow(count, std::max<std::uint64_t>(extent, 1), &count);
    info.tensor.shape.insert(info.tensor.shape.begin(), static_cast<std::int64_t>(extent));
  }
  const auto type = cursor.read<std::uint32_t>(entry);
  const GgmlTypeInfo* known = find_ggml_type(type);
  if (known == nullptr) {
    refuse(
        path, entry, "one of the types " + ggml_types_read(), "type " + ggml_type_name(type),
        "a quantization that hone does not read",
        "convert the model with llama.cpp (llama-quantize --allow-requantize ... Q8_0), or use its original "
        "safetensors");
  }
  info.tensor.type = known->type;
  if (row % known->elements != 0) {
    refuse(path, entry,
           "rows that are a multiple of " + std::to_string(known->elements) + " long for " + known->name,
           std::to_string(row));
  }
  fits = fits && !__builtin_mul_overflow(count / known->elements, known->bytes, &info.size) &&
         count <= static_cast<std::uint64_t>(kMaxInt);
  if (!fits) refuse(path, entry, "a shape that fits in memory", "extents whose product overflows");
  if (empty) info.size = 0;
  info.offset = cursor.read<std::uint64_t>(entry);
  return info;
}

// In range and apart; then the spans are handed out.
void place_tensors(const fs::path& path, std::vector<TensorInfo>& infos, std::span<const std::byte> data,
                   std::uint64_t alignment) {
  std::vector<const TensorInfo*> order;
  for (TensorInfo& info : infos) {
    const std::string entry = "tensor " + printable(info.tensor.name);
    if (info.offset % alignment != 0) {
      refuse(path, entry, "an offset that is a multiple of the alignment " + std::to_string(alignment),
             std::to_string(info.offset));
    }
    if (info.offset > data.size() || info.size > data.size() - info.offset) {
      refuse(path, entry, human_bytes(info.size) + " of data at offset " + std::to_string(info.offset),
             human_bytes(data.size()) + " of tensor data in the file", "perhaps an incomplete download");
    }
    info.tensor.bytes =
        data.subspan(static_cast<std::size_t>(info.offset), static_cast<std::size_t>(info.size));
    if (info.size > 0) order.push_back(&info);
  }
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (order[i]->offset - order[i - 1]->offset >= order[i - 1]->size) continue;
    refuse(path, "tensor " + printable(order[i]->tensor.name), "tensors that do not overlap",
           "it begins inside " + printable(order[i - 1]->tensor.name));
  }
}

void check_version(const fs::path& path, std::uint32_t version) {
  if (version == 2 || version == 3) return;
  const bool swapped = version == 0x02000000 || version == 0x03000000;
  refuse(path, "", "GGUF version 2 or 3",
         swapped ? "a big-endian file" : "version " + std::to_string(version),
         swapped ? "written for a big-endian machine" : "an old or newer format",
         "convert the model with a current release of llama.cpp");
}

std::uint64_t alignment_of(const fs::path& path,
                           const std::map<std::string, GgufValue, std::less<>>& metadata) {
  const auto it = metadata.find("general.alignment");
  if (it == metadata.end()) return 32;
  const auto* number = std::get_if<std::uint64_t>(&it->second);
  if (number == nullptr || !std::has_single_bit(*number) || *number > (1U << 20U)) {
    refuse(path, "general.alignment", "a power of two up to 2^20",
           number == nullptr ? "another kind of value" : std::to_string(*number));
  }
  return *number;
}

}  // namespace

GgufFile GgufFile::open(const fs::path& path) {
  GgufFile file(MappedFile::open(path));
  const std::span<const std::byte> bytes = file.file_.bytes();
  if (bytes.size() < 4 || std::memcmp(bytes.data(), "GGUF", 4) != 0) {
    refuse(path, "", "a GGUF file", "other first bytes",
           "not a GGUF file, perhaps a Git LFS pointer or an incomplete download");
  }
  Cursor cursor(path, bytes);
  cursor.read<std::uint32_t>("header");
  check_version(path, cursor.read<std::uint32_t>("header"));
  const auto tensor_count = cursor.read<std::uint64_t>("header");
  const auto metadata_count = cursor.read<std::uint64_t>("header");
  cursor.need_items(metadata_count, 13, "metadata");  // key length, type, one byte
  for (std::uint64_t i = 0; i < metadata_count; ++i) {
    const std::string key = cursor.read_string("metadata " + std::to_string(i));
    const std::string entry = "metadata " + printable(key);
    const auto type = cursor.read<std::uint32_t>(entry);
    GgufValue value = type == kArray ? read_array(cursor, entry) : read_scalar(cursor, type, entry);
    if (!file.metadata_.emplace(key, std::move(value)).second)
      refuse(path, entry, "each key only once", "it twice");
  }
  const std::uint64_t alignment = alignment_of(path, file.metadata_);
  cursor.need_items(tensor_count, 24, "tensor table");  // name length, dimensions, type, offset
  std::vector<TensorInfo> infos;
  std::set<std::string> names;
  for (std::uint64_t i = 0; i < tensor_count; ++i) {
    infos.push_back(read_tensor_info(cursor, i));
    const std::string& name = infos.back().tensor.name;
    if (!names.insert(name).second)
      refuse(path, "tensor " + printable(name), "each tensor only once",
             "it "
             "twice");
  }
  const std::uint64_t start = (cursor.position() + alignment - 1) / alignment * alignment;
  const std::span<const std::byte> data =
      start < bytes.size() ? bytes.subspan(static_cast<std::size_t>(start)) : std::span<const std::byte>();
  place_tensors(path, infos, data, alignment);
  for (TensorInfo& info : infos) file.tensors_.push_back(std::move(info.tensor));
  return file;
}

}  // namespace hone::base
