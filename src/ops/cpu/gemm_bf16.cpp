#include "ops/cpu/gemm_bf16.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "ops/cpu/gemm_kernels.h"
#include "ops/cpu/quantized_kernels.h"
#include "ops/cpu/team.h"

namespace hone::ops {
namespace {

using kernels::Bf16;
using std::int64_t;

constexpr int64_t kWide = 32;      // columns of a panel
constexpr int64_t kColumns = 256;  // of a block: its panels (0.5 MB) stay in L2 while the rows pass
constexpr int64_t kDepth = 1024;   // of a slice of k: 14 rows of it stay in L1
constexpr int64_t kStepDepth = kDepth + 128;  // of a step: a slice and a LoRA term
constexpr int64_t kRows = 1024;               // of a block, when its sums rest between steps
constexpr int64_t kScratchRows = kernels::kTileRows * 2 * kStepDepth;  // slices of 32 k and more, 32 between
constexpr int64_t kFewRows = 2 * kernels::kTileRows;
// Few rows read each panel from memory once, in order. Beyond what a core's own prefetcher does: 16 KB ahead
// a core with 8 rows reached 28 GB/s, which is all that it can multiply, instead of 26.
constexpr int64_t kAhead = 16 << 10;
constexpr int64_t kPartBytes = 96 << 10;  // of panels in memory, of a unit of work

const Bf16* bits(const at::Tensor& x) {
  return reinterpret_cast<const Bf16*>(x.const_data_ptr());
}

int64_t blocks_of(int64_t n, int64_t size) {
  return (n + size - 1) / size;
}

// Memory of a thread that only grows, aligned to a cache line.
template <typename T>
class Scratch {
 public:
  T* at_least(int64_t n) {
    if (n > size_) {
      memory_.reset();
      size_ = 0;
      memory_.reset(static_cast<T*>(::operator new(static_cast<std::size_t>(n) * sizeof(T), kLine)));
      size_ = n;
    }
    return memory_.get();
  }

 private:
  static constexpr std::align_val_t kLine{64};
  struct Free {
    void operator()(T* memory) const { ::operator delete(memory, kLine); }
  };
  std::unique_ptr<T, Free> memory_;
  int64_t size_ = 0;
};

thread_local Scratch<Bf16> panel_scratch;
thread_local Scratch<Bf16> row_scratch;
thread_local Scratch<Bf16> dequantized_scratch;
thread_local Scratch<float> sum_scratch;

// One matrix as the kernels see it.
struct Matrix {
  const Bf16* a = nullptr;
  const Bf16* w = nullptr;  // rows, or panels
  int64_t a_stride = 0, w_stride = 0;
  int64_t depth = 0;
  bool packed = false, forward = true;
  std::optional<kernels::QuantizedView> quantized = {};

  // Slices of k begin at multiples of this.
  int64_t unit() const { return quantized ? 2 * kWide : kWide; }
  bool is_read_in_place() const { return packed && forward; }
  // The panel of columns [column, column + n), k in [begin, begin + k).
  void make_panel(int64_t column, int64_t n, int64_t begin, int64_t k, Bf16* panel) const {
    if (quantized) {
      make_quantized_panel(*quantized, column, n, begin, k, panel);
    } else if (packed) {
      kernels::repack(w + begin / kWide * w_stride, w_stride, column / 2, n, k, panel);
    } else if (forward) {
      kernels::pack_rows(w + column * w_stride + begin, w_stride, n, k, panel);
    } else {
      kernels::pack_columns(w + begin * w_stride + column, w_stride, n, k, false, panel);
    }
  }

