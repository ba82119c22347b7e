#include "ops/adamw.h"
#include "ops/cases/case.h"

namespace hone::ops::cases {
namespace adamw_cases {

// Everything is in one dimension and starts anywhere in memory.
std::string what(std::int64_t size, Layout layout) {
  return std::to_string(size) + ", " + describe(layout);
}

Case promised(Case c) {
  c.own_bits_from = base::InstructionLevel::kPlain;
  c.levels = SameBits::kAllLevels;
  return c;
}

Case step_of(std::int64_t size, float lerp, Layout layout) {
  const AdamwStep step{.decay = 0.9999F,
                       .lerp = lerp,
                       .beta2 = 0.95F,
                       .one_minus_beta2 = 0.05F,
                       .root_correction2 = 0.3F,
                       .epsilon = 1e-8F,
                       .minus_step_size = -0.02F};
  const auto inputs = [=] {  // p, m, v, g
    return Tensors{noise({size}, 1), noise({size}, 2), noise({size}, 3).square(), noise({size}, 4) * 3};
  };
  Case c{.op = "adamw", .what = what(size, layout) + ", lerp " + std::to_string(lerp), .bounds = {1e-6}};
  c.run = [=](at::Device device) {
    std::vector<Placed> t;
    for (const at::Tensor& x : inputs()) t.emplace_back(x, device, layout);
    AdamwStep now = step;
    now.p = t[0].view();
    now.m = t[1].view();
    now.v = t[2].view();
    now.g = t[3].view();
    adamw(now);
    return Tensors{t[0].taken(), t[1].taken(), t[2].taken()};
  };
  c.exact = [=] {
    const Tensors t = inputs();
    const at::Tensor g = wide(t[3]), m = wide(t[1]) + static_cast<double>(step.lerp) * (g - wide(t[1]));
    const at::Tensor v =
        static_cast<double>(step.beta2) * wide(t[2]) + static_cast<double>(step.one_minus_beta2) * g.square();
    const at::Tensor root = v.sqrt() / static_cast<double>(step.root_correction2);
    const at::Tensor change = m / (root + static_cast<double>(step.epsilon));
    return Tensors{
        static_cast<double>(step.decay) * wide(t[0]) + static_cast<double>(step.minus_step_size) * change, m,
        v};
  };
  return promised(c);
}

Case sums_of(std::int64_t size, Layout layout) {
  Case c{.op = "block_sums_of_squares", .what = what(size, layout), .bounds = {1e-12}};
  c.run = [=](at::Device device) {
    const Placed x(noise({size}, 1), device, layout);
    return Tensors{block_sums_of_squares(x.view())};
  };
  c.exact = [=] {
    const at::Tensor squares = wide(noise({size}, 1)).square();
    std::vector<at::Tensor> sums;
    for (const at::Tensor& block : squares.split(kSumBlock)) sums.push_back(block.sum());
    return Tensors{at::stack(sums)};
  };
  return promised(c);
}

Case scale_of(std::int64_t size, Layout layout) {
  constexpr float kFactor = 0.3F;
  Case c{.op = "scale", .what = what(size, layout), .bounds = {1e-7}};
  c.run = [=](at::Device device) {
    const Placed x(noise({size}, 1), device, layout);
    scale(x.view(), kFactor);
    return Tensors{x.taken()};
  };
  c.exact = [=] { return Tensors{wide(noise({size}, 1)) * static_cast<double>(kFactor)}; };
  return promised(c);
}

}  // namespace adamw_cases

void add_adamw_cases(Cases& all) {
  using namespace adamw_cases;
  for (const std::int64_t size : {1, 7, 16, 33, 1000, 16384, 16399, 200001}) {
    for (const Layout layout : {Layout::kDense, Layout::kUnaligned}) {
      for (const float lerp : {0.1F, 0.7F}) all.push_back(step_of(size, lerp, layout));  // both forms of lerp
      all.push_back(sums_of(size, layout));
      all.push_back(scale_of(size, layout));
    }
  }
}

}  // namespace hone::ops::cases
