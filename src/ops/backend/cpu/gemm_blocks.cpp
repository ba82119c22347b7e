#include "ops/backend/cpu/gemm_blocks.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "ops/backend/cpu/gemm_kernels.h"
#include "ops/backend/cpu/level.h"
#include "ops/backend/cpu/quantized_kernels.h"
#include "ops/backend/cpu/quantized_panels.h"
#include "ops/backend/weight_memory.h"
#include "ops/machine/team.h"

namespace hone::ops {
namespace {

using kernels::Bf16;
using kernels::GemmForm;
using kernels::GemmKernels;
using kernels::Word;
using kernels::words_of;
using std::int64_t;

constexpr int64_t kWide = kernels::kPanelWide;
constexpr int64_t kOuterColumns = 256;  // of a sum of outer products, at once
constexpr int64_t kFewColumns = 256;    // of a block of few rows
constexpr int64_t kStepMore = 128;      // a step: GemmKernels::step_depth and a LoRA term
constexpr int64_t kRows = 1024;         // of a block, when its sums rest between steps
// Few rows read each panel from memory once, in order. Beyond what a core's own prefetcher does: 16 KB ahead
// a core with 8 rows reached 28 GB/s, which is all that it can multiply, instead of 26.
constexpr int64_t kAhead = 16 << 10;
constexpr int64_t kBandRows = 16;         // even: a word may hold two of them
constexpr int64_t kPartBytes = 96 << 10;  // of panels in memory, of a unit of work

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

thread_local Scratch<Word> panel_scratch;
thread_local Scratch<std::byte> row_scratch;
thread_local Scratch<Word> dequantized_scratch;
thread_local Scratch<float> sum_scratch;

// The kernels take words of 32 bits for float32's, and pairs of numbers of 16 bits for words.
const Bf16* halves(const void* words) {
  return static_cast<const Bf16*>(words);
}

int64_t padded_words(int64_t k, bool is_float) {
  return words_of(blocks_of(k, kernels::kTileDepth) * kernels::kTileDepth, is_float);
}

// Zeros behind a panel of k numbers, up to padded_words.
void pad(Word* panel, int64_t k, bool is_float) {
  std::fill(panel + words_of(k, is_float) * kWide, panel + padded_words(k, is_float) * kWide, Word{0});
}

// One matrix as the kernels see it; strides in numbers, of packed ones in words.
struct Matrix {
  const GemmKernels* kernels = nullptr;
  bool is_float = false;
  const void* a = nullptr;
  const void* w = nullptr;  // rows, or panels
  int64_t a_stride = 0, w_stride = 0;
  int64_t depth = 0;
  bool packed = false, forward = true;
  std::optional<kernels::QuantizedView> quantized = {};  // in rows
  std::optional<kernels::PanelView> codes = {};          // quantized, in panels
  int64_t first_panel = 0;                               // of the codes
  void (*unpack)(const kernels::PanelView&, const kernels::Unpack&) = nullptr;
  bool reads_codes = false;  // few rows, straight from the codes

