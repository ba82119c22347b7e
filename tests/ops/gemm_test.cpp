#include "ops/gemm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <deque>
#include <optional>

#include "base/error.h"
#include "base/process/instruction_level.h"

namespace hone::ops {
namespace gemm_test {

// Levels with kernels of ours, one after the other: what they promise holds at each that this machine has.
class AtEachLevel {
 public:
  // body(dtype) at each level and dtype that has kernels.
  template <typename Body>
  static void run(const Body& body) {
    bool any = false;
    for (const base::InstructionLevel level : base::kInstructionLevels) {
      if (level == base::InstructionLevel::kPlain || !base::machine_has(level)) continue;
      const base::ForceInstructionLevel force(level);
      for (const at::ScalarType dtype : {at::kBFloat16, at::kFloat}) {
        SCOPED_TRACE(testing::Message() << name_of(level) << " " << dtype);
        body(dtype);
        any = true;
      }
    }
    if (!any) GTEST_SKIP() << "no avx2 here";
  }
};

// A term of given depth and side; `packed` when this machine can.
struct Terms {
  std::deque<Weight> weights;
  std::vector<GemmTerm> terms;

  void add(std::int64_t rows, std::int64_t depth, std::int64_t columns, GemmDirection side, bool packed,
           at::ScalarType dtype) {
    const bool forward = side == GemmDirection::kForward;
    const at::Tensor w = (at::randn({forward ? columns : depth, forward ? depth : columns}) * 0.25).to(dtype);
    weights.push_back(packed ? Weight::packed_where_possible(w) : Weight(w));
    terms.push_back({at::randn({rows, depth}).to(dtype), &weights.back(), side});
  }
};

at::Tensor exact(std::span<const GemmTerm> terms, const Epilogue& epilogue = {}) {
  at::Tensor sum;
  for (const GemmTerm& term : terms) {
    const at::Tensor w = term.weight->dense().to(at::kDouble);
    const at::Tensor product =
        term.a.to(at::kDouble).matmul(term.side == GemmDirection::kForward ? w.t() : w);
    sum = sum.defined() ? sum + product : product;
  }
  sum = sum * epilogue.scale;
  if (epilogue.bias.defined()) sum = sum + epilogue.bias.to(at::kDouble);
  if (epilogue.residual.defined()) sum = sum + epilogue.residual.to(at::kDouble);
  return sum;
}

// Largest difference relative to the largest element.
double error_of(const at::Tensor& found, const at::Tensor& expected) {
  if (found.numel() == 0) return 0;
  const double size = std::max(1.0, expected.abs().max().item<double>());
  return (found.to(at::kDouble) - expected).abs().max().item<double>() / size;
}

double tolerance(at::ScalarType in, at::ScalarType out) {
  return in == at::kFloat && out == at::kFloat ? 1e-5 : 8e-3;  // bf16: half a unit in the last place is 2^-9
}

at::Tensor product_of(std::span<const GemmTerm> terms, std::int64_t columns, at::ScalarType dtype,
                      const Epilogue& epilogue = {}) {
  // Poisoned: what is not written shows.
  at::Tensor out = at::full({terms[0].a.size(0), columns}, std::nan(""), dtype);
  gemm(out, terms, epilogue);
  return out;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && at::equal(a, b);
}

struct Shape {
  std::int64_t rows, depth, columns;
};

constexpr Shape kShapes[] = {{1, 1, 1},     {1, 2, 16},     {2, 3, 17},     {3, 8, 33},     {5, 16, 40},
                             {13, 31, 8},   {14, 64, 16},   {15, 33, 31},   {16, 100, 96},  {28, 7, 130},
                             {29, 895, 70}, {100, 65, 5},   {47, 1025, 33}, {31, 2300, 50}, {1, 4865, 63},
                             {30, 1, 300},  {1030, 1200, 9}};

// The kernel's own sums, in fp32 to fp32 rounding: far below what a rounding to bf16 would leave.
TEST(Gemm, SumsTermsInFp32) {
  AtEachLevel::run([](at::ScalarType dtype) {
    for (const auto& [rows, columns] : {std::pair{1, 70}, {9, 16}, {33, 300}, {64, 8}}) {
      at::manual_seed(2);
      Terms t;
      t.add(rows, 896, columns, GemmDirection::kForward, true, dtype);
      t.add(rows, 16, columns, GemmDirection::kForward, false, dtype);
      t.add(rows, 2049, columns, GemmDirection::kBackward, true, dtype);
      t.add(rows, 7, columns, GemmDirection::kBackward, false, dtype);
      EXPECT_LT(error_of(product_of(t.terms, columns, at::kFloat), exact(t.terms)), 3e-6)
          << rows << "x" << columns;
    }
  });
}

TEST(Gemm, AChainOfFmaIsItsDefinition) {
  if (!base::machine_has(base::InstructionLevel::kAvx2)) GTEST_SKIP() << "no avx2 here";
  const base::ForceInstructionLevel force(base::InstructionLevel::kAvx2);
  for (const at::ScalarType dtype : {at::kBFloat16, at::kFloat}) {
    at::manual_seed(10);
    Terms t;
    t.add(7, 700, 40, GemmDirection::kForward, true, dtype);
    t.add(7, 8, 40, GemmDirection::kForward, false, dtype);
    const at::Tensor found = product_of(t.terms, 40, at::kFloat);
    for (const std::int64_t row : {0, 6}) {
      for (const std::int64_t column : {0, 17, 39}) {
        float sum = 0;
        for (const GemmTerm& term : t.terms) {
          const at::Tensor a = term.a[row].to(at::kFloat), w = term.weight->dense()[column].to(at::kFloat);
          for (std::int64_t k = 0; k < a.size(0); ++k)
            sum = std::fma(a[k].item<float>(), w[k].item<float>(), sum);
        }
        EXPECT_EQ(found[row][column].item<float>(), sum) << dtype;
      }
    }
  }
}

// Groups of 32 numbers of k, from the start of each term: their even ones, their odd ones, the sum of both.
TEST(Gemm, AChainOfAmxIsItsDefinition) {
  if (!base::machine_has(base::InstructionLevel::kAmx)) GTEST_SKIP() << "no amx here";
  const base::ForceInstructionLevel force(base::InstructionLevel::kAmx);
  at::manual_seed(10);
  Terms t;
  for (const std::int64_t depth : {2500, 9, 64})
    t.add(40, depth, 70, GemmDirection::kForward, depth != 9, at::kBFloat16);
  const at::Tensor found = product_of(t.terms, 70, at::kFloat);
  for (const std::int64_t row : {0, 15, 16, 39}) {
    for (const std::int64_t column : {0, 17, 31, 69}) {
      float sum = 0;
      for (const GemmTerm& term : t.terms) {
        const at::Tensor a = term.a[row].to(at::kFloat), w = term.weight->dense()[column].to(at::kFloat);
        const float *const left = a.const_data_ptr<float>(), *const right = w.const_data_ptr<float>();
        for (std::int64_t group = 0; group < a.size(0); group += 32) {
          float part[2] = {0, 0};
          for (std::int64_t k = group; k < std::min(group + 32, a.size(0)); ++k)
            part[k % 2] = std::fma(left[k], right[k], part[k % 2]);
          sum += part[0] + part[1];
        }
      }
      EXPECT_EQ(found[row][column].item<float>(), sum) << row << ", " << column;
    }
  }
}

TEST(Gemm, AppliesScaleBiasAndResidualInThisOrder) {
  for (const base::InstructionLevel level : base::kInstructionLevels) {
    if (!base::machine_has(level)) continue;
    const base::ForceInstructionLevel force(level);
    for (const at::ScalarType dtype : {at::kBFloat16, at::kFloat}) {
      for (const at::ScalarType out : {at::kBFloat16, at::kFloat}) {
        for (const at::ScalarType bias : {at::kBFloat16, at::kFloat, at::kHalf}) {
          for (const at::ScalarType residual : {at::kBFloat16, at::kFloat}) {
            for (int parts = 0; parts < 8; ++parts) {
              at::manual_seed(3);
              Terms t;
              t.add(17, 40, 45, GemmDirection::kForward, true, dtype);
              t.add(17, 8, 45, GemmDirection::kForward, false, dtype);
              Epilogue e;
              if ((parts & 1) != 0) e.scale = 0.375;
              if ((parts & 2) != 0) e.bias = at::randn({45}).to(bias);
              if ((parts & 4) != 0) e.residual = (at::randn({17, 45}) * 9).to(residual);
              EXPECT_LT(error_of(product_of(t.terms, 45, out, e), exact(t.terms, e)), tolerance(dtype, out))
                  << name_of(level) << " " << dtype << " to " << out << " parts " << parts;
            }
          }
        }
      }
    }
  }
}

TEST(Gemm, AddsToAResidualThatIsTheOutputItself) {
  for (const base::InstructionLevel level : base::kInstructionLevels) {
    if (!base::machine_has(level)) continue;
    const base::ForceInstructionLevel force(level);
    for (const at::ScalarType dtype : {at::kBFloat16, at::kFloat}) {
      at::manual_seed(4);
      Terms t;
      t.add(20, 1100, 77, GemmDirection::kForward, true, dtype);
      at::Tensor out = (at::randn({20, 100}) * 9).to(dtype).narrow(1, 3, 77);
      const at::Tensor expected = exact(t.terms, {.residual = out.clone()});
      gemm(out, t.terms, {.residual = out});
      EXPECT_LT(error_of(out, expected), tolerance(dtype, dtype)) << name_of(level) << " " << dtype;
    }
  }
}

// What lies beyond a matrix, even right behind its last element, is never part of a product.
TEST(Gemm, ReadsNothingBeyondItsMatrices) {
  const float nan = std::nanf("");
  AtEachLevel::run([&](at::ScalarType dtype) {
    for (const Shape& s : kShapes) {
      for (const GemmDirection side : {GemmDirection::kForward, GemmDirection::kBackward}) {
        const bool forward = side == GemmDirection::kForward;
        const auto inside = [&](std::int64_t rows, std::int64_t columns) {
          const at::Tensor frame = at::full({rows + 2, columns + 40}, nan, dtype);
          at::Tensor middle = frame.narrow(0, 1, rows).narrow(1, 3, columns);
          middle.copy_(at::randn({rows, columns}));
          return middle;
        };
        const Weight w(inside(forward ? s.columns : s.depth, forward ? s.depth : s.columns));
        const std::vector<GemmTerm> terms{{inside(s.rows, s.depth), &w, side}};
        const at::Tensor found = product_of(terms, s.columns, at::kFloat);
        EXPECT_LT(error_of(found, exact(terms)), 1e-5) << s.rows << "x" << s.depth << "x" << s.columns;
        const Weight packed = Weight::packed_where_possible(w.plain());
        const std::vector<GemmTerm> same{{terms[0].a, &packed, side}};
        EXPECT_TRUE(same_bits(product_of(same, s.columns, at::kFloat), found));
      }
    }
  });
}

// The last element of a matrix lies before a page that may not be touched.
class Guarded {
 public:
  Guarded(std::int64_t rows, std::int64_t columns, at::ScalarType dtype) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const auto bytes = static_cast<std::size_t>(rows * columns) * c10::elementSize(dtype);
    const std::size_t usable = (bytes + page - 1) / page * page;
    size_ = usable + page;
    memory_ = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    base::require(memory_ != MAP_FAILED, "Guarded", "memory");
    ::mprotect(static_cast<char*>(memory_) + usable, page, PROT_NONE);
    matrix = at::from_blob(static_cast<char*>(memory_) + (usable - bytes), {rows, columns}, dtype);
    matrix.copy_(at::randn({rows, columns}));
  }
  ~Guarded() { ::munmap(memory_, size_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  at::Tensor matrix;

 private:
  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

TEST(Gemm, TouchesNoMemoryBehindItsMatrices) {
  AtEachLevel::run([](at::ScalarType dtype) {
    for (const Shape& s : kShapes) {
      const Guarded a(s.rows, s.depth, dtype);
      const Guarded forward(s.columns, s.depth, dtype);
      const Guarded backward(s.depth, s.columns, dtype);
      const Guarded bias(1, s.columns, dtype);
      const Guarded residual(s.rows, s.columns, dtype);
      const Guarded out(s.rows, s.columns, dtype);
      const Weight w(forward.matrix);
      const Weight v(backward.matrix);
      const std::vector<GemmTerm> terms{{a.matrix, &w, GemmDirection::kForward},
                                        {a.matrix, &v, GemmDirection::kBackward}};
      const Epilogue epilogue{.bias = bias.matrix[0], .residual = residual.matrix};
      gemm(out.matrix, terms, epilogue);
      EXPECT_LT(error_of(out.matrix, exact(terms, epilogue)), 2e-2);
      EXPECT_TRUE(at::equal(Weight::packed_where_possible(w.plain()).dense(), w.plain()));
      const at::Tensor sum = at::zeros({s.depth, s.columns});
      add_outer(sum, a.matrix, out.matrix);  // left [rows, depth], right [rows, columns]
      EXPECT_LT(error_of(sum, a.matrix.to(at::kDouble).t().matmul(out.matrix.to(at::kDouble))), 1e-4);
    }
  });
}

// Rows that crowd L1 are copied (gemm_blocks.cpp): the sums stay the same.
TEST(Gemm, RowsAPowerOfTwoApartHaveTheBitsOfOthers) {
  AtEachLevel::run([](at::ScalarType dtype) {
    const int threads = at::get_num_threads();
    for (const std::int64_t depth : {1023, 1024, 2048, 3072}) {
      for (const std::int64_t rows : {29, 45, 1040}) {
        at::manual_seed(8);
        Terms t;
        t.add(rows, depth, 100, GemmDirection::kForward, true, dtype);
        t.add(rows, 16, 100, GemmDirection::kForward, false, dtype);
        const auto restride = [&](const at::Tensor& x, std::int64_t stride) {
          at::Tensor wide = at::zeros({rows, stride}, dtype).narrow(1, 0, x.size(1));
          return wide.copy_(x);
        };
        std::vector<GemmTerm> crowded(t.terms);
        crowded[0].a = restride(t.terms[0].a, 4096);
        std::vector<GemmTerm> spread(t.terms);
        spread[0].a = restride(t.terms[0].a, 3072 + 96);
        for (const int n : {1, 2, 3}) {
          at::set_num_threads(n);
          const at::Tensor found = product_of(crowded, 100, at::kFloat);
          EXPECT_TRUE(same_bits(found, product_of(spread, 100, at::kFloat))) << rows << "x" << depth;
          EXPECT_LT(error_of(found, exact(crowded)), 4e-6);
        }
      }
    }
    at::set_num_threads(threads);
  });
}

// "The sampler is the trainer": all ways to the same row give the same bits.
TEST(Gemm, RowsDoNotDependOnOthersThreadsPackingOrStrides) {
  AtEachLevel::run([](at::ScalarType dtype) {
    const int threads = at::get_num_threads();
    constexpr std::int64_t kRows = 100;
    for (const std::int64_t columns : {8, 16, 40, 300, 1152}) {
      at::manual_seed(5);
      Terms packed;
      packed.add(kRows, 2500, columns, GemmDirection::kForward, true, dtype);
      packed.add(kRows, 16, columns, GemmDirection::kForward, true, dtype);
      packed.add(kRows, 333, columns, GemmDirection::kBackward, true, dtype);
      const Epilogue whole{
          .scale = 1.1, .bias = at::randn({columns}), .residual = at::randn({kRows, columns})};
      at::set_num_threads(2);
      const at::Tensor all = product_of(packed.terms, columns, at::kFloat, whole);
      Terms plain;
      Terms strided;
      for (const GemmTerm& term : packed.terms) {
        const at::Tensor dense = term.weight->dense();
        plain.weights.emplace_back(dense);
        plain.terms.push_back({term.a, &plain.weights.back(), term.side});
        const at::Tensor wide = at::cat({dense, dense}, 1).narrow(1, 0, dense.size(1));
        strided.weights.emplace_back(wide);
        const at::Tensor a = at::cat({term.a, term.a, term.a}, 1).narrow(1, term.a.size(1), term.a.size(1));
        strided.terms.push_back({a, &strided.weights.back(), term.side});
      }
      for (const int n : {1, 2, 3}) {
        at::set_num_threads(n);
        for (const Terms* form : {&packed, &plain, &strided}) {
          for (const std::int64_t rows : {1, 2, 3, 13, 14, 15, 16, 17, 28, 29, 32, 33, 100}) {
            const std::int64_t first = (kRows - rows) / 2;
            std::vector<GemmTerm> some(form->terms);
            for (GemmTerm& term : some) term.a = term.a.narrow(0, first, rows);
            const Epilogue epilogue{1.1, whole.bias, whole.residual.narrow(0, first, rows)};
            EXPECT_TRUE(
                same_bits(product_of(some, columns, at::kFloat, epilogue), all.narrow(0, first, rows)))
                << columns << " columns, " << rows << " rows, " << n << " threads, form " << (form - &packed);
            // ... and the bf16 output is the fp32 one, rounded.
            EXPECT_TRUE(
                same_bits(product_of(some, columns, dtype, epilogue), all.narrow(0, first, rows).to(dtype)));
          }
        }
      }
    }
    at::set_num_threads(threads);
  });
}

// The blocks of many rows (kRows in gemm_blocks.cpp) and of deep products are no part of the sum either.
TEST(Gemm, LargeProductsHaveTheBitsOfSmallOnes) {
  AtEachLevel::run([](at::ScalarType dtype) {
    at::manual_seed(6);
    Terms t;
    t.add(2100, 1300, 48, GemmDirection::kForward, false, dtype);
    const at::Tensor all = product_of(t.terms, 48, dtype);
    for (const std::int64_t row : {0, 1023, 1024, 1050, 2099}) {
      const std::vector<GemmTerm> one{
          {t.terms[0].a.narrow(0, row, 1), &t.weights[0], GemmDirection::kForward}};
      EXPECT_TRUE(same_bits(product_of(one, 48, dtype), all.narrow(0, row, 1))) << row;
    }
  });
}

TEST(Gemm, OfNoRowsOrNoDepthIsTheEpilogue) {
  for (const base::InstructionLevel level : base::kInstructionLevels) {
    if (!base::machine_has(level)) continue;
    const base::ForceInstructionLevel force(level);
    const at::Tensor empty_rows = at::empty({0, 5}, at::kBFloat16);
    const Weight w(at::ones({5, 4}, at::kBFloat16));
    gemm(empty_rows, std::vector<GemmTerm>{{at::empty({0, 4}, at::kBFloat16), &w}});
    const Weight no_depth(at::empty({5, 0}, at::kBFloat16));
    at::Tensor out = at::full({3, 5}, 2, at::kBFloat16);
    gemm(out, std::vector<GemmTerm>{{at::empty({3, 0}, at::kBFloat16), &no_depth}}, {.bias = at::ones({5})});
    EXPECT_TRUE(out.eq(1).all().item<bool>()) << name_of(level);
  }
}

TEST(Gemm, RefusesShapesAndDtypesThatDoNotMatch) {
  const Weight w(at::ones({5, 4}));
  at::Tensor out = at::empty({3, 5});
  const auto run = [&](const at::Tensor& a, GemmDirection side = GemmDirection::kForward,
                       const Epilogue& e = {}) { gemm(out, std::vector<GemmTerm>{{a, &w, side}}, e); };
  EXPECT_NO_THROW(run(at::ones({3, 4})));
  EXPECT_THROW(run(at::ones({2, 4})), base::InternalError);
  EXPECT_THROW(run(at::ones({3, 5})), base::InternalError);
  EXPECT_THROW(run(at::ones({3, 5}), GemmDirection::kBackward), base::InternalError);
  EXPECT_THROW(run(at::ones({3, 4}, at::kBFloat16)), base::InternalError);
  EXPECT_THROW(run(at::ones({3, 4}), GemmDirection::kForward, {.bias = at::ones({4})}), base::InternalError);
  EXPECT_THROW(run(at::ones({3, 4}), GemmDirection::kForward, {.residual = at::ones({3, 4})}),
               base::InternalError);
  EXPECT_THROW(gemm(out, {}), base::InternalError);
}

// A transposed view of [N, R] inside a larger buffer, for dB.
TEST(AddOuter, IntoATransposedViewHasTheSameBits) {
  AtEachLevel::run([](at::ScalarType dtype) {
    for (const auto& [t, r, n] : {std::tuple{1, 1, 1}, {3, 16, 33}, {77, 64, 100}, {513, 13, 64}}) {
      at::manual_seed(7);
      const at::Tensor left = at::randn({t, r}).to(dtype), right = at::randn({t, n}).to(dtype);
      at::Tensor out = at::randn({r, n});
      const at::Tensor buffer = at::full({n + 2, r + 4}, 5.0F);
      const at::Tensor view = buffer.narrow(0, 1, n).narrow(1, 2, r).t();
      view.copy_(out);
      add_outer(out, left, right);
      add_outer(view, left, right);
      EXPECT_TRUE(same_bits(out, view.contiguous()));
      EXPECT_EQ(buffer.eq(5).sum().item<std::int64_t>(), (n + 2) * (r + 4) - n * r);
    }
  });
}

// Shared out among the threads together, each has the bits of its own call.
TEST(AddOuter, SeveralHaveTheBitsOfEach) {
  const int threads = at::get_num_threads();
  for (const at::ScalarType dtype : {at::kBFloat16, at::kFloat}) {
    at::manual_seed(11);
    std::vector<Outer> all;
    std::vector<at::Tensor> expected;
    for (const auto& [t, r, n] :
         {std::tuple{300, 5, 31}, {1, 16, 64}, {0, 4, 6}, {77, 32, 100}, {513, 13, 64}}) {
      all.push_back({at::randn({r, n}), at::randn({t, r}).to(dtype), at::randn({t, n}).to(dtype)});
      expected.push_back(all.back().out.clone());
      add_outer(expected.back(), all.back().left, all.back().right);
    }
    at::set_num_threads(3);
    add_outers(all);
    at::set_num_threads(threads);
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(same_bits(all[i].out, expected[i])) << i;
  }
}

TEST(AddOuter, OfNoTokensChangesNothing) {
  at::Tensor out = at::ones({4, 6});
  add_outer(out, at::empty({0, 4}, at::kBFloat16), at::empty({0, 6}, at::kBFloat16));
  EXPECT_TRUE(out.eq(1).all().item<bool>());
}

}  // namespace gemm_test
}  // namespace hone::ops
