// The wire format of protocol buffers (proto3), by hand: fields are read from a span and written to a string.
//
//   ProtoReader reader(bytes, "Datum");
//   while (reader.next()) {
//     if (reader.field() == 1) ids = reader.bytes(); else reader.skip();
//   }
//
// Every length is checked against the bytes that are there. UserError, which names the message, for what is
// cut, for a number of more than 64 bits, for groups, and for a field of another wire type than the one that
// is asked for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hone::serve {

class ProtoReader {
 public:
  // `bytes` must outlive the reader; `message` is a literal that names it in errors.
  ProtoReader(std::string_view bytes, const char* message) : rest_(bytes), message_(message) {}

  // Reads the next field's tag. False: no bytes are left.
  bool next();
  std::uint32_t field() const { return field_; }
  // The value of the field that next() found; one of these, once.
  std::uint64_t varint();
  double number();           // fixed64
  std::string_view bytes();  // also a text or a message
  std::string text();        // UserError for what is not UTF-8
  void skip();

 private:
  enum class Wire : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  std::uint64_t read_varint();
  std::string_view take(std::uint64_t count);
  void require_wire(Wire wanted) const;
  [[noreturn]] void fail(const std::string& found) const;

  std::string_view rest_;
  const char* message_;
  std::uint32_t field_ = 0;
  Wire wire_ = Wire::kVarint;
};

// Fields are written in the order of the calls. Zeros, and empty bytes of implicit presence, are for the
// caller to leave out.
class ProtoWriter {
 public:
  void varint(std::uint32_t field, std::uint64_t value);
  void number(std::uint32_t field, double value);
  void bytes(std::uint32_t field, std::string_view value);
  std::string take() { return std::move(out_); }

 private:
  void put_varint(std::uint64_t value);
  std::string out_;
};

}  // namespace hone::serve