  int64_t size() const { return is_float ? 4 : 2; }
  const void* a_at(int64_t row, int64_t k) const {
    return static_cast<const char*>(a) + (row * a_stride + k) * size();
  }
  const void* w_at(int64_t row, int64_t column) const {
    return static_cast<const char*>(w) + (row * w_stride + column) * size();
  }
  const Word* panels_at(int64_t panel, int64_t begin) const {
    return static_cast<const Word*>(w) + panel * w_stride + words_of(begin, is_float) * kWide;
  }
  // Slices of k begin at multiples of this.
  int64_t unit() const { return quantized || codes ? 2 * kWide : kWide; }
  bool is_read_in_place() const { return (packed && forward) || reads_codes; }
  // The panel of columns [column, column + n), k in [begin, begin + k).
  void make_panel(int64_t column, int64_t n, int64_t begin, int64_t k, Word* panel) const {
    if (codes) {
      unpack_codes(column, n, begin, k, panel);
    } else if (quantized) {
      make_quantized_panel(*quantized, column, n, begin, k, panel);
    } else if (packed) {
      repack(column, n, begin, k, panel);
    } else if (forward) {
      pack_rows(w_at(column, begin), w_stride, n, k, panel);
    } else {
      pack_columns(w_at(begin, column), w_stride, n, k, false, panel);
    }
  }
  // The panels of columns [column, column_end), `stride` words apart. Columns of rows that lie behind each other are packed by
  // bands, which read each row's numbers in order: a panel at a time would touch one cache line of every row.
  void make_panels(int64_t column, int64_t column_end, int64_t begin, int64_t k, Word* to,
                   int64_t stride) const {
    const bool in_bands = !codes && !quantized && !packed && !forward;
    const int64_t band = in_bands ? kBandRows : k;
    for (int64_t row = 0; row < k; row += band) {
      Word* panel = to + words_of(row, is_float) * kWide;
      for (int64_t at = column; at < column_end; at += kWide, panel += stride) {
        const int64_t n = std::min(kWide, column_end - at), rows = std::min(band, k - row);
        if (in_bands) {
          pack_columns(w_at(begin + row, at), w_stride, n, rows, at + kWide < column_end, panel);
        } else {
          make_panel(at, n, begin, k, panel);
        }
      }
    }
    for (Word* panel = to; column < column_end; column += kWide, panel += stride) pad(panel, k, is_float);
  }
  void pack_columns(const void* from, int64_t stride, int64_t n, int64_t k, bool next, Word* panel) const {
    if (!is_float) {
      kernels->pack_columns(halves(from), stride, n, k, next, panel);
      return;
    }
    const auto* row = static_cast<const float*>(from);
    for (int64_t i = 0; i < k; ++i, row += stride, panel += kWide) {
      if (n == kWide) {
        std::memcpy(panel, row, kWide * sizeof *row);
      } else {
        std::memcpy(panel, row, static_cast<std::size_t>(n) * sizeof *row);
        std::memset(panel + n, 0, static_cast<std::size_t>(kWide - n) * sizeof *row);
      }
    }
  }

 private:
  void pack_rows(const void* from, int64_t stride, int64_t n, int64_t k, Word* panel) const {
    const int64_t numbers = is_float ? 2 : 1;  // of 16 bits
    kernels->pack_rows(halves(from), numbers * stride, n, numbers * k, panel);
  }

  void repack(int64_t column, int64_t n, int64_t begin, int64_t k, Word* panel) const {
    const Word* const from = static_cast<const Word*>(w) + begin / kWide * w_stride;
    if (!is_float) {
      kernels->repack(from, w_stride, column / 2, n, k, panel);
      return;
    }
    for (int64_t row = 0; row < k; row += kWide) {  // a square of a panel of W, transposed
      const Word* const square = from + row / kWide * w_stride + column * kWide;
      pack_rows(square, kWide, n, std::min(kWide, k - row), panel + row * kWide);
    }
  }

  // The other way, squares of 32 x 32 of each panel of rows are unpacked, then turned.
  void unpack_codes(int64_t column, int64_t n, int64_t begin, int64_t k, Word* panel) const {
    if (forward) {
      unpack(*codes, {first_panel + column / kWide, begin, k, is_float, panel});
      return;
    }
    const int64_t size = words_of(kWide, is_float) * kWide;
    Word* const squares = dequantized_scratch.at_least(k * kWide);
    for (int64_t row = 0; row < k; row += kWide) {
      Word* const square = squares + row / kWide * size;
      unpack(*codes, {first_panel + (begin + row) / kWide, column, kWide, is_float, square});
      if (is_float) pack_rows(square, kWide, n, kWide, panel + row * kWide);
    }
    if (!is_float) kernels->repack(squares, size, 0, n, k, panel);
  }

