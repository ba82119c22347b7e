// libcuda.so.1: what libtorch, and whoever asks whether there is a driver at all, calls of it.
#include <cstddef>
#include <cstring>

#include "counts.h"

// NOLINTBEGIN(readability-identifier-naming): NVIDIA's names
extern "C" {

constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE
// CU_DEVICE_ATTRIBUTE_: COMPUTE_CAPABILITY_MAJOR, VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
constexpr int kCapabilityMajor = 75, kVirtualMemory = 102;

int cuInit(unsigned /*flags*/) {
  return paper_devices() == 0 ? kNoDevice : 0;
}
int cuDriverGetVersion(int* out) {
  *out = paper_driver_version();
  return 0;
}
int cuDeviceGetCount(int* out) {
  *out = paper_devices();
  return 0;
}
int cuDeviceGet(int* out, int ordinal) {
  *out = ordinal;
  return 0;
}
int cuDeviceGetName(char* out, int length, int /*device*/) {
  std::strncpy(out, "paper H100", static_cast<unsigned>(length));
  return 0;
}
int cuDeviceTotalMem_v2(std::size_t* out, int /*device*/) {
  *out = static_cast<std::size_t>(paper_total_bytes());
  return 0;
}
int cuDeviceGetAttribute(int* out, int attribute, int /*device*/) {
  *out = attribute == kCapabilityMajor ? 9 : attribute == kVirtualMemory ? 1 : 0;
  return 0;
}
int cuDevicePrimaryCtxGetState(int /*device*/, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return 0;
}
int cuCtxGetCurrent(void** out) {
  static int context = 0;
  *out = &context;
  return 0;
}
int cuGetErrorString(int /*error*/, const char** out) {
  *out = "an error of the paper GPU";
  return 0;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
