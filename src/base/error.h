// Errors: where it happened, what was expected, what was found, the likely cause, and what to do.
//
// UserError     the user's files, options or data; shown without a stack trace, exit code 2.
// InternalError our own bug; shown with a request to report it, exit code 70.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

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

 protected:
  Error(ErrorText text, const std::string& message) : std::runtime_error(message), text_(std::move(text)) {}

 private:
  ErrorText text_;
};

class UserError : public Error {
 public:
  using Error::Error;
};

// Several mistakes, told at once: "3 mistakes", then each as it would be told by itself. text() is the first one's.
class UserErrors : public UserError {
 public:
  explicit UserErrors(std::vector<UserError> all);  // two at least
  const std::vector<UserError>& all() const { return all_; }

 private:
  std::vector<UserError> all_;
};

// Throws the only one, or UserErrors; returns when there is none.
void throw_all(const std::vector<UserError>& mistakes);

class InternalError : public Error {
 public:
  using Error::Error;
};

// Throws InternalError{where, what} unless `condition`; for our own invariants only.
void require(bool condition, std::string_view where, std::string_view what);

}  // namespace hone::base
