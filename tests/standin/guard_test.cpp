// The stand-in itself: what it forbids, and what it counts.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "ops/machine/device_memory.h"
#include "standin/guarded_memory.h"
#include "standin/standin.h"

namespace hone::standin {
namespace guard_test {

at::Tensor ones(std::int64_t n) {
  return at::ones({n}, at::TensorOptions(at::kFloat).device(device()));
}

TEST(GuardDeathTest, TheHostCannotReadOrWriteTheDevice) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";  // as GoogleTest 1.11 has it too
  const at::Tensor x = ones(4);
  EXPECT_DEATH(x.mutable_data_ptr<float>()[0] = 2, "");
  EXPECT_DEATH(
      {
        const volatile float first = x.const_data_ptr<float>()[0];
        (void)first;
      },
      "");
  EXPECT_EQ(x.cpu().const_data_ptr<float>()[0], 1);
}

TEST(Guard, TensorsOfTwoDevicesAreRefused) {
  const at::Tensor x = ones(4);
  EXPECT_THROW(x + at::ones({4}), c10::Error);
  EXPECT_THROW(x.index_select(0, at::zeros({2}, at::kLong)), c10::Error);
  EXPECT_THROW(at::cat({x, at::ones({4})}), c10::Error);
  EXPECT_EQ((x + at::scalar_tensor(1.0)).sum().item<float>(), 8)
      << "a number of the CPU is allowed, as on CUDA";
}

TEST(Guard, WhatCrossesIsCounted) {
  const at::Tensor x = ones(4);
  const auto counted = [](const auto& call) {
    const Counts before = counts();
    call();
    return counts() - before;
  };
  const auto expect = [&](const Counts& found, const Counts& expected) {
    EXPECT_EQ(found.to_device, expected.to_device);
    EXPECT_EQ(found.to_host, expected.to_host);
    EXPECT_EQ(found.scalars, expected.scalars);
    EXPECT_EQ(found.shapes, expected.shapes);
    EXPECT_EQ(found.synchronizations(), expected.synchronizations());
  };
  expect(counted([&] { at::ones({3}).to(device()); }), {.to_device = 1});
  expect(counted([&] { x.cpu(); }), {.to_host = 1});
  expect(counted([&] { x.sum().item<float>(); }), {.scalars = 1});
  expect(counted([&] { x.masked_select(x > 0); }), {.shapes = 1});
  expect(counted([&] { x.clone().add_(x).mul(x.view({4, 1})).sum(); }), {});
}

TEST(Guard, MemoryFactsAreTheDevices) {
  const ops::DeviceMemory before = ops::device_memory(device());
  at::Tensor x = ones(100'000);
  const ops::DeviceMemory with = ops::device_memory(device());
  EXPECT_GE(with.in_use - before.in_use, 400'000);
  EXPECT_LT(with.in_use - before.in_use, 410'000);
  EXPECT_EQ(with.free + with.in_use, static_cast<std::int64_t>(kTotalBytes));
  x.reset();
  const ops::DeviceMemory after = ops::device_memory(device());
  EXPECT_EQ(after.in_use, before.in_use);
  EXPECT_GE(after.peak, with.in_use);
}

}  // namespace guard_test
}  // namespace hone::standin
