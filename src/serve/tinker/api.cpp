#include "serve/tinker/api.h"

#include <string_view>
#include <utility>

#include "serve/tinker/mailbox.h"
#include "serve/tinker/service.h"

namespace hone::serve {

namespace {

constexpr std::chrono::milliseconds kTick{50};

}  // namespace

TinkerApi::TinkerApi(model::CausalLm& model, Compute& compute, TinkerOptions options)
    : service_(std::make_unique<Service>(model, compute, std::move(options))) {
  mailbox_ = std::make_unique<Mailbox>([this] { service_->tick(); }, kTick, [](const std::exception_ptr&) {});
  service_->mailbox_ = mailbox_.get();
}

TinkerApi::~TinkerApi() = default;

bool TinkerApi::takes(const HttpRequest& request) const {
  return request.path.starts_with("/api/v1/");
}

void TinkerApi::handle(std::shared_ptr<Exchange> exchange) {
  mailbox_->post([this, exchange = std::move(exchange)] { service_->handle(exchange); });
}

HttpAnswer TinkerApi::failure(int status, const std::string& message) const {
  return detail(status, message);
}

}  // namespace hone::serve
