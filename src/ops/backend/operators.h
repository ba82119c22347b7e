// A backend: the operators that a kind of device has kernels for, as one table of functions.
//
// How an operator is called. A public function of ops/ checks its arguments, then asks the table of its tensors'
// device (run() below). The table's function computes the result and returns true, or returns false because these
// shapes, dtypes or strides are not its own: then, and where the table has no function, the definition in
// ops/backend/reference runs, in ATen on any device. A function of a table may rely on what the public operator has
// checked, and repeats none of it. Where a function returns false it has written nothing.
//
// What a layout is (of packed weights, of keys and values) is a backend's own business too: ops/backend/layouts.h.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ops/adamw.h"
#include "ops/attention.h"
#include "ops/backend/attention_backward.h"
#include "ops/backend/join_attention.h"
#include "ops/backend/layouts.h"
#include "ops/delta_rule.h"
#include "ops/dropout.h"
#include "ops/gemm.h"
#include "ops/head/logprob_tile.h"
#include "ops/kv_tiles.h"
#include "ops/lion.h"
#include "ops/quantized.h"
#include "ops/rope.h"
#include "ops/routed_rows.h"
#include "ops/short_conv.h"
#include "ops/weight.h"

namespace hone::ops::backend {

using at::Tensor;
using Segments = std::vector<AttentionSegment>;

// The functions have the arguments of the public operator of the same name, whose header says what they mean.
struct Operators {
  const char* name = "reference";

  // ---- how it orders what it reads again and again; null: as ops/backend/layouts.h says
  const WeightLayout* weights = nullptr;
  const CodeLayout* codes = nullptr;
  const KvLayout* keys_and_values = nullptr;

  // ---- rows
  bool (*rms_norm)(const Tensor& out, const Tensor& x, const Tensor& weight, double eps) = nullptr;
  bool (*rms_norm_backward)(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& weight,
                            double eps) = nullptr;
  bool (*rms_norm_backward_cast)(const Tensor& cast, const Tensor& dx, const Tensor& dy, const Tensor& x,
                                 const Tensor& weight, double eps) = nullptr;
  bool (*norm_rope)(const Tensor& out, const Tensor& x, const Tensor& norm_weight, double eps,
                    const RopeTable& table) = nullptr;
  bool (*norm_rope_backward)(const Tensor& d, const Tensor& x, const Tensor& norm_weight, double eps,
                             const RopeTable& table) = nullptr;
  bool (*swiglu)(const Tensor& out, const Tensor& gate, const Tensor& up, bool gelu_tanh) = nullptr;
  bool (*swiglu_backward)(const Tensor& gate, const Tensor& up, const Tensor& d, bool gelu_tanh) = nullptr;
  bool (*sigmoid_gate)(const Tensor& out, const Tensor& x, const Tensor& gate) = nullptr;
  bool (*sigmoid_gate_backward)(const Tensor& gate, const Tensor& d, const Tensor& x) = nullptr;
  bool (*soft_cap)(const Tensor& x, double cap) = nullptr;
  bool (*soft_cap_backward)(const Tensor& d, const Tensor& capped, double cap) = nullptr;
  bool (*sum_routed_rows)(const Tensor& out, const Tensor& rows, const Tensor& place, const Tensor& weights,
                          const Tensor& start) = nullptr;
  bool (*weigh_rows)(const Tensor& out, const Tensor& x, const Tensor& weights) = nullptr;
  // sums [S] fp32 is overwritten.
  bool (*weigh_rows_backward)(const Tensor& d, const Tensor& x, const Tensor& weights,
                              const Tensor& sums) = nullptr;
  bool (*add_rows)(const Tensor& out, const Tensor& d, std::span<const std::int64_t> rows,
                   std::span<const std::int64_t> from) = nullptr;
  bool (*gather_rows)(const Tensor& out, const Tensor& table, const Tensor& ids) = nullptr;
  bool (*copy_blocks)(std::span<const BlockCopy> all) = nullptr;
  // out [T, features] fp32 = the mask, of 0 and kept().
  bool (*draw_mask)(const Tensor& out, const DropoutMask& mask) = nullptr;
  bool (*dropout)(const Tensor& out, const Tensor& x, const DropoutMask& mask) = nullptr;
  bool (*dropout_backward_add)(const Tensor& dx, const Tensor& d, const DropoutMask& mask) = nullptr;

  // ---- sequences
  bool (*short_conv)(const Tensor& out, const Tensor& inputs, const Tensor& bcx, const Tensor& weight,
                     const Tensor& bias, const std::vector<ConvRows>& rows) = nullptr;
  bool (*short_conv_backward)(const Tensor& bcx, const Tensor& d, const Tensor& weight, const Tensor& bias,
                              const Segments& segments, const Tensor& d_weight) = nullptr;
  bool (*delta_rule)(const Tensor& out, const Tensor& in, const DeltaWeights& weights,
                     const DeltaShape& shape, const Segments& segments) = nullptr;
  bool (*delta_rule_step)(const Tensor& out, const Tensor& in, const DeltaWeights& weights,
                          const DeltaShape& shape, const std::vector<DeltaStep>& steps) = nullptr;
  bool (*delta_rule_backward)(const Tensor& in, const Tensor& d, const DeltaWeights& weights,
                              const DeltaShape& shape, const Segments& segments,
                              const DeltaGradients& gradients) = nullptr;
  std::int64_t (*delta_rule_backward_bytes)(const DeltaShape& shape, std::int64_t longest,
                                            std::int64_t threads) = nullptr;
  bool (*attend_packed)(const Tensor& out, const Tensor& lse, const Tensor& q, const Tensor& k,
                        const Tensor& v, const Segments& segments, const AttentionRule& rule) = nullptr;
  bool (*attend_tiles)(const Tensor& out, const Tensor& lse, const Tensor& q,
                       const std::vector<AttentionRows>& rows, const AttentionRule& rule) = nullptr;
  bool (*attention_backward)(const AttentionBackward& x, const std::vector<Family>& families) = nullptr;
  // Its log-sum-exps of a pass lie [N, T].
  bool log_sums_by_head = false;
  // False where attention_backward would be refused for its dtype or head_dim.
  bool (*attention_backward_bytes)(std::int64_t& bytes, const AttentionSizes& sizes) = nullptr;

