// Norms, rotation and the way into pages in one launch, by hone's own kernel in the emulator, against what two kernels and libtorch do.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "emulated/machine/emulator.h"
#include "emulated/own_checks.h"
#include "emulated/use_kernels.h"
#include "ops/cases/case.h"
#include "ops/rope.h"
#include "ops/sampling/head_rotation.h"
#include "ops/sampling/paged_attention.h"

namespace hone::emulated {
namespace step_heads_test {

using at::Tensor;
using ops::cases::noise;

struct Shape {
  std::int64_t tokens, heads, kv_heads, dim, rotated;
  at::ScalarType dtype, table;
  bool norms;
};

// A last block that is not full, heads that do not fill a warp, a rotation of some columns, tables of both types.
const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {{1, 14, 2, 64, 64, at::kBFloat16, at::kFloat, false},
                                         {5, 4, 2, 128, 128, at::kBFloat16, at::kBFloat16, true},
                                         {3, 2, 1, 80, 20, at::kFloat, at::kFloat, true},
                                         {7, 3, 3, 24, 24, at::kBFloat16, at::kFloat, true},
                                         {2, 1, 1, 8, 4, at::kFloat, at::kFloat, false}};
  return all;
}

std::string described(const Shape& shape) {
  return std::to_string(shape.heads) + " heads over " + std::to_string(shape.kv_heads) + " of " +
         std::to_string(shape.dim) + ", " + ops::cases::describe(shape.dtype) + " by " +
         ops::cases::describe(shape.table) + (shape.norms ? ", with norms" : "");
}

constexpr std::int64_t kPages = 9;

// What a step has; qkv are columns of a wider buffer, as where a side's products lie behind them.
struct Step {
  Tensor qkv;  // [tokens, heads + 2 kv_heads, dim]
  Tensor q_norm, k_norm;
  ops::RopeTable table;
  ops::PageMemory memory;
  ops::PageSlots slots;
  double eps = 1e-5;

  explicit Step(const Shape& s) {
    const std::int64_t all = s.heads + 2 * s.kv_heads;
    qkv =
        noise({s.tokens, (all + 1) * s.dim}, 1, s.dtype).narrow(1, 0, all * s.dim).unflatten(1, {all, s.dim});
    if (s.norms) q_norm = noise({s.dim}, 2, s.table) + 1;
    if (s.norms) k_norm = noise({s.dim}, 3, s.table) + 1;
    std::vector<std::int64_t> positions, places;
    for (std::int64_t i = 0; i < s.tokens; ++i) {
      positions.push_back(3 + 17 * i);
      places.push_back((kPages - 1 - i) * ops::kPageTokens + 11 * i);
    }
    table = ops::rope_table(ops::rope_inverse_frequencies(1e4, s.rotated), positions, s.table);
    memory = ops::make_pages(kPages, s.kv_heads, s.dim, at::TensorOptions(s.dtype));
    memory.keys.fill_(7);
    memory.values.fill_(7);
    slots = ops::send_slots(places, at::kCPU);
  }
  Tensor heads(std::int64_t first, std::int64_t count) const { return qkv.narrow(1, first, count); }
};

std::string wrong_in(const Shape& s) {
  const Step expected(s);
  const Tensor q = expected.heads(0, s.heads), k = expected.heads(s.heads, s.kv_heads),
               v = expected.heads(s.heads + s.kv_heads, s.kv_heads);
  set_schedule(Schedule::kInOrder);
  ops::norm_rope_into(q, q, expected.q_norm, expected.eps, expected.table);
  ops::norm_rope_into(k, k, expected.k_norm, expected.eps, expected.table);
  ops::write_pages(expected.memory, k, v, expected.slots);
  for (const Schedule schedule : kSchedules) {
    set_schedule(schedule);
    const Step found(s);
    const ops::HeadRotation rotation = {
        .q_norm = found.q_norm, .k_norm = found.k_norm, .eps = found.eps, .table = &found.table};
    if (!ops::cuda::step_heads(found.qkv, rotation, found.memory, found.slots))
      return described(s) + ": there is no kernel";
    if (!at::equal(found.heads(0, s.heads), q)) return described(s) + ": queries differ";
    if (!at::equal(found.memory.keys, expected.memory.keys)) return described(s) + ": keys differ";
    if (!at::equal(found.memory.values, expected.memory.values)) return described(s) + ": values differ";
    if (!at::equal(found.heads(s.heads + s.kv_heads, s.kv_heads), v))
      return described(s) + ": values of the step differ";
  }
  return "";
}

}  // namespace step_heads_test

std::string wrong_step_heads() {
  for (const step_heads_test::Shape& shape : step_heads_test::shapes()) {
    const std::string wrong = step_heads_test::wrong_in(shape);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

namespace step_heads_test {

TEST(EmulatedStepHeads, HaveTheBitsOfTheKernelsThatDoOneThingEach) {
  const UseKernels use(emulated_kernels());
  EXPECT_EQ(wrong_step_heads(), "");
}

TEST(EmulatedStepHeads, PagesOfAnotherTypeAreRefused) {
  const UseKernels use(emulated_kernels());
  Step step(shapes().front());
  step.memory = ops::make_pages(kPages, 2, 64, at::TensorOptions(at::kFloat));
  const ops::HeadRotation rotation = {.q_norm = {}, .k_norm = {}, .eps = 0, .table = &step.table};
  EXPECT_FALSE(ops::cuda::step_heads(step.qkv, rotation, step.memory, step.slots));
}

}  // namespace step_heads_test
}  // namespace hone::emulated
