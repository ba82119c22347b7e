#include "ops/machine/host_memory.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/process/address_sanitizer.h"
#include "base/process/process_memory.h"

namespace hone::ops {
namespace host_memory_test {

TEST(HostMemory, GivesAlignedMemoryOfEverySize) {
  use_host_memory();
  use_host_memory();
  EXPECT_EQ(at::empty({0}).numel(), 0);
  for (const std::int64_t n : {1, 15, 16, 1000, 1 << 20}) {
    at::Tensor t = at::ones({n}, at::kFloat);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(t.data_ptr()) % 64, 0U) << n;
    t.resize_({2 * n});
    EXPECT_EQ(t.narrow(0, 0, n).sum().item<double>(), static_cast<double>(n));
  }
}

// libtorch's kernels take scratch this way.
TEST(HostMemory, ServesRawRequests) {
  use_host_memory();
  c10::Allocator* allocator = c10::GetCPUAllocator();
  void* data = allocator->raw_allocate(1000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 64, 0U);
  std::memset(data, 1, 1000);
  allocator->raw_deallocate(data);
}

TEST(HostMemory, OutOfMemoryIsAUserError) {
  use_host_memory();
  EXPECT_THROW(at::empty({1LL << 52}, at::kFloat), base::UserError);
}

// What training does: large tensors of a few sizes come and go while others stay.
TEST(HostMemory, AFreedBlockServesTheNextOfItsSize) {
  if (base::kHasAddressSanitizer) GTEST_SKIP() << "AddressSanitizer does not give freed memory away at once";
  use_host_memory();
  std::vector<at::Tensor> kept;
  at::empty({24 << 20}, at::kByte).fill_(1);  // from here on malloc takes such sizes from its heap
  const std::int64_t before = base::process_memory().resident;
  for (int i = 0; i < 64; ++i) {
    at::Tensor passing = at::ones({8 << 20}, at::kByte);
    kept.push_back(at::ones({16}));  // takes the odd ends between the blocks
    passing.reset();
    kept.push_back(at::ones({16}));
  }
  if (before == 0) GTEST_SKIP() << "this system does not tell";
  EXPECT_LT(base::process_memory().resident - before, 3 * (8LL << 20));
}

}  // namespace host_memory_test
}  // namespace hone::ops
