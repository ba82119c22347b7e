// hone's own kernels for NVIDIA GPUs, as a table of functions of a library that nvcc makes (libhone_cuda.so). They do in one
// launch, and one pass over memory, what takes libtorch's operators several. The core loads the library where it finds it
// (own_kernels.h); without it libtorch's operators run, and the numbers are the same within their rounding.
//
// Each computes what ops/backend/reference defines, in fp32, and rounds where the definition rounds. All pointers are the
// device's. A function starts its kernel on `stream` and returns CUDA's error code: 0 is success. None of them adds floats in
// an order that depends on time, so that the same input has the same bits.
#pragma once

#include <cstdint>

#include "ops/sampling/lists.h"

namespace hone::ops::cuda::kernels {

// The core and the library must agree on this version of the table.
constexpr int kVersion = 6;

enum class Dtype : int { kFloat, kBFloat16 };

// [rows, columns]; `stride` elements from one row to the next, columns side by side.
struct Rows {
  void* data = nullptr;
  std::int64_t stride = 0;
  Dtype dtype = Dtype::kFloat;
};

struct Vector {
  const void* data = nullptr;  // null: there is none
  Dtype dtype = Dtype::kFloat;
};

// out = x * mask, or out += x * mask with `add`; [tokens, features].
struct Dropout {
  Rows out, x;
  const std::int64_t *rows = nullptr, *positions = nullptr;  // [tokens], of ops::DropoutMask
  std::int64_t tokens = 0, features = 0;
  std::uint32_t key[2] = {0, 0}, dropped_below = 0;
  float kept = 1;
  bool add = false;
};

// out [tokens, width] = weight * cast(x * rsqrt(mean(x^2) + eps)).
struct RmsNorm {
  Rows out, x;
  Vector weight;
  std::int64_t tokens = 0, width = 0;
  float eps = 0;
};

// dx [tokens, width] += the gradient of x, given that of the norm's result. cast, in bf16, = dx as it is then; without data it is not wanted.
struct RmsNormBackward {
  Rows dx, dy, x;
  Vector weight;
  std::int64_t tokens = 0, width = 0;
  float eps = 0;
  Rows cast;
};

// [tokens, heads, dim]: elements from a token to the next, and from a head to the next.
struct Heads {
  void* data = nullptr;
  std::int64_t token_stride = 0, head_stride = 0;
  Dtype dtype = Dtype::kFloat;
};

// Norm of heads (weight [dim], or none), then rotation of the first `rotated` columns by cos and sin [tokens, rotated], whose
// rows are dense. Forward: out from x, which may be out. Backward: out is d, in place; x is the forward's input, read only
// with a norm.
struct NormRope {
  Heads out, x;
  Vector weight, cos, sin;
  std::int64_t tokens = 0, heads = 0, dim = 0, rotated = 0;
  float eps = 0;
};

// Turns a step's queries, keys and values [tokens, heads + 2 kv_heads, dim]: queries and keys get what NormRope says, queries in place;
// keys and values become token places[t] of page pages[t].
struct StepHeads {
  Heads qkv;
  Vector q_weight, k_weight, cos, sin;
  void *keys = nullptr, *values = nullptr;  // [all_pages, kv_heads, kPageTokens, dim], of qkv's type
  const std::int64_t *pages = nullptr, *places = nullptr;  // [tokens]
  std::int64_t tokens = 0, heads = 0, kv_heads = 0, dim = 0, rotated = 0, all_pages = 0;
  float eps = 0;
};

// out [tokens, width] = activation(gate) * up.
struct Swiglu {
  Rows out, gate, up;
  std::int64_t tokens = 0, width = 0;
  bool gelu_tanh = false;
};

// gate and up hold the forward's inputs, then their gradients; d is that of the result.
struct SwigluBackward {
  Rows gate, up, d;
  std::int64_t tokens = 0, width = 0;
  bool gelu_tanh = false;
};

// A tile [tokens, width] of the head's logits, fp32, whose first column is `first_column` of the vocabulary: what SoftmaxRows and
// take_tile say (ops/head/logprob_tile.h). Rows without data are not asked for; squares may be null.
struct SoftmaxTile {
  Rows logits, probabilities, accumulator;  // the accumulator [tokens, hidden] fp32
  const std::int64_t* targets = nullptr;    // [tokens], as all that follow
  std::int64_t* first = nullptr;
  float *peak = nullptr, *target = nullptr;
  double *sum = nullptr, *dot = nullptr, *squares = nullptr;
  std::int64_t tokens = 0, width = 0, hidden = 0, first_column = 0;
  double temperature = 1;
};

// out [tokens, width], which may be the logits, = upstream * d logprob / d logit.
struct SoftmaxBackward {
  Rows out, logits;  // logits fp32
  const std::int64_t* targets = nullptr;
  const float *log_sum = nullptr, *upstream = nullptr;
  std::int64_t tokens = 0, width = 0, first_column = 0;
  float temperature = 1;
};

// AdamwStep (ops/adamw.h) of `size` neighbors, with the CPU's bits.
struct Adamw {
  float* p = nullptr;
  const float* g = nullptr;
  float *m = nullptr, *v = nullptr;
  std::int64_t size = 0;
  float decay = 1, lerp = 0, beta2 = 0, one_minus_beta2 = 1, root_correction2 = 1, epsilon = 0,
        minus_step_size = 0;
};

// sums[b] = the sum of squares of the numbers from b * kSquaresBlock on, with the CPU's bits.
constexpr std::int64_t kSquaresBlock = 1 << 14;
struct SquareSums {
  double* sums = nullptr;
  const float* x = nullptr;
  std::int64_t size = 0;
};

// x *= factor
struct Scale {
  float* x = nullptr;
  std::int64_t size = 0;
  float factor = 1;
};

// out [rows, in] = the numbers of a Quantized in the order of files (ops/quantized.h).
struct Dequantize {
  Rows out;
  const void* codes = nullptr;    // two in a byte, the first in its upper half; without a table int8
  const float* table = nullptr;   // [16]; null: codes of 8 bits
  const float* scales = nullptr;  // of a block; of 8 bits: of a row; nested: of nested_block blocks
  // Of codes whose scales are codes too: scale_table[256] at scale_codes, times scales, plus the offset of its matrix.
  const std::uint8_t* scale_codes = nullptr;
  const float *scale_table = nullptr, *offsets = nullptr;  // offsets null: `offset` is that of all
  float offset = 0;
  std::int64_t rows = 0, in = 0, block = 1, nested_block = 1, blocks_of_matrix = 1;
};

// out [rows, in] = the numbers of a matrix kept from a GGUF (GgmlPanels, ops/kept_ggml.h): whole panels of rows, and columns that are a
// multiple of kPanelColumns. Rows of out begin at multiples of eight numbers.
constexpr std::int64_t kPanelRows = 32, kPanelColumns = 64;
struct DequantizePanels {
  Rows out;
  const std::uint8_t *low = nullptr, *high = nullptr, *halves = nullptr, *factors = nullptr;
  std::int64_t rows = 0, in = 0, block = 32, group = 32;
  int bits = 4, zero = 0;
  bool has_minimum = false;
};

// out[rows[g]] += d[from[i]], i from starts[g] on and below starts[g + 1], in this order; out [.., width] fp32.
struct AddRows {
  Rows out, d;
  const std::int64_t *rows = nullptr, *starts = nullptr,
                     *from = nullptr;  // [groups], [groups + 1], [starts[groups]]
  std::int64_t groups = 0, width = 0;
};

// out [tokens, width] = rows ids[t] of the table.
struct GatherRows {
  Rows out, table;
  const std::int64_t* ids = nullptr;  // [tokens]
  std::int64_t tokens = 0, width = 0;
};

// out [rows, columns] = x, or += x with `add`. `transposed`: x lies as [columns, rows].
struct BlockCopy {
  Rows out, x;
  std::int64_t rows = 0, columns = 0;
  bool add = false, transposed = false;
  bool four = false;       // of the kernel: numbers are read four at a time
  std::int64_t first = 0;  // of the kernel: its first thread block
};
// `count` blocks that have numbers each and none of another's; they travel with the launch, which has room for 4 KB.
constexpr int kMostBlocks = 48;
struct CopyBlocks {
  BlockCopy blocks[kMostBlocks];
  int count = 0;
};

// A number for each token and head; null: there are none.
struct HeadNumbers {
  float* data = nullptr;
  std::int64_t token_stride = 0, head_stride = 0;
};

// AttentionParts (ops/backend/join_attention.h): `part` of `tokens` rows joins rows rows[i], or i, of the others. A log-sum-exp of
// infinity is that of no keys.
struct JoinAttention {
  Heads out, own, part;  // own and part of one type
  HeadNumbers own_lse, part_lse, lse;
  const std::int32_t* rows = nullptr;  // [tokens]
  std::int64_t tokens = 0, all_tokens = 0, heads = 0, dim = 0;
};

// A moment as codes of a map of 256 values; `scales` of kCodeBlock numbers each. As ops/dynamic_codes.h says.
constexpr std::int64_t kCodeBlock = 256;
constexpr float kLeastCodeScale = 1e-38F;
struct CodedMoment {
  std::uint8_t* codes = nullptr;
  float* scales = nullptr;
  const float* values = nullptr;         // [256]
  const std::uint8_t* places = nullptr;  // [65536]
};

// AdamwCodesStep (ops/adamw.h)
struct AdamwCodes {
  float* p = nullptr;
  const float* g = nullptr;
  CodedMoment first, second;
  std::int64_t size = 0;
  float decay = 1, beta1 = 0, one_minus_beta1 = 1, beta2 = 0, one_minus_beta2 = 1, root_correction2 = 1,
        epsilon = 0, minus_step_size = 0;
};

// LionStep and LionCodesStep (ops/lion.h) of `size` neighbors.
struct LionRates {
  float decay = 1, beta1 = 0, one_minus_beta1 = 1, beta2 = 0, one_minus_beta2 = 1, minus_learning_rate = 0;
};
struct Lion {
  float* p = nullptr;
  const float* g = nullptr;
  float* m = nullptr;
  std::int64_t size = 0;
  LionRates rates;
};
struct LionCodes {
  float* p = nullptr;
  const float* g = nullptr;
  CodedMoment moment;
  std::int64_t size = 0;
  LionRates rates;
};

// The next token of each row that goes on; nothing is written of the others.
struct SampleTokens {
  Rows logits;                             // [rows, vocabulary] fp32; not written
  const DrawRule* rules = nullptr;         // [rows]
  const std::int32_t* stop_ids = nullptr;  // [all_stops]
  // [rows, ceil(vocabulary / 32)], a bit for each id so far; null: nobody has a penalty
  std::uint32_t* seen = nullptr;
  double* masses = nullptr;       // [rows, ceil(vocabulary / kMassTokens)], scratch
  std::int64_t* drawn = nullptr;  // [rows], tokens so far: one more
  std::int32_t* ids = nullptr;    // [rows], written; -1 where a logit is not finite
  DrawState* states = nullptr;    // [rows]
  // [rows]; the last two may be null
  float *sampled_logprobs = nullptr, *logprobs = nullptr, *entropies = nullptr;
  std::int64_t rows = 0, vocabulary = 0, all_stops = 0;
};

// Attention of single tokens to keys and values in pages. A part's rows times heads / kv_heads are at most widest_part() where it is
// wide, else kNarrowPart. results_of[i] is the first result of row i, whose results are joined in their order.
struct AttendPages {
  Heads out, q;                                   // [tokens, heads, dim], of one type
  const void *keys = nullptr, *values = nullptr;  // [all_pages, kv_heads, kPageTokens, dim], of q's type
  const PagePart* parts = nullptr;                // the wide ones, then the narrow ones
  const PartRow* rows = nullptr;
  const std::int32_t *pages = nullptr, *results_of = nullptr;  // results_of [tokens + 1]
  float *partial = nullptr, *partial_lse = nullptr;  // [results, heads, dim], [results, heads], scratch
  HeadNumbers lse;                                   // [tokens, heads]; may be null
  std::int64_t tokens = 0, heads = 0, kv_heads = 0, dim = 0;
  std::int64_t wide = 0, narrow = 0, results = 0, all_pages = 0, listed_rows = 0, listed_pages = 0;
  float scale = 1;
};

struct Kernels {
  int version = kVersion;
  int (*dropout)(const Dropout& x, void* stream) = nullptr;
  int (*rms_norm)(const RmsNorm& x, void* stream) = nullptr;
  int (*rms_norm_backward)(const RmsNormBackward& x, void* stream) = nullptr;
  int (*norm_rope)(const NormRope& x, void* stream) = nullptr;
  int (*norm_rope_backward)(const NormRope& x, void* stream) = nullptr;
  int (*swiglu)(const Swiglu& x, void* stream) = nullptr;
  int (*swiglu_backward)(const SwigluBackward& x, void* stream) = nullptr;
  int (*softmax_tile)(const SoftmaxTile& x, void* stream) = nullptr;
  int (*softmax_backward)(const SoftmaxBackward& x, void* stream) = nullptr;
  int (*adamw)(const Adamw& x, void* stream) = nullptr;
  int (*squares)(const SquareSums& x, void* stream) = nullptr;
  int (*scale)(const Scale& x, void* stream) = nullptr;
  int (*dequantize)(const Dequantize& x, void* stream) = nullptr;
  int (*add_rows)(const AddRows& x, void* stream) = nullptr;
  int (*copy_blocks)(const CopyBlocks& x, void* stream) = nullptr;
  int (*join_attention)(const JoinAttention& x, void* stream) = nullptr;
  int (*adamw_codes)(const AdamwCodes& x, void* stream) = nullptr;
  int (*lion)(const Lion& x, void* stream) = nullptr;
  int (*lion_codes)(const LionCodes& x, void* stream) = nullptr;
  int (*gather_rows)(const GatherRows& x, void* stream) = nullptr;
  int (*dequantize_panels)(const DequantizePanels& x, void* stream) = nullptr;
  int (*sample_tokens)(const SampleTokens& x, void* stream) = nullptr;
  int (*attend_pages)(const AttendPages& x, void* stream) = nullptr;
  int (*step_heads)(const StepHeads& x, void* stream) = nullptr;
};

// The library's one entry: its first field is read before any other.
using Entry = const Kernels* (*)();
constexpr const char* kEntry = "hone_cuda_kernels";

}  // namespace hone::ops::cuda::kernels
