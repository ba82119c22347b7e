#include "serve/tinker/api.h"

#include <future>
#include <string_view>
#include <utility>

#include "serve/task_thread.h"
#include "serve/tinker/service.h"

namespace hone::serve {

namespace {

constexpr std::chrono::milliseconds kTick{50};
constexpr std::chrono::minutes kLongestSave{5};

}  // namespace

TinkerApi::TinkerApi(model::CausalLm& model, Compute& compute, TinkerOptions options)
    : service_(std::make_unique<Service>(model, compute, std::move(options))) {
  tasks_ = std::make_unique<TaskThread>([](const std::exception_ptr& fault) { error_of(fault); },
                                        [this] { service_->tick(); }, kTick);
  service_->tasks_ = tasks_.get();
}

TinkerApi::~TinkerApi() = default;

bool TinkerApi::takes(const HttpRequest& request) const {
  return request.path.starts_with("/api/v1/");
}

void TinkerApi::handle(std::shared_ptr<Exchange> exchange) {
  tasks_->run([this, exchange = std::move(exchange)] { service_->handle(exchange); });
}

Autosaved TinkerApi::autosave() {
  const auto saved = std::make_shared<std::promise<Autosaved>>();
  std::future<Autosaved> result = saved->get_future();
  tasks_->run(
      [this, saved] { service_->autosave([saved](Autosaved all) { saved->set_value(std::move(all)); }); });
  if (result.wait_for(kLongestSave) == std::future_status::ready) return result.get();
  return {.paths = {}, .failures = {"all models: saving took longer than 5 minutes"}};
}

KeptFacts TinkerApi::versions() const {
  return service_->versions();
}

HttpAnswer TinkerApi::failure(int status, const std::string& message) const {
  return detail(status, message);
}

}  // namespace hone::serve
