#include "ops/backend/cuda/own_kernels.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>

#include <atomic>
#include <string>

#include "base/error.h"
#include "ops/backend/cuda.h"
#include "ops/machine/cuda.h"

namespace hone::ops {
namespace {

constexpr const char* kLibrary = "libhone_cuda.so";

struct Loaded {
  const cuda::kernels::Kernels* table = nullptr;
  std::string why_not;
};

// The folder of the library that holds this function.
std::string own_folder() {
  Dl_info found{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &found) == 0 || found.dli_fname == nullptr)
    return {};
  const std::string file = found.dli_fname;
  const std::size_t end = file.rfind('/');
  return end == std::string::npos ? std::string() : file.substr(0, end + 1);
}

Loaded load_library() {
  if (!own_kernels_wanted()) return {.why_not = "HONE_OWN_KERNELS is off"};
  const std::string path = own_folder() + kLibrary;
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const said = dlerror();
    return {.why_not = said == nullptr ? path + " is not there" : said};
  }
  void* const symbol = dlsym(library, cuda::kernels::kEntry);
  const auto entry = reinterpret_cast<cuda::kernels::Entry>(symbol);
  const cuda::kernels::Kernels* const table = entry == nullptr ? nullptr : entry();
  if (table == nullptr || table->version != cuda::kernels::kVersion)
    return {.why_not = path + " is of another version of hone"};
  return {.table = table};
}

const Loaded& library() {
  static const Loaded loaded = load_library();
  return loaded;
}

std::atomic<const cuda::kernels::Kernels*> set{nullptr};
std::atomic<bool> off{false};
std::atomic<std::int64_t> starts{0};

}  // namespace

std::string own_kernels_missing() {
  return library().why_not;
}

namespace backend {

std::int64_t own_kernels_started() {
  return starts.load();
}

WithoutOwnKernels::WithoutOwnKernels() {
  base::require(!off.exchange(true), "ops::WithoutOwnKernels", "one at a time");
}

WithoutOwnKernels::~WithoutOwnKernels() {
  off.store(false);
}

}  // namespace backend

namespace cuda {

const kernels::Kernels* own_kernels(at::Device device) {
  if (off.load(std::memory_order_relaxed)) return nullptr;
  if (const kernels::Kernels* const table = set.load(std::memory_order_acquire)) return table;
  return device.is_cuda() ? library().table : nullptr;
}

bool has_own_kernels(at::Device device) {
  return own_kernels(device) != nullptr;
}

void set_own_kernels(const kernels::Kernels* table) {
  set.store(table, std::memory_order_release);
}

kernels::Dtype KernelViews::dtype_of(const at::Tensor& x) {
  need(x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
  return x.scalar_type() == at::kFloat ? kernels::Dtype::kFloat : kernels::Dtype::kBFloat16;
}

kernels::Rows KernelViews::rows(const at::Tensor& x) {
  need(x.dim() == 2 && (x.stride(1) == 1 || x.size(1) <= 1));
  return {x.data_ptr(), x.stride(0), dtype_of(x)};
}

kernels::Vector KernelViews::vector(const at::Tensor& x) {
  if (!x.defined()) return {};
  need(x.is_contiguous());
  return {x.const_data_ptr(), dtype_of(x)};
}

kernels::Heads KernelViews::heads(const at::Tensor& x) {
  need(x.dim() == 3 && (x.stride(2) == 1 || x.size(2) <= 1));
  return {x.data_ptr(), x.stride(0), x.stride(1), dtype_of(x)};
}

void* stream_of(at::Device device) {
  return device.is_cuda() ? c10::impl::getDeviceGuardImpl(device.type())->getStream(device).native_handle()
                          : nullptr;
}

bool started(int error, const char* kernel) {
  base::require(error == 0, kernel, "a kernel that starts; CUDA's error is " + std::to_string(error));
  starts.fetch_add(1, std::memory_order_relaxed);
  return true;
}

}  // namespace cuda
}  // namespace hone::ops
