#include "ops/cases/case.h"
#include "ops/gemm.h"

#include <deque>

namespace hone::ops::cases {
namespace product_cases {

struct Term {
  std::int64_t depth;
  GemmDirection side;
  bool packed;
};

struct Product {
  std::int64_t rows, columns;
  std::vector<Term> terms;
  at::ScalarType in, out;
  bool epilogue;
  Layout layout;
};
using Shared = std::shared_ptr<const Product>;

at::Tensor left_of(const Product& p, std::size_t i) {
  return noise({p.rows, p.terms[i].depth}, 10 + i, p.in);
}
at::Tensor matrix_of(const Product& p, std::size_t i) {
  const Term& t = p.terms[i];
  const bool forward = t.side == GemmDirection::kForward;
  return (noise({forward ? p.columns : t.depth, forward ? t.depth : p.columns}, 20 + i) * 0.25).to(p.in);
}
at::Tensor residual_of(const Product& p) {
  return noise({p.rows, p.columns}, 1, p.out) * 9;
}
at::Tensor bias_of(const Product& p) {
  return noise({p.columns}, 2, p.in);
}

// Rows `ids` of the product; `repack`: plain matrices packed, and packed ones plain.
at::Tensor multiplied(const Product& p, const at::Tensor& ids, bool repack, at::Device device) {
  std::deque<Weight> weights;
  std::deque<Placed> lefts;
  std::vector<GemmTerm> terms;
  for (std::size_t i = 0; i < p.terms.size(); ++i) {
    const at::Tensor w = matrix_of(p, i).to(device);
    weights.push_back(p.terms[i].packed != repack ? Weight::packed_where_possible(w) : Weight(w));
    lefts.emplace_back(left_of(p, i).index_select(0, ids), device, p.layout);
    terms.push_back({lefts.back().view(), &weights.back(), p.terms[i].side});
  }
  Epilogue epilogue;
  if (p.epilogue) {
    epilogue = {.scale = 0.375,
                .bias = bias_of(p).to(device),
                .residual = residual_of(p).index_select(0, ids).to(device)};
  }
  const Placed out(unwritten({ids.size(0), p.columns}, p.out), device, p.layout);
  gemm(out.view(), terms, epilogue);
  return out.taken();
}

Case gemm_of(const Shared& p) {
  std::string what = std::to_string(p->rows) + " x " + std::to_string(p->columns) + ", depth";
  for (const Term& t : p->terms) {
    what += " " + std::to_string(t.depth) + (t.side == GemmDirection::kForward ? "" : " backward") +
            (t.packed ? " packed" : "");
  }
  what += ", " + describe(p->in) + " to " + describe(p->out) + (p->epilogue ? ", epilogue, " : ", ") +
          describe(p->layout);
  const bool single = p->in == at::kFloat && p->out == at::kFloat;
  Case one{.op = "gemms", .what = what, .bounds = {single ? 1e-5 : 2 * kOneRounding}};
  one.run = [p](at::Device device) {
    return Tensors{multiplied(*p, at::arange(p->rows, at::kLong), false, device)};
  };
  one.exact = [p] {
    at::Tensor sum = at::zeros({p->rows, p->columns}, at::kDouble);
    for (std::size_t i = 0; i < p->terms.size(); ++i) {
      const at::Tensor w = wide(matrix_of(*p, i));
      sum += wide(left_of(*p, i)).matmul(p->terms[i].side == GemmDirection::kForward ? w.t() : w);
    }
    if (p->epilogue) sum = sum * 0.375 + wide(bias_of(*p)) + wide(residual_of(*p));
    return Tensors{sum};
  };
  one.own_bits_from = base::InstructionLevel::kAvx2;  // below it: libtorch's products
  one.levels = p->in == at::kFloat ? SameBits::kFromAvx2 : SameBits::kAvx2AndAvx512;
  one.otherwise = [p](at::Device device) {
    if (p->rows < 2) return Tensors{multiplied(*p, at::arange(p->rows, at::kLong), true, device)};
    const at::Tensor last = multiplied(*p, at::full({1}, p->rows - 1, at::kLong), true, device);
    const at::Tensor others = multiplied(*p, at::arange(p->rows - 1, at::kLong).flip(0), true, device);
    return Tensors{at::cat({others.flip(0), last})};
  };
  return one;
}

// Several in one call, of one input: the bits of each alone.
Case together(at::ScalarType dtype) {
  const auto run = [dtype](at::Device device, bool one_call) {
    std::deque<Weight> weights;
    std::vector<Gemm> products;
    const at::Tensor a = noise({33, 96}, 1, dtype).to(device);
    for (const std::int64_t columns : {896, 128, 7}) {
      const at::Tensor w = noise({columns, 96}, static_cast<std::uint64_t>(columns), dtype).to(device);
      weights.push_back(Weight::packed_where_possible(w));
      products.push_back({unwritten({33, columns}, dtype).to(device), {{a, &weights.back()}}, {}});
    }
    if (one_call) {
      gemms(products);
    } else {
      for (const Gemm& p : products) gemm(p.out, p.terms, p.epilogue);
    }
    Tensors out;
    for (const Gemm& p : products) out.push_back(p.out.cpu());
    return out;
  };
  Case one{.op = "gemms",
           .what = "three products in one call, " + describe(dtype),
           .bounds = {bound_of(dtype, 1e-5, kOneRounding)}};
  one.run = [=](at::Device device) { return run(device, true); };
  one.exact = [=] {
    Tensors out;
    for (const std::int64_t columns : {896, 128, 7}) {
      const at::Tensor w = wide(noise({columns, 96}, static_cast<std::uint64_t>(columns), dtype));
      out.push_back(wide(noise({33, 96}, 1, dtype)).matmul(w.t()));
    }
    return out;
  };
  one.own_bits_from = base::InstructionLevel::kAvx2;
  one.levels = dtype == at::kFloat ? SameBits::kFromAvx2 : SameBits::kAvx2AndAvx512;
  one.otherwise = [=](at::Device device) { return run(device, false); };
  return one;
}

// ---- sums over tokens

struct Sum {
  std::int64_t tokens, left, right;
  at::ScalarType dtype;
  bool transposed;  // out is a view of [right, left]
};

std::string what(const Sum& s) {
  return std::to_string(s.tokens) + " tokens, " + std::to_string(s.left) + " x " + std::to_string(s.right) +
         ", " + describe(s.dtype) + (s.transposed ? ", transposed" : "");
}

Case sum_of(const char* op, const Sum& s) {
  Case one{.op = op, .what = what(s), .bounds = {1e-5}};
  const bool outer = std::string(op) == "add_outers";
  one.run = [=](at::Device device) {
    const Placed left(noise({s.tokens, s.left}, 1, s.dtype), device, Layout::kStrided);
    const Placed right(noise({s.tokens, s.right}, 2, s.dtype), device, Layout::kStrided);
    const at::Tensor before = noise({s.left, s.right}, 3);
    const Placed out(s.transposed ? before.t().contiguous() : before, device,
                     outer ? Layout::kStrided : Layout::kDense);
    if (outer) {
      const Outer outers[] = {{s.transposed ? out.view().t() : out.view(), left.view(), right.view()}};
      add_outers(outers);
    } else {
      add_weight_gradient(out.view(), left.view(), right.view());
    }
    return Tensors{s.transposed ? out.taken().t().contiguous() : out.taken()};
  };
  one.exact = [=] {
    return Tensors{
        wide(noise({s.left, s.right}, 3)) +
        wide(noise({s.tokens, s.left}, 1, s.dtype)).t().matmul(wide(noise({s.tokens, s.right}, 2, s.dtype)))};
  };
  one.own_bits_from = base::InstructionLevel::kAvx2;
  one.levels = s.dtype == at::kFloat ? SameBits::kFromAvx2 : SameBits::kAvx2AndAvx512;
  return one;
}

}  // namespace product_cases

void add_gemm_cases(Cases& all) {
  using namespace product_cases;
  constexpr GemmDirection kForward = GemmDirection::kForward, kBackward = GemmDirection::kBackward;
  struct Shape {
    std::int64_t rows, depth, columns;
    Layout layout;
  };
  constexpr Shape kShapes[] = {{1, 1, 1, Layout::kUnaligned},    {1, 896, 1024, Layout::kDense},
                               {7, 1024, 896, Layout::kDense},   {33, 64, 33, Layout::kStrided},
                               {257, 896, 96, Layout::kStrided}, {2, 4096, 128, Layout::kUnaligned},
                               {64, 2048, 64, Layout::kDense},   {31, 33, 257, Layout::kUnaligned},
                               {4096, 31, 7, Layout::kDense},    {14, 1025, 16, Layout::kUnaligned},
                               {1, 2, 2049, Layout::kDense},     {0, 64, 32, Layout::kDense}};
  const auto add = [&](const Product& p) { all.push_back(gemm_of(std::make_shared<const Product>(p))); };
  for (const at::ScalarType in : {at::kFloat, at::kBFloat16}) {
    for (const Shape& s : kShapes) {
      for (const GemmDirection side : {kForward, kBackward})
        add({s.rows, s.columns, {{s.depth, side, side == kForward}}, in, in, false, s.layout});
    }
    for (const at::ScalarType out : {at::kFloat, at::kBFloat16}) {
      // a linear with an adapter, and its input gradient
      add({33, 130, {{896, kForward, true}, {16, kForward, false}}, in, out, true, Layout::kStrided});
      add({7, 96, {{333, kBackward, false}, {8, kBackward, true}}, in, out, true, Layout::kDense});
      add({1,
           45,
           {{40, kForward, false}, {7, kBackward, false}, {9, kForward, true}},
           in,
           out,
           true,
           Layout::kUnaligned});
    }
    all.push_back(together(in));
  }
}

void add_outer_cases(Cases& all) {
  using namespace product_cases;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const bool transposed : {false, true}) {
      for (const auto& [tokens, left, right] : {std::tuple<std::int64_t, std::int64_t, std::int64_t>{1, 1, 1},
                                                {3, 16, 33},
                                                {77, 64, 100},
                                                {513, 13, 64},
                                                {1000, 16, 896},
                                                {301, 17, 1090},
                                                {0, 4, 6}})
        all.push_back(sum_of("add_outers", {tokens, left, right, dtype, transposed}));
    }
    for (const auto& [tokens, left, right] : {std::tuple<std::int64_t, std::int64_t, std::int64_t>{1, 1, 1},
                                              {31, 17, 5},
                                              {65, 33, 70},
                                              {1300, 200, 96},
                                              {64, 896, 33}})
      all.push_back(sum_of("add_weight_gradient", {tokens, left, right, dtype, false}));
  }
}

}  // namespace hone::ops::cases
