#include "doctor/error_verdict.h"

#include "doctor/catalogue/catalogue.h"

namespace hone::doctor {

std::string code_in(const std::string& text) {
  for (const std::string& code : fault_codes()) {
    if (text.find(code) != std::string::npos) return code;
  }
  return "";
}

base::Verdict verdict_of(const base::UserError& error) {
  const base::ErrorText& text = error.text();
  return {.code = code_in(error.what()),
          .level = base::Level::kFail,
          .what = "expected " + text.expected,
          .evidence = text.where + ": " + text.found,
          .cause = text.cause,
          .fix = text.fix};
}

}  // namespace hone::doctor
