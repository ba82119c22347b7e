#include "ops/weight.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/process/instruction_level.h"

namespace hone::ops {
namespace weight_test {

constexpr std::pair<std::int64_t, std::int64_t> kShapes[] = {
    {1, 1}, {1, 2}, {2, 3}, {16, 16}, {17, 31}, {31, 32}, {32, 33}, {33, 64}, {65, 97}, {100, 5}, {896, 150}};

constexpr at::ScalarType kDtypes[] = {at::kBFloat16, at::kFloat};

at::Tensor numbers(std::int64_t out, std::int64_t in, at::ScalarType dtype = at::kBFloat16) {
  at::manual_seed(out + in);
  return at::randn({out, in}).to(dtype);
}

TEST(Weight, PacksExactlyAndReadsBackAtEveryLevel) {
  if (!base::machine_has(base::InstructionLevel::kAvx2)) GTEST_SKIP() << "no avx2 here";
  for (const base::InstructionLevel level : base::kInstructionLevels) {
    if (level == base::InstructionLevel::kPlain || !base::machine_has(level)) continue;
    const base::ForceInstructionLevel force(level);
    for (const at::ScalarType dtype : kDtypes) {
      for (const auto& [out, in] : kShapes) {
        const at::Tensor w = numbers(out, in, dtype);
        ASSERT_TRUE(Weight::can_pack(w));
        const Weight packed = Weight::packed_where_possible(w);
        EXPECT_TRUE(packed.is_packed() && packed.defined());
        EXPECT_EQ(packed.out(), out);
        EXPECT_EQ(packed.in(), in);
        EXPECT_EQ(packed.dtype(), dtype);
        const std::int64_t row = dtype == at::kFloat ? 4 * in : (in + 1) / 2 * 4;
        EXPECT_EQ(packed.bytes(), (out + 31) / 32 * 32 * row);
        EXPECT_TRUE(at::equal(packed.dense(), w)) << out << "x" << in;
        EXPECT_TRUE(packed.dense().is_contiguous());
        const at::Tensor ids = at::randint(0, out, {37}, at::kLong);
        EXPECT_TRUE(at::equal(packed.rows(ids), w.index_select(0, ids))) << out << "x" << in;
        if (out > 32) {
          EXPECT_TRUE(at::equal(packed.slice(32, out).dense(), w.narrow(0, 32, out - 32)));
        }
        EXPECT_THROW((void)packed.plain(), base::InternalError);
        EXPECT_THROW((void)packed.rows(at::full({1}, out, at::kLong)), base::InternalError);
        EXPECT_THROW((void)packed.rows(at::full({1}, -1, at::kLong)), base::InternalError);
      }
    }
  }
}

TEST(Weight, LaysPanelsOutAsTheHeaderSaysAtEveryLevel) {
  if (!base::machine_has(base::InstructionLevel::kAvx2)) GTEST_SKIP() << "no avx2 here";
  for (const base::InstructionLevel level : base::kInstructionLevels) {
    if (level == base::InstructionLevel::kPlain || !base::machine_has(level)) continue;
    const base::ForceInstructionLevel force(level);
    for (const at::ScalarType dtype : kDtypes) {
      const std::int64_t of_word = dtype == at::kFloat ? 1 : 2;
      for (const auto& [out, in] : kShapes) {
        const std::int64_t count = (out + 31) / 32;
        const std::int64_t words = (in + of_word - 1) / of_word;
        at::Tensor padded = at::zeros({count * 32, words * of_word}, dtype);
        const at::Tensor w = numbers(out, in, dtype);
        padded.narrow(0, 0, out).narrow(1, 0, in).copy_(w);
        const at::Tensor expected = padded.view({count, 32, words, of_word}).transpose(1, 2).reshape({-1});
        EXPECT_TRUE(at::equal(Weight::packed_where_possible(w).memory()[0].second, expected))
            << name_of(level) << " " << out << "x" << in;
      }
    }
  }
}

TEST(Weight, PacksASliceOfAConcatenatedMatrix) {
  if (!base::machine_has(base::InstructionLevel::kAvx2)) GTEST_SKIP() << "no avx2 here";
  const at::Tensor concat = numbers(70, 90);
  for (const at::Tensor& slice : {concat.narrow(1, 7, 41), concat.narrow(0, 3, 45), concat.t()}) {
    EXPECT_TRUE(at::equal(Weight::packed_where_possible(slice).dense(), slice));
  }
}

TEST(Weight, PacksOnlyWhatTheKernelReads) {
  EXPECT_FALSE(Weight::can_pack(at::ones({4, 4}, at::kHalf)));
  EXPECT_FALSE(Weight::can_pack(at::ones({4}, at::kBFloat16)));
  EXPECT_FALSE(Weight::can_pack(at::empty({0, 4}, at::kBFloat16)));
  EXPECT_FALSE(Weight::packed_where_possible(at::ones({4, 4}, at::kHalf)).is_packed());
  const base::ForceInstructionLevel force(base::InstructionLevel::kPlain);
  EXPECT_FALSE(Weight::can_pack(at::ones({4, 4}, at::kBFloat16)));
}

TEST(Weight, PlainIsTheTensorItself) {
  EXPECT_FALSE(Weight().defined());
  const at::Tensor w = at::randn({5, 9});
  const Weight plain(w);
  EXPECT_FALSE(plain.is_packed());
  EXPECT_TRUE(plain.dense().is_same(w) && plain.plain().is_same(w));
  EXPECT_EQ(plain.bytes(), 5 * 9 * 4);
  const at::Tensor ids = at::tensor({4, 0, 4}, at::kLong);
  EXPECT_TRUE(at::equal(plain.rows(ids), w.index_select(0, ids)));
  EXPECT_THROW(Weight(w.t()), base::InternalError);
}

}  // namespace weight_test
}  // namespace hone::ops
