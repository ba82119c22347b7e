#include "serve/tinker/wire_tensor.h"

#include <bit>

#include "serve/tinker/protobuf.h"

namespace hone::serve {
namespace {

enum class Type : std::uint8_t { kNone = 0, kFloat32 = 1, kInt64 = 2, kInt32 = 3, kBfloat16 = 4 };

[[noreturn]] void no_tensor(const std::string& where, const std::string& expected, const std::string& found) {
  throw base::UserError({.where = where,
                         .expected = expected,
                         .found = found,
                         .cause = "the message was not written by the tinker SDK, or was changed on its way",
                         .fix = {}});
}

using Values = std::variant<std::vector<float>, std::vector<std::int64_t>>;

Values values_of(std::string_view bytes, Type type, const std::string& where) {
  switch (type) {
    case Type::kFloat32:
      return numbers_of<float>(bytes, where);
    case Type::kInt64:
      return numbers_of<std::int64_t>(bytes, where);
    case Type::kInt32: {
      const auto narrow = numbers_of<std::int32_t>(bytes, where);
      return std::vector<std::int64_t>(narrow.begin(), narrow.end());
    }
    case Type::kBfloat16: {
      std::vector<float> wide;
      for (const std::uint16_t half : numbers_of<std::uint16_t>(bytes, where))
        wide.push_back(std::bit_cast<float>(std::uint32_t{half} << 16U));
      return wide;
    }
    case Type::kNone:
      break;
  }
  no_tensor(where, "dtype float32, int64, int32 or bfloat16", "none of them");
}

struct Parts {
  bool is_sparse = false, has_values = false;
  std::string_view dense, values, rows, columns;
  Type type = Type::kNone;
  std::vector<std::int64_t> shape;
};

void read_sparse(std::string_view bytes, Parts& parts) {
  ProtoReader reader(bytes, "SparseCsr");
  while (reader.next()) {
    if (reader.field() == 1) {
      parts.values = reader.bytes();
    } else if (reader.field() == 2) {
      parts.rows = reader.bytes();
    } else if (reader.field() == 3) {
      parts.columns = reader.bytes();
    } else {
      reader.skip();
    }
  }
}

void read_shape(std::string_view bytes, std::vector<std::int64_t>& shape, const std::string& where) {
  while (!bytes.empty()) {  // packed
    std::uint64_t value = 0;
    unsigned shift = 0;
    bool more = true;
    while (more) {
      if (bytes.empty() || shift > 56) no_tensor(where, "a shape of whole numbers", "bytes that are none");
      const auto byte = static_cast<std::uint8_t>(bytes.front());
      bytes.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      shift += 7;
      more = (byte & 0x80U) != 0;
    }
    if (shape.size() == 2) no_tensor(where, "one or two dimensions", "more");
    shape.push_back(static_cast<std::int64_t>(value));
  }
}

Parts read_parts(std::string_view bytes, const std::string& where) {
  Parts parts;
  ProtoReader reader(bytes, "Tensor");
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        parts.dense = reader.bytes();
        parts.is_sparse = false;
        parts.has_values = true;
        break;
      case 2:
        parts = {.is_sparse = true, .has_values = true, .type = parts.type, .shape = parts.shape};
        read_sparse(reader.bytes(), parts);
        break;
      case 3: {
        const std::uint64_t type = reader.varint();
        if (type > 4) no_tensor(where, "dtype float32, int64, int32 or bfloat16", std::to_string(type));
        parts.type = static_cast<Type>(type);
        break;
      }
      case 4:
        read_shape(reader.bytes(), parts.shape, where);
        break;
      default:
        reader.skip();
    }
  }
  return parts;
}

std::int64_t elements(const std::vector<std::int64_t>& shape, const std::string& where) {
  std::int64_t out = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || size > kMaxTensorElements) no_tensor(where, "sizes up to 16777216", std::to_string(size));
    out *= size;  // of two sizes: no more than 2^48
  }
  // A sparse tensor of few bytes would become a large one, and each target is a pass over the vocabulary.
  if (shape.size() == 2 && shape[1] > kMostColumns)
    no_tensor(where, "up to " + std::to_string(kMostColumns) + " columns", std::to_string(shape[1]));
  if (out > kMaxTensorElements) no_tensor(where, "up to 16777216 numbers", std::to_string(out));
  return out;
}

// The rows of a CSR matrix in a dense one of zeros.
template <typename Number>
std::vector<Number> densified(const std::vector<Number>& values, const Parts& parts, std::int64_t count,
                              const std::string& where) {
  const auto starts = numbers_of<std::int64_t>(parts.rows, where + " crow_indices");
  const auto columns = numbers_of<std::int64_t>(parts.columns, where + " col_indices");
  const std::int64_t rows = parts.shape[0], width = parts.shape[1];
  const auto stored = static_cast<std::int64_t>(values.size());
  if (static_cast<std::int64_t>(starts.size()) != rows + 1 || columns.size() != values.size() ||
      starts.front() != 0 || starts.back() != stored)
    no_tensor(where, "crow_indices of every row and a column for each value", "others");
  std::vector<Number> out(static_cast<std::size_t>(count));
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t begin = starts[static_cast<std::size_t>(row)];
    const std::int64_t end = starts[static_cast<std::size_t>(row) + 1];
    if (begin < 0 || end < begin || end > stored) no_tensor(where, "crow_indices that ascend", "others");
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t column = columns[static_cast<std::size_t>(i)];
      if (column < 0 || column >= width)
        no_tensor(where, "columns below " + std::to_string(width), std::to_string(column));
      out[static_cast<std::size_t>(row * width + column)] = values[static_cast<std::size_t>(i)];
    }
  }
  return out;
}

}  // namespace

WireTensor read_tensor(std::string_view bytes, const std::string& where) {
  const Parts parts = read_parts(bytes, where);
  Values values = values_of(parts.is_sparse ? parts.values : parts.dense, parts.type, where);
  WireTensor out{.shape = parts.shape};
  const auto stored =
      static_cast<std::int64_t>(std::visit([](const auto& some) { return some.size(); }, values));
  if (out.shape.empty() && !parts.is_sparse) out.shape = {stored};
  const std::int64_t count = elements(out.shape, where);
  if (parts.is_sparse) {
    if (out.shape.size() != 2) no_tensor(where, "two dimensions of a sparse tensor", "another shape");
    std::visit([&](const auto& some) { out.values = densified(some, parts, count, where); }, values);
    return out;
  }
  if (stored != count)
    no_tensor(where, std::to_string(count) + " numbers, as its shape says", std::to_string(stored));
  out.values = std::move(values);
  return out;
}

}  // namespace hone::serve
