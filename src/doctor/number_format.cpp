#include "doctor/number_format.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "config/method_traits.h"

namespace hone::doctor {

namespace {

bool continues_character(char each) {
  return (static_cast<unsigned char>(each) & 0xC0U) == 0x80U;
}

std::string printed(const char* form, double value) {
  std::array<char, 64> buffer{};
  const int size = std::snprintf(buffer.data(), buffer.size(), form, value);
  return {buffer.data(), static_cast<std::size_t>(size > 0 ? size : 0)};
}

}  // namespace

std::string short_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return printed("%.3g", value == 0 ? 0.0 : value);  // no "-0"
}

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::string percent(double share) {
  const double value = 100 * share;
  const bool near_an_end = (value > 0 && value < 1) || (value > 99 && value < 100);
  return printed(near_an_end ? "%.1f %%" : "%.0f %%", value);
}

std::string excerpt(std::string_view text, std::size_t limit, bool from_end) {
  const bool cut = text.size() > limit;
  if (cut && from_end) {
    text.remove_prefix(text.size() - limit);
    while (!text.empty() && continues_character(text.front())) text.remove_prefix(1);
  } else if (cut) {
    std::size_t end = limit;
    while (end > 0 && continues_character(text[end])) --end;
    text = text.substr(0, end);
  }
  std::string out(cut && from_end ? "..." : "");
  for (const char each : text) out += static_cast<unsigned char>(each) < 0x20 || each == 0x7F ? ' ' : each;
  if (cut && !from_end) out += "...";
  return out;
}

void name_options_of(const config::Plan& plan, base::Verdict& verdict) {
  constexpr std::string_view kTheirs = "max_completion_length";
  const std::string_view ours = config::method_traits(plan.method).completion_limit;
  if (ours == kTheirs) return;
  for (std::string* text :
       {&verdict.what, &verdict.evidence, &verdict.cause, &verdict.not_this, &verdict.fix, &verdict.cost}) {
    for (std::size_t at = text->find(kTheirs); at != std::string::npos; at = text->find(kTheirs, at)) {
      text->replace(at, kTheirs.size(), ours);
    }
  }
}

}  // namespace hone::doctor
