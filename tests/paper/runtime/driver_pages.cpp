// libcuda.so.1, virtual memory: addresses are reserved, memory is made in pages without an address, and pages are mapped at addresses.
// libtorch's allocator makes its expandable segments of them. As all memory of the card, none of it can be touched (memory.cpp).
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include "counts.h"

// NOLINTBEGIN(readability-identifier-naming): NVIDIA's names
extern "C" {

constexpr int kOutOfMemory = 2, kNotSupported = 801;  // CUDA_ERROR_...
constexpr unsigned kFabric = 8;                       // CU_MEM_HANDLE_TYPE_FABRIC: between machines
constexpr std::size_t kGranularity = std::size_t{2} << 20;
constexpr std::size_t kBefore = 4096;  // reserved addresses touch no other memory of the card

// The beginning of CUmemAllocationProp.
struct AllocationProperties {
  int type;
  unsigned handle_types;
};

int cuMemAddressReserve(std::uintptr_t* out, std::size_t bytes, std::size_t /*alignment*/,
                        std::uintptr_t /*at*/, unsigned long long /*flags*/) {
  void* const found =
      mmap(nullptr, bytes + kBefore, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return kOutOfMemory;
  *out = reinterpret_cast<std::uintptr_t>(found) + kBefore;
  return 0;
}
int cuMemAddressFree(std::uintptr_t at, std::size_t bytes) {
  munmap(reinterpret_cast<void*>(at - kBefore), bytes + kBefore);
  return 0;
}
int cuMemGetAllocationGranularity(std::size_t* out, const AllocationProperties* /*of*/, int /*option*/) {
  *out = kGranularity;
  return 0;
}
// A handle is the number of its bytes: no more is asked of it.
int cuMemCreate(unsigned long long* handle, std::size_t bytes, const AllocationProperties* of,
                unsigned long long /*flags*/) {
  if ((of->handle_types & kFabric) != 0) return kNotSupported;
  if (!paper_take(static_cast<std::int64_t>(bytes))) return kOutOfMemory;
  *handle = bytes;
  return 0;
}
int cuMemRelease(unsigned long long handle) {
  paper_give(static_cast<std::int64_t>(handle));
  return 0;
}
int cuMemMap(std::uintptr_t at, std::size_t bytes, std::size_t /*offset*/, unsigned long long /*handle*/,
             unsigned long long /*flags*/) {
  paper_map(reinterpret_cast<const void*>(at), static_cast<std::int64_t>(bytes));
  return 0;
}
int cuMemUnmap(std::uintptr_t at, std::size_t bytes) {
  paper_unmap(reinterpret_cast<const void*>(at), static_cast<std::int64_t>(bytes));
  return 0;
}
int cuMemSetAccess(std::uintptr_t /*at*/, std::size_t /*bytes*/, const void* /*access*/,
                   std::size_t /*count*/) {
  return 0;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
