// The stand-in's operators: allocation, views and copies of its own, and the CPU's for everything else.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string_view>

#include "standin/guarded_memory.h"
#include "standin/standin.h"

namespace hone::standin {
namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;

// ---- what is counted

std::atomic<std::int64_t> to_device, staged, to_host, scalars, shapes, operators;

std::mutex names_mutex;
std::set<std::string>& names() {
  static std::set<std::string> all;
  return all;
}

// Copies of the CPU's operators are the stand-in's own affair.
thread_local bool on_host = false;

constexpr std::array<std::string_view, 7> kShapedByValues = {
    "aten::masked_select", "aten::nonzero",    "aten::repeat_interleave.Tensor",
    "aten::_unique2",      "aten::unique_dim", "aten::unique_consecutive",
    "aten::bincount"};

// ---- memory, views and copies

using Layout = std::optional<c10::Layout>;
using Dtype = std::optional<c10::ScalarType>;
using MaybeDevice = std::optional<c10::Device>;

at::Tensor empty(c10::IntArrayRef size, Dtype dtype, Layout /*layout*/, MaybeDevice /*device*/,
                 std::optional<bool> /*pin*/, std::optional<c10::MemoryFormat> format) {
  return at::detail::empty_generic(size, c10::GetAllocator(kType),
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, Dtype dtype, Layout /*layout*/,
                         MaybeDevice /*device*/, std::optional<bool> /*pin*/) {
  return at::detail::empty_strided_generic(size, stride, c10::GetAllocator(kType),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(dtype));
}

at::Tensor as_strided(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                      std::optional<c10::SymInt> offset) {
  return at::native::as_strided_tensorimpl(
      self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
      offset ? std::optional<std::int64_t>(offset->expect_int()) : std::nullopt);
}

at::Tensor reshape_alias(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
}

at::Tensor view(const at::Tensor& self, c10::SymIntArrayRef size) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size));
}

// Of tensors that nothing was written to yet: how libtorch sizes an output.
const at::Tensor& resize(const at::Tensor& self, c10::SymIntArrayRef sym_size,
                         std::optional<at::MemoryFormat> /*format*/) {
  const c10::IntArrayRef size = C10_AS_INTARRAYREF_SLOW(sym_size);
  const std::int64_t numbers = self.storage_offset() + c10::multiply_integers(size);
  const std::size_t bytes = static_cast<std::size_t>(numbers) * self.element_size();
  c10::StorageImpl* const storage = self.storage().unsafeGetStorageImpl();
  if (storage->nbytes() < bytes) {
    TORCH_CHECK(storage->nbytes() == 0, "stand-in: a tensor with values is resized");
    storage->set_data_ptr(c10::GetAllocator(kType)->allocate(bytes));
    storage->set_nbytes(bytes);
  }
  self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  return self;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool non_blocking) {
  if (!on_host && !self.device().is_cpu() && to.device().is_cpu()) to_host += 1;
  if (!on_host && self.device().is_cpu() && !to.device().is_cpu()) (non_blocking ? staged : to_device) += 1;
  const HostAccess access{self, to};
  host_view(to).copy_(host_view(self));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  if (to.sizes() != self.sizes()) resize(to, c10::fromIntArrayRefSlow(self.sizes()), std::nullopt);
  return copy_from(self, to, false);
}

at::Scalar local_scalar(const at::Tensor& self) {
  if (!on_host) scalars += 1;
  const HostAccess access{self};
  return host_view(self).item();
}

// ---- every other operator

std::vector<at::Tensor> tensors_of(const c10::IValue& value) {
  if (value.isTensor()) return {value.toTensor()};
  if (value.isTensorList()) return value.toTensorVector();
  std::vector<at::Tensor> out;
  if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& one : value.toOptionalTensorVector()) {
      if (one) out.push_back(*one);
    }
  }
  return out;
}

// Of the CPU a number is allowed, as on CUDA: a tensor without dimensions.
void refuse_two_devices(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  bool here = false, elsewhere = false;
  for (const c10::IValue& value : torch::jit::last(stack, op.schema().arguments().size())) {
    for (const at::Tensor& tensor : tensors_of(value)) {
      if (!tensor.defined()) continue;
      here = here || tensor.device() == device();
      elsewhere = elsewhere || (tensor.device().is_cpu() && tensor.dim() > 0);
    }
  }
  TORCH_CHECK(!here || !elsewhere, "stand-in: ", op.operator_name(), " got tensors of two devices");
}

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  refuse_two_devices(op, *stack);
  const std::string name = c10::toString(op.operator_name());
  if (!on_host) {
    operators += 1;
    const std::lock_guard lock(names_mutex);
    names().insert(name);
    for (const std::string_view one : kShapedByValues) shapes += name == one ? 1 : 0;
  }
  struct OnHost {
    bool before = std::exchange(on_host, true);
    ~OnHost() { on_host = before; }
  } const now;
  at::native::cpu_fallback(op, stack);
}

// ---- what libtorch asks of a device

struct Hooks final : at::PrivateUse1HooksInterface {
  bool hasPrimaryContext(c10::DeviceIndex /*index*/) const override { return true; }
  bool isAvailable() const override { return true; }
  bool isBuilt() const override { return true; }
};

c10::Stream only_stream() {
  return c10::Stream(c10::Stream::DEFAULT, device());
}

struct Guard final : c10::impl::NoOpDeviceGuardImpl<kType> {
  c10::Device getDevice() const override { return device(); }
  c10::Device exchangeDevice(c10::Device /*to*/) const override { return device(); }
  c10::Stream getStream(c10::Device /*of*/) const noexcept override { return only_stream(); }
  c10::Stream getDefaultStream(c10::Device /*of*/) const override { return only_stream(); }
  c10::Stream exchangeStream(c10::Stream /*to*/) const noexcept override { return only_stream(); }
  void record(void** /*event*/, const c10::Stream& /*stream*/, const c10::DeviceIndex /*index*/,
              const c10::EventFlag /*flag*/) const override {}
  void block(void* /*event*/, const c10::Stream& /*stream*/) const override {}
  bool queryEvent(void* /*event*/) const override { return true; }
  void destroyEvent(void* /*event*/, const c10::DeviceIndex /*index*/) const noexcept override {}
  void synchronizeEvent(void* /*event*/) const override {}
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

const bool registered = [] {
  static Hooks hooks;
  register_memory();
  c10::register_privateuse1_backend(kName);
  at::RegisterPrivateUse1HooksInterface(&hooks);
  return true;
}();

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", as_strided);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("view", view);
  m.impl("resize_", resize);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

}  // namespace

at::Device device() {
  return {kType, 0};
}

Counts Counts::operator-(const Counts& other) const {
  return {.to_device = to_device - other.to_device,
          .staged = staged - other.staged,
          .to_host = to_host - other.to_host,
          .scalars = scalars - other.scalars,
          .shapes = shapes - other.shapes,
          .operators = operators - other.operators};
}

std::set<std::string> operators_run() {
  const std::lock_guard lock(names_mutex);
  return names();
}

Counts counts() {
  return {.to_device = to_device,
          .staged = staged,
          .to_host = to_host,
          .scalars = scalars,
          .shapes = shapes,
          .operators = operators};
}

}  // namespace hone::standin
