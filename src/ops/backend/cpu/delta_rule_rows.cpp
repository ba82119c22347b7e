#include "ops/backend/cpu/delta_rule_rows.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/half.h"
#include "ops/backend/cpu/flush_denormals.h"
#include "ops/backend/cpu/row_call.h"

namespace hone::ops::delta {
namespace {

// S is multiplied by its scale when it falls below: far from where fp32 ends.
constexpr float kLeastScale = 0x1p-32F;

std::vector<float> floats_of(const at::Tensor& t) {
  const at::Tensor wide = t.detach().to(at::kFloat).contiguous();
  const float* data = wide.const_data_ptr<float>();
  return {data, data + wide.numel()};
}

}  // namespace

const Kernels& kernels() {
  return *level_kernels().delta;
}

bool fits(const at::Tensor& in, const at::Tensor& other, const DeltaWeights& weights) {
  return rows_fit({&in, &other}) && in.scalar_type() == other.scalar_type() &&
         weights.conv.device().is_cpu() && weights.conv.size(2) <= kTapsMost;
}

Prepared::Prepared(const at::Tensor& in, const DeltaWeights& weights, const DeltaShape& sizes)
    : shape(sizes),
      bf16(in.scalar_type() == at::kBFloat16),
      rounds_product(bf16 && weights.norm.scalar_type() == at::kBFloat16),
      taps_count(weights.conv.size(2)),
      taps(weights.conv.detach()
               .to(in.scalar_type())
               .to(at::kFloat)
               .view({sizes.channels(), taps_count})
               .flip(1)
               .t()
               .contiguous()),
      norm(weights.norm.detach().to(at::kFloat).contiguous()),
      rates(floats_of(weights.a_log)),
      biases(floats_of(weights.dt_bias)) {
  for (float& rate : rates) rate = std::exp(rate);
}

void Source::rows_of(std::int64_t begin, std::int64_t end, std::int64_t taps,
                     std::vector<const void*>& out) const {
  out.clear();
  for (std::int64_t t = begin - (taps - 1); t < end; ++t) {
    if (t >= 0) {
      out.push_back(in + t * row_bytes);
    } else {
      const auto back = static_cast<std::size_t>(-1 - t);
      out.push_back(back < before.size() ? before[back] : nullptr);
    }
  }
}

std::vector<const void*> rows_before(const at::Tensor& last, const at::Tensor& earlier, std::int64_t taps) {
  std::vector<const void*> out;
  for (const at::Tensor* rows : {&last, &earlier}) {
    if (!rows->defined()) continue;
    const auto* data = static_cast<const char*>(rows->const_data_ptr());
    const std::int64_t bytes = rows->stride(0) * static_cast<std::int64_t>(rows->element_size());
    for (std::int64_t i = rows->size(0) - 1; i >= 0 && static_cast<std::int64_t>(out.size()) < taps - 1; --i)
      out.push_back(data + i * bytes);
  }
  return out;
}

float element(const void* row, std::int64_t column, bool bf16) {
  return bf16 ? base::bf16_to_float(static_cast<const std::uint16_t*>(row)[column])
              : static_cast<const float*>(row)[column];
}

void set_element(void* row, std::int64_t column, bool bf16, float value) {
  if (bf16) {
    static_cast<std::uint16_t*>(row)[column] = base::float_to_bf16(value);
  } else {
    static_cast<float*>(row)[column] = value;
  }
}

float sigmoid_of(float x) {
  return static_cast<float>(1 / (1 + std::exp(-static_cast<double>(x))));
}

ConvArgs conv_args(const Prepared& p, const std::vector<const void*>& rows, std::int64_t count,
                   std::int64_t first, std::int64_t width, float* out) {
  return {.rows = rows.data(),
          .bf16 = p.bf16,
          .count = count,
          .first = first,
          .width = width,
          .taps_count = p.taps_count,
          .taps = p.tap(first),
          .taps_stride = p.shape.channels(),
          .out = out,
          .stride = row_stride(width)};
}

void read_queries(const Prepared& p, const std::vector<const void*>& rows, std::int64_t count,
                  const HeadInputs& to) {
  const std::int64_t dim = p.shape.key_dim, stride = row_stride(dim);
  kernels().conv(conv_args(p, rows, count, to.key_head * dim, dim, to.q));
  kernels().conv(conv_args(p, rows, count, p.shape.keys() + to.key_head * dim, dim, to.k));
  kernels().unit(to.q, stride, count, dim, to.q_inverse);
  kernels().unit(to.k, stride, count, dim, to.k_inverse);
}

void read_values(const Prepared& p, const std::vector<const void*>& rows, std::int64_t count,
                 const HeadInputs& to) {
  const std::int64_t dim = p.shape.value_dim;
  kernels().conv(conv_args(p, rows, count, 2 * p.shape.keys() + to.value_head * dim, dim, to.v));
}

Gates gates_of(const Prepared& p, const void* row, std::int64_t value_head) {
  const std::int64_t b = p.shape.channels() + p.shape.values() + value_head, a = b + p.shape.value_heads;
  const auto head = static_cast<std::size_t>(value_head);
  const float beta = sigmoid_of(element(row, b, p.bf16)), x = element(row, a, p.bf16) + p.biases[head];
  const double softplus = x > 20 ? x : std::log1p(std::exp(static_cast<double>(x)));
  return {.beta = p.bf16 ? base::bf16_to_float(base::float_to_bf16(beta)) : beta,
          .log_decay = static_cast<float>(-static_cast<double>(p.rates[head]) * softplus)};
}

namespace {

std::int64_t head_size(const DeltaShape& shape) {
  return (shape.value_dim + kColumns - 1) / kColumns * kColumns * shape.key_dim;
}

// What a thread needs for 64 tokens of one value head.
class Scratch {
 public:
  explicit Scratch(const DeltaShape& shape)
      : qk_(row_stride(shape.key_dim)),
        v_(row_stride(shape.value_dim)),
        floats_(static_cast<std::size_t>(kTokens * (2 * qk_ + v_ + 2)), 0.0F),
        state(static_cast<std::size_t>(head_size(shape))) {}

