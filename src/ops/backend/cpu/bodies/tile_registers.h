// The tile registers of AMX, for files that are compiled for avx512 and run at the level amx only. Inline assembly,
// because g++ 12's intrinsics do not tell the compiler that they read and write memory.
#pragma once

#include <cstdint>

namespace hone::ops {
namespace {

// Eight tiles of up to 16 rows of 64 bytes; what tile i holds is rows[i] rows of bytes[i].
struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t bytes[16] = {};
  std::uint8_t rows[16] = {};

  [[gnu::always_inline]] inline void set(int tile, std::int64_t row_count, std::int64_t row_bytes) {
    rows[tile] = static_cast<std::uint8_t>(row_count);
    bytes[tile] = static_cast<std::uint16_t>(row_count == 0 ? 0 : row_bytes);
  }
};
static_assert(sizeof(TileShapes) == 64);

// All tiles become zero.
[[gnu::always_inline]] inline void use_tiles(const TileShapes& shapes) {
  asm volatile("ldtilecfg %0" : : "m"(shapes) : "memory");
}

// No tile holds anything: a switch to another thread does not save them.
[[gnu::always_inline]] inline void release_tiles() {
  asm volatile("tilerelease" : : : "memory");
}

template <int Tile>
[[gnu::always_inline]] inline void zero_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(Tile));
}

// The stride between rows is in bytes.
template <int Tile>
[[gnu::always_inline]] inline void load_tile(const void* from, std::int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(Tile) : "memory");
}

// The same for what is not read again soon: it does not push out what L1 holds.
template <int Tile>
[[gnu::always_inline]] inline void load_passing_tile(const void* from, std::int64_t stride) {
  asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(Tile) : "memory");
}

template <int Tile>
[[gnu::always_inline]] inline void store_tile(void* to, std::int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(Tile) : "memory");
}

// Sum [rows][16] float32 += a [rows][16 pairs of bf16] b [16 pairs][16 columns].
template <int Sum, int A, int B>
[[gnu::always_inline]] inline void add_tile_product() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sum), "i"(A), "i"(B));
}

}  // namespace
}  // namespace hone::ops
