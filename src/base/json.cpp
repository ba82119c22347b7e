#include "base/json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/json_tools.h"
#include "base/strings/utf8.h"

namespace hone::base {

namespace {

// "file:line:column" of the byte `offset`; the column counts code points.
std::string locate(std::string_view text, std::size_t offset, const std::string& where, int first_line) {
  offset = std::min(offset, text.size());
  int line = first_line;
  int column = 1;
  for (std::size_t i = 0; i < offset; ++i) {
    if (text[i] == '\n') {
      ++line;
      column = 1;
    } else if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) {
      ++column;
    }
  }
  return where + ":" + std::to_string(line) + ":" + std::to_string(column);
}

// The bytes after `offset` as far as they help, made printable.
std::string excerpt(std::string_view text, std::size_t offset) {
  constexpr std::size_t kMost = 40;
  const std::size_t begin = offset > 10 ? offset - 10 : 0;
  std::string out;
  for (const char c : text.substr(std::min(begin, text.size()), kMost)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte >= 0x20 && byte < 0x7F ? c : byte < 0x20 ? ' ' : '?';
  }
  return out;
}

std::string likely_cause(std::string_view text, std::size_t offset) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return "the file or line is empty";
  if (offset >= text.size())
    return "the text ends early: an incomplete file, or a bracket or quote not closed";
  const char here = text[offset];
  if (here == '\'') return "single quotes: JSON requires double quotes";
  if (here == ',' && text.find_first_not_of(" \t\r\n", offset + 1) == std::string_view::npos)
    return "a comma after the row: JSON Lines has none between its rows";
  if (here == '}' || here == ']') {
    const std::size_t before = text.find_last_not_of(" \t\r\n", offset == 0 ? 0 : offset - 1);
    if (before != std::string_view::npos && before < offset && text[before] == ',') {
      return "a comma after the last entry";
    }
  }
  const std::string_view near = text.substr(offset > 8 ? offset - 8 : 0, 16);
  for (const std::string_view word : {"NaN", "Infinity", "None", "True", "False"}) {
    if (near.find(word) != std::string_view::npos) return "Python's " + std::string(word) + " is not JSON";
  }
  return {};
}

// "syntax error while parsing value - invalid literal" of the library's long message.
std::string detail_of(const nlohmann::json::exception& error) {
  std::string_view what = error.what();
  if (const auto end = what.find("] "); end != std::string_view::npos) what.remove_prefix(end + 2);
  if (const auto at = what.find(": "); what.starts_with("parse error at") && at != std::string_view::npos) {
    what.remove_prefix(at + 2);
  }
  what = what.substr(0, what.find("; last read:"));
  std::string out(what.substr(0, 200));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7F) c = '?';
  }
  return out;
}

// The offset of the bracket that opens one level too many, or npos. Outside strings only; a text with
// unbalanced quotes is left to the parser.
std::size_t too_deep_at(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) return i;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return std::string_view::npos;
}

// Builds a value from the parser's events. The library's own builder looks every key of Json up by walking
// through the object, and its form with a callback walks through the parent at each end: both are quadratic.
template <typename Value>
class Builder {
 public:
  // With `unique` a key given twice is a UserError, else the last value counts.
  Builder(Value& root, const std::string& where, bool unique) : root_(root), where_(where), unique_(unique) {}

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(std::int64_t value) { return put(value); }
  bool number_unsigned(std::uint64_t value) { return put(value); }
  bool number_float(double value, const std::string& /*text*/) { return put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(typename Value::binary_t& value) { return put(std::move(value)); }
  bool start_array(std::size_t /*size*/) { return open(Value::value_t::array); }
  bool end_array() { return close(); }
  bool start_object(std::size_t /*size*/) { return open(Value::value_t::object); }
  bool end_object() { return close(); }

  bool key(std::string& name) {
    Frame& frame = frames_.back();
    if constexpr (std::is_same_v<Value, Json>) {
      const std::size_t before = frame.value->size();
      member_ = &frame.filler->at(name);
      if (unique_ && frame.value->size() == before) throw_twice(name);
    } else {
      const auto [place, is_new] =
          frame.value->template get_ref<typename Value::object_t&>().emplace(name, nullptr);
      if (unique_ && !is_new) throw_twice(name);
      member_ = &place->second;
    }
    return true;
  }

  template <typename Exception>
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/, const Exception& error) {
    throw error;
  }

