// nvcc's words for kernels that another compiler reads: ops/backend/cuda/kernels/device.h includes this, and the same source
// runs on the host. A block runs at a time; each of its threads has a stack and runs until it waits for others.
//
// What is found: a sum that lacks a barrier (the order of threads is one of four, and shared memory begins as NaN), a barrier
// or a shuffle that not all of its threads reach, an access outside of mapped memory, an address that is not a multiple of
// what is read at once, an index outside of an array whose length is known. Not found: what depends on two threads at one
// instant, and anything about speed. Copies that nobody waits for, and threads of a warp that meet in different instructions, are found.
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

// Gives words to all threads of this warp, at most kMostOffered, and waits until each of them has done the same, with as many words.
constexpr int kMostOffered = 6;
void offer(const std::uint32_t* words, int count);
// Returns what the thread of this lane gave in the last offer() of the one that runs.
const std::uint32_t* offered_by(int lane);

// Sixteen bytes, or zeros. In two of the four orders they come at once, in the others when they are waited for.
void copy_later(void* to, const void* from, bool is_there);
void end_group();
void wait_for_groups(int later);
// Ends the thread where this is no multiple of sixteen.
void need_sixteens(const void* at);

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

// ---- device.h says what these do

inline void async_copy(void* to, const void* from, bool is_there) {
  emulated::copy_later(to, from, is_there);
}
inline void async_group() {
  emulated::end_group();
}
template <int kLater>
void async_wait() {
  emulated::wait_for_groups(kLater);
}

inline float half_of(std::uint32_t word, int half) {
  return to_float(bf16{static_cast<std::uint16_t>(half == 0 ? word & 0xffffU : word >> 16U)});
}

// Sums go along the sixteen columns of a, in fp32. A card may add them in another order.
inline void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  const std::uint32_t words[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
  emulated::offer(words, 6);
  const int lane = static_cast<int>(threadIdx.x % 32U);
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 16; ++k) {
      const std::uint32_t of_a = emulated::offered_by(row % 8 * 4 + k % 8 / 2)[row / 8 + k / 8 * 2],
                          of_b = emulated::offered_by(column * 4 + k % 8 / 2)[4 + k / 8];
      d[i] += half_of(of_a, k % 2) * half_of(of_b, k % 2);
    }
  }
}

// Returns what the thread of this lane has the address of, two bytes from `column` on.
inline std::uint32_t matrix_number(int lane, int column) {
  std::uintptr_t at = 0;
  std::memcpy(&at, emulated::offered_by(lane), sizeof at);
  std::uint16_t number = 0;
  std::memcpy(&number, reinterpret_cast<const char*>(at) + 2 * column, sizeof number);
  return number;
}

inline void offer_row(const void* row) {
  emulated::need_sixteens(row);
  const auto at = reinterpret_cast<std::uintptr_t>(row);
  std::uint32_t words[sizeof at / sizeof(std::uint32_t)];
  std::memcpy(words, &at, sizeof at);
  emulated::offer(words, sizeof at / sizeof(std::uint32_t));
}

inline void load_matrices(std::uint32_t (&to)[4], const void* row) {
  offer_row(row);
  const int lane = static_cast<int>(threadIdx.x % 32U), column = lane % 4 * 2;
  for (int i = 0; i < 4; ++i)
    to[i] = matrix_number(i * 8 + lane / 4, column) | matrix_number(i * 8 + lane / 4, column + 1) << 16U;
}

inline void load_transposed(std::uint32_t (&to)[4], const void* row) {
  offer_row(row);
  const int lane = static_cast<int>(threadIdx.x % 32U), first = lane % 4 * 2;
  for (int i = 0; i < 4; ++i)
    to[i] = matrix_number(i * 8 + first, lane / 4) | matrix_number(i * 8 + first + 1, lane / 4) << 16U;
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
