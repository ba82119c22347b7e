// Several tensors of one shape as one: PEFT 0.21.2's utils/merge_utils.py, without its random functions.
//
// Shapes: tasks are fp32 tensors of one shape, any; weights one number a task.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace hone::adapters {

// How the sign of an element is elected.
enum class Election {
  kTotal,     // the sign of their sum
  kFrequency  // the sign of most of them
};

// sum of w t
at::Tensor weighted_sum(const std::vector<at::Tensor>& tasks, const std::vector<double>& weights);

// The `density` share of the values that is largest in magnitude, the others 0; above 0, 1 keeps all.
at::Tensor keep_largest(const at::Tensor& task, double density);

// Keeps each task's largest values, of those the ones that have the elected sign, and takes their mean,
// weighted (Yadav et al. 2023). A sum of 0 elects plus.
at::Tensor ties(const std::vector<at::Tensor>& tasks, const std::vector<double>& weights, double density,
                Election election);

// The weighted sum of each task's largest values.
at::Tensor magnitude_prune(const std::vector<at::Tensor>& tasks, const std::vector<double>& weights,
                           double density);

// delta [out, in] as B A of rank `rank`: the largest singular directions, A [rank, in] orthonormal rows, B
// [out, rank] with the singular values, which are 0 where delta has no more. Of a factorized delta = b a the
// decomposition is of the small factors, which is exact and cheap. The largest element of each row of A is
// positive, so that the result is unique.
struct Factors {
  at::Tensor a, b;
};
Factors decompose(const at::Tensor& delta, std::int64_t rank);
Factors decompose(const Factors& delta, std::int64_t rank);

}  // namespace hone::adapters
