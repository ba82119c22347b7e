// Copies and fills. Nothing is written into the card's memory, which is closed. What is copied to the card is kept beside it, so
// that it comes back, until the next kernel: nobody knows what that would have written. Afterwards, and of what a kernel wrote, zeros
// come back.
//
// Waits: cudaMemcpy always waits. cudaMemcpyAsync waits where its side on the host is pageable, and returns at once where it
// is pinned.
#include <cstdint>
#include <cstring>
#include <vector>

#include "state.h"

namespace paper {
namespace {

constexpr std::size_t kLargest = std::size_t{1} << 20;  // of what is kept; weights are not

// What was copied to the card since the last kernel, by its address there; none overlaps another.
std::map<const char*, std::vector<char>>& kept() {
  static auto* const one = new std::map<const char*, std::vector<char>>;
  return *one;
}

void forget(const char* at, std::size_t bytes) {
  auto next = kept().upper_bound(at);
  if (next != kept().begin() && std::prev(next)->first + std::prev(next)->second.size() > at) --next;
  while (next != kept().end() && next->first < at + bytes) next = kept().erase(next);
}

void keep(const char* at, const char* from, std::size_t bytes) {
  forget(at, bytes);
  kept()[at].assign(from, from + bytes);
}

// The bytes at [at, at + bytes), or null.
const char* find_kept(const char* at, std::size_t bytes) {
  auto found = kept().upper_bound(at);
  if (found == kept().begin()) return nullptr;
  --found;
  const bool inside = at + bytes <= found->first + found->second.size();
  return inside ? found->second.data() + (at - found->first) : nullptr;
}

// Whether [at, at + bytes) lies in one block of the card; `good` becomes false where it begins in one and ends outside.
bool on_card(const void* at, std::size_t bytes, bool& good) {
  const auto found = state().card.find(at);
  if (found == state().card.sizes.end()) return false;
  good = good && static_cast<const char*>(at) + bytes <= found->first + found->second;
  return true;
}

void move(char* to, bool to_card, const char* from, bool from_card, std::size_t bytes) {
  if (!to_card && !from_card) {
    std::memmove(to, from, bytes);
    return;
  }
  const char* const source = from_card ? find_kept(from, bytes) : from;
  if (to_card && (source == nullptr || bytes > kLargest)) {
    forget(to, bytes);
  } else if (to_card) {
    const std::vector<char> copied(source, source + bytes);  // the source may be what the target replaces
    keep(to, copied.data(), bytes);
  } else if (source != nullptr) {
    std::memcpy(to, source, bytes);
  } else {
    std::memset(to, 0, bytes);
  }
}

// `rows` pieces of `bytes` each, whose places lie so far apart: one copy of the card.
struct Rows {
  std::size_t bytes = 0, rows = 1, to_pitch = 0, from_pitch = 0;
  std::size_t span(std::size_t pitch) const { return (rows - 1) * pitch + bytes; }
};

cudaError_t copy(void* to, const void* from, const Rows& shape, bool blocking, cudaStream_t stream) {
  const Guard guard(lock());
  if (shape.bytes == 0 || shape.rows == 0) return cudaSuccess;
  bool good = true;
  const bool to_card = on_card(to, shape.span(shape.to_pitch), good);
  const bool from_card = on_card(from, shape.span(shape.from_pitch), good);
  if (!good) return fail(cudaErrorInvalidValue);
  const bool crosses = to_card != from_card;
  const bool pageable = crosses && !state().pinned.holds(to_card ? from : to);
  if ((blocking || pageable) && refuses_wait(stream)) return fail(cudaErrorStreamCaptureUnsupported);
  PaperCounts& counts = state().counts;
  if (crosses) {
    ++(to_card ? counts.to_device : counts.to_host);
    (to_card ? counts.bytes_to_device : counts.bytes_to_host) +=
        static_cast<std::int64_t>(shape.bytes * shape.rows);
  } else if (to_card) {
    ++counts.on_device;
  }
  counts.pageable += pageable ? 1 : 0;
  if (crosses) happened(to_card ? (pageable ? 'I' : 'i') : pageable ? 'O' : 'o');
  if (blocking && crosses && !pageable) happened('w');
  if (to_card && from_card) happened('c');
  for (std::size_t row = 0; row < shape.rows; ++row) {
    move(static_cast<char*>(to) + row * shape.to_pitch, to_card,
         static_cast<const char*>(from) + row * shape.from_pitch, from_card, shape.bytes);
  }
  if (pageable || (blocking && crosses)) {
    waited_in_copy(stream);
  } else {
    stream_is_busy(stream);
  }
  return cudaSuccess;
}

cudaError_t fill(void* at, int value, std::size_t bytes, cudaStream_t stream) {
  const Guard guard(lock());
  bool good = true;
  const bool card = on_card(at, bytes, good);
  if (!good) return fail(cudaErrorInvalidValue);
  ++state().counts.memsets;
  happened('m');
  stream_is_busy(stream);
  if (!card) {
    std::memset(at, value, bytes);
  } else if (value == 0 || bytes > kLargest) {
    forget(static_cast<char*>(at), bytes);
  } else {
    const std::vector<char> filled(bytes, static_cast<char>(value));
    keep(static_cast<char*>(at), filled.data(), bytes);
  }
  return cudaSuccess;
}

}  // namespace

void forget_copies() {
  kept().clear();
}

}  // namespace paper

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/) {
  return paper::copy(to, from, {.bytes = bytes}, true, nullptr);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  return paper::copy(to, from, {.bytes = bytes}, false, stream);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int /*device*/, const void* from, int /*of*/, std::size_t bytes,
                                cudaStream_t stream) {
  return paper::copy(to, from, {.bytes = bytes}, false, stream);
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind /*kind*/,
                              cudaStream_t stream) {
  return paper::copy(to, from,
                     {.bytes = width, .rows = height, .to_pitch = to_pitch, .from_pitch = from_pitch}, false,
                     stream);
}
cudaError_t cudaMemset(void* at, int value, std::size_t bytes) {
  return paper::fill(at, value, bytes, nullptr);
}
cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t stream) {
  return paper::fill(at, value, bytes, stream);
}
// Constants of kernels: there is no kernel that reads them.
cudaError_t cudaMemcpyToSymbol(const void*, const void*, std::size_t, std::size_t, cudaMemcpyKind) {
  return cudaSuccess;
}
cudaError_t cudaGetSymbolAddress(void** out, const void* symbol) {
  *out = const_cast<void*>(symbol);
  return cudaSuccess;
}