 private:
  void make_quantized_panel(const kernels::QuantizedView& view, int64_t column, int64_t n, int64_t begin,
                            int64_t k, Bf16* panel) const {
    if (kernels::has_quantized_panels(view)) {
      if (forward) {
        kernels::pack_quantized_rows(view, column, n, begin, k, panel);
      } else {
        kernels::pack_quantized_columns(view, column, begin, k, panel);
      }
      return;
    }
    Bf16* rows = dequantized_scratch.at_least(k * kWide);
    if (forward) {
      for (int64_t i = 0; i < n; ++i) {
        kernels::dequantize_run(view, (column + i) * view.in + begin, k, rows + i * k);
      }
      kernels::pack_rows(rows, k, n, k, panel);
    } else {
      for (int64_t i = 0; i < k; ++i) {
        kernels::dequantize_run(view, (begin + i) * view.in + column, n, rows + i * kWide);
      }
      kernels::pack_columns(rows, kWide, n, k, false, panel);
    }
  }
};

struct Cut {
  const Matrix* matrix = nullptr;
  int64_t begin = 0, k = 0;
  bool ends_step = false;
};

struct Product {
  std::vector<at::Tensor> kept;  // rows that had to be copied
  at::Tensor written;            // instead of an `out` of other strides
  std::vector<Matrix> matrices;
  std::vector<Cut> cuts;
  int64_t rows = 0, columns = 0;
  int64_t in_place_depth = 0;  // numbers of k that are read where they lie
  int64_t panel_depth = 0;     // most numbers of k that a step packs
  int64_t steps = 0;
  kernels::Finish finish;
};

at::Tensor with_plain_rows(const at::Tensor& x, Product& product) {
  if (x.size(1) <= 1 || x.stride(1) == 1) return x;
  product.kept.push_back(x.contiguous());
  return product.kept.back();
}

// The slices of k in order, grouped into steps whose panels fit a thread's scratch. Few rows over panels that
// lie ready take all of k at once: nothing is read twice.
void cut(Product& product) {
  const bool few = product.rows <= kFewRows;
  int64_t in_step = 0, packed_in_step = 0;
  for (const Matrix& matrix : product.matrices) {
    const bool whole = few && matrix.is_read_in_place();
    const int64_t count = whole ? 1 : blocks_of(matrix.depth, kDepth);
    const int64_t size =
        count == 0 ? 0 : blocks_of(blocks_of(matrix.depth, count), matrix.unit()) * matrix.unit();
    for (int64_t begin = 0; begin < matrix.depth; begin += size) {
      const int64_t k = std::min(size, matrix.depth - begin);
      const int64_t counted = whole ? 0 : blocks_of(k, kWide) * kWide;
      if (!product.cuts.empty() && in_step + counted > kStepDepth) {
        product.cuts.back().ends_step = true;
        in_step = packed_in_step = 0;
      }
      in_step += counted;
      if (!matrix.is_read_in_place()) packed_in_step += blocks_of(k, kWide) * kWide;
      product.panel_depth = std::max(product.panel_depth, packed_in_step);
      product.cuts.push_back({&matrix, begin, k});
    }
  }
  // K = 0: the sum is zero
  if (product.cuts.empty()) product.cuts.push_back({&product.matrices.front(), 0, 0});
  product.cuts.back().ends_step = true;
  product.steps =
      std::count_if(product.cuts.begin(), product.cuts.end(), [](const Cut& c) { return c.ends_step; });
}

std::ptrdiff_t bytes_of(int64_t elements, bool is_bf16) {
  return elements * (is_bf16 ? 2 : 4);
}

kernels::Finish moved(kernels::Finish finish, int64_t row, int64_t column) {
  const auto* bias = static_cast<const char*>(finish.bias);
  const auto* residual = static_cast<const char*>(finish.residual);
  if (bias != nullptr) finish.bias = bias + bytes_of(column, finish.bias_is_bf16);
  if (residual != nullptr) {
    finish.residual = residual + bytes_of(row * finish.residual_stride + column, finish.residual_is_bf16);
  }
  finish.out =
      static_cast<char*>(finish.out) + bytes_of(row * finish.out_stride + column, finish.out_is_bf16);
  return finish;
}

// Rows whose addresses differ by a multiple of 2 KB share a few sets of L1 and drive each other out. A copy
// fixes it where enough columns read it.
bool crowded(const std::vector<kernels::Slice>& slices, int64_t rows, int64_t columns) {
  if (rows <= kFewRows || columns < 2 * kWide || slices.size() > kernels::kMaxSlices) return false;
  return std::any_of(slices.begin(), slices.end(),
                     [](const kernels::Slice& s) { return s.a_stride % 1024 == 0 && s.k >= 256; });
}

// Rows [row, row_end) of columns [column, column_end), at most kColumns of them.
void run_block(const Product& product, int64_t row, int64_t row_end, int64_t column, int64_t column_end) {
  const int64_t columns = column_end - column;
  const int64_t panels = blocks_of(columns, kWide);
  const int64_t block_rows = product.steps > 1 ? std::min(kRows, row_end - row) : row_end - row;
  Bf16* packed = panel_scratch.at_least(product.panel_depth * panels * kWide);
  float* sums = product.steps > 1 ? sum_scratch.at_least(block_rows * kColumns) : nullptr;
  std::vector<kernels::Slice> slices;
  for (; row < row_end; row += block_rows) {
    const int64_t n = std::min(block_rows, row_end - row);
    const kernels::Finish finish = moved(product.finish, row, column);
    bool first = true;
    Bf16* to = packed;
    for (const Cut& c : product.cuts) {
      const Matrix& matrix = *c.matrix;
      kernels::Slice slice{
          .a = matrix.a + row * matrix.a_stride + c.begin, .a_stride = matrix.a_stride, .k = c.k};
      if (matrix.is_read_in_place()) {
        slice.panels = matrix.w + column / kWide * matrix.w_stride + c.begin * kWide;
        slice.panel_stride = matrix.w_stride;
        if (product.rows <= kFewRows) slice.ahead = kAhead;
      } else {
        slice.panels = to;
        slice.panel_stride = blocks_of(c.k, 2) * kernels::kPairStep;
        for (int64_t panel = 0; panel < panels; ++panel, to += slice.panel_stride) {
          const int64_t at = column + panel * kWide;
          matrix.make_panel(at, std::min(kWide, column_end - at), c.begin, c.k, to);
        }
      }
      slices.push_back(slice);
      if (!c.ends_step) continue;
      kernels::multiply_block(slices.data(), static_cast<int>(slices.size()), n, columns, sums, kColumns,
                              first, &c == &product.cuts.back() ? &finish : nullptr,
                              crowded(slices, n, columns) ? row_scratch.at_least(kScratchRows) : nullptr);
      first = false;
      slices.clear();
      to = packed;
    }
  }
}

// How many threads are worth calling: each must have some 4 us of work, at 200 GFLOP/s or 18 GB/s.
int64_t threads_for(double flop, double bytes) {
  const double seconds = std::max(flop / 200e9, bytes / 18e9);
  const auto useful = static_cast<int64_t>(seconds / 4e-6);
  return std::clamp<int64_t>(useful, 1, at::get_num_threads());
}

// The share of the threads that works when `units` are dealt out whole.
double balance(int64_t units, int64_t threads) {
  return static_cast<double>(units) / static_cast<double>(blocks_of(units, threads) * threads);
}

// One call of run_block.
struct Unit {
  const Product* product = nullptr;
  int64_t row = 0, row_end = 0, column = 0, column_end = 0;
};

// Columns are the better cut: each panel is packed once. Rows serve when there are few panels.
void add_units(std::vector<Unit>& units, const Product& product, int64_t threads, int64_t together) {
  const int64_t panels = blocks_of(product.columns, kWide);
  const int64_t row_blocks = blocks_of(product.rows, kernels::kTileRows);
  const bool by_rows = together == 1 && balance(panels, threads) < 0.9 &&
                       balance(row_blocks, threads) > balance(panels, threads);
  const auto share = [](int64_t n, int64_t part, int64_t parts) { return n * part / parts; };
  int64_t column_parts = blocks_of(panels, kColumns / kWide);
  if (by_rows) {
    for (int64_t thread = 0; thread < threads; ++thread) {
      const int64_t row = share(product.rows, thread, threads);
      const int64_t row_end = share(product.rows, thread + 1, threads);
      for (int64_t part = 0; part < column_parts && row < row_end; ++part) {
        units.push_back({&product, row, row_end, share(panels, part, column_parts) * kWide,
                         std::min(product.columns, share(panels, part + 1, column_parts) * kWide)});
      }
    }
    return;
  }
  // Panels that come from memory: small parts, so that a thread that is late leaves the others little to wait
  // for.
  if (product.rows <= kFewRows && threads > 1) {
    const int64_t bytes = std::max<int64_t>(1, product.in_place_depth * kWide * 2);
    column_parts = std::max(column_parts, blocks_of(panels, std::max<int64_t>(1, kPartBytes / bytes)));
  }
  column_parts = std::min(panels, blocks_of(column_parts, threads) * threads);
  for (int64_t part = 0; part < column_parts; ++part) {
    units.push_back({&product, 0, product.rows, share(panels, part, column_parts) * kWide,
                     std::min(product.columns, share(panels, part + 1, column_parts) * kWide)});
  }
}

void run(std::span<const Product> products) {
  double flop = 0, bytes = 0;
  for (const Product& product : products) {
    const int64_t panels = blocks_of(product.columns, kWide);
    for (const Matrix& matrix : product.matrices) {
      const auto k = static_cast<double>(matrix.depth);
      flop += 2.0 * k * static_cast<double>(product.rows * panels * kWide);
      bytes += 2.0 * k * static_cast<double>(product.columns) * (matrix.is_read_in_place() ? 1 : 2);
    }
  }
  const int64_t threads = threads_for(flop, bytes);
  std::vector<Unit> units;
  for (const Product& product : products) {
    add_units(units, product, threads, static_cast<int64_t>(products.size()));
  }
  in_team(static_cast<int64_t>(units.size()), threads, [&](int64_t i, int64_t) {
    const Unit& unit = units[static_cast<std::size_t>(i)];
    run_block(*unit.product, unit.row, unit.row_end, unit.column, unit.column_end);
  });
}

void prepare(Product& product, const Gemm& call) {
  const auto& [out, terms, epilogue] = call;
  product.rows = out.size(0);
  product.columns = out.size(1);
  product.matrices.reserve(terms.size());
  for (const GemmTerm& term : terms) {
    const Weight& weight = *term.weight;
    const at::Tensor a = with_plain_rows(term.a, product);
    Matrix matrix{.a = bits(a),
                  .a_stride = a.stride(0),
                  .packed = weight.is_packed(),
                  .forward = term.side == GemmDirection::kForward};
    if (weight.is_quantized()) {
      matrix.quantized = weight.quantized().view();
    } else {
      matrix.w = bits(matrix.packed ? weight.panels() : weight.plain());
      matrix.w_stride =
          matrix.packed ? blocks_of(weight.in(), 2) * kernels::kPairStep : weight.plain().stride(0);
    }
    matrix.depth = matrix.forward ? weight.in() : weight.out();
    if (matrix.is_read_in_place()) product.in_place_depth += matrix.depth;
    product.matrices.push_back(matrix);
  }
  const bool plain_rows = product.columns == 1 || out.stride(1) == 1;
  const at::Tensor to = plain_rows ? out : at::empty(out.sizes(), out.options());
  if (!plain_rows) product.written = to;
  kernels::Finish& finish = product.finish;
  finish.scale = static_cast<float>(epilogue.scale);
  finish.out = to.mutable_data_ptr();
  finish.out_stride = to.stride(0);
  finish.out_is_bf16 = out.scalar_type() == at::kBFloat16;
  const auto readable = [](const at::Tensor& x) {
    const bool known = x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kFloat;
    return known ? x : x.to(at::kFloat);
  };
  if (epilogue.bias.defined()) {
    product.kept.push_back(readable(epilogue.bias).contiguous());
    finish.bias = product.kept.back().const_data_ptr();
    finish.bias_is_bf16 = product.kept.back().scalar_type() == at::kBFloat16;
  }
  if (epilogue.residual.defined()) {
    const at::Tensor residual = with_plain_rows(readable(epilogue.residual), product);
    product.kept.push_back(residual);
    finish.residual = residual.const_data_ptr();
    finish.residual_stride = residual.stride(0);
    finish.residual_is_bf16 = residual.scalar_type() == at::kBFloat16;
  }
  cut(product);
}

}  // namespace

void gemms_bf16(std::span<const Gemm* const> calls) {
  std::vector<Product> products(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) prepare(products[i], *calls[i]);
  run(products);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (products[i].written.defined()) calls[i]->out.copy_(products[i].written);
  }
}

