// Blocks of rows over tiles of columns, of the sizes that the backend names: the fp32 logits and the probabilities of one
// block and tile are all there ever is of [n, V].
#include "ops/head/linear_logprob.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "ops/backend/announce.h"
#include "ops/backend/operators.h"
#include "ops/gemm.h"
#include "ops/head/head_rows.h"
#include "ops/head/logprob_tile.h"
#include "ops/head/soft_cap.h"
#include "ops/index_tensor.h"
#include "ops/machine/device_memory.h"

namespace hone::ops {
namespace {

void check_targets(const at::Tensor& targets, std::int64_t n, std::int64_t vocabulary, const char* where) {
  base::require(targets.dim() == 1 && targets.scalar_type() == at::kLong && targets.size(0) == n, where,
                "targets to be [n] int64, one a row");
  if (!is_host(targets.device()) || n == 0) return;
  const auto [least, most] = at::aminmax(targets);
  base::require(least.item<std::int64_t>() >= 0 && most.item<std::int64_t>() < vocabulary, where,
                "targets in 0..V-1");
}

// Rows of neighboring elements, as a Weight and the kernels read them: a copy where they are not.
at::Tensor dense_rows(const at::Tensor& hidden) {
  return hidden.stride(1) == 1 ? hidden : hidden.contiguous();
}

void check_hidden(const at::Tensor& hidden, const Weight& head, const char* where) {
  base::require(head.defined() && hidden.dim() == 2 && hidden.size(1) == head.in() &&
                    hidden.scalar_type() == head.dtype(),
                where, "hidden to be [n, H] in the head's dtype");
}

void check_temperature(double temperature, const char* where) {
  base::require(temperature > 0, where, "a temperature above 0");
}

// Calls part(begin, count) over 0..n in steps.
template <typename Part>
void for_each_part(std::int64_t n, std::int64_t step, Part part) {
  for (std::int64_t begin = 0; begin < n; begin += step) part(begin, std::min(step, n - begin));
}

TokenLogprobs empty_facts(const at::TensorOptions& options, std::int64_t n, bool squares) {
  const auto column = [&] { return at::empty({n}, options.dtype(at::kFloat)); };
  return {.logprob = column(),
          .entropy = column(),
          .is_top1 = column(),
          .log_sum = column(),
          .gradient = {},
          .log_sum_squares = squares ? column() : at::Tensor()};
}

void place(TokenLogprobs& all, std::int64_t begin, const TokenLogprobs& block) {
  const auto put = [&](at::Tensor& to, const at::Tensor& from) {
    const bool is_all = from.sizes() == to.sizes() && from.scalar_type() == to.scalar_type();
    is_all ? static_cast<void>(to = from) : static_cast<void>(to.narrow(0, begin, from.size(0)).copy_(from));
  };
  put(all.logprob, block.logprob);
  put(all.entropy, block.entropy);
  put(all.is_top1, block.is_top1);
  put(all.log_sum, block.log_sum);
  if (all.log_sum_squares.defined()) put(all.log_sum_squares, block.log_sum_squares);
}

// The scratch of one block, and the sizes of blocks and tiles.
struct Tiles {
  Tiles(const at::Tensor& hidden, const Weight& head, bool probabilities)
      : rows(backend::operators_of(hidden.device()).head_rows),
        columns(backend::operators_of(hidden.device()).head_columns),
        logits(at::empty({std::min(rows, hidden.size(0)) * std::min(columns, head.out())},
                         hidden.options().dtype(at::kFloat))),
        chances(probabilities ? at::empty_like(logits, hidden.options()) : at::Tensor()) {}

  // Contiguous [n, width].
  static at::Tensor of(const at::Tensor& buffer, std::int64_t n, std::int64_t width) {
    return buffer.defined() ? buffer.narrow(0, 0, n * width).view({n, width}) : buffer;
  }

