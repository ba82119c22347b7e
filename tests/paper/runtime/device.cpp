// Cards with the numbers of an H100 that libtorch asks for, one unless PAPER_DEVICES says more; all have one memory of PAPER_MEMORY_GB.
// PAPER_DEVICES=0 is a machine whose driver finds no card, PAPER_DRIVER=12040 one whose driver is too old.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <utility>

#include "state.h"

namespace paper {
namespace {

constexpr int kMultiprocessors = 132, kSharedMemory = 49152, kSharedMemoryOptin = 232448;
constexpr int kSharedMemoryOfMultiprocessor = 233472, kRegisters = 65536, kL2 = 50 << 20;
constexpr int kNeededDriver = 13000;

thread_local cudaError_t last_error = cudaSuccess;
thread_local int device_of_thread = 0;

cudaError_t usable() {
  if (paper_driver_version() < kNeededDriver) return fail(cudaErrorInsufficientDriver);
  return paper_devices() == 0 ? fail(cudaErrorNoDevice) : cudaSuccess;
}

long of_the_driver() {
  return 0;
}

}  // namespace

void started_on_current_card() {
  if (device_of_thread != 0) ++state().counts.on_other_cards;
}

cudaError_t fail(cudaError_t error) {
  last_error = error;
  return error;
}

}  // namespace paper

using paper::fail;

cudaError_t cudaGetDeviceCount(int* out) {
  *out = 0;
  if (const cudaError_t error = paper::usable(); error != cudaSuccess) return error;
  *out = paper_devices();
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* out) {
  *out = paper::device_of_thread;
  return paper::usable();
}
cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t error = paper::usable(); error != cudaSuccess) return error;
  if (device < 0 || device >= paper_devices()) return fail(cudaErrorInvalidDevice);
  paper::device_of_thread = device;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* out) {
  *out = paper_driver_version();
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* out) {
  *out = paper::kNeededDriver;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  if (const cudaError_t error = paper::usable(); error != cudaSuccess) return error;
  if (device < 0 || device >= paper_devices()) return fail(cudaErrorInvalidDevice);
  std::memset(out, 0, sizeof *out);
  std::snprintf(out->name, sizeof out->name, "paper H100");
  out->totalGlobalMem = static_cast<std::size_t>(paper_total_bytes());
  out->major = 9;
  out->warpSize = 32;
  out->multiProcessorCount = paper::kMultiprocessors;
  out->sharedMemPerBlock = paper::kSharedMemory;
  out->sharedMemPerBlockOptin = paper::kSharedMemoryOptin;
  out->sharedMemPerMultiprocessor = paper::kSharedMemoryOfMultiprocessor;
  out->regsPerBlock = out->regsPerMultiprocessor = paper::kRegisters;
  out->l2CacheSize = paper::kL2;
  out->maxThreadsPerBlock = out->maxThreadsDim[0] = out->maxThreadsDim[1] = 1024;
  out->maxThreadsDim[2] = 64;
  out->maxGridSize[0] = 2147483647;
  out->maxGridSize[1] = out->maxGridSize[2] = 65535;
  out->maxThreadsPerMultiProcessor = 2048;
  out->maxBlocksPerMultiProcessor = 32;
  out->totalConstMem = 65536;
  out->memoryBusWidth = 5120;
  out->textureAlignment = 512;
  out->unifiedAddressing = out->concurrentKernels = out->canMapHostMemory = out->cooperativeLaunch = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* out, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp card;
  if (const cudaError_t error = cudaGetDeviceProperties(&card, device); error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *out = card.multiProcessorCount;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *out = card.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *out = card.minor;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *out = paper::kSharedMemory;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *out = paper::kSharedMemoryOptin;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *out = paper::kSharedMemoryOfMultiprocessor;
      break;
    case cudaDevAttrWarpSize:
      *out = card.warpSize;
      break;
    case cudaDevAttrMaxThreadsPerBlock:
      *out = card.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *out = card.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrMaxGridDimX:
      *out = card.maxGridSize[0];
      break;
    case cudaDevAttrL2CacheSize:
      *out = card.l2CacheSize;
      break;
    default:
      *out = 0;
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* out, int length, int /*device*/) {
  std::snprintf(out, static_cast<std::size_t>(length), "0000:00:00.0");
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* out, int, int) {
  *out = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  return fail(cudaErrorPeerAccessUnsupported);
}

// ---- errors
cudaError_t cudaGetLastError() {
  return std::exchange(paper::last_error, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() {
  return paper::last_error;
}
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorNotSupported:
      return "cudaErrorNotSupported";
    default:
      return "an error of the paper GPU";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    default:
      return cudaGetErrorName(error);
  }
}

// The driver's own functions: those of libcuda.so.1 (driver.cpp), and for all others one that does nothing.
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** out, unsigned /*version*/,
                                             unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* result) {
  *out = dlsym(RTLD_DEFAULT, name);
  if (*out == nullptr) *out = reinterpret_cast<void*>(&paper::of_the_driver);
  if (result != nullptr) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

// ---- between processes: nobody does
cudaError_t cudaIpcCloseMemHandle(void*) {
  return fail(cudaErrorNotSupported);
}
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t*, cudaEvent_t) {
  return fail(cudaErrorNotSupported);
}
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*) {
  return fail(cudaErrorNotSupported);
}
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t*, cudaIpcEventHandle_t) {
  return fail(cudaErrorNotSupported);
}
cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned) {
  return fail(cudaErrorNotSupported);
}
