#include "ops/experts/expert_products.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <deque>

#include "base/error.h"
#include "ops/backend/operators.h"

namespace hone::ops {
namespace expert_products_test {

// Tokens of two experts each; none has expert 3.
at::Tensor some_choice() {
  return at::tensor({2, 0, 4, 2, 2, 1, 0, 4, 1, 2}, at::kLong).view({5, 2});
}

TEST(ExpertRows, AreInTheOrderOfExpertsAndTokens) {
  const ExpertRows rows(some_choice(), 5);
  EXPECT_EQ(rows.size(), 10);
  EXPECT_EQ(rows.begins(), (std::vector<std::int64_t>{0, 2, 4, 8, 8, 10}));
  EXPECT_TRUE(at::equal(rows.ends(), at::tensor({2, 4, 8, 8, 10}, at::kInt)));
  EXPECT_TRUE(at::equal(rows.token(), at::tensor({0, 3, 2, 4, 0, 1, 2, 4, 1, 3}, at::kLong)));
  const at::Tensor expert = at::tensor({0, 0, 1, 1, 2, 2, 2, 2, 4, 4}, at::kLong);
  EXPECT_TRUE(at::equal(expert.index_select(0, rows.place().flatten()).view({5, 2}), some_choice()));
  EXPECT_TRUE(at::equal(rows.token().index_select(0, rows.place().select(1, 1)), at::arange(5, at::kLong)));
  EXPECT_TRUE(at::equal(count_experts(some_choice(), 5), at::tensor({2, 2, 4, 0, 2}, at::kLong)));
  EXPECT_THROW(ExpertRows(at::arange(3), 5), base::InternalError);
}

// The CPU's table, and functions for groups that count their calls.
struct Grouped {
  inline static int calls = 0;
  backend::Operators table = backend::cpu_operators();
  Grouped() {
    calls = 0;
    table.group_multiple = [](at::Device, at::ScalarType dtype) -> std::int64_t {
      return dtype == at::kFloat ? 4 : 0;
    };
    table.grouped_products = [](at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&) {
      calls += 1;
      return false;  // the definition computes
    };
    table.grouped_outers = [](at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&) {
      calls += 1;
      return false;
    };
  }
};

struct Layer {
  std::deque<Linear> linears;
  ExpertMatrices matrices;

  Layer(std::int64_t parts, std::int64_t out, std::int64_t in) {
    matrices.parts = parts;
    for (std::int64_t i = 0; i < 5 * parts; ++i) linears.emplace_back().weight = at::randn({out, in});
  }
  std::vector<Linear*> pointers() {
    std::vector<Linear*> out;
    for (Linear& one : linears) out.push_back(&one);
    return out;
  }
  const ExpertMatrices& known() {
    matrices.weights.clear();
    for (const Linear& one : linears) matrices.weights.push_back(&one.weight);
    return matrices;
  }
};

void expect_near(const at::Tensor& found, const at::Tensor& expected) {
  EXPECT_LE((found - expected).abs().max().item<double>(), 1e-5 * expected.abs().max().item<double>());
}

TEST(ExpertProducts, InGroupsAreThoseOfEachExpert) {
  const ExpertRows rows(some_choice(), 5);
  for (const std::int64_t columns : {8, 7}) {  // 14 is no multiple of 4
    Layer layer(2, columns, 12), side(1, 2 * columns, 4);
    const at::Tensor x = at::randn({10, 12}), a = at::randn({10, 4}), d = at::randn({10, 2 * columns});
    const auto forward = [&] {
      return expert_product({{x, &layer.known(), GemmDirection::kForward}}, rows, 0.5);
    };
    const auto backward = [&] {
      return expert_product({{d, &layer.known(), GemmDirection::kBackward}}, rows);
    };
    const auto both = [&] {
      return expert_product(
          {{a, &side.known(), GemmDirection::kForward}, {a, &side.known(), GemmDirection::kForward}}, rows);
    };
    const at::Tensor y = forward(), dx = backward(), sum = both();
    at::Tensor row =
        at::cat({layer.linears[4].weight.plain(), layer.linears[5].weight.plain()}).mv(x[4]) * 0.5;
    expect_near(y[4], row);
    const Grouped grouped;
    const backend::OnlyOperators only(grouped.table);
    // not laid out yet, then laid out
    for (int i = 0; i < 2; ++i) {
      expect_near(forward(), y);
      expect_near(backward(), dx);
      expect_near(both(), sum);
      lay_out_experts(layer.pointers(), 2);
    }
    EXPECT_EQ(Grouped::calls, columns == 8 ? 8 : 0);
    const at::Storage& memory = layer.linears[0].weight.plain().storage();
    EXPECT_EQ(memory.is_alias_of(layer.linears[9].weight.plain().storage()), columns == 8);
  }
}

TEST(ExpertProducts, OuterProductsInGroupsAreThoseOfEachExpert) {
  const ExpertRows rows(some_choice(), 5);
  const at::Tensor left = at::randn({10, 8}), right = at::randn({10, 12}), odd = at::randn({10, 3});
  const auto sums = [&] {
    std::vector<at::Tensor> out = {at::ones({5, 8, 12}), at::ones({5, 3, 12})};
    const ExpertOuter outers[] = {{out[0], left, right}, {out[1], odd, right}};
    add_expert_outers(outers, rows);
    std::vector<at::Tensor> gradients(5);
    for (const std::size_t e : {0, 2, 3}) gradients[e] = at::zeros({8, 12});
    add_expert_gradients(gradients, left, right, rows);
    for (const std::size_t e : {0, 2, 3}) out.push_back(gradients[e]);
    return out;
  };
  const std::vector<at::Tensor> apart = sums();
  EXPECT_TRUE(at::equal(apart[0][3], at::ones({8, 12}))) << "an expert without rows";
  const Grouped grouped;
  const backend::OnlyOperators only(grouped.table);
  const std::vector<at::Tensor> together = sums();
  EXPECT_EQ(Grouped::calls, 2);
  for (std::size_t i = 0; i < apart.size(); ++i) {
    if (apart[i].abs().max().item<double>() > 0) expect_near(together[i], apart[i]);
  }
  EXPECT_EQ(together[4].abs().max().item<double>(), 0);
}

}  // namespace expert_products_test
}  // namespace hone::ops
