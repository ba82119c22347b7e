// hone's own kernels in the emulator, through the operators of the CUDA backend, on the CPU's tensors: the list of the
// operators' cases (ops/cases), in each order of threads, between guards.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <set>
#include <string>

#include "emulated/machine/emulator.h"
#include "emulated/machine/guarded_kernels.h"
#include "emulated/machine/planted.h"
#include "emulated/own_checks.h"
#include "emulated/use_kernels.h"
#include "ops/adamw.h"
#include "ops/backend/cuda.h"
#include "ops/cases/check.h"
#include "ops/dropout.h"
#include "ops/dynamic_codes.h"
#include "ops/head/logprob_tile.h"
#include "ops/lion.h"

namespace hone::emulated {
namespace kernels_test {

namespace backend = ops::backend;
namespace cases = ops::cases;

const char* name_of(Schedule schedule) {
  constexpr const char* kNames[] = {"in order", "reversed", "shuffled", "warp by warp"};
  return kNames[static_cast<std::size_t>(schedule)];
}

constexpr const char* kOperators[] = {"rms_norm",
                                      "rms_norm_backward",
                                      "rms_norm_backward_cast",
                                      "norm_rope",
                                      "norm_rope_backward",
                                      "swiglu",
                                      "swiglu_backward",
                                      "dropout",
                                      "dropout_backward_add",
                                      "take_tile",
                                      "take_row",
                                      "tile_backward",
                                      "adamw",
                                      "block_sums_of_squares",
                                      "scale",
                                      "dequantize",
                                      "add_rows",
                                      "copy_blocks",
                                      "join_attention",
                                      "adamw_codes",
                                      "lion",
                                      "lion_codes",
                                      "gather_rows"};

// Thousands of blocks: one order of threads is enough for them.
bool is_long(const cases::Case& one) {
  return one.what.rfind("4096 x ", 0) == 0;
}

bool has_kernel(const cases::Case& one) {
  return one.what.find("fp64") == std::string::npos && one.what.find("Half") == std::string::npos;
}

class Emulated : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Operators, Emulated, testing::ValuesIn(kOperators),
                         [](const auto& one) { return std::string(one.param); });

void expect_same_bits(const cases::Tensors& found, const cases::Tensors& first, const std::string& what) {
  for (std::size_t i = 0; i < std::min(first.size(), found.size()); ++i)
    EXPECT_TRUE(at::equal(first[i], found[i])) << what << ", output " << i;
}

// And its bits are the same in each of them, and for rows that are cut into other calls.
TEST_P(Emulated, AKernelIsTheOperatorInEveryOrderOfThreads) {
  const UseKernels use(emulated_kernels());
  for (const cases::Case& one : cases::cases_of(GetParam())) {
    set_schedule(Schedule::kInOrder);
    const std::int64_t before = guarded_calls();
    EXPECT_EQ(cases::told(cases::check_numbers({one}, at::kCPU)), "");
    EXPECT_EQ(guarded_calls() > before, has_kernel(one)) << one.what;
    if (is_long(one)) continue;
    const cases::Tensors first = one.run(at::kCPU);
    for (const Schedule schedule : {Schedule::kReversed, Schedule::kShuffled, Schedule::kWarpByWarp}) {
      set_schedule(schedule);
      expect_same_bits(one.run(at::kCPU), first, one.what + ", " + name_of(schedule));
    }
    if (one.otherwise) expect_same_bits(one.otherwise(at::kCPU), first, one.what + ", other calls");
  }
}

// Kernels that are no rows of the table.
constexpr const char* kOthers[] = {"sample_tokens", "attend_pages", "step_heads"};

std::string found_by_own_check(const std::string& op) {
  try {
    if (op == "step_heads") return wrong_step_heads();
    return op == "sample_tokens" ? wrong_tokens(1000) : wrong_pages();
  } catch (const std::exception& error) {
    return error.what();
  }
}

// What the cases say of a fault, in the first order of threads where they say something.
std::string found_in(const Planted& fault) {
  Kernels table = emulated_kernels();
  fault.plant(table);
  const UseKernels use(table);
  if (std::find(std::begin(kOthers), std::end(kOthers), std::string(fault.op)) != std::end(kOthers))
    return found_by_own_check(fault.op);
  for (const Schedule schedule : kSchedules) {
    set_schedule(schedule);
    for (const cases::Case& one : cases::cases_of(fault.op)) {
      if (is_long(one)) continue;
      const std::string found = cases::told(cases::check_numbers({one}, at::kCPU));
      if (!found.empty()) return std::string(name_of(schedule)) + ": " + found;
    }
  }
  return "";
}

TEST(PlantedFaults, AreFound) {
  std::set<std::string> operators;
  for (const Planted& fault : planted()) {
    operators.insert(fault.op);
    EXPECT_NE(found_in(fault), "") << fault.op << ", " << fault.what;
  }
  std::set<std::string> all(std::begin(kOperators), std::end(kOperators));
  all.insert(std::begin(kOthers), std::end(kOthers));
  EXPECT_EQ(operators, all);
}

// What `hone gpu-check` says of a case whose kernel is wrong.
TEST(PlantedFaults, AreToldAsThoseOfHonesOwnKernel) {
  const Planted& fault = planted().front();
  Kernels table = emulated_kernels();
  fault.plant(table);
  const UseKernels use(table);
  const cases::Case one = cases::cases_of(fault.op).at(1);  // the first has no rows
  const std::string said = cases::wrong_twice(one, at::kCPU);
  EXPECT_NE(said.find("hone's own kernel is wrong, libtorch's operators are right"), std::string::npos)
      << said;
  const backend::WithoutOwnKernels without;
  EXPECT_EQ(cases::wrong_twice(one, at::kCPU), "");
}

// Of ones: what is left of a row is its mask.
TEST(EmulatedDropout, HasTheBitsOfTheCpusMask) {
  const UseKernels use(emulated_kernels());
  std::vector<std::int64_t> rows, positions;
  for (std::int64_t i = 0; i < 300; ++i) {
    rows.push_back(i % 7 == 0 ? (std::int64_t{1} << 40) + i : i / 3);
    positions.push_back(i % 3);
  }
  const ops::PassContext pass = {
      .training = true, .seed = 5, .step = 6, .token_row = &rows, .token_position = &positions};
  for (const std::int64_t features : {1, 31, 896}) {
    const at::Tensor ones = at::ones({300, features}), out = at::full_like(ones, NAN);
    const at::Tensor mask = ops::dropout_mask(pass, 11, 0.05, features);
    ops::dropout_into(out, ones, pass, 11, 0.05);
    EXPECT_TRUE(at::equal(out, mask)) << features;
    ops::dropout_backward_add(out, ones, pass, 11, 0.05);
    EXPECT_TRUE(at::equal(out, mask * 2)) << features;
  }
}

// Moments, parameters and a norm of the card go on where those of the CPU would.
TEST(EmulatedOptimizer, HasTheCpusBits) {
  const auto stepped = [](std::int64_t size, float lerp) {
    ops::AdamwStep step = {.p = cases::noise({size}, 1),
                           .g = cases::noise({size}, 2),
                           .m = cases::noise({size}, 3),
                           .v = cases::noise({size}, 4).square(),
                           .decay = 0.9999F,
                           .lerp = lerp,
                           .beta2 = 0.999F,
                           .one_minus_beta2 = 0.001F,
                           .root_correction2 = 0.3F,
                           .epsilon = 1e-8F,
                           .minus_step_size = -0.02F};
    ops::adamw(step);
    ops::scale(step.g, 0.3F);
    return cases::Tensors{step.p, step.m, step.v, step.g, ops::block_sums_of_squares(step.g)};
  };
  for (const std::int64_t size : {1, 4096, 16385, 40001}) {
    for (const float lerp : {0.1F, 0.7F}) {
      const cases::Tensors of_cpu = stepped(size, lerp);
      const UseKernels use(emulated_kernels());
      expect_same_bits(stepped(size, lerp), of_cpu, std::to_string(size));
    }
  }
}

// Fused operations of one side may move a number over the border between two codes.
TEST(EmulatedOptimizer, HasTheCpusCodes) {
  constexpr std::int64_t kSize = 5000, kBlocks = (kSize + ops::kCodeBlock - 1) / ops::kCodeBlock;
  const auto stepped = [] {
    const ops::AdamwCodesStep step = {.p = cases::noise({kSize}, 1),
                                      .g = cases::noise({kSize}, 2),
                                      .codes1 = at::arange(kSize).remainder(256).to(at::kByte),
                                      .codes2 = at::arange(kSize).remainder(251).to(at::kByte),
                                      .scales1 = cases::noise({kBlocks}, 3).abs(),
                                      .scales2 = cases::noise({kBlocks}, 4).square(),
                                      .beta1 = 0.9,
                                      .one_minus_beta1 = 0.1,
                                      .beta2 = 0.999,
                                      .one_minus_beta2 = 0.001,
                                      .epsilon = 1e-8,
                                      .minus_step_size = -0.01};
    ops::adamw_codes(step);
    return step;
  };
  const ops::AdamwCodesStep of_cpu = stepped();
  const UseKernels use(emulated_kernels());
  const ops::AdamwCodesStep found = stepped();
  EXPECT_TRUE(at::allclose(found.p, of_cpu.p, 1e-6, 1e-6));
  for (at::Tensor ops::AdamwCodesStep::* const codes :
       {&ops::AdamwCodesStep::codes1, &ops::AdamwCodesStep::codes2}) {
    const at::Tensor apart = (found.*codes).to(at::kInt).sub((of_cpu.*codes).to(at::kInt)).abs();
    EXPECT_LE(apart.max().item<int>(), 1);
    EXPECT_LE(apart.sum().item<std::int64_t>(), kSize / 1000);
  }
}

// The sign of a sum that fused operations round otherwise may turn.
TEST(EmulatedOptimizer, HasTheCpusLion) {
  constexpr std::int64_t kSize = 20001;
  constexpr double kStep = 0.02;
  const auto stepped = [] {
    const ops::LionStep step = {.p = cases::noise({kSize}, 1),
                                .g = cases::noise({kSize}, 2),
                                .m = cases::noise({kSize}, 3),
                                .rates = {.decay = 0.999,
                                          .beta1 = 0.9,
                                          .one_minus_beta1 = 0.1,
                                          .beta2 = 0.99,
                                          .one_minus_beta2 = 0.01,
                                          .minus_learning_rate = -kStep}};
    ops::lion(step);
    return step;
  };
  const ops::LionStep of_cpu = stepped();
  const UseKernels use(emulated_kernels());
  const std::int64_t before = guarded_calls();
  const ops::LionStep found = stepped();
  EXPECT_GT(guarded_calls(), before);
  EXPECT_TRUE(at::allclose(found.m, of_cpu.m, 1e-6, 1e-7));
  const at::Tensor apart = found.p.sub(of_cpu.p).abs();
  EXPECT_LE(apart.max().item<float>(), 2.001 * kStep);
  EXPECT_LE(apart.gt(1e-6).sum().item<std::int64_t>(), 1);
}

TEST(EmulatedSoftmax, TakesTheFirstOfEqualLogitsAndKeepsWhatIsNoNumber) {
  const UseKernels use(emulated_kernels());
  set_schedule(Schedule::kWarpByWarp);
  at::Tensor logits = at::zeros({4, 1500});
  logits.select(0, 1).fill_(-INFINITY);
  logits[2][7] = NAN;
  logits[3][0] = NAN;
  ops::SoftmaxRows rows(at::tensor({3, 3, 3, 3}, at::kLong), 1);
  ops::take_tile(rows, logits, 5);
  EXPECT_TRUE(at::equal(rows.first.narrow(0, 0, 2), at::tensor({5, -1}, at::kLong))) << rows.first;
  EXPECT_TRUE(at::equal(rows.sum.narrow(0, 0, 2), at::tensor({1500.0, 0.0}, at::kDouble))) << rows.sum;
  EXPECT_TRUE(rows.sum.narrow(0, 2, 2).isnan().all().item<bool>()) << rows.sum;
}

}  // namespace kernels_test
}  // namespace hone::emulated
