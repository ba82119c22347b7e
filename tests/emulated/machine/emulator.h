// nvcc's words for kernels that another compiler reads: ops/backend/cuda/kernels/device.h includes this, and the same source
// runs on the host. A block runs at a time; each of its threads has a stack and runs until it waits for others.
//
// What is found: a sum that lacks a barrier (the order of threads is one of four, and shared memory begins as NaN), a barrier
// or a shuffle that not all of its threads reach, an access outside of mapped memory, an address that is not a multiple of
// what is read at once, an index outside of an array whose length is known. Not found: what depends on two threads at one
// instant, and anything about speed.
#pragma once

#include <math.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): nvcc's names, and those of device.h
#define __global__
#define __device__
#define __grid_constant__
#define __launch_bounds__(...)
#define HONE_ROLLED

namespace hone::emulated {

struct Index {
  unsigned x = 0;
};

// The order in which threads of a block run, each until it waits. kWarpByWarp: a warp runs until all of it waits for the block.
enum class Schedule { kInOrder, kReversed, kShuffled, kWarpByWarp };
constexpr Schedule kSchedules[] = {Schedule::kInOrder, Schedule::kReversed, Schedule::kShuffled,
                                   Schedule::kWarpByWarp};
void set_schedule(Schedule schedule, unsigned seed = 1);

// Runs body(context) as each thread of each block, and returns CUDA's error code: 9 for numbers that no card starts.
// std::runtime_error: what was found, with block and thread; nothing runs then any more. `stream`: CUDA's, for the paper GPU, which counts
// (tests/paper/own_starts.cpp); the emulator has none.
int run(std::int64_t blocks, int threads, void (*body)(const void*), const void* context,
        void* stream = nullptr);

// ---- called by the thread that runs

void wait_for_block();

// `bits` of the thread of this warp whose lane differs by `distance`; waits for all that `mask` names.
std::uint32_t exchanged(std::uint32_t mask, std::uint32_t bits, int distance);

// The block's memory of this key, between guards; NaN at first.
void* shared_memory(const void* key, std::size_t bytes);

}  // namespace hone::emulated

extern hone::emulated::Index threadIdx, blockIdx;

inline void __syncthreads() {
  hone::emulated::wait_for_block();
}

template <typename T>  // float, int or double, as nvcc's
inline T __shfl_xor_sync(std::uint32_t mask, T x, int distance) {
  constexpr std::size_t kWords = sizeof(T) / sizeof(std::uint32_t);
  static_assert(kWords * sizeof(std::uint32_t) == sizeof x);
  std::uint32_t bits[kWords];
  std::memcpy(bits, &x, sizeof x);
  for (std::uint32_t& word : bits) word = hone::emulated::exchanged(mask, word, distance);
  std::memcpy(&x, bits, sizeof x);
  return x;
}

// A thread of the emulator is not interrupted.
template <typename T>  // of whole numbers
inline T atomicAdd(T* to, T x) {
  const T before = *to;
  *to += x;
  return before;
}

inline std::uint32_t __float_as_uint(float x) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float __uint_as_float(std::uint32_t bits) {
  float x = 0;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// An operation that is rounded by itself: this compiler makes no fused ones for x86-64 unless it is told to.
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __fsqrt_rn(float x) {
  return sqrtf(x);
}

namespace hone::ops::cuda::kernels {

struct bf16 {
  std::uint16_t bits;
};

inline float to_float(bf16 x) {
  const std::uint32_t bits = static_cast<std::uint32_t>(x.bits) << 16U;
  float out = 0;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}

// To the nearest; of two, to the even one.
inline bf16 to_bf16(float x) {
  if (x != x) return {0x7fff};
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  bits += 0x7fffU + ((bits >> 16U) & 1U);
  return {static_cast<std::uint16_t>(bits >> 16U)};
}

template <int kIndex, typename T, int kCount>
T (&shared())
[kCount] {
  static const char key = 0;
  return *static_cast<T(*)[kCount]>(emulated::shared_memory(&key, sizeof(T) * kCount));
}

template <typename Kernel, typename... Arguments>
int start(Kernel kernel, std::int64_t blocks, int threads, void* stream, const Arguments&... arguments) {
  const auto body = [&] { kernel(arguments...); };
  using Body = decltype(body);
  return emulated::run(
      blocks, threads, [](const void* one) { (*static_cast<const Body*>(one))(); }, &body, stream);
}

}  // namespace hone::ops::cuda::kernels
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
