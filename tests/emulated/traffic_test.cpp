// The bytes that hone's own kernels load and store for a token of a layer, against what one load of each input and one store of each
// output would be. What a card's caches serve is counted too.
#ifdef HONE_COUNTS_TRAFFIC
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "emulated/machine/emulator.h"
#include "emulated/machine/traffic.h"

namespace hone::emulated {
namespace traffic_test {

namespace kernels = ops::cuda::kernels;

// Qwen2.5-0.5B's
constexpr std::int64_t kTokens = 16, kHidden = 896, kInner = 4864, kHeads = 14, kKeyHeads = 2, kDim = 64;
constexpr std::int64_t kTurned = kHeads + kKeyHeads, kJoined = (kTurned + kKeyHeads) * kDim;

at::Tensor numbers(std::int64_t columns, at::ScalarType dtype = at::kBFloat16) {
  return at::ones({kTokens, columns}, dtype);
}
kernels::Rows rows(const at::Tensor& x) {
  return {x.data_ptr(), x.stride(0),
          x.scalar_type() == at::kFloat ? kernels::Dtype::kFloat : kernels::Dtype::kBFloat16};
}
kernels::Vector vector(const at::Tensor& x) {
  return {x.data_ptr(), kernels::Dtype::kBFloat16};
}

struct Part {
  std::string name;
  std::function<int(const Kernels&)> run;
};

// What a layer's calls read and write.
struct Tensors {
  at::Tensor x = numbers(kHidden), normed = numbers(kHidden), d = numbers(kHidden),
             weight = at::ones({kHidden}, at::kBFloat16);
  at::Tensor qkv = numbers(kJoined), cos = numbers(kDim), sin = numbers(kDim);
  at::Tensor gate_up = numbers(2 * kInner), product = numbers(kInner);
  at::Tensor seen = numbers(kHeads * kDim), attended = numbers(kHeads * kDim),
             sums = numbers(kHeads, at::kFloat), sums_by_head = at::ones({kHeads, kTokens});
  at::Tensor dq = numbers(kHeads * kDim), dk = numbers(kKeyHeads * kDim), dv = numbers(kKeyHeads * kDim);

  kernels::RmsNorm norm() const {
    return {.out = rows(normed),
            .x = rows(x),
            .weight = vector(weight),
            .tokens = kTokens,
            .width = kHidden,
            .eps = 1e-6F};
  }
  kernels::RmsNormBackward norm_backward() const {
    return {.dx = rows(d),
            .dy = rows(normed),
            .x = rows(x),
            .weight = vector(weight),
            .tokens = kTokens,
            .width = kHidden,
            .eps = 1e-6F};
  }
  kernels::NormRope rope() const {
    const kernels::Heads turned = {qkv.data_ptr(), kJoined, kDim, kernels::Dtype::kBFloat16};
    return {.out = turned,
            .x = turned,
            .weight = {},
            .cos = vector(cos),
            .sin = vector(sin),
            .tokens = kTokens,
            .heads = kTurned,
            .dim = kDim,
            .rotated = kDim};
  }
  kernels::Rows gate() const { return rows(gate_up); }
  kernels::Rows up() const { return rows(gate_up.narrow(1, kInner, kInner)); }
  kernels::CopyBlocks result() const {
    kernels::CopyBlocks out{.count = 2};
    out.blocks[0] = {.out = rows(seen), .x = rows(attended), .rows = kTokens, .columns = kHeads * kDim};
    out.blocks[1] = {
        .out = rows(sums), .x = rows(sums_by_head), .rows = kTokens, .columns = kHeads, .transposed = true};
    return out;
  }
  kernels::CopyBlocks gradients() const {
    kernels::CopyBlocks out{.count = 3};
    std::int64_t column = 0;
    for (const at::Tensor& from : {dq, dk, dv}) {
      kernels::BlockCopy& one = out.blocks[column == 0 ? 0 : column == dq.size(1) ? 1 : 2];
      one = {.out = rows(qkv.narrow(1, column, from.size(1))),
             .x = rows(from),
             .rows = kTokens,
             .columns = from.size(1)};
      column += from.size(1);
    }
    return out;
  }
};

// A layer's calls in a step of LoRA, both ways, but for products and attention.
std::vector<Part> parts(const Tensors& t) {
  return {
      {"the first norm", [&](const Kernels& k) { return k.rms_norm(t.norm(), nullptr); }},
      {"its gradient", [&](const Kernels& k) { return k.rms_norm_backward(t.norm_backward(), nullptr); }},
      {"the second norm", [&](const Kernels& k) { return k.rms_norm(t.norm(), nullptr); }},
      {"its gradient", [&](const Kernels& k) { return k.rms_norm_backward(t.norm_backward(), nullptr); }},
      {"rotation", [&](const Kernels& k) { return k.norm_rope(t.rope(), nullptr); }},
      {"its gradient", [&](const Kernels& k) { return k.norm_rope_backward(t.rope(), nullptr); }},
      {"SwiGLU",
       [&](const Kernels& k) {
         return k.swiglu(
             {.out = rows(t.product), .gate = t.gate(), .up = t.up(), .tokens = kTokens, .width = kInner},
             nullptr);
       }},
      {"its gradient",
       [&](const Kernels& k) {
         return k.swiglu_backward(
             {.gate = t.gate(), .up = t.up(), .d = rows(t.product), .tokens = kTokens, .width = kInner},
             nullptr);
       }},
      {"attention's result", [&](const Kernels& k) { return k.copy_blocks(t.result(), nullptr); }},
      {"attention's gradients", [&](const Kernels& k) { return k.copy_blocks(t.gradients(), nullptr); }},
  };
}

TEST(Traffic, OfALayerIsNearItsFloor) {
  set_schedule(Schedule::kInOrder);
  const Kernels& table = guarded(counted_kernels());
  std::int64_t moved = 0, floor = 0;
  take_traffic();
  const Tensors tensors;
  for (const Part& part : parts(tensors)) {
    EXPECT_EQ(part.run(table), 0) << part.name;
    const Traffic found = take_traffic();
    const std::int64_t all = found.loaded + found.stored,
                       least = found.distinct_loaded + found.distinct_stored;
    EXPECT_GT(least, 0) << part.name;
    std::printf("%-24s %7.0f bytes a token, %.2f times the least\n", part.name.c_str(),
                static_cast<double>(all) / kTokens, static_cast<double>(all) / static_cast<double>(least));
    moved += all;
    floor += least;
  }
  std::printf("%-24s %7.0f bytes a token, %.2f times the least\n", "all",
              static_cast<double>(moved) / kTokens, static_cast<double>(moved) / static_cast<double>(floor));
  EXPECT_LE(static_cast<double>(moved), 1.3 * static_cast<double>(floor));
}

}  // namespace traffic_test
}  // namespace hone::emulated
#endif
