#include "standin/emulated_kernels.h"

#include <memory>

#include "emulated/machine/emulator.h"
#include "emulated/machine/guarded_kernels.h"
#include "ops/backend/cuda/cuda_operators.h"
#include "ops/backend/cuda/own_kernels.h"
#include "standin/guarded_memory.h"

namespace hone::standin {
namespace {

std::shared_ptr<void> open(const void* call, std::size_t bytes) {
  return std::make_shared<AddressAccess>(call, bytes);
}

// The backend's table where libhone_cuda.so is beside the program.
const ops::backend::Operators& table_with_own_kernels() {
  static const ops::backend::Operators table = [] {
    ops::backend::Operators out = ops::backend::cuda_operators();
    out.keeps_ggml = true;
    out.copy_blocks = ops::cuda::copy_blocks;
    out.take_tile = ops::cuda::take_tile;
    out.take_row = ops::cuda::take_row;
    out.tile_backward = ops::cuda::tile_backward;
    return out;
  }();
  return table;
}

}  // namespace

UseEmulatedKernels::UseEmulatedKernels(const ops::cuda::kernels::Kernels* kernels)
    : table_(table_with_own_kernels()), before_(emulated::guarded_calls_by_name()) {
  emulated::set_schedule(emulated::Schedule::kWarpByWarp);
  ops::cuda::set_own_kernels(
      &emulated::guarded(kernels == nullptr ? emulated::emulated_kernels() : *kernels, open));
}

UseEmulatedKernels::~UseEmulatedKernels() {
  ops::cuda::set_own_kernels(nullptr);
}

std::map<std::string, std::int64_t> UseEmulatedKernels::calls() const {
  std::map<std::string, std::int64_t> out = emulated::guarded_calls_by_name();
  for (auto& [name, count] : out) count -= before_.at(name);
  return out;
}

}  // namespace hone::standin
