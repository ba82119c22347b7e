#include "base/error.h"

#include "base/secrets.h"

namespace hone::base {

std::string format_error(const ErrorText& text) {
  std::string out;
  if (!text.where.empty()) out += "[" + text.where + "] ";
  if (!text.expected.empty()) out += "expected " + text.expected;
  const auto line = [&out](std::string_view label, const std::string& value) {
    if (value.empty()) return;
    if (!out.empty()) out += "\n";
    out += "  ";
    out += label;
    out += value;
  };
  line("found:  ", text.found);
  line("likely: ", text.cause);
  line("do:     ", text.fix);
  return redact_secrets(out);
}

void require(bool condition, std::string_view where, std::string_view what) {
  if (condition) return;
  throw InternalError({.where = std::string(where),
                       .expected = std::string(what),
                       .found = "the opposite",
                       .cause = "a bug in hone",
                       .fix = "please report this line with your command"});
}

}  // namespace hone::base
