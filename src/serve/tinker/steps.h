// A work of a model as functions.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "serve/scheduler.h"
#include "serve/tinker/service.h"

namespace hone::serve {

// `step` until it says false, then `done`; `failed` for what these throw. Nothing once the model's session
// has ended. All on the compute thread.
class Steps : public Work {
 public:
  Steps(std::shared_ptr<Runtime> runtime, std::function<bool(Runtime&)> step, std::function<void()> done,
        std::function<void(std::exception_ptr)> failed)
      : runtime_(std::move(runtime)),
        step_(std::move(step)),
        done_(std::move(done)),
        failed_(std::move(failed)) {}

  bool step() override {
    try {
      if (runtime_->is_abandoned) throw ApiError{410, "the session has ended"};
      if (step_(*runtime_)) return true;
      done_();
    } catch (...) {
      failed_(std::current_exception());
    }
    return false;
  }

 private:
  std::shared_ptr<Runtime> runtime_;
  std::function<bool(Runtime&)> step_;
  std::function<void()> done_;
  std::function<void(std::exception_ptr)> failed_;
};

}  // namespace hone::serve
