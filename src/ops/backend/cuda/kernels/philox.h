// The random numbers of the CPU, for the kernels that draw some.
#pragma once

#include "ops/backend/cuda/kernels/device.h"

namespace hone::ops::cuda::kernels {

struct Words {
  std::uint32_t at[4];
};

// base::philox
__device__ inline Words philox(Words counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53} * counter.at[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * counter.at[2];
    counter = {{static_cast<std::uint32_t>(product1 >> 32) ^ counter.at[1] ^ key0,
                static_cast<std::uint32_t>(product1),
                static_cast<std::uint32_t>(product0 >> 32) ^ counter.at[3] ^ key1,
                static_cast<std::uint32_t>(product0)}};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return counter;
}

}  // namespace hone::ops::cuda::kernels
