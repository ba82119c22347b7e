#include "tools/python_values.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/json_tools.h"
#include "base/strings/code_points.h"

namespace hone::tools {
namespace {

using base::Json;

constexpr std::size_t kMostDigits =
    4300;  // sys.int_info.default_max_str_digits: Python refuses a longer integer

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// An integer of JSON's or Python's form, without "_".
std::optional<Json> integer(std::string_view digits) {
  if (digits.starts_with('+')) digits.remove_prefix(1);
  const char* const begin = digits.data();
  const char* const end = begin + digits.size();
  std::int64_t value = 0;
  if (const auto [rest, error] = std::from_chars(begin, end, value); error == std::errc() && rest == end)
    return Json(value);
  std::uint64_t large = 0;
  if (const auto [rest, error] = std::from_chars(begin, end, large); error == std::errc() && rest == end)
    return Json(large);
  return std::nullopt;
}

void append_code_point(char32_t c, std::string& out) {
  out += base::to_utf8(std::u32string_view(&c, 1));
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool whole(Json& out) {
    skip_space();
    if (!value(out, 0)) return false;
    skip_space();
    return at_ == text_.size();
  }

 private:
  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
  }

  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  bool value(Json& out, int depth) {
    if (at_ >= text_.size() || depth > base::kMaxJsonDepth) return false;
    switch (text_[at_]) {
      case '{':
        return object(out, depth);
      case '[':
        return array(out, depth);
      case '"': {
        std::string text;
        if (!string(text)) return false;
        out = std::move(text);
        return true;
      }
      default:
        return word(out) || number(out);
    }
  }

  bool word(Json& out) {
    if (take("null")) {
      out = nullptr;
    } else if (take("true")) {
      out = true;
    } else if (take("false")) {
      out = false;
    } else if (take("NaN")) {
      out = std::numeric_limits<double>::quiet_NaN();
    } else if (take("Infinity")) {
      out = std::numeric_limits<double>::infinity();
    } else if (take("-Infinity")) {
      out = -std::numeric_limits<double>::infinity();
    } else {
      return false;
    }
    return true;
  }

  std::size_t digits(std::size_t at) const {
    while (at < text_.size() && is_digit(text_[at])) ++at;
    return at;
  }

  bool number(Json& out) {
    const std::size_t begin = at_;
    std::size_t end = begin + (text_[begin] == '-' ? 1U : 0U);
    if (end >= text_.size() || !is_digit(text_[end])) return false;
    end = text_[end] == '0' ? end + 1 : digits(end);
    bool whole = true;
    if (end + 1 < text_.size() && text_[end] == '.' && is_digit(text_[end + 1])) {
      whole = false;
      end = digits(end + 1);
    }
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      std::size_t power = end + 1;
      if (power < text_.size() && (text_[power] == '+' || text_[power] == '-')) ++power;
      if (power < text_.size() && is_digit(text_[power])) {
        whole = false;
        end = digits(power);
      }
    }
    const std::string digits_of(text_.substr(begin, end - begin));
    at_ = end;
    if (whole) {
      if (digits_of.size() > kMostDigits + 1) return false;
      if (const auto found = integer(digits_of)) {
        out = *found;
        return true;
      }
    }
    out = std::strtod(digits_of.c_str(), nullptr);
    return true;
  }

  static int hex(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  }

  std::optional<char32_t> unit(std::size_t at) const {
    if (at + 4 > text_.size()) return std::nullopt;
    char32_t value = 0;
    for (std::size_t i = at; i < at + 4; ++i) {
      const int digit = hex(text_[i]);
      if (digit < 0) return std::nullopt;
      value = value * 16 + static_cast<char32_t>(digit);
    }
    return value;
  }

  // Behind "\u".
  bool escaped_unit(std::string& out) {
    const std::optional<char32_t> first = unit(at_);
    if (!first) return false;
    at_ += 4;
    char32_t c = *first;
    if (c >= 0xD800 && c <= 0xDBFF && text_.substr(at_).starts_with("\\u")) {
      const std::optional<char32_t> second = unit(at_ + 2);
      if (second && *second >= 0xDC00 && *second <= 0xDFFF) {
        c = 0x10000 + ((c - 0xD800) << 10U) + (*second - 0xDC00);
        at_ += 6;
      }
    }
    append_code_point(c >= 0xD800 && c <= 0xDFFF ? 0xFFFD : c, out);
    return true;
  }

