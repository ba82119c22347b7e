#include "doctor/excluded.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "config/write_plan.h"

namespace hone::doctor {

namespace {

constexpr std::string_view kBetween = "; ";
constexpr double kSameNumber = 1e-6;  // relative: three digits are printed of most numbers

bool is_of_name(char each) {
  return (each >= 'a' && each <= 'z') || (each >= '0' && each <= '9') || each == '_';
}

// "learning_rate: 2e-4": an option and a value.
struct Proposal {
  std::string option, value;
};

std::vector<Proposal> proposals_in(std::string_view part, const config::Schema& schema) {
  std::vector<Proposal> out;
  for (std::size_t colon = part.find(": "); colon != std::string_view::npos;
       colon = part.find(": ", colon + 1)) {
    std::size_t begin = colon;
    while (begin > 0 && is_of_name(part[begin - 1])) --begin;
    const std::string_view name = part.substr(begin, colon - begin);
    if (name.empty() || schema.find(name) == nullptr) continue;
    const std::size_t value = colon + 2;
    const std::size_t end = std::min(part.find_first_of(" ,;)", value), part.size());
    out.push_back({std::string(name), std::string(part.substr(value, end - value))});
  }
  return out;
}

std::optional<double> number_in(const std::string& text) {
  double out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(out) : std::nullopt;
}

bool is_same(const base::Json& value, const std::string& proposed) {
  if (value.is_null()) return proposed == "null";
  if (value.is_boolean()) return proposed == (value.get<bool>() ? "true" : "false");
  if (value.is_array()) return value.size() == 1 && is_same(value[0], proposed);
  if (value.is_string()) return value.get<std::string>() == proposed;
  if (!value.is_number()) return false;
  const auto one = value.get<double>();
  const std::optional<double> other = number_in(proposed);
  return other && std::abs(one - *other) <= kSameNumber * std::max(std::abs(one), std::abs(*other));
}

std::vector<std::string_view> parts_of(std::string_view fix) {
  std::vector<std::string_view> out;
  for (std::size_t begin = 0; begin <= fix.size();) {
    const std::size_t end = std::min(fix.find(kBetween, begin), fix.size());
    out.push_back(fix.substr(begin, end - begin));
    begin = end + kBetween.size();
  }
  return out;
}

bool has(const config::Plan& plan, const std::string& option, const std::string& value) {
  return std::any_of(plan.resolved.begin(), plan.resolved.end(), [&](const auto& one) {
    if (one.first != option) return false;
    const base::Json read = base::Json::parse(one.second, nullptr, /*allow_exceptions=*/false);
    return is_same(read.is_discarded() ? base::Json(one.second) : read, value);
  });
}

bool proposes_what_is_set(const config::Plan& plan, std::string_view part) {
  const std::vector<Proposal> all = proposals_in(part, config::method_schema(plan.method));
  return !all.empty() && std::all_of(all.begin(), all.end(),
                                     [&](const Proposal& one) { return has(plan, one.option, one.value); });
}

}  // namespace

Excluded& Excluded::add(std::string what, std::string how) {
  found_.push_back({std::move(what), std::move(how)});
  return *this;
}

std::string Excluded::text() const {
  std::string out;
  for (const One& one : found_) {
    out += (out.empty() ? "" : "; ") + one.what + (one.how.empty() ? "" : " (" + one.how + ")");
  }
  return out;
}

std::string report_fix(const Excluded& excluded, const std::string& first) {
  base::require(!excluded.empty(), "doctor::report_fix", "a report needs inputs that were excluded");
  return first + (first.empty() ? "" : "; ") + "please report this with the file of `hone bug-report`";
}

void ask_to_report(base::Verdict& verdict, const Excluded& excluded, const std::string& first) {
  verdict.not_this = excluded.text();
  verdict.fix = report_fix(excluded, first);
}

std::vector<std::string> already_set(const config::Plan& plan, const base::Verdict& verdict) {
  std::vector<std::string> out;
  for (const Proposal& one : proposals_in(verdict.fix, config::method_schema(plan.method))) {
    if (has(plan, one.option, one.value)) out.push_back(one.option);
  }
  for (const auto& [option, value] : verdict.repair) {
    if (has(plan, option, value)) out.push_back(option);
  }
  return out;
}

void drop_what_is_set(const config::Plan& plan, base::Verdict& verdict) {
  std::string kept;
  for (const std::string_view part : parts_of(verdict.fix)) {
    if (proposes_what_is_set(plan, part)) continue;
    kept += (kept.empty() ? "" : std::string(kBetween)) + std::string(part);
  }
  verdict.fix = kept;
  std::erase_if(verdict.repair, [&](const auto& one) { return has(plan, one.first, one.second); });
}

}  // namespace hone::doctor
