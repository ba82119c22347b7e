// The inner loops of attend_tiles and packed_attention_backward, on raw pointers. Rows of a kernel are
// (query, head) pairs of one kv head's group, row = query * group + head, so that keys are read once for all
// heads of the group.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hone::ops::attention_kernels {

// The tiles of one KvTiles and kv head; the first key is at position `place` of the sequence.
struct KeyRun {
  const void* keys = nullptr;
  const void* values = nullptr;
  std::int64_t place = 0, length = 0;
};

// Strides are in elements and between tokens. q, out and lse point at query 0 and the group's first head.
struct Forward {
  const KeyRun* runs = nullptr;
  std::int64_t run_count = 0;
  std::int64_t head_dim = 0, group = 0, window = 0;
  float scale = 0;     // of the scores; 0: head_dim^-0.5
  float soft_cap = 0;  // of the scaled scores; 0: none
  const void* q = nullptr;
  std::int64_t q_stride = 0;
  void* out = nullptr;
  std::int64_t out_stride = 0;
  float* lse = nullptr;  // or null
  std::int64_t lse_stride = 0;
  std::int64_t place = 0;  // position of query 0
  std::int64_t row_begin = 0, row_end = 0;
};

constexpr std::int64_t kMaxHeadDim = 512;                  // Gemma 4's layers without a window
constexpr std::int64_t kBlockElements = 16 * kMaxHeadDim;  // rows of a block times head_dim, at most

// The kernels of bf16: head_dim a multiple of 16 and at most kMaxHeadDim, rows * head_dim of a Forward at most
// kBlockElements. Defined after Backward.
struct Bf16Kernels;

// Portable C++ in fp32, on tiles of fp32 or bf16 (bf16 is widened, and out is rounded). Any head_dim.
// `scratch` holds portable_scratch floats.
std::size_t portable_scratch(std::int64_t head_dim);
void forward_portable(const Forward& block, bool bf16, float* scratch);
void forward_avx2(const Forward& block, bool bf16, float* scratch);
void forward_avx512(const Forward& block, bool bf16, float* scratch);

// Keys of one segment and the queries that attend to them: query t of [begin, end) attends to all `keys`, or
// with `own` to the first t - origin + 1, the last of which is its own.
struct BackwardSpan {
  const void *k = nullptr, *v = nullptr;  // key 0
  std::int64_t keys = 0;
  std::int64_t begin = 0, end = 0;  // queries, in the chunk's numbering
  bool own = false;
  std::int64_t origin = 0;
  float *part_k = nullptr, *part_v = nullptr;  // [keys, D] each: this chunk's contribution, without the scale
};

// Queries [begin, end) of one run (ops/backend/attention_runs.h) and kv head, with the keys that they attend to.
// Pointers are at token 0 of the run.
struct Backward {
  std::int64_t head_dim = 0, group = 0, window = 0;
  float scale = 0;     // of the scores; 0: head_dim^-0.5
  float soft_cap = 0;  // of the scaled scores; 0: none
  // With a window: of each query the first position of its sequence, the prefix included, that it sees.
  const std::int64_t* first_seen = nullptr;
  const void *q = nullptr, *out = nullptr, *d_out = nullptr;
  std::int64_t q_stride = 0, k_stride = 0, v_stride = 0, out_stride = 0, d_out_stride = 0;
  const float* lse = nullptr;
  std::int64_t lse_stride = 0;
  void* dq = nullptr;
  std::int64_t dq_stride = 0;
  std::int64_t begin = 0, end = 0;
  const BackwardSpan* spans = nullptr;
  std::int64_t span_count = 0;
  std::byte* scratch = nullptr;  // Bf16Kernels::backward_scratch bytes, at a multiple of 64
};
// Adds the chunks' contributions to dk and dv of a segment and kv head, in order.
struct PartialSum {
  const float *k = nullptr, *v = nullptr;  // [keys, D] each, of the first keys
  std::int64_t keys = 0;
};
struct PartialSums {
  const PartialSum* shares = nullptr;
  std::int64_t count = 0, tokens = 0, head_dim = 0;
  float scale = 0;  // as Backward's
  void *dk = nullptr, *dv = nullptr;
  std::int64_t dk_stride = 0, dv_stride = 0;
};

struct Bf16Kernels {
  void (*forward)(const Forward& block);
  void (*backward)(const Backward& chunk);
  std::size_t (*backward_scratch)(std::int64_t head_dim, std::int64_t rows);
  void (*sum_partials)(const PartialSums& sums);
};
// Null where the compiler does not make one. avx2 and avx512 have the same bits, those of pairs of fma; avx512_bf16
// those of vdpbf16ps; amx those of tdpbf16ps.
const Bf16Kernels* bf16_kernels_avx2();
const Bf16Kernels* bf16_kernels_avx512();
const Bf16Kernels* bf16_kernels_avx512_bf16();
const Bf16Kernels* bf16_kernels_amx();

}  // namespace hone::ops::attention_kernels