  void make_quantized_panel(const kernels::QuantizedView& view, int64_t column, int64_t n, int64_t begin,
                            int64_t k, Word* panel) const {
    const auto dequantize = [&](auto* to) {
      if (forward) {
        for (int64_t i = 0; i < n; ++i) {
          kernels::dequantize_run(view, (column + i) * view.in + begin, k, to + i * k);
        }
        pack_rows(to, k, n, k, panel);
      } else {
        for (int64_t i = 0; i < k; ++i) {
          kernels::dequantize_run(view, (begin + i) * view.in + column, n, to + i * kWide);
        }
        pack_columns(to, kWide, n, k, false, panel);
      }
    };
    Word* const rows = dequantized_scratch.at_least(k * kWide);
    is_float ? dequantize(reinterpret_cast<float*>(rows)) : dequantize(reinterpret_cast<Bf16*>(rows));
  }
};

struct Cut {
  const Matrix* matrix = nullptr;
  int64_t begin = 0, k = 0;
  bool ends_step = false;
};

struct Product {
  const GemmKernels* kernels = nullptr;
  bool is_float = false;
  std::vector<at::Tensor> kept;  // rows that had to be copied
  at::Tensor written;            // instead of an `out` of other strides
  std::vector<Matrix> matrices;
  std::vector<Cut> cuts;
  int64_t rows = 0, columns = 0;
  int64_t in_place_words = 0;  // of k that are read where they lie
  int64_t panel_words = 0;     // of k that a step packs, at most
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
  const GemmKernels& kernels = *product.kernels;
  const bool few = product.rows <= kernels.few_rows();
  int64_t in_step = 0, packed_in_step = 0;
  for (const Matrix& matrix : product.matrices) {
    const bool whole = few && matrix.is_read_in_place();
    const int64_t count =
        whole && kernels.form != GemmForm::kFma ? 1 : blocks_of(matrix.depth, kernels.depth);
    const int64_t size =
        count == 0 ? 0 : blocks_of(blocks_of(matrix.depth, count), matrix.unit()) * matrix.unit();
    for (int64_t begin = 0; begin < matrix.depth; begin += size) {
      const int64_t k = std::min(size, matrix.depth - begin);
      const int64_t counted = whole ? 0 : blocks_of(k, kWide) * kWide;
      if (!product.cuts.empty() && in_step + counted > kernels.step_depth + kStepMore) {
        product.cuts.back().ends_step = true;
        in_step = packed_in_step = 0;
      }
      in_step += counted;
      if (!matrix.is_read_in_place())
        packed_in_step += words_of(blocks_of(k, kWide) * kWide, matrix.is_float);
      product.panel_words = std::max(product.panel_words, packed_in_step);
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
bool crowded(const GemmKernels& kernels, const kernels::Block& block) {
  if (block.rows <= kernels.few_rows() || block.columns < 2 * kWide || block.count > kernels::kMaxSlices)
    return false;
  return std::any_of(block.slices, block.slices + block.count,
                     [](const kernels::Slice& s) { return s.a_stride % 1024 == 0 && s.k >= 256; });
}

void multiply(const GemmKernels& kernels, kernels::Block block) {
  if (kernels.form == GemmForm::kAmx && has_codes(block)) {
    block.row_scratch = row_scratch.at_least(kernels::coded_scratch_bytes_amx(block));
    kernels::multiply_coded_block_amx(block);
    return;
  }
  if (kernels.form != GemmForm::kDot || crowded(kernels, block)) {
    block.row_scratch = row_scratch.at_least(kernels.scratch_bytes(block));
  }
  kernels.multiply_block(block);
}

// Between rows of sums: a line more, so that they do not share a few sets of L1.
int64_t sums_stride(const GemmKernels& kernels) {
  return kernels.block_columns + 16;
}

// Rows [row, row_end) of columns [column, column_end), at most block_columns of them.
void run_block(const Product& product, int64_t row, int64_t row_end, int64_t column, int64_t column_end) {
  const int64_t columns = column_end - column;
  const int64_t panels = blocks_of(columns, kWide);
  const int64_t block_rows = product.steps > 1 ? std::min(kRows, row_end - row) : row_end - row;
  Word* packed = panel_scratch.at_least(product.panel_words * panels * kWide);
  float* sums =
      product.steps > 1 ? sum_scratch.at_least(block_rows * sums_stride(*product.kernels)) : nullptr;
  std::vector<kernels::Slice> slices;
  for (; row < row_end; row += block_rows) {
    const int64_t n = std::min(block_rows, row_end - row);
    const kernels::Finish finish = moved(product.finish, row, column);
    bool first = true;
    Word* to = packed;
    for (const Cut& c : product.cuts) {
      const Matrix& matrix = *c.matrix;
      kernels::Slice slice{.a = matrix.a_at(row, c.begin), .a_stride = matrix.a_stride, .k = c.k};
      if (matrix.is_read_in_place()) {
        if (matrix.reads_codes) {
          slice.codes = &*matrix.codes;
          slice.first_panel = matrix.first_panel + column / kWide;
          slice.begin = c.begin;
        } else {
          slice.panels = matrix.panels_at(column / kWide, c.begin);
          slice.panel_stride = matrix.w_stride;
        }
        if (product.rows <= product.kernels->few_rows() || product.kernels->form == GemmForm::kAmx)
          slice.ahead = kAhead;
      } else {
        slice.panels = to;
        slice.panel_stride = padded_words(c.k, matrix.is_float) * kWide;
        slice.padded = true;
        matrix.make_panels(column, column_end, c.begin, c.k, to, slice.panel_stride);
        to += panels * slice.panel_stride;
      }
      slices.push_back(slice);
      if (!c.ends_step) continue;
      multiply(*product.kernels, {.slices = slices.data(),
                                  .count = static_cast<int>(slices.size()),
                                  .is_float = product.is_float,
                                  .rows = n,
                                  .columns = columns,
                                  .sums = sums,
                                  .sums_stride = sums_stride(*product.kernels),
                                  .first = first,
                                  .finish = &c == &product.cuts.back() ? &finish : nullptr});
      first = false;
      slices.clear();
      to = packed;
    }
  }
}

// Of one thread, about: at 18 GB/s or the kernel's rate.
double seconds_of(const GemmKernels& kernels, double flop, double bytes) {
  return std::max(flop / kernels.flops, bytes / 18e9);
}

// How many threads are worth calling: each must have some 4 us of work.
int64_t threads_for(double seconds) {
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

// Few rows pass panels once: there is nothing that should stay in L2.
int64_t columns_at_once(const Product& product) {
  const GemmKernels& kernels = *product.kernels;
  return product.rows <= kernels.few_rows() ? std::min(kFewColumns, kernels.block_columns)
                                            : kernels.block_columns;
}

// Columns are the better cut: each panel is packed once. Rows serve when there are few panels.
void add_units(std::vector<Unit>& units, const Product& product, int64_t threads, int64_t together) {
  const int64_t panels = blocks_of(product.columns, kWide);
  const int64_t row_blocks = blocks_of(product.rows, product.kernels->tile_rows);
  const bool by_rows = together == 1 && balance(panels, threads) < 0.9 &&
                       balance(row_blocks, threads) > balance(panels, threads);
  const auto share = [](int64_t n, int64_t part, int64_t parts) { return n * part / parts; };
  int64_t column_parts = blocks_of(panels, columns_at_once(product) / kWide);
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
  if (product.rows <= product.kernels->few_rows() && threads > 1) {
    const int64_t bytes = std::max<int64_t>(1, product.in_place_words * kWide * 4);
    column_parts = std::max(column_parts, blocks_of(panels, std::max<int64_t>(1, kPartBytes / bytes)));
  }
  column_parts = std::min(panels, blocks_of(column_parts, threads) * threads);
  for (int64_t part = 0; part < column_parts; ++part) {
    units.push_back({&product, 0, product.rows, share(panels, part, column_parts) * kWide,
                     std::min(product.columns, share(panels, part + 1, column_parts) * kWide)});
  }
}

void run(std::span<const Product> products) {
  double seconds = 0;
  for (const Product& product : products) {
    const int64_t panels = blocks_of(product.columns, kWide);
    double flop = 0, bytes = 0;
    for (const Matrix& matrix : product.matrices) {
      const auto k = static_cast<double>(matrix.depth);
      flop += 2.0 * k * static_cast<double>(product.rows * panels * kWide);
      bytes += static_cast<double>(matrix.size()) * k * static_cast<double>(product.columns) *
               (matrix.is_read_in_place() ? 1 : 2);
    }
    seconds += seconds_of(*product.kernels, flop, bytes);
  }
  const int64_t threads = threads_for(seconds);
  std::vector<Unit> units;
  for (const Product& product : products) {
    add_units(units, product, threads, static_cast<int64_t>(products.size()));
  }
  in_team(static_cast<int64_t>(units.size()), threads, [&](int64_t i, int64_t) {
    const Unit& unit = units[static_cast<std::size_t>(i)];
    run_block(*unit.product, unit.row, unit.row_end, unit.column, unit.column_end);
  });
}

// Of products straight from codes.
int64_t most_coded_rows(const GemmKernels& kernels) {
  return kernels.form == GemmForm::kAmx ? kernels::kAmxCodedRows : kernels::kCodedRows;
}

void prepare(Product& product, const Gemm& call) {
  const auto& [out, terms, epilogue] = call;
  product.rows = out.size(0);
  product.columns = out.size(1);
  product.is_float = terms.front().a.scalar_type() == at::kFloat;
  product.kernels = gemm_kernels(terms.front().a.scalar_type());
  product.matrices.reserve(terms.size());
  for (const GemmTerm& term : terms) {
    const Weight& weight = *term.weight;
    const at::Tensor a = with_plain_rows(term.a, product);
    Matrix matrix{.kernels = product.kernels,
                  .is_float = product.is_float,
                  .a = a.const_data_ptr(),
                  .a_stride = a.stride(0),
                  .packed = weight.is_packed(),
                  .forward = term.side == GemmDirection::kForward};
    if (weight.is_quantized() && weight.quantized().layout == &cpu::kPanelCodes) {
      matrix.codes = panel_view(weight.quantized());
      matrix.first_panel = weight.first_row() / kWide;
      matrix.unpack = level_kernels().unpack_panel;
      matrix.reads_codes =
          matrix.forward && matrix.codes->is_tame && product.rows <= most_coded_rows(*product.kernels);
    } else if (weight.is_quantized()) {
      matrix.quantized = view_of(weight.quantized());
    } else {
      matrix.w = (matrix.packed ? WeightMemory::packed(weight) : weight.plain()).const_data_ptr();
      matrix.w_stride =
          matrix.packed ? words_of(weight.in(), product.is_float) * kWide : weight.plain().stride(0);
    }
    matrix.depth = matrix.forward ? weight.in() : weight.out();
    if (matrix.is_read_in_place()) product.in_place_words += words_of(matrix.depth, product.is_float);
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

const kernels::GemmKernels* gemm_kernels(at::ScalarType dtype) {
  if (dtype == at::kBFloat16) return level_kernels().gemm_bf16;
  return dtype == at::kFloat ? level_kernels().gemm_float : nullptr;
}

void gemms_in_blocks(std::span<const Gemm* const> calls) {
  std::vector<Product> products(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) prepare(products[i], *calls[i]);
  run(products);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (products[i].written.defined()) calls[i]->out.copy_(products[i].written);
  }
}

at::Tensor transposed(const at::Tensor& x) {
  const GemmKernels* const kernels = gemm_kernels(x.scalar_type());
  if (x.scalar_type() != at::kBFloat16 || kernels == nullptr || kernels->transpose == nullptr ||
      x.stride(1) != 1) {
    return x.t().contiguous();
  }
  const int64_t rows = x.size(0), columns = x.size(1);
  at::Tensor out = at::empty({columns, rows}, x.options());
  const auto* const from = static_cast<const Bf16*>(x.const_data_ptr());
  auto* const to = static_cast<Bf16*>(out.mutable_data_ptr());
  constexpr int64_t kPart = 128;  // columns at once
  const int64_t parts = blocks_of(columns, kPart);
  in_team(parts, threads_for(static_cast<double>(2 * x.numel()) / 4e9), [&](int64_t part, int64_t) {
    const int64_t column = part * kPart;
    kernels->transpose(from + column, x.stride(0), rows, std::min(kPart, columns - column),
                       to + column * rows, rows);
  });
  return out;
}

namespace {

// One add_outer(): its sum over t is a matrix product of few rows.
struct OuterProduct {
  at::Tensor out, rows, columns;  // [R, N] fp32; left as [R, T]; right
  Matrix matrix;
  int64_t panels = 0;

  explicit OuterProduct(const Outer& call) : out(call.out), rows(call.left.t().contiguous()) {
    Product holder;
    columns = with_plain_rows(call.right, holder);
    matrix = {.kernels = gemm_kernels(call.left.scalar_type()),
              .is_float = call.left.scalar_type() == at::kFloat,
              .a = rows.const_data_ptr(),
              .w = columns.const_data_ptr(),
              .a_stride = rows.stride(0),
              .w_stride = columns.stride(0),
              .depth = call.left.size(0),
              .forward = false};
    panels = blocks_of(out.size(1), kWide);
  }

  double seconds() const {
    const double flop = 2.0 * static_cast<double>(out.size(0) * matrix.depth * panels * kWide);
    return seconds_of(*matrix.kernels, flop, static_cast<double>(matrix.size() * matrix.depth * out.size(1)));
  }

  // Adds the columns of `count` panels, at most kOuterColumns / kWide, from this panel on.
  void add(int64_t panel, int64_t count) const {
    constexpr int64_t kOuterDepth = 256;  // of right's rows: a panel is 16 KB, for L1
    const int64_t column = panel * kWide, r = out.size(0), depth = matrix.depth;
    const int64_t column_end = std::min(out.size(1), column + count * kWide), n = column_end - column;
    const int64_t stride = padded_words(kOuterDepth, matrix.is_float) * kWide;
    Word* packed = panel_scratch.at_least(stride * count);
    const int64_t sum_stride = sums_stride(*matrix.kernels);
    float* sums = sum_scratch.at_least(r * sum_stride);
    for (int64_t t = 0; t < depth; t += kOuterDepth) {
      const int64_t k = std::min(kOuterDepth, depth - t);
      matrix.make_panels(column, column_end, t, k, packed, stride);
      const kernels::Slice slice{.a = matrix.a_at(0, t),
                                 .a_stride = matrix.a_stride,
                                 .panels = packed,
                                 .panel_stride = stride,
                                 .k = k,
                                 .padded = true};
      multiply(*matrix.kernels, {.slices = &slice,
                                 .count = 1,
                                 .is_float = matrix.is_float,
                                 .rows = r,
                                 .columns = n,
                                 .sums = sums,
                                 .sums_stride = sum_stride,
                                 .first = t == 0});
    }
    float* const to = out.mutable_data_ptr<float>();
    for (int64_t i = 0; i < r; ++i) {
      for (int64_t j = 0; j < n; ++j)
        to[i * out.stride(0) + (column + j) * out.stride(1)] += sums[i * sum_stride + j];
    }
  }
};

// Panels [first, first + count) of a product.
struct OuterUnit {
  const OuterProduct* product = nullptr;
  int64_t first = 0, count = 0;
};

}  // namespace

void add_outers_in_blocks(std::span<const Outer* const> calls) {
  std::vector<OuterProduct> products;
  products.reserve(calls.size());
  double seconds = 0;
  int64_t panels = 0;
  for (const Outer* const call : calls) {
    const OuterProduct& product = products.emplace_back(*call);
    seconds += product.seconds();
    panels += product.panels;
  }
  // Neighboring panels read the same rows; but each thread should have some units.
  const int64_t threads = threads_for(seconds);
  const int64_t together = std::clamp<int64_t>(panels / (4 * threads), 1, kOuterColumns / kWide);
  std::vector<OuterUnit> units;
  for (const OuterProduct& product : products) {
    for (int64_t first = 0; first < product.panels; first += together) {
      units.push_back({&product, first, std::min(together, product.panels - first)});
    }
  }
  const auto count = static_cast<int64_t>(units.size());
  in_team(count, std::min(count, threads), [&](int64_t i, int64_t) {
    const OuterUnit& unit = units[static_cast<std::size_t>(i)];
    unit.product->add(unit.first, unit.count);
  });
}

}  // namespace hone::ops
