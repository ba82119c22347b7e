// An API is a set of paths. The server asks each in the order of its list; what none takes is a 404.
#pragma once

#include <memory>
#include <string>

#include "serve/http.h"

namespace hone::serve {

class Api {
 public:
  virtual ~Api() = default;
  virtual bool takes(const HttpRequest& request) const = 0;
  // On the network's thread: nothing that takes long (task_thread.h has a thread for that). May throw: a
  // UserError becomes failure(400), anything else failure(500).
  virtual void handle(std::shared_ptr<Exchange> exchange) = 0;
  // The body of an error in this API's form.
  virtual HttpAnswer failure(int status, const std::string& message) const = 0;
};

}  // namespace hone::serve