  std::int64_t rows, columns;
  at::Tensor logits, chances;
};

// d logprob / d hidden = ((1 - p_t) W_t - sum over the others p_j W_j) / temperature; `gradient` comes in as
// sum over the others exp(z_j) W_j.
void finish_gradient(at::Tensor gradient, const SoftmaxRows& rows, const at::Tensor& logprob,
                     const Weight& head, const HeadRows* own_rows, double soft_cap) {
  const bool cools = rows.temperature != 1;  // x / 1 has x's bits
  at::Tensor own = -logprob.expm1();
  if (cools) own = own / rows.temperature;
  own = own.unsqueeze(1);
  soft_cap_backward(own, rows.target.unsqueeze(1), soft_cap);
  const at::Tensor others =
      (-1 / (cools ? rows.sum * rows.temperature : rows.sum)).to(at::kFloat).unsqueeze(1);
  gradient.mul_(others).addcmul_(rows_of(head, own_rows, rows.targets), own);
}

// `d` comes in as logits and goes out as their gradient, also where the loss has an entropy.
void d_logits_with_entropy(at::Tensor d, const HeadLoss& loss, std::int64_t begin, std::int64_t column) {
  const std::int64_t count = d.size(0), width = d.size(1);
  const auto column_of = [&](const at::Tensor& x) { return x.narrow(0, begin, count).unsqueeze(1); };
  const at::Tensor up = column_of(loss.d_logprob) / loss.temperature;
  d.mul_(1 / loss.temperature).sub_(column_of(loss.log_sum));
  d.clamp_min_(-1e30);  // as in entropy_backward
  const at::Tensor p = d.exp();
  d.add_(column_of(loss.entropy)).mul_(p).mul_(column_of(loss.d_entropy) / -loss.temperature);
  d.sub_(p.mul_(up));
  const at::Tensor place = column_of(loss.targets) - column;
  const at::Tensor inside = place.ge(0).logical_and_(place.lt(width));
  d.scatter_add_(1, place.clamp(0, width - 1), up * inside);
}

}  // namespace

TokenLogprobs linear_logprob(const at::Tensor& hidden, const Weight& head, const at::Tensor& targets,
                             const LogprobOptions& options) {
  constexpr const char* kWhere = "ops::linear_logprob";
  const std::int64_t n = hidden.size(0);
  check_hidden(hidden, head, kWhere);
  check_targets(targets, n, head.out(), kWhere);
  check_temperature(options.temperature, kWhere);
  announce("linear_logprob", n, head.out(), head.in(), head.dtype());

  TokenLogprobs all = empty_facts(hidden.options(), n, options.squares);
  if (options.gradient) all.gradient = at::empty(hidden.sizes(), hidden.options().dtype(at::kFloat));
  if (options.mean_logit) all.mean_logit = at::zeros({n}, hidden.options().dtype(at::kDouble));
  const Tiles tiles(hidden, head, options.gradient);
  std::vector<at::Tensor> own_logits;
  for_each_part(n, tiles.rows, [&](std::int64_t begin, std::int64_t count) {
    const at::Tensor h = dense_rows(hidden.narrow(0, begin, count));
    const HeadBlock block_of_head(h, head, options.own, options.soft_cap);
    SoftmaxRows rows(targets.narrow(0, begin, count), options.temperature, options.squares);
    const at::Tensor gradient =
        options.gradient ? all.gradient.narrow(0, begin, count).zero_() : at::Tensor();
    for_each_part(head.out(), tiles.columns, [&](std::int64_t column, std::int64_t width) {
      const at::Tensor logits = Tiles::of(tiles.logits, count, width);
      const at::Tensor chances = Tiles::of(tiles.chances, count, width);
      block_of_head.logits(logits, column);
      take_tile(rows, logits, column, chances, gradient);
      if (options.mean_logit) all.mean_logit.narrow(0, begin, count).add_(logits.sum(1, false, at::kDouble));
      if (!options.gradient) return;
      soft_cap_backward(chances, logits, options.soft_cap);
      block_of_head.add_product(gradient, chances, column);
    });
    const TokenLogprobs block = finish(rows);
    place(all, begin, block);
    if (options.gradient) finish_gradient(gradient, rows, block.logprob, head, options.own, options.soft_cap);
    if (options.own != nullptr) own_logits.push_back(block_of_head.own_logits());
  });
  if (!own_logits.empty()) all.own_logits = at::cat(own_logits);
  if (options.mean_logit) all.mean_logit = (all.mean_logit / static_cast<double>(head.out())).to(at::kFloat);
  return all;
}

HeadGradients linear_logprob_backward(const at::Tensor& hidden, const Weight& head, const at::Tensor& targets,
                                      const at::Tensor& log_sum, const at::Tensor& d_logprob,
                                      double temperature) {
  constexpr const char* kWhere = "ops::linear_logprob_backward";
  const std::int64_t n = hidden.size(0);
  check_hidden(hidden, head, kWhere);
  check_targets(targets, n, head.out(), kWhere);
  check_temperature(temperature, kWhere);
  base::require(log_sum.sizes() == targets.sizes() && d_logprob.sizes() == targets.sizes(), kWhere,
                "log_sum and d_logprob to be [n]");

  const auto wide = hidden.options().dtype(at::kFloat);
  HeadGradients out{.hidden = at::zeros(hidden.sizes(), wide),
                    .weight = at::zeros({head.out(), head.in()}, wide)};
  const Tiles tiles(hidden, head, /*probabilities=*/hidden.scalar_type() != at::kFloat);
  for_each_part(n, tiles.rows, [&](std::int64_t begin, std::int64_t count) {
    const at::Tensor h = dense_rows(hidden.narrow(0, begin, count));
    const Weight rows_of_h(h);
    const at::Tensor d_hidden = out.hidden.narrow(0, begin, count);
    const TileBackward rows = {.targets = targets.narrow(0, begin, count),
                               .log_sum = log_sum.narrow(0, begin, count),
                               .upstream = d_logprob.narrow(0, begin, count),
                               .temperature = temperature};
    for_each_part(head.out(), tiles.columns, [&](std::int64_t column, std::int64_t width) {
      const Weight part = head.slice(column, column + width);
      const at::Tensor d = Tiles::of(tiles.logits, count, width);
      const at::Tensor rounded = Tiles::of(tiles.chances, count, width);
      multiply(d, h, part, GemmDirection::kForward);
      tile_backward(rows, d, column, rounded);
      const at::Tensor& narrow = rounded.defined() ? rounded : d;
      multiply(d_hidden, narrow, part, GemmDirection::kBackward, d_hidden);
      const at::Tensor d_part = out.weight.narrow(0, column, width);
      multiply(d_part, narrow.t().contiguous(), rows_of_h, GemmDirection::kBackward, d_part);
    });
  });
  return out;
}

void add_head_gradient(const at::Tensor& gradient, const Weight& head, const HeadLoss& loss) {
  constexpr const char* kWhere = "ops::add_head_gradient";
  const std::int64_t n = loss.hidden.size(0);
  check_hidden(loss.hidden, head, kWhere);
  check_targets(loss.targets, n, head.out(), kWhere);
  check_temperature(loss.temperature, kWhere);
  base::require(
      loss.log_sum.sizes() == loss.targets.sizes() && loss.d_logprob.sizes() == loss.targets.sizes(), kWhere,
      "log_sum and d_logprob to be [n]");
  base::require(gradient.dim() == 2 && gradient.size(0) == head.out() && gradient.size(1) == head.in(),
                kWhere, "gradient [V, H]");
  announce("linear_logprob", n, head.out(), head.in(), head.dtype());
  const Tiles tiles(loss.hidden, head, /*probabilities=*/loss.hidden.scalar_type() != at::kFloat);
  for_each_part(n, tiles.rows, [&](std::int64_t begin, std::int64_t count) {
    const at::Tensor h = dense_rows(loss.hidden.narrow(0, begin, count));
    const TileBackward rows = {.targets = loss.targets.narrow(0, begin, count),
                               .log_sum = loss.log_sum.narrow(0, begin, count),
                               .upstream = loss.d_logprob.narrow(0, begin, count),
                               .temperature = loss.temperature};
    for_each_part(head.out(), tiles.columns, [&](std::int64_t column, std::int64_t width) {
      const at::Tensor d = Tiles::of(tiles.logits, count, width);
      at::Tensor rounded = Tiles::of(tiles.chances, count, width);
      multiply(d, h, head.slice(column, column + width), GemmDirection::kForward);
      soft_cap_into(d, loss.soft_cap);
      const at::Tensor capped = loss.soft_cap > 0 ? d.clone() : at::Tensor();
      if (loss.d_entropy.defined()) {
        d_logits_with_entropy(d, loss, begin, column);
        if (rounded.defined()) rounded.copy_(d);
      } else {
        tile_backward(rows, d, column, rounded);
      }
      const at::Tensor& coefficients = rounded.defined() ? rounded : d;
      if (capped.defined()) soft_cap_backward(coefficients, capped, loss.soft_cap);
      add_weight_gradient(gradient.narrow(0, column, width), coefficients, h);
    });
  });
}

at::Tensor entropy_backward(const at::Tensor& hidden, const Weight& head, const at::Tensor& log_sum,
                            const at::Tensor& entropy, const at::Tensor& d_entropy, double temperature,
                            const HeadRows* own, double soft_cap) {
  constexpr const char* kWhere = "ops::entropy_backward";
  const std::int64_t n = hidden.size(0);
  check_hidden(hidden, head, kWhere);
  check_temperature(temperature, kWhere);
  for (const at::Tensor* x : {&log_sum, &entropy, &d_entropy}) {
    base::require(x->dim() == 1 && x->size(0) == n, kWhere, "log_sum, entropy and d_entropy to be [n]");
  }

  at::Tensor out = at::zeros(hidden.sizes(), hidden.options().dtype(at::kFloat));
  const Tiles tiles(hidden, head, /*probabilities=*/hidden.scalar_type() != at::kFloat);
  for_each_part(n, tiles.rows, [&](std::int64_t begin, std::int64_t count) {
    const at::Tensor h = dense_rows(hidden.narrow(0, begin, count));
    const at::Tensor gradient = out.narrow(0, begin, count);
    const HeadBlock block_of_head(h, head, own, soft_cap);
    const auto column_of = [&](const at::Tensor& x) { return x.narrow(0, begin, count).unsqueeze(1); };
    const at::Tensor factor = column_of(d_entropy) / -temperature;
    for_each_part(head.out(), tiles.columns, [&](std::int64_t column, std::int64_t width) {
      at::Tensor d = Tiles::of(tiles.logits, count, width);
      at::Tensor rounded = Tiles::of(tiles.chances, count, width);
      block_of_head.logits(d, column);
      const at::Tensor capped = soft_cap > 0 ? d.clone() : at::Tensor();
      d.mul_(1 / temperature).sub_(column_of(log_sum));
      d.clamp_min_(-1e30);  // finite: an impossible token adds 0 and not 0 * inf
      const at::Tensor p = d.exp();
      d.add_(column_of(entropy)).mul_(p).mul_(factor);
      if (capped.defined()) soft_cap_backward(d, capped, soft_cap);
      if (rounded.defined()) rounded.copy_(d);
      block_of_head.add_product(gradient, rounded.defined() ? rounded : d, column);
    });
  });
  return out;
}

at::Tensor mean_row(const Weight& head) {
  base::require(head.defined() && head.out() > 0, "ops::mean_row", "a head with rows");
  const auto ids = at::TensorOptions(at::kLong).device(head.device());
  at::Tensor sum;
  for_each_part(head.out(), kTileColumns, [&](std::int64_t begin, std::int64_t count) {
    const at::Tensor rows = head.rows(at::arange(begin, begin + count, ids)).to(at::kDouble).sum(0);
    sum = sum.defined() ? sum + rows : rows;
  });
  return (sum / static_cast<double>(head.out())).to(at::kFloat);
}

at::Tensor mean_row_change(const Weight& head, const HeadRows& own) {
  const at::Tensor ids = index_tensor(own.ids, head.device());
  const at::Tensor change = own.rows.dense().to(at::kDouble) - head.rows(ids).to(at::kDouble);
  return (change.sum(0) / static_cast<double>(head.out())).to(at::kFloat);
}

std::int64_t linear_logprob_bytes(std::int64_t n, std::int64_t vocabulary, at::ScalarType dtype,
                                  at::Device device) {
  const backend::Operators& kernels = backend::operators_of(device);
  const std::int64_t of_reference =
      kernels.take_tile == nullptr ? 2 * 4 : 0;  // the shifted logits, and their exp
  return std::min(n, kernels.head_rows) * std::min(vocabulary, kernels.head_columns) *
         (4 + static_cast<std::int64_t>(c10::elementSize(dtype)) + of_reference);
}

at::Tensor head_logits(const at::Tensor& hidden, const Weight& head, const HeadRows* own) {
  check_hidden(hidden, head, "ops::head_logits");
  at::Tensor logits = at::empty({hidden.size(0), head.out()}, hidden.options().dtype(at::kFloat));
  const at::Tensor rows = dense_rows(hidden);
  HeadBlock(rows, head, own).logits(logits, 0);
  return logits;
}

TokenLogprobs logprob_of(const at::Tensor& logits, const at::Tensor& targets, double temperature) {
  constexpr const char* kWhere = "ops::logprob_of";
  base::require(logits.dim() == 2 && logits.scalar_type() == at::kFloat, kWhere, "logits to be [n, V] fp32");
  check_targets(targets, logits.size(0), logits.size(1), kWhere);
  check_temperature(temperature, kWhere);
  SoftmaxRows rows(targets, temperature);
  take_row(rows, logits);
  return finish(rows);
}

}  // namespace hone::ops
