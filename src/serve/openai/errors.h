// A request of OpenAI's API is refused with this.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include "serve/http.h"

namespace hone::serve::openai {

class Refusal : public std::runtime_error {
 public:
  // `param`: the field at fault; empty: none. `code`: a word for programs, or empty.
  Refusal(int http_status, const std::string& message, std::string field = "", std::string word = "",
          std::string kind = "invalid_request_error")
      : std::runtime_error(message),
        status(http_status),
        param(std::move(field)),
        code(std::move(word)),
        type(std::move(kind)) {}

  const int status;
  const std::string param, code, type;
};

// {"error": {message, type, param, code}}
std::string error_body(const Refusal& refusal);
HttpAnswer answer_of(const Refusal& refusal);

// A refusal for any exception: a UserError is a 400 with its sentence, what is not known a 500 that says
// nothing of the machine.
Refusal refusal_of(const std::exception_ptr& failure);

}  // namespace hone::serve::openai
