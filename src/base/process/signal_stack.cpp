#include "base/process/signal_stack.h"

#include <csignal>
#include <cstddef>
#include <memory>

namespace hone::base {

namespace {

constexpr std::size_t kBytes = 64 << 10;

class SignalStack {
 public:
  SignalStack() : bytes_(std::make_unique<std::byte[]>(kBytes)) {
    const stack_t own = {.ss_sp = bytes_.get(), .ss_flags = 0, .ss_size = kBytes};
    ::sigaltstack(&own, nullptr);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;
  ~SignalStack() {
    const stack_t none = {.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
    ::sigaltstack(&none, nullptr);
  }

 private:
  std::unique_ptr<std::byte[]> bytes_;
};

}  // namespace

void install_signal_stack() {
  thread_local const SignalStack own;
}

}  // namespace hone::base
