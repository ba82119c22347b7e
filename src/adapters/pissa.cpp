#include "adapters/pissa.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"

namespace hone::adapters {
namespace {

struct Decomposition {
  at::Tensor u, s, vh;  // [out, r], [r], [r, in]
};

at::Tensor normal_matrix(std::int64_t rows, std::int64_t columns, std::uint64_t seed,
                         const std::string& name) {
  const base::Stream stream(seed, base::Purpose::kLoraInit, 0, base::hash64(name) >> 16);
  const at::Tensor out = at::empty({rows, columns}, at::kFloat);
  float* const values = out.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < out.numel(); ++i) values[i] = stream.normal(static_cast<std::uint64_t>(i));
  return out;
}

at::Tensor orthonormal(const at::Tensor& matrix) {
  return std::get<0>(at::linalg_qr(matrix));
}

// Halko, Martinsson and Tropp 2009, algorithm 5.1 on the basis of their 4.4.
Decomposition randomized(const at::Tensor& w, std::int64_t rank, std::int64_t niter, std::uint64_t seed,
                         const std::string& name) {
  at::Tensor q = orthonormal(w.matmul(normal_matrix(w.size(1), rank, seed, name).to(w.device())));
  for (std::int64_t i = 0; i < niter; ++i) q = orthonormal(w.matmul(orthonormal(w.t().matmul(q))));
  const auto [u, s, vh] = at::linalg_svd(q.t().matmul(w), /*full_matrices=*/false);
  return {q.matmul(u), s, vh};
}

Decomposition whole(const at::Tensor& w, std::int64_t rank) {
  const auto [u, s, vh] = at::linalg_svd(w, /*full_matrices=*/false);
  return {u.narrow(1, 0, rank), s.narrow(0, 0, rank), vh.narrow(0, 0, rank)};
}

}  // namespace

void init_pissa(ops::Linear& linear, std::int64_t niter, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  const ops::LoraWeights& side = *linear.lora;
  const std::int64_t rank = side.a.size(0);
  if (linear.weight.is_quantized()) {
    throw base::UserError({"option init_lora_weights", "a base that is not quantized for pissa",
                           ops::describe(linear.weight.quantized().scheme),
                           "PiSSA subtracts the adapter from the base's weights",
                           "init_lora_weights: true, or leave load_in_4bit or load_in_8bit out"});
  }
  if (rank > std::min(linear.weight.out(), linear.weight.in())) {
    throw base::UserError({"option lora_r",
                           "at most the smaller side of every target for pissa, here " +
                               std::to_string(std::min(linear.weight.out(), linear.weight.in())),
                           std::to_string(rank), linear.name + " has no more singular values",
                           "lower lora_r"});
  }
  const at::Tensor w = linear.weight.dense().to(at::kFloat);
  const Decomposition d = niter > 0 ? randomized(w, rank, niter, seed, linear.name) : whole(w, rank);
  const at::Tensor root = (d.s / side.scale).sqrt();
  at::Tensor(side.a).copy_(root.unsqueeze(1) * d.vh);
  at::Tensor(side.b).copy_(d.u * root);
  subtract_lora(linear);
}

void subtract_lora(ops::Linear& linear) {
  const at::NoGradGuard no_grad;
  const ops::LoraWeights& side = *linear.lora;
  const at::Tensor rest = at::addmm(linear.weight.dense().to(at::kFloat), side.b, side.a, 1, -side.scale);
  linear.weight.assign(rest.to(linear.weight.dtype()));
}

}  // namespace hone::adapters
