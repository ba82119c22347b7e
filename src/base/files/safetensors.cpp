#include "base/files/safetensors.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/json_tools.h"
#include "base/strings/utf8.h"

namespace hone::base {

namespace {

constexpr std::uint64_t kMaxHeader = 100'000'000;  // the Rust crate's own limit

constexpr const char* kDamaged = "a damaged file, or one from a faulty writer";
constexpr const char* kIncomplete = "perhaps an incomplete download";
constexpr const char* kFetchAgain = "download or write the file again";

[[noreturn]] void refuse_tensor(const fs::path& path, const std::string& tensor, std::string expected,
                                std::string found, std::string cause = kDamaged,
                                std::string fix = kFetchAgain) {
  throw UserError({.where = path.string() + (tensor.empty() ? "" : ": tensor " + cut_text(tensor, 200)),
                   .expected = std::move(expected),
                   .found = std::move(found),
                   .cause = std::move(cause),
                   .fix = std::move(fix)});
}

// a * b, or nullopt when 64 bits do not hold it.
std::optional<std::uint64_t> product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

// A JSON number that is an integer in 0 .. 2^63 - 1; 2.0, 1e3 and -1 are not.
std::optional<std::uint64_t> natural(const nlohmann::json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto number = value.get<std::uint64_t>();
  if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
  return number;
}

std::string printed(const nlohmann::json& value) {
  constexpr std::size_t kMost = 80;
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

struct Entry {
  StoredTensor tensor;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

const nlohmann::json& member(const fs::path& path, const std::string& name, const nlohmann::json& entry,
                             const char* key) {
  const auto it = entry.find(key);
  if (it == entry.end()) {
    refuse_tensor(path, name, std::string("the members dtype, shape and data_offsets"),
                  std::string("no ") + key);
  }
  return *it;
}

// One tensor's header entry against its own dtype, shape and size; places are checked by the caller.
Entry parse_entry(const fs::path& path, const std::string& name, const nlohmann::json& value) {
  if (!value.is_object()) refuse_tensor(path, name, "an object in the header", printed(value));
  Entry out;
  out.tensor.name = name;
  const nlohmann::json& dtype = member(path, name, value, "dtype");
  const auto known = dtype.is_string() ? dtype_from_safetensors(dtype.get<std::string>()) : std::nullopt;
  if (!known) {
    refuse_tensor(path, name, "one of the dtypes " + dtype_names(), "dtype " + printed(dtype),
                  "a quantized or newer format", "convert the model to BF16 or F32 first");
  }
  out.tensor.dtype = *known;
  const nlohmann::json& shape = member(path, name, value, "shape");
  std::optional<std::uint64_t> bytes = size_of(*known);
  if (!shape.is_array()) refuse_tensor(path, name, "a list as shape", printed(shape));
  bool empty = false;
  for (const nlohmann::json& extent : shape) {
    const auto length = natural(extent);
    if (!length)
      refuse_tensor(path, name, "extents that are whole numbers, 0 or more", "shape " + printed(shape));
    out.tensor.shape.push_back(static_cast<std::int64_t>(*length));
    empty = empty || *length == 0;
    if (bytes && *length != 0) bytes = product(*bytes, *length);
  }
  // Even with a 0 among them, extents whose product overflows would hurt whoever multiplies them.
  if (!bytes) refuse_tensor(path, name, "a shape that fits in memory", "shape " + printed(shape));
  if (empty) bytes = 0;
  const nlohmann::json& offsets = member(path, name, value, "data_offsets");
  const bool pair = offsets.is_array() && offsets.size() == 2;
  const auto begin = pair ? natural(offsets[0]) : std::nullopt;
  const auto end = pair ? natural(offsets[1]) : std::nullopt;
  if (!begin || !end || *begin > *end) {
    refuse_tensor(path, name, "data_offsets [begin, end] with 0 <= begin <= end", printed(offsets));
  }
  if (*end - *begin != *bytes) {
    refuse_tensor(path, name, std::to_string(*bytes) + " bytes for " + printed(dtype) + " " + printed(shape),
                  "data_offsets " + printed(offsets) + ", " + std::to_string(*end - *begin) + " bytes");
  }
  out.begin = *begin;
  out.end = *end;
  return out;
}

std::map<std::string, std::string> parse_metadata(const fs::path& path, const nlohmann::json& value) {
  std::map<std::string, std::string> out;
  if (!value.is_object()) refuse_tensor(path, "", "an object as __metadata__", printed(value));
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) {
      refuse_tensor(path, "", "strings in __metadata__", "'" + cut_text(key, 80) + "' is " + printed(text));
    }
    out[key] = text.get<std::string>();
  }
  return out;
}

// The tensors, sorted by offset, must tile the `size` bytes after the header.
void check_places(const fs::path& path, const std::vector<Entry>& entries, std::uint64_t size) {
  std::uint64_t next = 0;
  const Entry* last = nullptr;
  for (const Entry& entry : entries) {
    const std::string& name = entry.tensor.name;
    if (entry.end > size) {
      refuse_tensor(path, name, "tensor data up to byte " + std::to_string(entry.end),
                    std::to_string(size) + " bytes of data in the file", kIncomplete);
    }
    if (entry.begin < next) {
      refuse_tensor(path, name, "tensors that do not overlap",
                    "it begins at byte " + std::to_string(entry.begin) + ", but " +
                        cut_text(last->tensor.name, 200) + " ends at byte " + std::to_string(next));
    }
    if (entry.begin > next) {
      refuse_tensor(path, name, "tensors without gaps",
                    std::to_string(entry.begin - next) + " bytes before it that belong to no tensor");
    }
    next = entry.end;
    last = &entry;
  }
  if (next != size) {
    refuse_tensor(path, "", "the file to end with the last tensor",
                  std::to_string(size - next) + " more bytes that belong to no tensor");
  }
}

// The header's text, its length checked against the file.
std::string_view header_of(const fs::path& path, std::span<const std::byte> bytes) {
  constexpr std::size_t kPrefix = 8;
  if (bytes.size() < kPrefix) {
    refuse_tensor(path, "", "a safetensors file", "a file of " + human_bytes(bytes.size()), kIncomplete);
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kPrefix; ++i) length |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  if (length > kMaxHeader) {
    refuse_tensor(path, "", "a safetensors header of at most " + human_bytes(kMaxHeader),
                  "a header length of " + human_bytes(length),
                  "not a safetensors file, perhaps a Git LFS pointer or a "
                  "PyTorch .bin under the wrong name");
  }
  if (length > bytes.size() - kPrefix) {
    refuse_tensor(path, "", "a header of " + human_bytes(length), "a file of " + human_bytes(bytes.size()),
                  kIncomplete);
  }
  return {reinterpret_cast<const char*>(bytes.data() + kPrefix), static_cast<std::size_t>(length)};
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const fs::path& path) {
  SafetensorsFile file(MappedFile::open(path));
  const std::string_view header = header_of(path, file.file_.bytes());
  const std::span<const std::byte> data = file.file_.bytes().subspan(8 + header.size());
  const nlohmann::json json = parse_json_unique(header, path.string() + " (header)");
  if (!json.is_object()) refuse_tensor(path, "", "a JSON object as header", printed(json));
  std::vector<Entry> entries;
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") {
      file.metadata_ = parse_metadata(path, value);
    } else {
      entries.push_back(parse_entry(path, name, value));
    }
  }
  // Empty tensors first where a full one begins at the same byte.
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_places(path, entries, data.size());
  for (Entry& entry : entries) {
    entry.tensor.bytes = data.subspan(entry.begin, entry.end - entry.begin);
    file.index_.emplace(entry.tensor.name, file.tensors_.size());
    file.tensors_.push_back(std::move(entry.tensor));
  }
  return file;
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

void write_safetensors(const fs::path& path, std::span<const StoredTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<TensorHeader> headers;
  for (const StoredTensor& tensor : tensors) headers.push_back({tensor.name, tensor.dtype, tensor.shape});
  write_safetensors(path, headers, metadata,
                    [&](std::size_t i, const TakeBytes& take) { take(tensors[i].bytes); });
}

void write_safetensors(const fs::path& path, std::span<const TensorHeader> tensors,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<void(std::size_t index, const TakeBytes& take)>& write) {
  Json header = Json::object();
  ObjectFiller filler(header);
  if (!metadata.empty()) filler.at("__metadata__") = metadata;
  std::vector<std::uint64_t> sizes;
  std::uint64_t at = 0;
  for (const TensorHeader& tensor : tensors) {
    std::uint64_t& bytes = sizes.emplace_back(size_of(tensor.dtype));
    for (const std::int64_t extent : tensor.shape) bytes *= static_cast<std::uint64_t>(extent);
    Json& entry = filler.at(tensor.name);
    require(tensor.name != "__metadata__" && entry.is_null(), "write_safetensors",
            "the name " + tensor.name + " once");
    entry = {{"dtype", safetensors_name(tensor.dtype)},
             {"shape", tensor.shape},
             {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string text = dump_json(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string prefix;
  for (unsigned i = 0; i < 8; ++i) prefix += static_cast<char>(text.size() >> (8 * i) & 0xFF);
  FileWriter writer(path, prefix.size() + text.size() + at);
  writer.write(prefix);
  writer.write(text);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::uint64_t taken = 0;
    write(i, [&](std::span<const std::byte> bytes) {
      taken += bytes.size();
      writer.write(bytes);
    });
    require(taken == sizes[i], "write_safetensors", "bytes that fit dtype and shape of " + tensors[i].name);
  }
  writer.commit();
}

}  // namespace hone::base
