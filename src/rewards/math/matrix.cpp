#include "rewards/math/matrix.h"

#include <algorithm>

#include "rewards/math/build.h"

namespace hone::rewards {

namespace {

using Rows = std::vector<std::vector<MathPtr>>;

constexpr std::size_t kMostOfDeterminant = 5;
constexpr std::size_t kMostElements = 400;  // of a product of matrices

Rows rows_of(const MathPtr& matrix) {
  Rows out;
  for (const MathPtr& row : matrix->args) out.push_back(row->args);
  return out;
}

bool same_shape(const Rows& a, const Rows& b) {
  return a.size() == b.size() && a[0].size() == b[0].size();
}

MathPtr minor_determinant(const Rows& rows) {
  if (rows.size() == 1) return rows[0][0];
  Flat out(Math::kAdd, make_number({0, 1}));
  for (std::size_t skip = 0; skip < rows.size(); ++skip) {
    Rows rest(rows.begin() + 1, rows.end());
    for (auto& row : rest) row.erase(row.begin() + static_cast<std::ptrdiff_t>(skip));
    const MathPtr term = flat(Math::kMultiply, rows[0][skip], minor_determinant(rest));
    out.add(skip % 2 == 0 ? term : negate(term));
  }
  return out.value();
}

MathPtr scaled(const MathPtr& number, const MathPtr& matrix) {
  Rows rows = rows_of(matrix);
  for (auto& row : rows)
    for (MathPtr& each : row) each = flat(Math::kMultiply, number, each);
  return make_matrix(rows);
}

MathPtr matrix_sum(const MathPtr& a, const MathPtr& b) {
  Rows left = rows_of(a);
  const Rows right = rows_of(b);
  if (!same_shape(left, right)) return nullptr;
  for (std::size_t i = 0; i < left.size(); ++i)
    for (std::size_t j = 0; j < left[i].size(); ++j) left[i][j] = flat(Math::kAdd, left[i][j], right[i][j]);
  return make_matrix(left);
}

MathPtr matrix_product(const MathPtr& a, const MathPtr& b) {
  const Rows left = rows_of(a);
  const Rows right = rows_of(b);
  if (left[0].size() != right.size() || left.size() * right[0].size() * right.size() > kMostElements)
    return nullptr;
  Rows out(left.size(), std::vector<MathPtr>(right[0].size()));
  for (std::size_t i = 0; i < left.size(); ++i) {
    for (std::size_t j = 0; j < right[0].size(); ++j) {
      Flat sum(Math::kAdd, make_number({0, 1}));
      for (std::size_t k = 0; k < right.size(); ++k) sum.add(flat(Math::kMultiply, left[i][k], right[k][j]));
      out[i][j] = sum.value();
    }
  }
  return make_matrix(out);
}

// The parts one after another; numbers before a matrix scale it.
MathPtr folded(const MathPtr& one) {
  MathPtr out;
  for (const MathPtr& arg : one->args) {
    const MathPtr matrix = matrix_value(arg);
    if (!matrix && has_matrix(arg)) return nullptr;
    if (one->kind == Math::kAdd) {
      if (!matrix) return nullptr;
      out = out ? matrix_sum(out, matrix) : matrix;
    } else if (!out) {
      out = matrix ? matrix : arg;
    } else if (out->kind == Math::kMatrix) {
      out = matrix ? matrix_product(out, matrix) : scaled(arg, out);
    } else {
      out = matrix ? scaled(out, matrix) : flat(Math::kMultiply, out, arg);
    }
    if (!out) return nullptr;
  }
  return out && out->kind == Math::kMatrix ? out : nullptr;
}

}  // namespace

MathPtr make_matrix(const std::vector<std::vector<MathPtr>>& rows) {
  std::vector<MathPtr> out;
  for (const auto& row : rows) {
    if (row.empty() || row.size() != rows[0].size()) return nullptr;
    out.push_back(make_math(Math::kTuple, row));
  }
  return out.empty() ? nullptr : make_math(Math::kMatrix, std::move(out));
}

MathPtr transposed(const MathPtr& matrix) {
  const Rows rows = rows_of(matrix);
  Rows out(rows[0].size());
  for (const auto& row : rows)
    for (std::size_t j = 0; j < row.size(); ++j) out[j].push_back(row[j]);
  return make_matrix(out);
}

MathPtr determinant(const MathPtr& matrix) {
  const Rows rows = rows_of(matrix);
  const bool square = std::ranges::all_of(rows, [&](const auto& row) { return row.size() == rows.size(); });
  return square && rows.size() <= kMostOfDeterminant ? minor_determinant(rows) : nullptr;
}

bool has_matrix(const MathPtr& one) {
  return one->kind == Math::kMatrix || std::ranges::any_of(one->args, has_matrix);
}

MathPtr matrix_value(const MathPtr& one) {
  if (one->kind == Math::kMatrix) return one;
  return one->kind == Math::kAdd || one->kind == Math::kMultiply ? folded(one) : nullptr;
}

}  // namespace hone::rewards
