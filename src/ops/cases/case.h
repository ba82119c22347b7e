// One list of cases for all operators of ops/backend/operators.h: what every backend and level has to
// compute, and what the CPU's kernels promise beyond that. tests/house/cases_test.py fails for an operator
// that has none. A case calls its own operator only, by the public function, so that a wrong kernel shows in
// its operator's cases and in no other.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/process/instruction_level.h"

namespace hone::ops::cases {

using Tensors = std::vector<at::Tensor>;

// Which of the CPU's levels have the same bits.
enum class SameBits { kNone, kAllLevels, kFromAvx2, kAvx2AndAvx512 };

struct Case {
  const char* op = nullptr;  // the row's name
  std::string what;          // shapes, dtypes and strides
  // Calls the operator on a device, of inputs that are the same every time; its outputs, on the CPU.
  std::function<Tensors(at::Device)> run;
  // The same by definition, in fp64, of the same (rounded) inputs.
  std::function<Tensors()> exact;
  // Bounds each output: the largest difference, as a share of the largest number.
  std::vector<double> bounds;

  // ---- what the CPU promises

  // From this level on, nothing but the row itself and what it reads decides its bits: not the number of
  // threads, and not the rest of the call.
  std::optional<base::InstructionLevel> own_bits_from;
  // The first outputs (as many as it returns) from calls that are cut in another way; undefined: threads
  // only.
  std::function<Tensors(at::Device)> otherwise;
  SameBits levels = SameBits::kNone;

  std::shared_ptr<Tensors> truth = std::make_shared<Tensors>();  // what exact() returned
};
using Cases = std::vector<Case>;

const Cases& all_cases();

// ---- inputs

// Says where a tensor of rows lies: by itself, in columns of a wider buffer, or one element behind an aligned
// address.
enum class Layout { kDense, kStrided, kUnaligned };

std::string describe(at::ScalarType dtype);
std::string describe(Layout layout);
at::Tensor noise(at::IntArrayRef shape, std::uint64_t seed, at::ScalarType dtype = at::kFloat);
at::Tensor wide(const at::Tensor& x);  // floats in fp64; undefined and integer tensors as they are
// NaN, so that what is not written shows.
at::Tensor unwritten(at::IntArrayRef shape, at::ScalarType dtype);
// d(sum of f d) by each of `leaves`, in fp64.
Tensors gradients(const std::function<at::Tensor(const Tensors&)>& f, const Tensors& leaves,
                  const at::Tensor& d);
// The bound of a dtype; fp64: a few of its roundings.
double bound_of(at::ScalarType dtype, double of_float, double of_bf16);
// One rounding to bf16.
constexpr double kOneRounding = 4e-3;

// A copy of x [T, ...] on a device, in a layout. What lies around it is watched.
class Placed {
 public:
  Placed(const at::Tensor& x, at::Device device, Layout layout);
  const at::Tensor& view() const { return view_; }
  at::Tensor taken() const;  // on the CPU; throws if anything around it was written

 private:
  at::Tensor buffer_, view_, around_;
};

// ---- operators of which every tensor has a row for each row of the others

struct RowCase {
  const char* op = nullptr;
  std::string what;
  std::function<Tensors()> make;  // the tensors [T, ...] of a call: inputs, and outputs as they are before it
  std::vector<std::size_t> outputs = {0};  // which of them are written; the others have to stay as they are
  // Calls the operator. What it returns are outputs too, after the others.
  std::function<Tensors(const Tensors& rows, at::Device device)> call;
  std::function<Tensors(const Tensors& rows)> exact;  // of rows in fp64
  std::vector<double> bounds;
  Layout layout = Layout::kDense;
  std::size_t dense_from = 99;  // these rows, and integer ones, are always dense
  bool promises = true;         // own bits at every level, and the same at all of them
};
Case of_rows(RowCase rows);

struct Grid {
  std::int64_t rows, width;
  Layout layout;
};
// Shapes that row operators meet: hidden sizes and odd ones, no row, one and many.
const std::vector<Grid>& row_grid();
const std::vector<Grid>& few_rows();  // for what has many forms
std::string describe(const Grid& grid);

// ---- the parts of the list

void add_norm_cases(Cases& all);
void add_rope_cases(Cases& all);
void add_gate_cases(Cases& all);
void add_routed_cases(Cases& all);
void add_scattered_cases(Cases& all);
void add_gathered_cases(Cases& all);
void add_block_cases(Cases& all);
void add_dropout_cases(Cases& all);
void add_conv_cases(Cases& all);
void add_delta_cases(Cases& all);
void add_attention_cases(Cases& all);
void add_packed_attention_cases(Cases& all);
void add_attention_backward_cases(Cases& all);
void add_join_cases(Cases& all);
void add_gemm_cases(Cases& all);
void add_outer_cases(Cases& all);
void add_expert_cases(Cases& all);
void add_quantized_cases(Cases& all);
void add_softmax_cases(Cases& all);
void add_adamw_cases(Cases& all);
void add_lion_cases(Cases& all);

}  // namespace hone::ops::cases