  HeadInputs inputs(const DeltaShape& shape, std::int64_t value_head) {
    float* q = floats_.data();
    float* k = q + kTokens * qk_;
    float* v = k + kTokens * qk_;
    float* inverse = v + kTokens * v_;
    return {.key_head = value_head / (shape.value_heads / shape.key_heads),
            .value_head = value_head,
            .q = q,
            .k = k,
            .v = v,
            .q_inverse = inverse,
            .k_inverse = inverse + kTokens};
  }
  std::int64_t qk_stride() const { return qk_; }
  std::int64_t v_stride() const { return v_; }

 private:
  std::int64_t qk_, v_;
  std::vector<float> floats_;

 public:
  std::vector<const void*> rows;
  std::vector<float> state;
  DeltaToken tokens[kTokens];
};

// S at the begin of `rows`, where it may be changed.
float* start(const DeltaShape& shape, const Rows& rows, std::int64_t head, Scratch& scratch, float& scale) {
  const std::int64_t size = head_size(shape);
  float* const state = rows.to.values != nullptr ? rows.to.values + head * size : scratch.state.data();
  scale = rows.from.values != nullptr ? rows.from.scales[head] : 1;
  if (rows.from.values == nullptr) {
    std::fill_n(state, size, 0.0F);
  } else if (rows.from.values != rows.to.values) {
    std::copy_n(rows.from.values + head * size, size, state);
  }
  return state;
}

// A value head over all tokens of `rows`.
void forward_head(const RowsOut& out, const RowsIn& in, const Prepared& p, const Rows& rows,
                  std::int64_t head, Scratch& scratch) {
  const DeltaShape& shape = p.shape;
  const HeadInputs inputs = scratch.inputs(shape, head);
  const std::int64_t size = p.bf16 ? 2 : 4, blocks = (shape.value_dim + kColumns - 1) / kColumns;
  const float query_scale = 1 / std::sqrt(static_cast<float>(shape.key_dim));
  float scale = 1;
  float* const state = start(shape, rows, head, scratch, scale);
  for (std::int64_t begin = rows.begin; begin < rows.end; begin += kTokens) {
    const std::int64_t count = std::min(kTokens, rows.end - begin);
    rows.source.rows_of(begin - rows.begin, begin - rows.begin + count, p.taps_count, scratch.rows);
    read_queries(p, scratch.rows, count, inputs);
    read_values(p, scratch.rows, count, inputs);
    const auto* first = static_cast<const char*>(in.data) + begin * in.stride * size;
    for (std::int64_t t = 0; t < count; ++t) {
      const Gates gates = gates_of(p, first + t * in.stride * size, head);
      const float total = scale * static_cast<float>(std::exp(static_cast<double>(gates.log_decay)));
      scale = total < kLeastScale ? 1 : total;
      scratch.tokens[t] = {.beta = gates.beta, .total = total, .after = scale, .inverse = 1 / scale};
    }
    kernels().recur({.state = state,
                     .blocks = blocks,
                     .dim = shape.key_dim,
                     .count = count,
                     .q = inputs.q,
                     .k = inputs.k,
                     .qk_stride = scratch.qk_stride(),
                     .v = inputs.v,
                     .v_stride = scratch.v_stride(),
                     .query_scale = query_scale,
                     .tokens = scratch.tokens});
    const std::int64_t z = shape.channels() + head * shape.value_dim;
    kernels().gate(
        {.o = inputs.v,
         .stride = scratch.v_stride(),
         .count = count,
         .width = shape.value_dim,
         .z = {first + z * size, in.stride, p.bf16},
         .out = {static_cast<char*>(out.data) + (begin * out.stride + head * shape.value_dim) * size,
                 out.stride, p.bf16},
         .weight = p.norm.const_data_ptr<float>(),
         .rounds_product = p.rounds_product,
         .eps = static_cast<float>(shape.eps)});
  }
  if (rows.to.scales != nullptr) rows.to.scales[head] = scale;
}

}  // namespace

void forward(const at::Tensor& out, const at::Tensor& in, const Prepared& p, const std::vector<Rows>& rows) {
  const std::int64_t heads = p.shape.value_heads, units = static_cast<std::int64_t>(rows.size()) * heads;
  const RowsIn from = rows_in(in);
  const RowsOut to = rows_out(out);
  std::vector<Scratch> scratch;
  const std::int64_t threads =
      std::min<std::int64_t>(at::get_num_threads(), std::max<std::int64_t>(units, 1));
  scratch.reserve(static_cast<std::size_t>(threads));
  for (std::int64_t i = 0; i < threads; ++i) scratch.emplace_back(p.shape);
  in_team(units, threads, [&](std::int64_t unit, std::int64_t thread) {
    const FlushDenormals flush;
    forward_head(to, from, p, rows[static_cast<std::size_t>(unit / heads)], unit % heads,
                 scratch[static_cast<std::size_t>(thread)]);
  });
}

}  // namespace hone::ops::delta
