// Kernels: registered by name when a library is loaded, counted when they are launched, never run.
#include <cstdlib>
#include <cstring>

#include "state.h"

namespace paper {
namespace {

cudaError_t launch(const void* kernel, cudaStream_t stream) {
  const Guard guard(lock());
  ++state().counts.launches;
  ++state().launched[kernel];
  started_on_current_card();
  happened('k');
  record_kernel(stream);
  forget_copies();
  stream_is_busy(stream);
  return cudaSuccess;
}

// What `kernel<<<grid, block, shared, stream>>>(...)` puts down before its stub takes it up again.
struct Configuration {
  dim3 grid, block;
  std::size_t shared = 0;
  void* stream = nullptr;
};
thread_local Configuration configuration;

}  // namespace
}  // namespace paper

using paper::Guard;
using paper::launch;
using paper::lock;
using paper::state;

// ---- what nvcc's code calls, by its names
// NOLINTBEGIN(readability-identifier-naming, bugprone-reserved-identifier)
extern "C" {

void** __cudaRegisterFatBinary(void* /*code*/) {
  return static_cast<void**>(std::malloc(sizeof(void*)));
}
void __cudaRegisterFatBinaryEnd(void** /*handle*/) {}
void __cudaUnregisterFatBinary(void** handle) {
  std::free(static_cast<void*>(handle));
}
char __cudaInitModule(void** /*handle*/) {
  return 1;
}
void __cudaRegisterFunction(void** /*handle*/, const char* stub, char* /*device*/, const char* name,
                            int /*threads*/, void* /*thread*/, void* /*block*/, void* /*blockDim*/,
                            void* /*gridDim*/, int* /*warp*/) {
  const Guard guard(lock());
  state().kernels[stub] = name;
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, void* stream) {
  paper::configuration = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  *grid = paper::configuration.grid;
  *block = paper::configuration.block;
  *shared = paper::configuration.shared;
  *static_cast<void**>(stream) = paper::configuration.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(void** kernel, const void* stub) {
  *kernel = const_cast<void*>(stub);
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(void* kernel, dim3, dim3, void**, std::size_t, cudaStream_t stream) {
  return launch(kernel, stream);
}
// NOLINTEND(readability-identifier-naming, bugprone-reserved-identifier)

// ---- the stub libraries
void paper_library_call(const char* name) {
  const Guard guard(lock());
  ++state().counts.launches;
  ++state().counts.library_calls;
  ++state().library_called[name];
  paper::happened('k');
  paper::record_library_call();
  paper::forget_copies();
}

}  // extern "C"

cudaError_t cudaLaunchKernel(const void* stub, dim3, dim3, void**, std::size_t, cudaStream_t stream) {
  return launch(stub, stream);
}
cudaError_t cudaLaunchCooperativeKernel(const void* stub, dim3, dim3, void**, std::size_t,
                                        cudaStream_t stream) {
  return launch(stub, stream);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* how, const void* stub, void**) {
  return launch(stub, how->stream);
}

// ---- what libtorch asks of a kernel before it chooses a grid
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void* /*stub*/) {
  std::memset(out, 0, sizeof *out);
  out->maxThreadsPerBlock = 1024;
  out->numRegs = 32;
  out->ptxVersion = out->binaryVersion = 90;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, std::size_t) {
  *blocks = 2;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, std::size_t,
                                                                   unsigned) {
  *blocks = 2;
  return cudaSuccess;
}