 private:
  struct Frame {
    Value* value;
    std::unique_ptr<ObjectFiller> filler;  // of a Json object
  };

  Value& place() {
    if (frames_.empty()) return root_;
    if (frames_.back().value->is_object()) return *member_;
    return frames_.back().value->emplace_back(nullptr);
  }

  template <typename Given>
  bool put(Given&& value) {
    place() = Value(std::forward<Given>(value));
    return true;
  }

  bool open(typename Value::value_t type) {
    Value& value = place();
    value = Value(type);
    Frame frame{.value = &value, .filler = nullptr};
    if constexpr (std::is_same_v<Value, Json>) {
      if (value.is_object()) frame.filler = std::make_unique<ObjectFiller>(value);
    }
    frames_.push_back(std::move(frame));
    return true;
  }

  bool close() {
    frames_.pop_back();
    return true;
  }

  [[noreturn]] void throw_twice(const std::string& name) const {
    throw UserError({.where = where_,
                     .expected = "each name only once",
                     .found = "'" + cut_text(name, 200) + "' twice",
                     .cause = "a faulty writer or a damaged file",
                     .fix = "write the file again with the tool that made it"});
  }

  Value& root_;
  const std::string& where_;
  bool unique_;
  std::vector<Frame> frames_;
  Value* member_ = nullptr;  // where the value of the last key goes
};

template <typename Value>
Value parse_checked(std::string_view text, const std::string& where, int first_line, bool unique) {
  if (const std::size_t deep = too_deep_at(text); deep != std::string_view::npos) {
    throw UserError({.where = locate(text, deep, where, first_line),
                     .expected = "JSON nested at most " + std::to_string(kMaxJsonDepth) + " levels deep",
                     .found = "a deeper list or object",
                     .cause = "a damaged or hostile file",
                     .fix = "repair the file or download it again"});
  }
  try {
    Value out;
    // A row of a file is named by its line.
    const std::string place = std::is_same_v<Value, Json> ? where + ":" + std::to_string(first_line) : where;
    Builder<Value> builder(out, place, unique);
    Value::sax_parse(text.begin(), text.end(), &builder);
    return out;
  } catch (const nlohmann::json::parse_error& error) {
    const std::size_t offset = error.byte == 0 ? 0 : error.byte - 1;
    throw UserError({.where = locate(text, offset, where, first_line),
                     .expected = "JSON",
                     .found = detail_of(error) + ", near `" + excerpt(text, offset) + "`",
                     .cause = likely_cause(text, offset),
                     .fix = "correct the text at this place"});
  } catch (const nlohmann::json::exception& error) {  // a number that no double holds
    throw UserError({.where = where + ":" + std::to_string(first_line),
                     .expected = "JSON",
                     .found = detail_of(error),
                     .cause = "a number too large for a double",
                     .fix = "correct the number"});
  }
}

// ---- Python's words for numbers that JSON has none for

struct PythonNumber {
  std::string_view word;
  double value;
};
constexpr std::array<PythonNumber, 3> kPythonNumbers = {
    {{"-Infinity", -std::numeric_limits<double>::infinity()},
     {"Infinity", std::numeric_limits<double>::infinity()},
     {"NaN", std::numeric_limits<double>::quiet_NaN()}}};

const PythonNumber* python_number_at(std::string_view text, std::size_t at) {
  for (const PythonNumber& one : kPythonNumbers) {
    if (text.substr(at).starts_with(one.word)) return &one;
  }
  return nullptr;
}

