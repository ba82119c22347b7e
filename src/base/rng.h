// Counter-based random numbers: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011). A number is a pure function of (seed, purpose, step, substream, index), so that no result
// depends on batch shape, thread count or resume.
//
// One call of philox gives a block of four 32-bit words; word `index` is element index % 4 of block
// index / 4. The layout, fixed because saved runs depend on it:
//
//   key[0] = seed bits 0..31        key[1] = seed bits 32..63
//   counter[0] = block bits 0..31
//   counter[1] = block bits 32..39 | purpose << 8 | (substream bits 32..47) << 16
//   counter[2] = step
//   counter[3] = substream bits 0..31
//
// Within the ranges step < 2^32, substream < 2^48 and index < 2^42 every combination has a distinct counter;
// outside them an InternalError is thrown.
#pragma once

#include <array>
#include <cstdint>

namespace hone::base {

enum class Purpose : std::uint8_t {
  kLoraInit = 1,
  kDropout = 2,
  kSampling = 3,
  kDemoData = 4,
  kOrder = 5,
  kEmbeddingNoise = 6,
  kEnvironment = 7,
  kRollout = 8
};

// Ten rounds of Philox 4x32.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

// A stream of numbers for one (seed, purpose, step, substream); a number never depends on earlier calls.
// Cheap to create and copy; safe to share between threads.
class Stream {
 public:
  Stream(std::uint64_t seed, Purpose purpose, std::uint64_t step, std::uint64_t substream = 0);

  std::array<std::uint32_t, 4> block(std::uint64_t block_index) const;  // words 4 b .. 4 b + 3 at once
  std::uint32_t bits(std::uint64_t index) const;                        // uniform 32 bits
  float uniform(std::uint64_t index) const;  // [0, 1): the upper 24 bits of the word times 2^-24
  // N(0, 1): Box-Muller in double on the words 2 index (radius) and 2 index + 1 (angle); index < 2^41.
  float normal(std::uint64_t index) const;

 private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;  // of block 0
};

}  // namespace hone::base
