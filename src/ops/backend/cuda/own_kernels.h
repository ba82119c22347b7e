// hone's own kernels (kernels/kernels.h), where there are some. Their library is looked for beside the core, once, when a
// tensor of a GPU is first computed with; libtorch's operators run without it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

#include <type_traits>

#include "ops/backend/cuda/kernels/kernels.h"

namespace hone::ops::cuda {

// Of this device's tensors; null: there are none.
const kernels::Kernels* own_kernels(at::Device device);

// For tensors of any device from now on, on which their functions must be able to run: the emulator's, in tests. Null: as if
// this had not been called.
void set_own_kernels(const kernels::Kernels* table);

// A kernel's view of tensors. all() is false once one of them has a dtype or strides that the kernels do not take.
class KernelViews {
 public:
  kernels::Rows rows(const at::Tensor& x);      // [rows, columns]
  kernels::Vector vector(const at::Tensor& x);  // dense; of an undefined tensor none
  kernels::Heads heads(const at::Tensor& x);    // [tokens, heads, dim]
  // Of a dense tensor of this type; T may be const.
  template <typename T>
  T* numbers(const at::Tensor& x) {
    need(x.is_contiguous());
    return x.data_ptr<std::remove_const_t<T>>();
  }
  void need(bool condition) { all_ = all_ && condition; }
  bool all() const { return all_; }

 private:
  kernels::Dtype dtype_of(const at::Tensor& x);
  bool all_ = true;
};

// The stream on which libtorch's operators of this thread run.
void* stream_of(at::Device device);

// Of a kernel's start: throws InternalError where it was refused. True.
bool started(int error, const char* kernel);

// Starts a kernel of our own with what `arguments` makes of KernelViews. False: there is none for this device or these tensors.
template <typename Arguments, typename Make>
bool run_own(at::Device device, int (*kernels::Kernels::*kernel)(const Arguments&, void*), const char* name,
             const Make& arguments) {
  const kernels::Kernels* const own = own_kernels(device);
  if (own == nullptr) return false;
  KernelViews views;
  const c10::DeviceGuard guard(
      device);  // a start is on the current card of its thread, which may be another one
  const Arguments made = arguments(views);
  return views.all() && started((own->*kernel)(made, stream_of(device)), name);
}

}  // namespace hone::ops::cuda
