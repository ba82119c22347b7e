#include "base/error.h"

#include <utility>

#include "base/strings/secrets.h"

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

namespace {

std::string told_together(const std::vector<UserError>& all) {
  std::string out = std::to_string(all.size()) + " mistakes";
  for (const UserError& one : all) {
    out += '\n';
    out += one.what();
  }
  return out;
}

}  // namespace

UserErrors::UserErrors(std::vector<UserError> all)
    : UserError(all.at(0).text(), told_together(all)), all_(std::move(all)) {}

void throw_all(const std::vector<UserError>& mistakes) {
  if (mistakes.size() == 1) throw UserError(mistakes[0]);
  if (!mistakes.empty()) throw UserErrors(mistakes);
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