  bool (*join_attention)(const AttentionParts& x) = nullptr;

  // ---- products: all of a call, or none. A weight's gradient is add_outers' where it is refused.
  bool (*gemms)(std::span<const Gemm* const> products) = nullptr;
  bool (*add_outers)(std::span<const Outer* const> products) = nullptr;
  bool (*add_weight_gradient)(const Tensor& gradient, const Tensor& d_out, const Tensor& x) = nullptr;
  bool (*dequantize)(const Tensor& out, const Quantized& matrix) = nullptr;

  // ---- groups of rows whose sizes only the device knows (ops/experts/expert_products.h). group_multiple
  // divides both sides of the matrices that they take, in rows that begin at 16 bytes; 0: none of this dtype.
  std::int64_t (*group_multiple)(at::Device device, at::ScalarType dtype) = nullptr;
  bool (*grouped_products)(Tensor& out, const Tensor& a, const Tensor& right, const Tensor& ends) = nullptr;
  bool (*grouped_outers)(Tensor& out, const Tensor& left, const Tensor& right, const Tensor& ends) = nullptr;

  // ---- the head and the loss
  bool (*take_tile)(SoftmaxRows& rows, const Tensor& logits, std::int64_t first_column,
                    const Tensor& probabilities, const Tensor& accumulator) = nullptr;
  bool (*take_row)(SoftmaxRows& rows, const Tensor& logits) = nullptr;
  bool (*finish)(TokenLogprobs& facts, const SoftmaxRows& rows) = nullptr;
  bool (*tile_backward)(const TileBackward& rows, const Tensor& logits, std::int64_t first_column,
                        const Tensor& narrow) = nullptr;

  // ---- the optimizer
  bool (*adamw)(const AdamwStep& step) = nullptr;
  bool (*adamw_codes)(const AdamwCodesStep& step) = nullptr;
  bool (*lion)(const LionStep& step) = nullptr;
  bool (*lion_codes)(const LionCodesStep& step) = nullptr;
  // sums [blocks] fp64 on x's device is overwritten.
  bool (*block_sums_of_squares)(const Tensor& sums, const Tensor& x) = nullptr;
  bool (*scale)(const Tensor& x, float factor) = nullptr;

  // ---- how often a row's result is rounded to bf16: 2 where libtorch's operators round an inner result too
  double roundings = 1;

  // ---- it takes matrices kept from a GGUF, in the CPU's order (ops/kept_ggml.h)
  bool keeps_ggml = false;

  // ---- linears that read one tensor are one matrix (ops/join/join.h)
  bool joins_linears = false;

  // ---- sizes of the head's scratch: rows of hidden and columns of the vocabulary at a time. The columns decide the order
  // of additions; a device that pays for each call takes larger ones.
  std::int64_t head_rows = 1024, head_columns = kTileColumns;
  // Rows at a time of a trained norm's gradient, which are added up one block after another.
  std::int64_t norm_rows = 256;

  // ---- the processor; null: nothing is known
  const char* (*product_kernels)(at::ScalarType dtype) = nullptr;  // null: libtorch's
  double (*product_limit)(at::ScalarType dtype) = nullptr;         // GFLOP/s of all threads; 0: not known
};

const Operators& cpu_operators();
// The table of a device: the one that a backend registered for its type, else the CPU's, or an empty one.
const Operators& operators_of(at::Device device);
// For tensors of `type` from now on; before any of them is used. It may be the CPU. Null: as if none were
// registered.
void register_operators(at::DeviceType type, const Operators* table);

// Every device has this table while the object lives, in all threads; one at a time. For tests: an empty table is the
// reference alone, and a copy of another with one function more or less shows what that function does.
class OnlyOperators {
 public:
  explicit OnlyOperators(const Operators& table);  // which it does not copy
  explicit OnlyOperators(Operators&&) = delete;
  ~OnlyOperators();
  OnlyOperators(const OnlyOperators&) = delete;
  OnlyOperators& operator=(const OnlyOperators&) = delete;
};

// The row `kernel` of the device's table, or else `reference`.
template <typename... Parameters, typename Reference, typename... Arguments>
void run(at::Device device, bool (*Operators::*kernel)(Parameters...), const Reference& reference,
         Arguments&&... arguments) {
  const auto function = operators_of(device).*kernel;
  if (function != nullptr && function(arguments...)) return;
  reference(arguments...);
}

}  // namespace hone::ops::backend
