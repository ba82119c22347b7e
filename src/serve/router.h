// The server's front door: keys, and which API takes a request.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serve/api.h"
#include "serve/http.h"

namespace hone::serve {

class Router {
 public:
  // `key`: what `Authorization: Bearer KEY` or `X-API-Key` must have, compared in constant time; empty:
  // anybody may ask. /healthz is open to all.
  explicit Router(std::string key) : key_(std::move(key)) {}

  void add(std::unique_ptr<Api> api) { apis_.push_back(std::move(api)); }
  // On the network's thread; never throws.
  void handle(const std::shared_ptr<Exchange>& exchange) const;

 private:
  bool may_ask(const HttpRequest& request) const;

  const std::string key_;
  std::vector<std::unique_ptr<Api>> apis_;
};

}  // namespace hone::serve
