#include "ops/backend/cpu/delta_rule_chunk.h"

#include <algorithm>
#include <cmath>

namespace hone::ops::delta {
namespace {

constexpr std::int64_t kRows = kTokens + kTapsMost;
constexpr std::int64_t kSolved = 8;  // rows of a system that are solved one by one

std::int64_t lay_out(const DeltaShape& shape, std::vector<std::pair<float**, std::int64_t>>& parts,
                     ChunkMemory* m) {
  const std::int64_t keys = kRows * row_stride(shape.key_dim), values = kRows * row_stride(shape.value_dim);
  const std::int64_t keys_turned = shape.key_dim * kPairStride, values_turned = shape.value_dim * kPairStride;
  constexpr std::int64_t kPairs = kTokens * kPairStride;
  ChunkMemory* const to = m;
  for (float** part : {&to->dq, &to->dk, &to->some_keys}) parts.emplace_back(part, keys);
  for (float** part : {&to->q_turned, &to->k_turned, &to->of_queries, &to->of_keys, &to->more_of_keys})
    parts.emplace_back(part, keys_turned);
  for (float** part :
       {&to->v, &to->d_out, &to->d_delta, &to->d_missed, &to->d_out_decayed, &to->d_missed_decayed})
    parts.emplace_back(part, values);
  for (float** part : {&to->d_out_turned, &to->d_missed_turned, &to->delta_turned})
    parts.emplace_back(part, values_turned);
  for (float** part : {&to->keys_by_keys, &to->queries_by_keys, &to->decay, &to->scores, &to->pairs_decayed,
                       &to->system, &to->by_out, &to->by_missed, &to->turned, &to->crossing})
    parts.emplace_back(part, kPairs);
  for (float** part : {&to->from_begin, &to->to_end, &to->factor, &to->reads, &to->writes, &to->some})
    parts.emplace_back(part, kTokens);
  std::int64_t sum = 0;
  for (const auto& part : parts) sum += part.second;
  return sum;
}

}  // namespace

std::int64_t ChunkMemory::floats(const DeltaShape& shape) {
  const std::int64_t key = row_stride(shape.key_dim), value = row_stride(shape.value_dim);
  return kRows * (3 * key + 6 * value) + (5 * shape.key_dim + 3 * shape.value_dim) * kPairStride +
         kTokens * (10 * kPairStride + 6);
}

ChunkMemory::ChunkMemory(const DeltaShape& shape) : sums(static_cast<std::size_t>(kTokens)) {
  std::vector<std::pair<float**, std::int64_t>> parts;
  floats_.resize(static_cast<std::size_t>(lay_out(shape, parts, this)), 0.0F);
  float* at = floats_.data();
  for (const auto& [part, size] : parts) {
    *part = at;
    at += size;
  }
}

namespace {

ProductArgs product_of(const Result& c, const Left& a, const Right& b, const Extents& of, Zeros zeros,
                       bool add) {
  return {.a = a.at,
          .a_row = a.row,
          .a_depth = a.depth,
          .b = b.at,
          .b_row = b.stride,
          .c = c.at,
          .c_row = c.stride,
          .rows = of.rows,
          .columns = of.columns,
          .depth = of.depth,
          .zeros = zeros,
          .add = add};
}

}  // namespace

void set_product(const Result& c, const Left& a, const Right& b, const Extents& of, Zeros zeros) {
  kernels().product(product_of(c, a, b, of, zeros, /*add=*/false));
}

void add_product(const Result& c, const Left& a, const Right& b, const Extents& of, Zeros zeros) {
  kernels().product(product_of(c, a, b, of, zeros, /*add=*/true));
}

void solve_forward(const ChunkMemory& m, std::int64_t count, std::int64_t width, float* delta) {
  const std::int64_t stride = row_stride(width);
  const auto add_rows = [&](std::int64_t first, std::int64_t rows, std::int64_t from, std::int64_t depth) {
    if (depth == 0) return;
    add_product({delta + first * stride, stride}, as_is(m.system + first * kPairStride + from, kPairStride),
                {delta + from * stride, stride}, {rows, width, depth});
  };
  for (std::int64_t begin = 0; begin < count; begin += kSolved) {
    const std::int64_t end = std::min(count, begin + kSolved);
    add_rows(begin, end - begin, 0, begin);
    for (std::int64_t t = begin + 1; t < end; ++t) add_rows(t, 1, begin, t - begin);
  }
}

void solve_backward(const ChunkMemory& m, std::int64_t count, std::int64_t width, float* delta) {
  const std::int64_t stride = row_stride(width);
  const auto add_rows = [&](std::int64_t first, std::int64_t rows, std::int64_t from, std::int64_t depth) {
    if (depth == 0) return;
    add_product({delta + first * stride, stride}, turned(m.system + from * kPairStride + first, kPairStride),
                {delta + from * stride, stride}, {rows, width, depth});
  };
  for (std::int64_t begin = (count - 1) / kSolved * kSolved; begin >= 0; begin -= kSolved) {
    const std::int64_t end = std::min(count, begin + kSolved);
    add_rows(begin, end - begin, end, count - end);
    for (std::int64_t t = end - 2; t >= begin; --t) add_rows(t, 1, t + 1, end - t - 1);
  }
}

void multiply_keys(const Prepared& p, ChunkMemory& m, std::int64_t count) {
  const std::int64_t dim = p.shape.key_dim, stride = row_stride(dim);
  kernels().transpose(m.k, stride, count, dim, m.k_turned, kPairStride);
  set_product({m.keys_by_keys, kPairStride}, as_is(m.k, stride), {m.k_turned, kPairStride},
              {count, count, dim}, Zeros::kLowerC);
}

void multiply_queries(const Prepared& p, ChunkMemory& m, std::int64_t count) {
  const std::int64_t dim = p.shape.key_dim;
  set_product({m.queries_by_keys, kPairStride}, as_is(m.q, row_stride(dim)), {m.k_turned, kPairStride},
              {count, count, dim}, Zeros::kLowerC);
}

void decay_pairs(ChunkMemory& m, std::int64_t count) {
  double sum = 0;
  for (std::int64_t t = 0; t < count; ++t) {
    sum += m.log_decay[t];
    m.sums[static_cast<std::size_t>(t)] = sum;
  }
  for (std::int64_t t = 0; t < count; ++t) {
    const double c = m.sums[static_cast<std::size_t>(t)];
    m.from_begin[t] = static_cast<float>(std::exp(c));
    m.to_end[t] = static_cast<float>(std::exp(sum - c));
    m.factor[t] = -m.beta[t];
  }
  kernels().decays(m.sums.data(), count, m.decay, kPairStride);
  kernels().multiply(m.decay, m.keys_by_keys, m.pairs_decayed, kPairStride, count, count, false);
  for (std::int64_t t = 0; t < count; ++t) m.pairs_decayed[t * kPairStride + t] = 0;
  kernels().scale_rows(m.pairs_decayed, m.system, kPairStride, count, count, m.factor);
}

void chunk_forward(const Prepared& p, ChunkMemory& m, std::int64_t count, const float* before, float* delta,
                   float* after) {
  const std::int64_t keys = p.shape.key_dim, key_stride = row_stride(keys), width = p.shape.value_dim,
                     stride = row_stride(width);
  const Kernels& kernel = kernels();
  kernel.scale_rows(m.v, delta, stride, count, width, m.beta);
  for (std::int64_t t = 0; t < count; ++t) m.factor[t] = -m.beta[t] * m.from_begin[t];
  kernel.scale_rows(m.k, m.some_keys, key_stride, count, keys, m.factor);
  add_product({delta, stride}, as_is(m.some_keys, key_stride), {before, stride}, {count, width, keys});
  solve_forward(m, count, width, delta);
  const std::vector<float> last(static_cast<std::size_t>(keys), m.from_begin[count - 1]);
  kernel.scale_rows(before, after, stride, keys, width, last.data());
  kernel.scale_rows(delta, m.d_missed, stride, count, width, m.to_end);
  add_product({after, stride}, turned(m.k, key_stride), {m.d_missed, stride}, {keys, width, count});
}

namespace {

// The gradient of each log of a decay: the sum over what goes across it, from an earlier token or S0 (before) to a later token or
// S1. reads, writes: what goes from S0 to t, from t to S1; through: from S0 to S1.
void decay_gradients(ChunkMemory& m, std::int64_t count, float through) {
  float columns[kTokens] = {};
  float later = 0;
  for (std::int64_t t = count - 1; t >= 0; --t) {
    later += m.reads[t];
    const float* row = m.crossing + t * kPairStride;
    float earlier = 0;
    for (std::int64_t s = 0; s < t; ++s) {
      columns[s] += row[s];
      earlier += columns[s] + m.writes[s];
    }
    m.some[t] = through + later + earlier;
  }
  std::copy_n(m.some, count, m.writes);
}

// d_delta, from d_out and R; then d_missed, the gradient of S^T k, and v's.
void solve_gradient(const Prepared& p, ChunkMemory& m, std::int64_t count, const float* r) {
  const std::int64_t keys = p.shape.key_dim, key_stride = row_stride(keys), width = p.shape.value_dim,
                     stride = row_stride(width);
  const Kernels& kernel = kernels();
  set_product({m.d_delta, stride}, as_is(m.k, key_stride), {r, stride}, {count, width, keys});
  kernel.scale_rows(m.d_delta, m.d_delta, stride, count, width, m.to_end);
  add_product({m.d_delta, stride}, turned(m.scores, kPairStride), {m.d_out, stride}, {count, width, count},
              Zeros::kUpperA);
  solve_backward(m, count, width, m.d_delta);
  for (std::int64_t t = 0; t < count; ++t) m.factor[t] = -m.beta[t];
  kernel.scale_rows(m.d_delta, m.d_missed, stride, count, width, m.factor);
  kernel.scale_rows(m.d_delta, m.v, stride, count, width, m.beta);
  kernel.scale_rows(m.d_out, m.d_out_decayed, stride, count, width, m.from_begin);
  kernel.scale_rows(m.d_missed, m.d_missed_decayed, stride, count, width, m.from_begin);
}

// What goes between two tokens: by_out(t, s) = L (d_out_t delta_s), by_missed likewise without the diagonal, and crossing, both
// times the product of the rows that meet there.
void pair_gradients(const Prepared& p, ChunkMemory& m, std::int64_t count) {
  const std::int64_t width = p.shape.value_dim, stride = row_stride(width);
  const Kernels& kernel = kernels();
  for (const auto& [rows, to] : {std::pair{m.d_out, m.by_out}, std::pair{m.d_missed, m.by_missed}}) {
    set_product({to, kPairStride}, as_is(rows, stride), {m.delta_turned, kPairStride}, {count, count, width},
                Zeros::kLowerC);
    kernel.multiply(to, m.decay, to, kPairStride, count, count, false);
  }
  for (std::int64_t t = 0; t < count; ++t) m.by_missed[t * kPairStride + t] = 0;
  kernel.multiply(m.by_out, m.queries_by_keys, m.crossing, kPairStride, count, count, false);
  kernel.multiply(m.by_missed, m.keys_by_keys, m.crossing, kPairStride, count, count, true);
}

// The gradients of q and k, [D, count], from S0, R and the other tokens; reads and writes.
void key_gradients(const Prepared& p, ChunkMemory& m, std::int64_t count, const float* before,
                   const float* r) {
  const std::int64_t keys = p.shape.key_dim, key_stride = row_stride(keys), width = p.shape.value_dim,
                     stride = row_stride(width);
  const Kernels& kernel = kernels();
  const auto from_state = [&](const float* state, const float* columns, float* to) {
    set_product({to, kPairStride}, as_is(state, stride), {columns, kPairStride}, {keys, count, width});
  };
  from_state(before, m.d_out_turned, m.of_queries);
  from_state(before, m.d_missed_turned, m.of_keys);
  from_state(r, m.delta_turned, m.more_of_keys);
  kernel.scale_columns(m.more_of_keys, kPairStride, keys, count, m.to_end);
  kernel.dot_columns(m.of_queries, m.q_turned, kPairStride, keys, count, m.reads);
  kernel.dot_columns(m.of_keys, m.k_turned, kPairStride, keys, count, m.some);
  kernel.dot_columns(m.more_of_keys, m.k_turned, kPairStride, keys, count, m.writes);
  kernel.add(m.some, m.reads, kTokens, 1, count);
  kernel.add(m.more_of_keys, m.of_keys, kPairStride, keys, count);
  const auto from_tokens = [&](const float* rows, const float* pairs, Zeros zeros, float* to) {
    add_product({to, kPairStride}, turned(rows, key_stride), {pairs, kPairStride}, {keys, count, count},
                zeros);
  };
  kernel.transpose(m.by_out, kPairStride, count, count, m.turned, kPairStride);
  from_tokens(m.k, m.turned, Zeros::kUpperB, m.of_queries);
  from_tokens(m.q, m.by_out, Zeros::kLowerB, m.of_keys);
  kernel.transpose(m.by_missed, kPairStride, count, count, m.turned, kPairStride);
  kernel.add(m.turned, m.by_missed, kPairStride, count, count);
  from_tokens(m.k, m.by_missed, Zeros::kNone, m.of_keys);
}

}  // namespace

void chunk_backward(const Prepared& p, ChunkMemory& m, std::int64_t count, const float* before,
                    const float* delta, float* r, bool adds_to_keys) {
  const std::int64_t keys = p.shape.key_dim, key_stride = row_stride(keys), width = p.shape.value_dim,
                     stride = row_stride(width);
  const Kernels& kernel = kernels();
  solve_gradient(p, m, count, r);
  kernel.transpose(m.q, key_stride, count, keys, m.q_turned, kPairStride);
  kernel.transpose(delta, stride, count, width, m.delta_turned, kPairStride);
  kernel.transpose(m.d_out_decayed, stride, count, width, m.d_out_turned, kPairStride);
  kernel.transpose(m.d_missed_decayed, stride, count, width, m.d_missed_turned, kPairStride);
  pair_gradients(p, m, count);
  key_gradients(p, m, count, before, r);
  for (const auto& [from, to] : {std::pair{m.of_queries, m.dq}, std::pair{m.of_keys, m.dk}}) {
    float* const rows = adds_to_keys ? m.some_keys : to;
    kernel.transpose(from, kPairStride, keys, count, rows, key_stride);
    if (adds_to_keys) kernel.add(rows, to, key_stride, count, keys);
  }
  std::vector<float> by_row(static_cast<std::size_t>(keys));
  kernel.dot_rows(r, before, stride, keys, width, by_row.data());
  const float last = m.from_begin[count - 1];
  float through = 0;
  for (const float x : by_row) through += x;
  decay_gradients(m, count, through * last);
  kernel.dot_rows(m.d_delta, delta, stride, count, width, m.reads);
  for (std::int64_t t = 0; t < count; ++t) m.reads[t] *= 1 - m.beta[t];
  std::fill(by_row.begin(), by_row.end(), last);
  kernel.scale_rows(r, r, stride, keys, width, by_row.data());
  for (const auto& [rows, d] : {std::pair{m.q, m.d_out_decayed}, std::pair{m.k, m.d_missed_decayed}}) {
    add_product({r, stride}, turned(rows, key_stride), {d, stride}, {keys, width, count});
  }
}

}  // namespace hone::ops::delta
