#include "ops/adamw.h"
#include "ops/cases/case.h"
#include "ops/dynamic_codes.h"

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

// Codes of moments, as a step before would have left them; a block is zeros.
struct CodedMoment {
  at::Tensor codes, scales, values;  // values: decoded
  CodedMoment(const DynamicCodes& map, at::Tensor x) {
    const std::int64_t size = x.numel(), block = std::min(size, kCodeBlock);
    x.narrow(0, size - block, block).zero_();
    codes = at::empty({size}, at::kByte);
    scales = at::empty({(size + kCodeBlock - 1) / kCodeBlock});
    to_codes(map, x, codes, scales);
    values = from_codes(map, codes, scales, x);
  }
};

// Zero in the last block.
at::Tensor gradient_of(std::int64_t size) {
  const at::Tensor g = noise({size}, 4) * 3;
  const std::int64_t block = std::min(size, kCodeBlock);
  g.narrow(0, size - block, block).zero_();
  return g;
}

// A number between two values of the map may become either: those near 1 are the farthest apart, 0.0071 of the scale with a sign.
Case codes_step_of(std::int64_t size, Layout layout) {
  const AdamwCodesStep step{.decay = 0.9999,
                            .beta1 = 0.9,
                            .one_minus_beta1 = 0.1,
                            .beta2 = 0.95,
                            .one_minus_beta2 = 0.05,
                            .root_correction2 = 0.3,
                            .epsilon = 1e-8,
                            .minus_step_size = -0.02};
  const auto m = [=] { return CodedMoment(DynamicCodes::with_sign(), noise({size}, 2)); };
  const auto v = [=] { return CodedMoment(DynamicCodes::without_sign(), noise({size}, 3).square()); };
  Case c{.op = "adamw_codes", .what = what(size, layout), .bounds = {1e-6, 1e-6, 1e-6, 8e-3, 8e-3}};
  c.run = [=](at::Device device) {
    const Placed p(noise({size}, 1), device, layout), g(gradient_of(size), device, layout);
    const Placed m_codes(m().codes, device, layout), v_codes(v().codes, device, layout);
    const Placed m_scales(m().scales, device, layout), v_scales(v().scales, device, layout);
    AdamwCodesStep now = step;
    now.p = p.view();
    now.g = g.view();
    now.codes1 = m_codes.view();
    now.codes2 = v_codes.view();
    now.scales1 = m_scales.view();
    now.scales2 = v_scales.view();
    adamw_codes(now);
    const at::Tensor like = at::empty({size});
    return Tensors{p.taken(), m_scales.taken(), v_scales.taken(),
                   from_codes(DynamicCodes::with_sign(), m_codes.taken(), m_scales.taken(), like),
                   from_codes(DynamicCodes::without_sign(), v_codes.taken(), v_scales.taken(), like)};
  };
  c.exact = [=] {
    const at::Tensor g = wide(gradient_of(size));
    const at::Tensor moment = step.beta1 * wide(m().values) + step.one_minus_beta1 * g;
    const at::Tensor square = step.beta2 * wide(v().values) + step.one_minus_beta2 * g.square();
    const auto largest = [](const at::Tensor& x) {
      std::vector<at::Tensor> out;
      for (const at::Tensor& block : x.split(kCodeBlock)) out.push_back(block.abs().max());
      return at::stack(out);
    };
    const at::Tensor root = square.sqrt() / step.root_correction2 + step.epsilon;
    return Tensors{step.decay * wide(noise({size}, 1)) + step.minus_step_size * moment / root,
                   largest(moment), largest(square), moment, square};
  };
  return c;
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
      if (size <= 16399) all.push_back(codes_step_of(size, layout));
      all.push_back(sums_of(size, layout));
      all.push_back(scale_of(size, layout));
    }
  }
}

}  // namespace hone::ops::cases
