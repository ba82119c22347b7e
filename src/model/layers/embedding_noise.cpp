#include "model/layers/embedding_noise.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <array>
#include <cmath>

#include "base/error.h"
#include "base/rng.h"

namespace hone::model {

double embedding_noise_bound(double alpha, std::int64_t tokens, std::int64_t hidden_size) {
  if (alpha == 0) return 0;
  base::require(tokens > 0 && hidden_size > 0, "model::embedding_noise_bound", "a batch with tokens");
  return alpha / std::sqrt(static_cast<double>(tokens) * static_cast<double>(hidden_size));
}

at::Tensor with_embedding_noise(const at::Tensor& x, const ops::PassContext& pass) {
  if (!pass.training || pass.embedding_noise == 0) return x;
  base::require(pass.token_row != nullptr && pass.token_position != nullptr &&
                    static_cast<std::int64_t>(pass.token_row->size()) == x.size(0) &&
                    pass.token_position->size() == pass.token_row->size(),
                "model::with_embedding_noise", "a row and a position of every token");
  const std::int64_t width = x.size(1);
  const at::Tensor noise = at::empty({x.size(0), width}, at::kFloat);
  auto* const out = noise.mutable_data_ptr<float>();
  const auto bound = static_cast<float>(pass.embedding_noise);
  at::parallel_for(0, x.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const auto at = static_cast<std::size_t>(t);
      const base::Stream stream(pass.seed, base::Purpose::kEmbeddingNoise, pass.step,
                                static_cast<std::uint64_t>((*pass.token_row)[at]));
      std::array<std::uint32_t, 4> words{};
      const auto first = static_cast<std::uint64_t>((*pass.token_position)[at] * width);
      for (std::int64_t f = 0; f < width; ++f) {
        const std::uint64_t index = first + static_cast<std::uint64_t>(f);
        if (f == 0 || index % 4 == 0) words = stream.block(index / 4);
        // as Stream::uniform
        out[t * width + f] = bound * (2 * static_cast<float>(words[index % 4] >> 8U) * 0x1p-24F - 1);
      }
    }
  });
  return x + noise.to(x.device(), x.scalar_type());
}

}  // namespace hone::model
