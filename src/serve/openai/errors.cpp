#include "serve/openai/errors.h"

#include "base/error.h"
#include "base/json.h"

namespace hone::serve::openai {

namespace {

base::Json text_or_null(const std::string& text) {
  return text.empty() ? base::Json() : base::Json(text);
}

std::string sentence_of(const base::ErrorText& text) {
  std::string out = text.where;
  if (!text.expected.empty()) out += ": expected " + text.expected;
  if (!text.found.empty()) out += "; found " + text.found;
  if (!text.fix.empty()) out += ". " + text.fix;
  return out;
}

}  // namespace

std::string error_body(const Refusal& refusal) {
  return base::dump_json({{"error",
                           {{"message", refusal.what()},
                            {"type", refusal.type},
                            {"param", text_or_null(refusal.param)},
                            {"code", text_or_null(refusal.code)}}}});
}

HttpAnswer answer_of(const Refusal& refusal) {
  HttpAnswer out{.status = refusal.status, .body = error_body(refusal)};
  if (refusal.status == 429 || refusal.status == 503) out.headers.emplace_back("retry-after", "1");
  if (refusal.status == 401) out.headers.emplace_back("www-authenticate", "Bearer");
  return out;
}

Refusal refusal_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Refusal& refusal) {
    return refusal;
  } catch (const base::UserError& error) {
    return {400, sentence_of(error.text())};
  } catch (...) {
    return {500, "the server failed at this request", "", "", "server_error"};
  }
}

}  // namespace hone::serve::openai
