// Matrices, by element.
#pragma once

#include <vector>

#include "rewards/math/value.h"

namespace hone::rewards {

// Empty where the rows have different lengths.
MathPtr make_matrix(const std::vector<std::vector<MathPtr>>& rows);
MathPtr transposed(const MathPtr& matrix);
MathPtr determinant(const MathPtr& matrix);  // empty where it is not square, or larger than 5 x 5

// Returns what a sum or product of matrices and numbers is, and a matrix itself. Empty: no matrix, or shapes
// that do not fit.
MathPtr matrix_value(const MathPtr& one);
bool has_matrix(const MathPtr& one);

}  // namespace hone::rewards
