// Counter-based random numbers: Philox 4x32-10 (Salmon et al., SC 2011). A number is a pure function of
// (seed, purpose, step, index), so that no result depends on batch shape, thread count or resume.
#pragma once

#include <array>
#include <cstdint>

namespace hone::base {

enum class Purpose : std::uint32_t { kLoraInit = 1, kDropout = 2, kSampling = 3, kDemoData = 4 };

// Ten rounds of Philox 4x32.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

// A stream of numbers for one (seed, purpose, step); at(index) never depends on what was asked before.
class Stream {
 public:
  Stream(std::uint64_t seed, Purpose purpose, std::uint64_t step, std::uint64_t substream = 0);

  std::uint32_t bits(std::uint64_t index) const;   // uniform 32 bits
  float uniform(std::uint64_t index) const;        // [0, 1), 24 bits
  float normal(std::uint64_t index) const;         // N(0, 1), Box-Muller on (2 index, 2 index + 1)

 private:
  std::array<std::uint32_t, 2> key_;
  std::uint32_t step_;
  std::uint32_t substream_;
};

}  // namespace hone::base
