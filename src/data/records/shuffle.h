// The order that `shuffle_dataset: true` gives: datasets.Dataset.shuffle(seed), which is
// numpy.random.default_rng(seed).permutation(n).
//
// TRL shuffles the prepared records; when it packs, the records before packing and the packed rows after
// it, both with the run's `seed`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace hone::data {

// [n]: place i of the shuffled data is row result[i] of the data before.
std::vector<std::int64_t> dataset_shuffle(std::int64_t n, std::uint64_t seed);

// The same, done to records or packed rows.
template <typename T>
void dataset_shuffle(std::vector<T>& values, std::uint64_t seed) {
  std::vector<T> out;
  out.reserve(values.size());
  for (const std::int64_t from : dataset_shuffle(static_cast<std::int64_t>(values.size()), seed)) {
    out.push_back(std::move(values[static_cast<std::size_t>(from)]));
  }
  values = std::move(out);
}

}  // namespace hone::data
