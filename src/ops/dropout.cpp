#include "ops/dropout.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/error.h"
#include "base/numeric.h"
#include "base/rng.h"
#include "ops/cpu/dropout_row.h"
#include "ops/cpu/row_call.h"

namespace hone::ops {
namespace {

// splitmix64's finalizer: spreads nearby numbers over all 64 bits.
std::uint64_t mix(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

// Philox's key carries (seed, purpose, module, step), its counter (feature / 4, position, row): every element
// has numbers of its own, whatever the batch looks like.
std::array<std::uint32_t, 2> mask_key(std::uint64_t seed, std::uint64_t step, std::uint64_t module) {
  const auto purpose = static_cast<std::uint64_t>(base::Purpose::kDropout);
  const std::uint64_t k = mix(mix(mix(mix(seed) ^ purpose) ^ step) ^ module);
  return {static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(k >> 32)};
}

// What every row of a module's mask shares.
struct MaskMaker {
  std::array<std::uint32_t, 2> key;
  float kept;
  std::uint32_t dropped_below;  // of 2^32

  MaskMaker(std::array<std::uint32_t, 2> mask_key, double p)
      : key(mask_key),
        kept(static_cast<float>(1.0 / (1.0 - p))),
        dropped_below(static_cast<std::uint32_t>(p * 4294967296.0)) {}

  MaskRow row(std::int64_t row, std::int64_t position) const {
    return {.position = static_cast<std::uint32_t>(position),
            .row = static_cast<std::uint64_t>(row),
            .key = key,
            .dropped_below = dropped_below,
            .kept = kept};
  }
};

// rows and positions [T] int64.
at::Tensor make_mask(const at::Tensor& rows, const at::Tensor& positions, std::array<std::uint32_t, 2> key,
                     double p, std::int64_t features) {
  const at::Tensor mask = at::empty({rows.size(0), features}, at::kFloat);
  const MaskMaker maker(key, p);
  const std::int64_t* row = rows.const_data_ptr<std::int64_t>();
  const std::int64_t* position = positions.const_data_ptr<std::int64_t>();
  float* out = mask.data_ptr<float>();
  over_rows(rows.size(0), features, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      fill_mask_row(maker.row(row[t], position[t]), {out + t * features, static_cast<std::size_t>(features)});
    }
  });
  return mask;
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
    return x.to(at::kFloat) * make_mask(rows, positions, key, p, x.size(1)).to(x.device());
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

// out = x * mask, or out += x * mask, with the mask drawn a stretch at a time into a thread's own cache.
void mask_rows(const at::Tensor& out, const at::Tensor& x, bool add, const PassContext& pass,
               std::uint64_t key, double p) {
  constexpr std::int64_t kStretch = 512;
  const MaskMaker maker(mask_key(pass.seed, pass.step, key), p);
  const RowsIn from = rows_in(x);
  const RowsOut to = rows_out(out);
  const std::int64_t features = x.size(1), from_size = x.element_size(), to_size = out.element_size();
  const RowKernels& kernels = row_kernels();
  over_rows(x.size(0), features, [&](std::int64_t begin, std::int64_t end) {
    alignas(64) std::array<float, kStretch> mask;
    for (std::int64_t t = begin; t < end; ++t) {
      const auto index = static_cast<std::size_t>(t);
      MaskRow row = maker.row((*pass.token_row)[index], (*pass.token_position)[index]);
      for (std::int64_t f = 0; f < features; f += kStretch) {
        const std::int64_t width = std::min(kStretch, features - f);
        row.first_block = static_cast<std::uint32_t>(f / 4);
        fill_mask_row(row, {mask.data(), static_cast<std::size_t>(width)});
        const MaskArgs args = {.x = static_cast<const char*>(from.data) + (t * from.stride + f) * from_size,
                               .mask = mask.data(),
                               .out = static_cast<char*>(to.data) + (t * to.stride + f) * to_size,
                               .x_bf16 = from.bf16,
                               .out_bf16 = to.bf16,
                               .add = add};
        kernels.mask(args, width);
      }
    }
  });
}

void require_shapes(const at::Tensor& out, const at::Tensor& x, const PassContext& pass, double p) {
  require_tokens(pass, p);
  base::require(x.dim() == 2 && x.sizes() == out.sizes() &&
                    x.size(0) == static_cast<std::int64_t>(pass.token_row->size()),
                "dropout", "two tensors [T, features], one row and position a token");
}

}  // namespace

at::Tensor dropout_mask(const PassContext& pass, std::uint64_t key, double p, std::int64_t features) {
  const auto [rows, positions] = token_tensors(pass, p);
  return make_mask(rows, positions, mask_key(pass.seed, pass.step, key), p, features);
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
  if (rows_fit({&out, &x})) return mask_rows(out, x, /*add=*/false, pass, key, p);
  out.copy_(x.to(at::kFloat) * dropout_mask(pass, key, p, x.size(1)).to(x.device()));
}

void dropout_backward_add(at::Tensor dx, const at::Tensor& d, const PassContext& pass, std::uint64_t key,
                          double p) {
  require_shapes(dx, d, pass, p);
  if (rows_fit({&dx, &d})) return mask_rows(dx, d, /*add=*/true, pass, key, p);
  dx.copy_(dx.to(at::kFloat) + d.to(at::kFloat) * dropout_mask(pass, key, p, d.size(1)).to(d.device()));
}

}  // namespace hone::ops
