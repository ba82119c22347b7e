#include "report/terminal/warnings.h"

#include <fmt/format.h>

#include "report/terminal/terminal.h"

namespace hone::report {

namespace {

bool is_digit(char each) {
  return each >= '0' && each <= '9';
}

std::string without_numbers(std::string_view text) {
  std::string out;
  for (const char each : text) {
    if (!is_digit(each)) {
      out += each;
    } else if (out.empty() || out.back() != '#') {
      out += '#';
    }
  }
  return out;
}

}  // namespace

bool Warnings::add(std::string_view text) {
  const auto [entry, is_new] = index_.emplace(without_numbers(text), kinds_.size());
  if (is_new) kinds_.push_back({.first = std::string(text)});
  kinds_[entry->second].times += 1;
  return is_new;
}

std::vector<std::string> Warnings::repeated() const {
  std::vector<std::string> out;
  for (const Kind& kind : kinds_) {
    if (kind.times > 1) out.push_back(fmt::format("{} times: {}", human_count(kind.times), kind.first));
  }
  return out;
}

}  // namespace hone::report