  bool string(std::string& out) {
    ++at_;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') return true;
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (c != '\\') {
        out += c;
        continue;
      }
      if (at_ >= text_.size()) return false;
      const char name = text_[at_++];
      constexpr std::string_view kNames = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
      if (const std::size_t found = kNames.find(name); found != std::string_view::npos) {
        out += kMeant[found];
      } else if (name != 'u' || !escaped_unit(out)) {
        return false;
      }
    }
    return false;
  }

  bool array(Json& out, int depth) {
    out = Json::array();
    ++at_;
    skip_space();
    if (take("]")) return true;
    for (;;) {
      if (!value(out.emplace_back(nullptr), depth + 1)) return false;
      skip_space();
      if (take("]")) return true;
      if (!take(",")) return false;
      skip_space();
    }
  }

  bool object(Json& out, int depth) {
    out = Json::object();
    base::ObjectFiller members(out);
    ++at_;
    skip_space();
    if (take("}")) return true;
    for (;;) {
      std::string key;
      if (at_ >= text_.size() || text_[at_] != '"' || !string(key)) return false;
      skip_space();
      if (!take(":")) return false;
      skip_space();
      if (!value(members.at(key), depth + 1)) return false;
      skip_space();
      if (take("}")) return true;
      if (!take(",")) return false;
      skip_space();
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// Digits with single "_" between them, which are taken out. "" when the text is not such.
std::string bare_digits(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool between = i > 0 && i + 1 < text.size() && is_digit(text[i - 1]) && is_digit(text[i + 1]);
    if (text[i] == '_' && between) continue;
    if (!is_digit(text[i])) return "";
    out += text[i];
  }
  return out;
}

std::string stripped(std::string_view text) {
  const std::u32string points = base::to_code_points(text);
  return base::to_utf8(base::stripped(points));
}

// digits [. digits] [e digits] with digits on one side of the point at least; "" for another text.
std::string bare_float(std::string_view text) {
  std::string power;
  if (const std::size_t e = text.find_first_of("eE"); e != std::string_view::npos) {
    std::string_view digits = text.substr(e + 1);
    power = "e";
    if (digits.starts_with('+') || digits.starts_with('-')) {
      power += digits.front();
      digits.remove_prefix(1);
    }
    const std::string bare = bare_digits(digits);
    if (bare.empty()) return "";
    power += bare;
    text = text.substr(0, e);
  }
  const std::size_t point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  const std::string_view part = point == std::string_view::npos ? std::string_view() : text.substr(point + 1);
  const std::string bare_whole = bare_digits(whole), bare_part = bare_digits(part);
  if ((!whole.empty() && bare_whole.empty()) || (!part.empty() && bare_part.empty())) return "";
  if (whole.empty() && part.empty()) return "";
  return bare_whole + (bare_part.empty() ? "" : "." + bare_part) + power;
}

}  // namespace

std::optional<Json> python_loads(std::string_view utf8) {
  Json out;
  if (!Reader(utf8).whole(out)) return std::nullopt;
  return out;
}

std::optional<Json> python_int(std::string_view text) {
  std::string bare = stripped(text);
  std::string sign;
  if (bare.starts_with('+') || bare.starts_with('-')) {
    sign = bare.substr(0, 1);
    bare.erase(0, 1);
  }
  const std::string digits = bare_digits(bare);
  if (digits.empty() || digits.size() > kMostDigits) return std::nullopt;
  return integer((sign == "-" ? sign : "") + digits);
}

std::optional<double> python_float(std::string_view text) {
  std::string bare = stripped(text);
  double sign = 1;
  if (bare.starts_with('+') || bare.starts_with('-')) {
    sign = bare.front() == '-' ? -1 : 1;
    bare.erase(0, 1);
  }
  std::string lower = bare;
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  if (lower == "inf" || lower == "infinity") return sign * std::numeric_limits<double>::infinity();
  if (lower == "nan") return std::numeric_limits<double>::quiet_NaN();
  const std::string number = bare_float(bare);
  if (number.empty()) return std::nullopt;
  return sign * std::strtod(number.c_str(), nullptr);
}

}  // namespace hone::tools