void add_outer_bf16(const at::Tensor& out, const at::Tensor& left, const at::Tensor& right) {
  Product product;
  const at::Tensor rows = left.t().contiguous();  // [R, T], small
  const at::Tensor columns = with_plain_rows(right, product);
  const int64_t r = out.size(0);
  const int64_t depth = left.size(0);
  const Matrix matrix{.a = bits(rows),
                      .w = bits(columns),
                      .a_stride = rows.stride(0),
                      .w_stride = columns.stride(0),
                      .depth = depth,
                      .forward = false};
  float* to = out.mutable_data_ptr<float>();
  const int64_t panels = blocks_of(out.size(1), kWide);
  const int64_t threads = std::min(panels, threads_for(2.0 * static_cast<double>(r * depth * panels * kWide),
                                                       2.0 * static_cast<double>(depth * out.size(1))));
  constexpr int64_t kOuterDepth = 256;  // of right's rows: 16 KB, for L1
  in_team(panels, threads, [&](int64_t panel, int64_t) {
    const int64_t column = panel * kWide;
    const int64_t n = std::min(kWide, out.size(1) - column);
    Bf16* packed = panel_scratch.at_least(kOuterDepth * kWide);
    float* sums = sum_scratch.at_least(r * kWide);
    for (int64_t t = 0; t < depth; t += kOuterDepth) {
      const int64_t k = std::min(kOuterDepth, depth - t);
      kernels::pack_columns(matrix.w + t * matrix.w_stride + column, matrix.w_stride, n, k, true, packed);
      const kernels::Slice slice{
          .a = matrix.a + t, .a_stride = matrix.a_stride, .panels = packed, .panel_stride = 0, .k = k};
      kernels::multiply_block(&slice, 1, r, n, sums, kWide, t == 0, nullptr, nullptr);
    }
    for (int64_t i = 0; i < r; ++i) {
      for (int64_t j = 0; j < n; ++j)
        to[i * out.stride(0) + (column + j) * out.stride(1)] += sums[i * kWide + j];
    }
  });
}

}  // namespace hone::ops
