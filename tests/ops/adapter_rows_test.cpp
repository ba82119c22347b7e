// Rows of several adapters in one pass: each has the bits that it has in a pass of its adapter alone.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <deque>
#include <limits>
#include <optional>
#include <vector>

#include "base/process/instruction_level.h"
#include "ops/fused_linear.h"

namespace hone::ops {
namespace adapter_rows_test {

constexpr std::int64_t kIn = 96, kOut = 80, kOther = 33;

struct Case {
  std::deque<Linear> linears;         // that read one x
  std::deque<AdapterSides> adapters;  // of ranks 3, 16 and 40; the last with DoRA on the first linear
  at::Tensor x, residual;
  std::vector<AdapterRows> rows;  // none, 1, 0, own, 2, 0

  static LoraWeights side(std::int64_t r, std::int64_t out) {
    LoraWeights one;
    one.a = at::randn({r, kIn});
    one.b = at::randn({out, r});
    one.scale = 1.5;
    return one;
  }

  explicit Case(at::ScalarType dtype, bool with_frozen) {
    at::manual_seed(3);
    for (const std::int64_t out : {kOut, kOther}) {
      Linear& one = linears.emplace_back();
      one.name = "linear";
      one.weight = Weight::packed_where_possible(at::randn({out, kIn}).to(dtype));
      one.bias = at::randn({out}).to(dtype);
      one.lora = side(4, out);
      if (!with_frozen) continue;
      one.frozen_lora = {.a = at::randn({5, kIn}).to(dtype), .b = at::randn({out, 5}).to(dtype)};
    }
    for (const std::int64_t r : {3, 16, 40}) {
      AdapterSides& sides = adapters.emplace_back();
      for (const Linear& linear : linears) {
        if (r == 16 && &linear == &linears.back()) continue;  // it has none there
        sides.emplace(&linear, side(r, linear.weight.out()));
      }
    }
    if (!with_frozen) adapters.back().at(&linears.front()).magnitude = at::rand({kOut}) + 1;
    static const AdapterSides none;
    std::int64_t end = 0;
    const auto add = [&](std::int64_t count, const AdapterSides* sides) {
      rows.push_back({.begin = end, .end = end + count, .sides = sides});
      end += count;
    };
    add(2, &none);
    add(1, &adapters[1]);
    add(7, &adapters[0]);
    add(3, nullptr);
    add(5, &adapters[2]);
    add(1, &adapters[0]);
    x = at::randn({end, kIn}).to(dtype);
    residual = at::randn({end, kOut}).to(dtype);
  }

  // Both linears together, then the first with a residual.
  std::vector<at::Tensor> run(const at::Tensor& in, const at::Tensor& added, const PassContext& pass) const {
    const Linear* const both[] = {&linears[0], &linears[1]};
    const std::vector<at::Tensor> a_outs = lora_a_forwards(both, in, pass);
    const at::Tensor all = at::empty({in.size(0), kOut + kOther}, in.options());
    const LinearOutput outputs[] = {{all.narrow(1, 0, kOut), both[0], a_outs[0]},
                                    {all.narrow(1, kOut, kOther), both[1], a_outs[1]}};
    linears_into(outputs, in, pass);
    const at::Tensor one = at::empty({in.size(0), kOut}, in.options());
    linear_into(one, linears[0], in, lora_a_forward(linears[0], in, pass), pass, added);
    return {all, one};
  }
  at::Tensor of(const at::Tensor& rows_of_all, const AdapterRows& one) const {
    return rows_of_all.narrow(0, one.begin, one.end - one.begin);
  }
};

using Where = std::tuple<base::InstructionLevel, at::ScalarType, bool>;
class AdapterRowsAt : public testing::TestWithParam<Where> {};
INSTANTIATE_TEST_SUITE_P(Levels, AdapterRowsAt,
                         testing::Combine(testing::ValuesIn(base::kInstructionLevels),
                                          testing::Values(at::kBFloat16, at::kFloat), testing::Bool()),
                         [](const auto& one) {
                           return std::string(base::name_of(std::get<0>(one.param))) +
                                  (std::get<1>(one.param) == at::kFloat ? "_fp32" : "_bf16") +
                                  (std::get<2>(one.param) ? "_frozen_below" : "_dora");
                         });

TEST_P(AdapterRowsAt, AreTheBitsOfTheAdapterAlone) {
  const auto [level, dtype, with_frozen] = GetParam();
  if (!base::machine_has(level)) GTEST_SKIP() << "this machine has no " << base::name_of(level);
  const base::ForceInstructionLevel forced(level);
  const bool exact = level >= base::InstructionLevel::kAvx2;
  Case c(dtype, with_frozen);
  const std::vector<at::Tensor> mixed = c.run(c.x, c.residual, {.adapter_rows = c.rows});
  for (const AdapterRows& one : c.rows) {
    // The adapter as the model's own, in a pass of these rows.
    const std::deque<Linear> before = c.linears;
    for (Linear& linear : c.linears) {
      if (one.sides == nullptr) continue;
      linear.lora.reset();
      if (const auto side = one.sides->find(&linear); side != one.sides->end()) linear.lora = side->second;
    }
    const std::vector<at::Tensor> alone = c.run(c.of(c.x, one), c.of(c.residual, one), {});
    c.linears = before;
    for (std::size_t i = 0; i < alone.size(); ++i) {
      const at::Tensor found = c.of(mixed[i], one);
      const double tolerance = exact ? 0 : dtype == at::kFloat ? 1e-3 : 2;
      EXPECT_LE((found - alone[i]).abs().max().item<double>(), tolerance) << "from row " << one.begin;
    }
  }
}

TEST(AdapterRows, WithAdaptersOffOnlyTheOwnIsOff) {
  Case c(at::kFloat, false);
  const PassContext on = {.adapter_rows = c.rows}, off = {.adapters_on = false, .adapter_rows = c.rows};
  const at::Tensor with = c.run(c.x, c.residual, on)[0], without = c.run(c.x, c.residual, off)[0];
  for (const AdapterRows& one : c.rows)
    EXPECT_EQ(at::equal(c.of(with, one), c.of(without, one)), one.sides != nullptr) << one.begin;
}

}  // namespace adapter_rows_test
}  // namespace hone::ops
