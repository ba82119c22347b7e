// Errors: where it happened, what was expected, what was found, the likely cause, and what to do.
//
// UserError     the user's files, options or data; shown without a stack trace, exit code 2.
// InternalError our own bug; shown with a request to report it, exit code 70.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace hone::base {

// The five sentences of an error. `where` and `found` are required in practice; empty parts are not printed.
struct ErrorText {
  std::string where;     // file, line, column, option, tensor: "train.jsonl:12:7", "option packng"
  std::string expected;  // what would have been right
  std::string found;     // what is there
  std::string cause;     // the likely cause
  std::string fix;       // what to do
};

// "[where] expected ...\n  found:  ...\n  likely: ...\n  do:     ..."
std::string format_error(const ErrorText& text);

class Error : public std::runtime_error {
 public:
  explicit Error(ErrorText text) : std::runtime_error(format_error(text)), text_(std::move(text)) {}
  const ErrorText& text() const { return text_; }

 private:
  ErrorText text_;
};

class UserError : public Error {
 public:
  using Error::Error;
};

class InternalError : public Error {
 public:
  using Error::Error;
};

// Throws InternalError{where, what} unless `condition`; for our own invariants only.
void require(bool condition, std::string_view where, std::string_view what);

}  // namespace hone::base
