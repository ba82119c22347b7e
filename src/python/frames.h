// Frames travel between hone and a worker: four bytes of length, little-endian, and then JSON. The other side
// is not trusted: lengths are checked before anything is kept, depth and the number of keys before it is
// parsed.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"

namespace hone::python {

inline constexpr std::size_t kMaxReplyBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMaxReplyKeys = 4096;  // of one object
inline constexpr std::size_t kMaxReplyText = std::size_t{16}
                                             << 10;  // of one text for the user; longer ones are cut
inline constexpr std::size_t kMaxRequestBytes = std::size_t{1} << 30;

// `who` is the worker in messages: "reward worker". UserError when `payload` is longer than kMaxRequestBytes.
std::string to_frame(std::string_view payload, const std::string& who);

// Takes bytes as they come and gives frames as they are whole.
class FrameReader {
 public:
  explicit FrameReader(std::string who) : who_(std::move(who)) {}
  void feed(std::string_view bytes) { pending_ += bytes; }
  // UserError when a frame says that it is longer than kMaxReplyBytes.
  std::optional<std::string> next();

 private:
  std::string who_;
  std::string pending_;
};

// UserError: an answer that the worker's program does not give.
[[noreturn]] void broken_reply(const std::string& found, const std::string& who);
// UserError for what is no JSON, nested too deeply, or has an object of more than kMaxReplyKeys keys.
base::Json parse_reply(std::string_view frame, const std::string& who);
// A member of an object, and one that is text, cut between characters where it is too long to be shown. UserError without it.
const base::Json& reply_field(const base::Json& object, const char* name, const std::string& who);
std::string reply_text(const base::Json& object, const char* name, const std::string& who);

// The innermost frame in `file` of what faulthandler wrote, as "map.py:12 in score"; "" when there is none.
std::string place_in_dump(const std::string& dump, const std::string& file);
std::string last_line(std::string_view text);  // of at most 200 bytes

}  // namespace hone::python
