#include "ops/cases/case.h"
#include "ops/dynamic_codes.h"
#include "ops/lion.h"

namespace hone::ops::cases {
namespace lion_cases {

constexpr LionRates kRates = {.decay = 0.9999,
                              .beta1 = 0.9,
                              .one_minus_beta1 = 0.1,
                              .beta2 = 0.95,
                              .one_minus_beta2 = 0.05,
                              .minus_learning_rate = -0.02};

std::string what(std::int64_t size, Layout layout) {
  return std::to_string(size) + ", " + describe(layout);
}

at::Tensor ends_with_zeros(at::Tensor x) {
  const std::int64_t block = std::min(x.numel(), kCodeBlock);
  x.narrow(0, x.numel() - block, block).zero_();
  return x;
}

// Zero in the last block, where a step's sign is 0.
at::Tensor gradient_of(std::int64_t size) {
  return ends_with_zeros(noise({size}, 4) * 3);
}

// Computes what p and m become, in fp64.
std::pair<at::Tensor, at::Tensor> stepped(const at::Tensor& p, const at::Tensor& m, const at::Tensor& g) {
  const at::Tensor toward = kRates.beta1 * m + kRates.one_minus_beta1 * g;
  return {kRates.decay * p + kRates.minus_learning_rate * toward.sign(),
          kRates.beta2 * m + kRates.one_minus_beta2 * g};
}

Case step_of(std::int64_t size, Layout layout) {
  const auto moment = [=] { return ends_with_zeros(noise({size}, 2)); };
  Case c{.op = "lion", .what = what(size, layout), .bounds = {1e-6}};
  c.run = [=](at::Device device) {
    const Placed p(noise({size}, 1), device, layout), g(gradient_of(size), device, layout);
    const Placed m(moment(), device, layout);
    lion({.p = p.view(), .g = g.view(), .m = m.view(), .rates = kRates});
    return Tensors{p.taken(), m.taken()};
  };
  c.exact = [=] {
    const auto [p, m] = stepped(wide(noise({size}, 1)), wide(moment()), wide(gradient_of(size)));
    return Tensors{p, m};
  };
  return c;
}

// A moment's codes, as a step before would have left them.
struct Coded {
  at::Tensor codes, scales, values;  // values: decoded
  explicit Coded(std::int64_t size)
      : codes(at::empty({size}, at::kByte)), scales(at::empty({(size + kCodeBlock - 1) / kCodeBlock})) {
    const at::Tensor x = ends_with_zeros(noise({size}, 2));
    to_codes(DynamicCodes::with_sign(), x, codes, scales);
    values = from_codes(DynamicCodes::with_sign(), codes, scales, x);
  }
};

// A number between two values of the map may become either: 0.0071 of the scale are the farthest apart.
Case codes_step_of(std::int64_t size, Layout layout) {
  Case c{.op = "lion_codes", .what = what(size, layout), .bounds = {1e-6, 1e-6, 8e-3}};
  c.run = [=](at::Device device) {
    const Coded moment(size);
    const Placed p(noise({size}, 1), device, layout), g(gradient_of(size), device, layout);
    const Placed codes(moment.codes, device, layout), scales(moment.scales, device, layout);
    lion_codes(
        {.p = p.view(), .g = g.view(), .codes = codes.view(), .scales = scales.view(), .rates = kRates});
    return Tensors{p.taken(), scales.taken(),
                   from_codes(DynamicCodes::with_sign(), codes.taken(), scales.taken(), at::empty({size}))};
  };
  c.exact = [=] {
    const auto [p, m] = stepped(wide(noise({size}, 1)), wide(Coded(size).values), wide(gradient_of(size)));
    std::vector<at::Tensor> largest;
    for (const at::Tensor& block : m.split(kCodeBlock)) largest.push_back(block.abs().max());
    return Tensors{p, at::stack(largest), m};
  };
  return c;
}

}  // namespace lion_cases

void add_lion_cases(Cases& all) {
  using namespace lion_cases;
  for (const std::int64_t size : {1, 7, 33, 256, 1000, 4100, 16399}) {
    for (const Layout layout : {Layout::kDense, Layout::kUnaligned}) {
      all.push_back(step_of(size, layout));
      all.push_back(codes_step_of(size, layout));
    }
  }
}

}  // namespace hone::ops::cases
