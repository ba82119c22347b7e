#include "ops/dropout.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/error.h"
#include "base/numeric.h"
#include "base/rng.h"
#include "ops/backend/operators.h"
#include "ops/backend/reference/reference.h"

namespace hone::ops {
namespace {

// splitmix64's finalizer: spreads nearby numbers over all 64 bits.
std::uint64_t mix(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

std::array<std::uint32_t, 2> mask_key(std::uint64_t seed, std::uint64_t step, std::uint64_t module) {
  const auto purpose = static_cast<std::uint64_t>(base::Purpose::kDropout);
  const std::uint64_t k = mix(mix(mix(mix(seed) ^ purpose) ^ step) ^ module);
  return {static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(k >> 32)};
}

std::span<const std::int64_t> numbers(const at::Tensor& x) {
  return {x.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(x.numel())};
}

struct Dropout : torch::autograd::Function<Dropout> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x,
                            const at::Tensor& rows, const at::Tensor& positions, std::int64_t key_low,
                            std::int64_t key_high, double p, at::ScalarType dtype) {
    ctx->saved_data["rows"] = rows;
    ctx->saved_data["positions"] = positions;
    ctx->saved_data["key_low"] = key_low;
    ctx->saved_data["key_high"] = key_high;
    ctx->saved_data["p"] = p;
    ctx->saved_data["x_dtype"] = static_cast<std::int64_t>(x.scalar_type());
    return scaled(x, rows, positions, key_low, key_high, p).to(dtype);
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* ctx,
                                               const torch::autograd::tensor_list& gradients) {
    auto& saved = ctx->saved_data;
    const at::Tensor gradient =
        scaled(gradients[0], saved["rows"].toTensor(), saved["positions"].toTensor(),
               saved["key_low"].toInt(), saved["key_high"].toInt(), saved["p"].toDouble());
    const auto dtype = static_cast<at::ScalarType>(saved["x_dtype"].toInt());
    return {gradient.to(dtype), {}, {}, {}, {}, {}, {}};
  }

  static at::Tensor scaled(const at::Tensor& x, const at::Tensor& rows, const at::Tensor& positions,
                           std::int64_t key_low, std::int64_t key_high, double p) {
    const std::array<std::uint32_t, 2> key = {static_cast<std::uint32_t>(key_low),
                                              static_cast<std::uint32_t>(key_high)};
    const DropoutMask mask = {.key = key, .p = p, .rows = numbers(rows), .positions = numbers(positions)};
    return x.to(at::kFloat) * drawn(mask, x.size(1)).to(x.device());
  }
};

void require_tokens(const PassContext& pass, double p) {
  base::require(pass.token_row != nullptr && pass.token_position != nullptr, "dropout",
                "token_row and token_position in a training pass");
  base::require(pass.token_row->size() == pass.token_position->size(), "dropout",
                "as many rows as positions");
  base::require(p >= 0 && p < 1, "dropout", "a probability in [0, 1)");
}

std::pair<at::Tensor, at::Tensor> token_tensors(const PassContext& pass, double p) {
  require_tokens(pass, p);
  return {at::tensor(*pass.token_row, at::kLong), at::tensor(*pass.token_position, at::kLong)};
}

void require_shapes(const at::Tensor& out, const at::Tensor& x, const PassContext& pass, double p) {
  require_tokens(pass, p);
  base::require(x.dim() == 2 && x.sizes() == out.sizes() &&
                    x.size(0) == static_cast<std::int64_t>(pass.token_row->size()),
                "dropout", "two tensors [T, features], one row and position a token");
}

DropoutMask mask_of(const PassContext& pass, std::uint64_t key, double p) {
  return {.key = mask_key(pass.seed, pass.step, key),
          .p = p,
          .rows = *pass.token_row,
          .positions = *pass.token_position};
}

}  // namespace

at::Tensor drawn(const DropoutMask& mask, std::int64_t features) {
  at::Tensor out = at::empty({static_cast<std::int64_t>(mask.rows.size()), features}, at::kFloat);
  backend::run(out.device(), &backend::Operators::draw_mask, reference::draw_mask, out, mask);
  return out;
}

at::Tensor dropout_mask(const PassContext& pass, std::uint64_t key, double p, std::int64_t features) {
  require_tokens(pass, p);
  return drawn(mask_of(pass, key, p), features);
}

at::Tensor apply_dropout(const at::Tensor& x, const PassContext& pass, std::uint64_t key, double p,
                         at::ScalarType dtype) {
  const auto [rows, positions] = token_tensors(pass, p);
  base::require(rows.size(0) == x.size(0), "dropout", "one row and position a token");
  const auto k = mask_key(pass.seed, pass.step, key);
  return Dropout::apply(x, rows, positions, static_cast<std::int64_t>(k[0]), static_cast<std::int64_t>(k[1]),
                        p, dtype);
}

void dropout_into(at::Tensor out, const at::Tensor& x, const PassContext& pass, std::uint64_t key, double p) {
  require_shapes(out, x, pass, p);
  backend::run(x.device(), &backend::Operators::dropout, reference::dropout, out, x, mask_of(pass, key, p));
}

void dropout_backward_add(at::Tensor dx, const at::Tensor& d, const PassContext& pass, std::uint64_t key,
                          double p) {
  require_shapes(dx, d, pass, p);
  backend::run(d.device(), &backend::Operators::dropout_backward_add, reference::dropout_backward_add, dx, d,
               mask_of(pass, key, p));
}

}  // namespace hone::ops