// Each such word outside strings as a string: `mark` and the word. Bytes after it in its line move.
std::string with_marked_numbers(std::string_view text, const std::string& mark) {
  std::string out;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const PythonNumber* const number = in_string ? nullptr : python_number_at(text, i);
    if (number != nullptr) {
      out += '"' + mark + std::string(number->word) + '"';
      i += number->word.size() - 1;
      continue;
    }
    if (c == '"') in_string = !in_string;
    out += c;
    if (in_string && c == '\\' && i + 1 < text.size()) out += text[++i];
  }
  return out;
}

void put_python_numbers(Json& value, const std::string& mark) {
  if (value.is_structured()) {
    for (Json& each : value) put_python_numbers(each, mark);
    return;
  }
  if (!value.is_string() || !value.get_ref<const std::string&>().starts_with(mark)) return;
  const auto& text = value.get_ref<const std::string&>();
  const PythonNumber* const number = python_number_at(text, mark.size());
  if (number != nullptr && text.size() == mark.size() + number->word.size()) value = number->value;
}

bool names_python_number(std::string_view text) {
  return text.find("NaN") != std::string_view::npos || text.find("Infinity") != std::string_view::npos;
}

// A string as dump() writes it, several times as fast: most bytes are copied in runs.
void append_text(const std::string& text, std::string& out) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const bool ascii = std::all_of(text.begin(), text.end(), [](unsigned char byte) { return byte < 0x80; });
  if (!ascii && bad_utf8_at(text) != std::string::npos) {
    out += Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
    return;
  }
  out += '"';
  std::size_t copied = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
    out.append(text, copied, i - copied);
    copied = i + 1;
    constexpr std::string_view kNamed = "\b\f\n\r\t\"\\", kLetters = "bfnrt\"\\";
    out += '\\';
    if (const std::size_t name = kNamed.find(text[i]); name != std::string_view::npos) {
      out += kLetters[name];
    } else {
      out += "u00";
      out += kHex[byte >> 4U];
      out += kHex[byte & 15U];
    }
  }
  out.append(text, copied);
  out += '"';
}

void append_number(double value, bool python, std::string& out) {
  if (!python || std::isfinite(value)) {
    out += Json(value).dump();
  } else {
    out += std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
  }
}

void append_line(const Json& value, bool python, std::string& out) {
  char before = value.is_object() ? '{' : '[';
  if (value.is_string()) {
    append_text(value.get_ref<const std::string&>(), out);
  } else if (value.is_object() && !value.empty()) {
    for (const auto& [key, item] : value.items()) {
      out += std::exchange(before, ',');
      append_text(key, out);
      out += ':';
      append_line(item, python, out);
    }
    out += '}';
  } else if (value.is_array() && !value.empty()) {
    for (const Json& item : value) {
      out += std::exchange(before, ',');
      append_line(item, python, out);
    }
    out += ']';
  } else if (value.is_number_float()) {
    append_number(value.get<double>(), python, out);
  } else {
    out += value.dump();
  }
}

}  // namespace

Json parse_json(std::string_view text, const std::string& where, int first_line) {
  return parse_checked<Json>(text, where, first_line, /*unique=*/false);
}

Json parse_python_json(std::string_view text, const std::string& where, int first_line) {
  if (!names_python_number(text)) return parse_checked<Json>(text, where, first_line, /*unique=*/true);
  // A string written with escapes is not found in `text`: the hash of all of it keeps the mark out of those
  // too.
  std::string mark = "number " + std::to_string(hash64(text)) + " ";
  while (text.find(mark) != std::string_view::npos) mark += '#';
  Json out = parse_checked<Json>(with_marked_numbers(text, mark), where, first_line, /*unique=*/true);
  put_python_numbers(out, mark);
  return out;
}

nlohmann::json parse_json_unique(std::string_view text, const std::string& where) {
  return parse_checked<nlohmann::json>(text, where, 1, /*unique=*/true);
}

std::string dump_json(const Json& value, int indent) {
  if (indent >= 0) return value.dump(indent, ' ', false, Json::error_handler_t::replace);
  std::string out;
  append_line(value, /*python=*/false, out);
  return out;
}

std::string dump_python_json(const Json& value) {
  std::string out;
  append_line(value, /*python=*/true, out);
  return out;
}

}  // namespace hone::base
