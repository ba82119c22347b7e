// gemm at a layer's shapes, the small-rank products of LoRA, and few rows over weights that come from memory.
#include <ATen/ATen.h>

#include <array>
#include <memory>

#include "bench/ops_cases.h"
#include "bench/work.h"
#include "ops/gemm.h"

namespace hone::bench {

namespace {

using ops::GemmDirection;
using ops::GemmTerm;
using ops::Weight;

double count(std::int64_t a, std::int64_t b, std::int64_t c = 1) {
  return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
}

std::string label(const std::string& what, const Shape& shape, std::int64_t rows) {
  return what + " " + shape.name + " " + std::to_string(rows) + " rows";
}

Weight weight_of(const at::Tensor& plain, bool packed) {
  return packed ? Weight::packed_where_possible(plain) : Weight(plain);
}

// A product of many rows is bound by its FLOP; a weight that is read once an output tile stays in the cache.
Case layer_product(const Shape& shape, std::int64_t rows, GemmDirection side, bool packed) {
  const bool forward = side == GemmDirection::kForward;
  const auto weight = std::make_shared<Weight>(weight_of(random_bf16({shape.out, shape.in}), packed));
  const at::Tensor a = random_bf16({rows, forward ? shape.in : shape.out});
  const at::Tensor out = random_bf16({rows, forward ? shape.out : shape.in});
  return {.flop = 2 * count(rows, shape.in, shape.out), .run = [=] {
            const GemmTerm term{.a = a, .weight = weight.get(), .side = side};
            ops::gemm(out, {&term, 1});
          }};
}

// out = x W^T + lora_a_out B^T: what a linear with a LoRA side does in one pass over the output.
Case product_with_side(const Shape& shape, std::int64_t rows, std::int64_t rank) {
  const auto weight = std::make_shared<Weight>(random_bf16({shape.out, shape.in}));
  const auto b = std::make_shared<Weight>(random_bf16({shape.out, rank}));
  const at::Tensor x = random_bf16({rows, shape.in}), lora_a_out = random_bf16({rows, rank});
  const at::Tensor out = random_bf16({rows, shape.out});
  return {.flop = 2 * count(rows, shape.in, shape.out) + 2 * count(rows, rank, shape.out), .run = [=] {
            const std::array<GemmTerm, 2> terms = {
                GemmTerm{.a = x, .weight = weight.get(), .side = GemmDirection::kForward},
                GemmTerm{.a = lora_a_out, .weight = b.get(), .side = GemmDirection::kForward}};
            ops::gemm(out, terms);
          }};
}

// lora_a_out = x A^T: as many bytes as FLOP's worth of time, so both are counted.
Case lora_a_product(const Shape& shape, std::int64_t rows, std::int64_t rank) {
  const auto a = std::make_shared<Weight>(random_bf16({rank, shape.in}));
  const at::Tensor x = random_bf16({rows, shape.in}), lora_a_out = random_bf16({rows, rank});
  return {.flop = 2 * count(rows, shape.in, rank),
          .bytes = 2 * count(rows, shape.in) + 2 * count(rows, rank),
          .run = [=] {
            const GemmTerm term{.a = x, .weight = a.get(), .side = GemmDirection::kForward};
            ops::gemm(lora_a_out, {&term, 1}, {.scale = 2.0});
          }};
}

// dA [r, in] += d_lora_a_out^T x, or dB [out, r] += d^T lora_a_out through its transposed view.
Case outer(std::int64_t rows, std::int64_t rank, std::int64_t width, bool transposed) {
  const at::Tensor left = random_bf16({rows, rank}), right = random_bf16({rows, width});
  const at::Tensor sum = transposed ? at::zeros({width, rank}).t() : at::zeros({rank, width});
  return {.flop = 2 * count(rows, rank, width),
          .bytes = 2 * count(rows, rank) + 2 * count(rows, width) + 8 * count(rank, width),
          .run = [=] { ops::add_outer(sum, left, right); }};
}

// All layers' matrices in turn with few rows, so that each comes from memory: what a decode step multiplies,
// without its head.
Case decode_products(const model::ModelConfig& config, std::int64_t rows, bool packed) {
  struct Held {
    std::vector<Weight> weights;
    std::vector<at::Tensor> a, out;
  };
  const auto held = std::make_shared<Held>();
  double bytes = 0;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    for (const Shape& shape : layer_shapes(config)) {
      held->weights.push_back(weight_of(random_bf16({shape.out, shape.in}), packed));
      held->a.push_back(random_bf16({rows, shape.in}));
      held->out.push_back(random_bf16({rows, shape.out}));
      bytes += 2 * shape.weights();
    }
  }
  return {.bytes = bytes, .run = [held] {
            for (std::size_t i = 0; i < held->weights.size(); ++i) {
              const GemmTerm term{
                  .a = held->a[i], .weight = &held->weights[i], .side = GemmDirection::kForward};
              ops::gemm(held->out[i], {&term, 1});
            }
          }};
}

}  // namespace

std::vector<Entry> product_entries(const OpsShape& shape) {
  std::vector<Entry> out;
  const std::int64_t rows = shape.tokens, rank = shape.rank;
  for (const Shape& s : layer_shapes(shape.config)) {
    if (s.name == std::string("v") || s.name == std::string("up")) continue;  // as k and gate
    for (const bool packed : {false, true}) {
      const std::string kind = packed ? "packed" : "plain";
      out.push_back({label("gemm " + kind, s, rows),
                     [=] { return layer_product(s, rows, GemmDirection::kForward, packed); }});
      out.push_back({label("gemm backward " + kind, s, rows),
                     [=] { return layer_product(s, rows, GemmDirection::kBackward, packed); }});
    }
    out.push_back({label("gemm with LoRA term", s, rows), [=] { return product_with_side(s, rows, rank); }});
    out.push_back({label("LoRA low", s, rows), [=] { return lora_a_product(s, rows, rank); }});
    out.push_back({label("add_outer dA", s, rows), [=] { return outer(rows, rank, s.in, false); }});
    out.push_back({label("add_outer dB", s, rows), [=] { return outer(rows, rank, s.out, true); }});
  }
  const model::ModelConfig config = shape.config;
  for (const std::int64_t few : {1, 2, 4, 8, 16, 32, 33, 48, 64}) {
    for (const bool packed : {false, true}) {
      out.push_back({std::string("decode gemm ") + (packed ? "packed" : "plain") + " all layers " +
                         std::to_string(few) + " rows",
                     [=] { return decode_products(config, few, packed); }});
    }
  }
  return out;
}

}  // namespace hone::bench
