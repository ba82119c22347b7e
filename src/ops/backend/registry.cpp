#include <array>
#include <atomic>

#include "base/error.h"
#include "ops/backend/cuda.h"
#include "ops/backend/operators.h"

namespace hone::ops::backend {
namespace {

constexpr auto kTypes = static_cast<std::size_t>(c10::COMPILE_TIME_MAX_DEVICE_TYPES);
std::array<std::atomic<const Operators*>, kTypes> registered{};
std::atomic<const Operators*> only{nullptr};
const Operators kReferenceAlone;

}  // namespace

const Operators& operators_of(at::Device device) {
  if (const Operators* const table = only.load(std::memory_order_relaxed)) return *table;
  const Operators* const table =
      registered[static_cast<std::size_t>(device.type())].load(std::memory_order_acquire);
  if (table != nullptr) return *table;
  if (device.is_cpu()) return cpu_operators();
  return device.is_cuda() ? cuda_operators() : kReferenceAlone;
}

void register_operators(at::DeviceType type, const Operators* table) {
  registered[static_cast<std::size_t>(type)].store(table, std::memory_order_release);
}

OnlyOperators::OnlyOperators(const Operators& table) {
  const Operators* none = nullptr;
  base::require(only.compare_exchange_strong(none, &table), "ops::OnlyOperators", "one at a time");
}

OnlyOperators::~OnlyOperators() {
  only.store(nullptr);
}

}  // namespace hone::ops::backend
