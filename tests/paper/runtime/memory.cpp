// The card's memory is addresses only: pages that nobody may touch (PROT_NONE), so that an access by the host ends the process
// as it does on a card, and which take no room. Pinned memory is the host's.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "state.h"

namespace paper {
namespace {

constexpr std::size_t kPage = 4096;

std::size_t in_pages(std::size_t bytes) {
  return (std::max<std::size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
}

// With the lock held, as give().
bool take(std::int64_t bytes) {
  PaperCounts& counts = state().counts;
  if (counts.bytes + bytes > paper_total_bytes()) return false;
  counts.bytes += bytes;
  counts.peak = std::max(counts.peak, counts.bytes);
  ++counts.allocations;
  happened('a');
  return true;
}

void give(std::int64_t bytes) {
  state().counts.bytes -= bytes;
  ++state().counts.frees;
}

cudaError_t reserve(void** out, std::size_t bytes) {
  const Guard guard(lock());
  if (refuses_unsafe_call()) return fail(cudaErrorStreamCaptureUnsupported);
  const std::size_t size = in_pages(bytes);
  void* const pages = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return fail(cudaErrorMemoryAllocation);
  if (!take(static_cast<std::int64_t>(size))) {
    munmap(pages, size);
    return fail(cudaErrorMemoryAllocation);
  }
  state().card.sizes[static_cast<char*>(pages)] = size;
  *out = pages;
  return cudaSuccess;
}

cudaError_t release(void* pages) {
  if (pages == nullptr) return cudaSuccess;
  const Guard guard(lock());
  if (refuses_unsafe_call()) return fail(cudaErrorStreamCaptureUnsupported);
  const auto found = state().card.sizes.find(static_cast<char*>(pages));
  if (found == state().card.sizes.end()) return fail(cudaErrorInvalidValue);
  munmap(pages, found->second);
  give(static_cast<std::int64_t>(found->second));
  state().card.sizes.erase(found);
  return cudaSuccess;
}

}  // namespace
}  // namespace paper

using paper::fail;
using paper::Guard;
using paper::lock;
using paper::state;

bool paper_take(std::int64_t bytes) {
  const Guard guard(lock());
  return paper::take(bytes);
}
void paper_give(std::int64_t bytes) {
  const Guard guard(lock());
  paper::give(bytes);
}
void paper_map(const void* at, std::int64_t bytes) {
  const Guard guard(lock());
  state().card.join(static_cast<const char*>(at), static_cast<std::size_t>(bytes));
}
void paper_unmap(const void* at, std::int64_t bytes) {
  const Guard guard(lock());
  state().card.cut(static_cast<const char*>(at), static_cast<std::size_t>(bytes));
}

cudaError_t cudaMalloc(void** out, std::size_t bytes) {
  return paper::reserve(out, bytes);
}
cudaError_t cudaMallocAsync(void** out, std::size_t bytes, cudaStream_t /*stream*/) {
  return paper::reserve(out, bytes);
}
// Waits for everything on a card; libtorch's allocator counts on it.
cudaError_t cudaFree(void* pages) {
  return paper::release(pages);
}
cudaError_t cudaFreeAsync(void* pages, cudaStream_t /*stream*/) {
  return paper::release(pages);
}

cudaError_t cudaHostAlloc(void** out, std::size_t bytes, unsigned /*flags*/) {
  const Guard guard(lock());
  if (paper::refuses_unsafe_call()) return fail(cudaErrorStreamCaptureUnsupported);
  *out = std::malloc(std::max<std::size_t>(bytes, 1));
  if (*out == nullptr) return fail(cudaErrorMemoryAllocation);
  state().pinned.sizes[static_cast<char*>(*out)] = std::max<std::size_t>(bytes, 1);
  ++state().counts.pinned_allocations;
  paper::happened('p');
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* memory) {
  const Guard guard(lock());
  if (memory != nullptr && state().pinned.sizes.erase(static_cast<char*>(memory)) == 0)
    return fail(cudaErrorInvalidValue);
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned /*flags*/) {
  const Guard guard(lock());
  if (state().pinned.holds(memory)) return fail(cudaErrorHostMemoryAlreadyRegistered);
  state().pinned.sizes[static_cast<char*>(memory)] = bytes;
  ++state().counts.pinned_allocations;
  paper::happened('p');
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* memory) {
  const Guard guard(lock());
  if (state().pinned.sizes.erase(static_cast<char*>(memory)) == 0)
    return fail(cudaErrorHostMemoryNotRegistered);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const Guard guard(lock());
  *total = static_cast<std::size_t>(paper_total_bytes());
  *free = static_cast<std::size_t>(paper_total_bytes() - state().counts.bytes);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* at) {
  const Guard guard(lock());
  std::memset(out, 0, sizeof *out);
  const bool on_card = state().card.holds(at), pinned = state().pinned.holds(at);
  out->type = on_card ? cudaMemoryTypeDevice : pinned ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
  if (on_card || pinned) out->devicePointer = const_cast<void*>(at);
  if (!on_card) out->hostPointer = const_cast<void*>(at);
  return cudaSuccess;
}

// Pools of the driver are for the allocator cudaMallocAsync, which nobody asks for here.
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int /*device*/) {
  *pool = nullptr;
  return cudaSuccess;
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return fail(cudaErrorNotSupported);
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, std::size_t) {
  return fail(cudaErrorNotSupported);
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return fail(cudaErrorNotSupported);
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) {
  return fail(cudaErrorNotSupported);
}
