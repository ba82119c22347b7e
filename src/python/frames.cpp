#include "python/frames.h"

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/error.h"

namespace hone::python {

using base::Json;

namespace {

constexpr std::size_t kHead = 4;

// Json finds a key in linear time, so that an object of a million keys would take hours.
void limit_keys(std::string_view frame, const std::string& who) {
  std::vector<std::size_t> keys;  // of the objects that are open
  bool in_string = false;
  for (std::size_t i = 0; i < frame.size(); ++i) {
    const char c = frame[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (keys.size() > base::kMaxJsonDepth) broken_reply("an answer nested too deeply", who);
      keys.push_back(0);
    } else if ((c == '}' || c == ']') && !keys.empty()) {
      keys.pop_back();
    } else if (c == ':' && !keys.empty() && ++keys.back() > kMaxReplyKeys) {
      broken_reply("an object of more than " + std::to_string(kMaxReplyKeys) + " keys", who);
    }
  }
}

}  // namespace

std::string to_frame(std::string_view payload, const std::string& who) {
  if (payload.size() > kMaxRequestBytes) {
    throw base::UserError({.where = who,
                           .expected = "at most " + std::to_string(kMaxRequestBytes >> 20U) + " MB a call",
                           .found = std::to_string(payload.size() >> 20U) + " MB",
                           .cause = "large columns in the data",
                           .fix = "remove columns that no function needs, or use smaller batches"});
  }
  std::string frame;
  frame.reserve(kHead + payload.size());
  for (unsigned i = 0; i < kHead; ++i) frame += static_cast<char>(payload.size() >> (8 * i) & 0xFFU);
  frame += payload;
  return frame;
}

std::optional<std::string> FrameReader::next() {
  if (pending_.size() < kHead) return std::nullopt;
  std::size_t length = 0;
  for (unsigned i = 0; i < kHead; ++i) {
    length |= static_cast<std::size_t>(static_cast<unsigned char>(pending_[i])) << (8 * i);
  }
  if (length > kMaxReplyBytes) broken_reply("a frame of " + std::to_string(length) + " bytes", who_);
  if (pending_.size() - kHead < length) return std::nullopt;
  std::string frame = pending_.substr(kHead, length);
  pending_.erase(0, kHead + length);
  return frame;
}

void broken_reply(const std::string& found, const std::string& who) {
  throw base::UserError({.where = who,
                         .expected = "a reply of the worker program",
                         .found = found,
                         .cause = "another program or library wrote to the worker's file descriptor",
                         .fix = "your functions must not write to file descriptors that they did not open"});
}

Json parse_reply(std::string_view frame, const std::string& who) {
  limit_keys(frame, who);
  return base::parse_json(frame, who);
}

const Json& reply_field(const Json& object, const char* name, const std::string& who) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  if (!object.is_object() || found == object.end()) broken_reply(std::string("no field '") + name + "'", who);
  return *found;
}

std::string reply_text(const Json& object, const char* name, const std::string& who) {
  const Json& value = reply_field(object, name, who);
  if (!value.is_string()) broken_reply(std::string("field '") + name + "' is no text", who);
  const auto& whole = value.get_ref<const std::string&>();
  if (whole.size() <= kMaxReplyText) return whole;
  std::size_t size = kMaxReplyText;
  while (size > 0 && (static_cast<unsigned char>(whole[size]) & 0xC0U) == 0x80U) --size;
  return whole.substr(0, size) + "...";
}

std::string place_in_dump(const std::string& dump, const std::string& file) {
  const std::string start = "File \"" + file + "\", line ";
  const std::size_t at = file.empty() ? std::string::npos : dump.find(start);
  if (at == std::string::npos) return {};
  const std::size_t number = at + start.size();
  const std::string line = dump.substr(number, dump.find('\n', number) - number);  // "12 in score"
  return std::filesystem::path(file).filename().string() + ":" + line;
}

std::string last_line(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  const std::size_t newline = text.rfind('\n');
  return std::string(newline == std::string_view::npos ? text : text.substr(newline + 1)).substr(0, 200);
}

}  // namespace hone::python
