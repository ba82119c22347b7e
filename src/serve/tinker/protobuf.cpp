#include "serve/tinker/protobuf.h"

#include <cstring>

#include "base/error.h"
#include "base/strings/printable.h"

namespace hone::serve {
namespace {

constexpr std::uint64_t kMaxField = (1U << 29U) - 1;

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = base::utf8_size(text, at);
    if (size == 0) return false;
    at += size;
  }
  return true;
}

}  // namespace

void ProtoReader::fail(const std::string& found) const {
  throw base::UserError({.where = std::string("protobuf message ") + message_,
                         .expected = "a message as the tinker SDK writes it",
                         .found = found,
                         .cause = "the body was cut, or is of another protocol",
                         .fix = "send application/x-protobuf with the SDK that docs/serve.md names"});
}

std::uint64_t ProtoReader::read_varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) fail("a number that is cut");
    const auto byte = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    const std::uint64_t bits = byte & 0x7FU;
    if (shift == 63 && bits > 1) fail("a number of more than 64 bits");
    value |= bits << shift;
    if ((byte & 0x80U) == 0) return value;
  }
  fail("a number of more than 10 bytes");
}

std::string_view ProtoReader::take(std::uint64_t count) {
  if (count > rest_.size()) {
    fail("a field of " + std::to_string(count) + " bytes where " + std::to_string(rest_.size()) +
         " are left");
  }
  const std::string_view out = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return out;
}

bool ProtoReader::next() {
  if (rest_.empty()) return false;
  const std::uint64_t tag = read_varint();
  const std::uint64_t wire = tag & 7U;
  if (tag >> 3U == 0 || tag >> 3U > kMaxField) fail("field number " + std::to_string(tag >> 3U));
  if (wire == 3 || wire == 4 || wire > 5) fail("wire type " + std::to_string(wire));
  field_ = static_cast<std::uint32_t>(tag >> 3U);
  wire_ = static_cast<Wire>(wire);
  return true;
}

void ProtoReader::require_wire(Wire wanted) const {
  if (wire_ == wanted) return;
  fail("field " + std::to_string(field_) + " with wire type " + std::to_string(static_cast<int>(wire_)) +
       " in place of " + std::to_string(static_cast<int>(wanted)));
}

std::uint64_t ProtoReader::varint() {
  require_wire(Wire::kVarint);
  return read_varint();
}

double ProtoReader::number() {
  require_wire(Wire::kFixed64);
  double value = 0;
  std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
  return value;
}

std::string_view ProtoReader::bytes() {
  require_wire(Wire::kBytes);
  return take(read_varint());
}

std::string ProtoReader::text() {
  const std::string_view out = bytes();
  if (!is_utf8(out)) fail("a text in field " + std::to_string(field_) + " that is not UTF-8");
  return std::string(out);
}

void ProtoReader::skip() {
  switch (wire_) {
    case Wire::kVarint:
      read_varint();
      break;
    case Wire::kFixed64:
      take(8);
      break;
    case Wire::kBytes:
      take(read_varint());
      break;
    case Wire::kFixed32:
      take(4);
      break;
  }
}

void ProtoWriter::put_varint(std::uint64_t value) {
  while (value >= 0x80U) {
    out_.push_back(static_cast<char>((value & 0x7FU) | 0x80U));
    value >>= 7U;
  }
  out_.push_back(static_cast<char>(value));
}

void ProtoWriter::varint(std::uint32_t field, std::uint64_t value) {
  put_varint(std::uint64_t{field} << 3U);
  put_varint(value);
}

void ProtoWriter::number(std::uint32_t field, double value) {
  put_varint((std::uint64_t{field} << 3U) | 1U);
  char bytes[sizeof(value)];
  std::memcpy(bytes, &value, sizeof(value));
  out_.append(bytes, sizeof(value));
}

void ProtoWriter::bytes(std::uint32_t field, std::string_view value) {
  put_varint((std::uint64_t{field} << 3U) | 2U);
  put_varint(value.size());
  out_.append(value);
}

}  // namespace hone::serve
