#include "serve/router.h"

#include <algorithm>

#include "base/error.h"

namespace hone::serve {

namespace {

// In a time that depends on the lengths alone.
bool is_same(std::string_view given, std::string_view key) {
  unsigned char difference = given.size() == key.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i)
    difference |= static_cast<unsigned char>(given[i] ^ key[i % key.size()]);
  return difference == 0;
}

}  // namespace

bool Router::may_ask(const HttpRequest& request) const {
  if (key_.empty() || request.path == "/healthz" || request.path == "/health") return true;
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view bearer = request.header("authorization");
  if (bearer.starts_with(kBearer) && is_same(bearer.substr(kBearer.size()), key_)) return true;
  return is_same(request.header("x-api-key"), key_);
}

void Router::handle(const std::shared_ptr<Exchange>& exchange) const {
  const HttpRequest& request = exchange->request;
  const auto api =
      std::find_if(apis_.begin(), apis_.end(), [&](const auto& one) { return one->takes(request); });
  const Api& form = api == apis_.end() ? *apis_.front() : **api;
  try {
    if (!may_ask(request)) {
      HttpAnswer answer = form.failure(401, "the key is missing or wrong");
      exchange->answer(std::move(answer));
    } else if (api == apis_.end()) {
      exchange->answer(form.failure(404, "there is nothing at this path"));
    } else {
      (*api)->handle(exchange);
    }
  } catch (const base::UserError& error) {
    exchange->answer(form.failure(400, error.text().found));
  } catch (...) {
    exchange->answer(form.failure(500, "the server failed at this request"));
  }
}

}  // namespace hone::serve
