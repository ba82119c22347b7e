#include "ops/kv_tiles.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "ops/backend/kv_memory.h"

namespace hone::ops {
namespace kv_tiles_test {

// Token t of kv head h, read back by the layout that the header promises.
void expect_holds(const KvTiles& tiles, const at::Tensor& k, const at::Tensor& v) {
  ASSERT_EQ(tiles.length(), k.size(0));
  const std::int64_t dim = k.size(2), n = KvMemory::keys(tiles).size(1);
  const bool pairs = k.scalar_type() == at::kBFloat16;
  for (std::int64_t h = 0; h < k.size(1); ++h) {
    for (std::int64_t t = 0; t < n * kKvTile; ++t) {
      const at::Tensor key_tile = KvMemory::keys(tiles)[h][t / kKvTile],
                       value_tile = KvMemory::values(tiles)[h][t / kKvTile];
      const std::int64_t slot = t % kKvTile;
      const at::Tensor key = pairs ? key_tile.view({dim / 2, kKvTile, 2}).select(1, slot).reshape({dim})
                                   : key_tile.view({dim, kKvTile}).select(1, slot);
      const at::Tensor value = pairs ? value_tile.view({kKvTile / 2, dim, 2})[slot / 2].select(1, slot % 2)
                                     : value_tile.view({kKvTile, dim})[slot];
      const bool written = t < k.size(0);
      ASSERT_TRUE(key.equal(written ? k[t][h] : at::zeros_like(key))) << h << ' ' << t;
      ASSERT_TRUE(value.equal(written ? v[t][h] : at::zeros_like(value))) << h << ' ' << t;
    }
  }
}

TEST(KvTiles, HoldWhatWasAppendedInTheirLayout) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t dim : {16, 20}) {
      // Slices of a concatenated [q | k | v] buffer, as the layer hands them over.
      const at::Tensor concat = at::randn({150, 4 * 2 * dim}).to(dtype);
      const at::Tensor k = concat.narrow(1, 2 * dim, 2 * dim).unflatten(1, {2, dim});
      const at::Tensor v = concat.narrow(1, 4 * dim, 2 * dim).unflatten(1, {2, dim});
      KvTiles tiles(2, dim, dtype, 10);
      std::int64_t at_token = 0;
      for (const std::int64_t n : {1, 62, 0, 2, 1, 84}) {
        tiles.append(k.narrow(0, at_token, n), v.narrow(0, at_token, n));
        at_token += n;
      }
      expect_holds(tiles, k, v);
    }
  }
}

TEST(KvTiles, TruncateForgetsAndLeavesZero) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor k = at::randn({200, 3, 16}).to(dtype), v = at::randn({200, 3, 16}).to(dtype);
    for (const std::int64_t length : {200, 199, 129, 128, 63, 0}) {
      KvTiles tiles(3, 16, dtype, 200);
      tiles.append(k, v);
      tiles.truncate(length);
      expect_holds(tiles, k.narrow(0, 0, length), v.narrow(0, 0, length));
      tiles.append(k.narrow(0, length, 200 - length), v.narrow(0, length, 200 - length));
      expect_holds(tiles, k, v);
    }
  }
}

TEST(KvTiles, GrowByDoubling) {
  KvTiles tiles(2, 16, at::kBFloat16, 64);
  EXPECT_EQ(tiles.bytes(), 2 * 2 * 64 * 16 * 2);
  tiles.append(at::zeros({65, 2, 16}, at::kBFloat16), at::zeros({65, 2, 16}, at::kBFloat16));
  EXPECT_EQ(KvMemory::keys(tiles).size(1), 2);
  tiles.append(at::zeros({64, 2, 16}, at::kBFloat16), at::zeros({64, 2, 16}, at::kBFloat16));
  EXPECT_EQ(KvMemory::keys(tiles).size(1), 4);
}

TEST(KvTiles, RefuseWhatDoesNotFit) {
  EXPECT_THROW(KvTiles(2, 15, at::kBFloat16, 1), base::InternalError);
  EXPECT_THROW(KvTiles(2, 16, at::kHalf, 1), base::InternalError);
  KvTiles tiles(2, 16, at::kFloat, 64);
  EXPECT_THROW(tiles.append(at::zeros({1, 3, 16}), at::zeros({1, 3, 16})), base::InternalError);
  EXPECT_THROW(tiles.truncate(1), base::InternalError);
  const at::Tensor heads_apart = at::zeros({2, 4, 16}).transpose(0, 1);  // [4, 2, 16], heads not side by side
  EXPECT_THROW(tiles.append(heads_apart, heads_apart), base::InternalError);
}

}  // namespace kv_tiles_test
}  // namespace hone::ops
