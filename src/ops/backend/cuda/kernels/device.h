// What a kernel's file may use: nvcc's words, or those of the emulator (tests/emulated), which runs the same source on the
// host. There is no other #ifdef in this folder.
#pragma once

#include <cstdint>

#include "ops/backend/cuda/kernels/kernels.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace hone::ops::cuda::kernels {

using bf16 = __nv_bfloat16;

// Before a loop whose turns share registers instead of having their own.
#define HONE_ROLLED _Pragma("unroll 1")

template <typename Kernel, typename... Arguments>
int start(Kernel kernel, std::int64_t blocks, int threads, void* stream, const Arguments&... arguments) {
  kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), 0,
           static_cast<cudaStream_t>(stream)>>>(arguments...);
  return static_cast<int>(cudaGetLastError());
}

__device__ inline float to_float(bf16 x) {
  return __bfloat162float(x);
}
__device__ inline bf16 to_bf16(float x) {
  return __float2bfloat16_rn(x);
}

// Memory of a block, the same in all of its threads: what it holds at first is not defined. kIndex tells one from another.
template <int kIndex, typename T, int kCount>
__device__ inline T (&shared())[kCount] {
  __shared__ T memory[kCount];
  return memory;
}

__device__ inline unsigned shared_address(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

// ---- copies from the card's memory into a block's, of sixteen bytes at addresses that are multiples of sixteen. They come while the
// thread goes on; without `is_there` they are zeros, and `from` is not read. A thread waits for its own: a barrier tells the others.
__device__ inline void async_copy(void* to, const void* from, bool is_there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(to)), "l"(from),
               "r"(is_there ? 16 : 0)
               : "memory");
}
// A group is all that was asked for since the last one.
__device__ inline void async_group() {
  asm volatile("cp.async.commit_group;\n" ::: "memory");
}
// Until all groups but the last kLater have come.
template <int kLater>
__device__ inline void async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kLater) : "memory");
}

// ---- tensor cores. All threads of a warp call these together. Each has a part of a matrix, two numbers of bf16 in a word:
//   a [16, 16]  word i: row lane / 4 + i % 2 * 8, columns lane % 4 * 2 + i / 2 * 8 and the next
//   b [16, 8]   word i: rows lane % 4 * 2 + i * 8 and the next, column lane / 4
//   d [16, 8]   number i: row lane / 4 + i / 2 * 8, column lane % 4 * 2 + i % 2

// d += a b, in fp32.
__device__ inline void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// Four matrices [8, 8] of a block's memory. Thread i gives the address of row i % 8 of matrix i / 8, a multiple of sixteen bytes. It gets
// of each matrix row lane / 4, columns lane % 4 * 2 and the next.
__device__ inline void load_matrices(std::uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}
// The same of the transposed matrices.
__device__ inline void load_transposed(std::uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}

}  // namespace hone::ops::cuda::kernels
#else
#include "emulated/machine/emulator.h"
#endif

namespace hone::ops::cuda::kernels {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffU;

// For __launch_bounds__: as many blocks as give each thread 64 of a multiprocessor's 65,536 registers. Without it the compiler
// gives more, for some cards alone.
constexpr int blocks_at_once(int threads) {
  return 1024 / threads;
}

// CUDA's error code: 0 where the kernel was started, or there is nothing to do.
template <typename Kernel, typename... Arguments>
int launch(Kernel kernel, std::int64_t blocks, int threads, void* stream, const Arguments&... arguments) {
  return blocks == 0 ? 0 : start(kernel, blocks, threads, stream, arguments...);
}

__device__ inline float to_float(float x) {
  return x;
}

template <typename T>
struct Rounding;
template <>
struct Rounding<float> {
  __device__ static float of(float x) { return x; }
};
template <>
struct Rounding<bf16> {
  __device__ static bf16 of(float x) { return to_bf16(x); }
};

// x as T holds it.
template <typename T>
__device__ inline float rounded(float x) {
  return to_float(Rounding<T>::of(x));
}

// kCount numbers side by side, read or written at once.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T values[kCount];
};

template <int kCount, typename T>
__device__ inline void load(float (&to)[kCount], const T* from) {
  const auto pack = *reinterpret_cast<const Pack<T, kCount>*>(from);
  for (int i = 0; i < kCount; ++i) to[i] = to_float(pack.values[i]);
}

template <int kCount, typename T>
__device__ inline void store(T* to, const float (&from)[kCount]) {
  Pack<T, kCount> pack;
  for (int i = 0; i < kCount; ++i) pack.values[i] = Rounding<T>::of(from[i]);
  *reinterpret_cast<Pack<T, kCount>*>(to) = pack;
}

// -1, 0 or 1; 0 of what is not a number, as at::sign has it.
__device__ inline float sign(float x) {
  return static_cast<float>((x > 0) - (x < 0));
}

// The sum of a warp's numbers, in all of its threads: the same tree each time.
__device__ inline float warp_sum(float x) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) x += __shfl_xor_sync(kAllLanes, x, distance);
  return x;
}

// ---- on the host

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

inline std::int64_t bytes_of(Dtype dtype) {
  return dtype == Dtype::kFloat ? 4 : 2;
}

// Whether rows of `columns` numbers can be read four at a time.
constexpr int kFour = 4;
inline bool by_fours(const Rows& x, std::int64_t columns) {
  return columns % kFour == 0 && x.stride % kFour == 0 &&
         reinterpret_cast<std::uintptr_t>(x.data) % static_cast<std::uintptr_t>(kFour * bytes_of(x.dtype)) ==
             0;
}
inline bool by_fours(const float* x, std::int64_t size) {
  return by_fours(Rows{.data = const_cast<float*>(x)}, size);
}

// call(T()) with T the type of `dtype`.
template <typename Call>
int with_type(Dtype dtype, const Call& call) {
  return dtype == Dtype::kFloat ? call(float()) : call(bf16());
}

// call(four) with `four` std::integral_constant-like: 4, or 1.
template <int kValue>
struct Count {
  static constexpr int value = kValue;
};
template <typename Call>
int with_count(bool fours, const Call& call) {
  return fours ? call(Count<kFour>()) : call(Count<1>());
}

}  // namespace hone::ops::cuda::kernels
