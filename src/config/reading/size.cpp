#include "config/reading/size.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/strings/ascii.h"

namespace hone::config {
namespace {

constexpr double kMaxBytes = 9e15;  // whole in a double

std::string lower_without_spaces(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ') out += c;
  }
  return base::lower_ascii(std::move(out));
}

const double* unit(std::string_view word) {
  static const std::map<std::string_view, double> units = {
      {"", 1},      {"b", 1},        {"kb", 1e3},     {"mb", 1e6},     {"gb", 1e9},
      {"tb", 1e12}, {"kib", 0x1p10}, {"mib", 0x1p20}, {"gib", 0x1p30}, {"tib", 0x1p40}};
  const auto found = units.find(word);
  return found == units.end() ? nullptr : &found->second;
}

}  // namespace

std::int64_t size_in_bytes(std::string_view text, const std::string& where) {
  const std::string word = lower_without_spaces(text);
  if (word.empty()) return 0;
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  const double* scale = unit(std::string_view(word).substr(static_cast<std::size_t>(end - word.data())));
  const double bytes = scale == nullptr ? -1 : number * *scale;
  if (error == std::errc() && bytes >= 0 && bytes <= kMaxBytes) return std::llround(bytes);
  throw base::UserError(
      {.where = where,
       .expected = "a size such as 2.05GB, 900MiB or 2050000000",
       .found = fmt::format("'{}'", text),
       .fix = "units are kB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB, TiB (of 1024)"});
}

}  // namespace hone::config
