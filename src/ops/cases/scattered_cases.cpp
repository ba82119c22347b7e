#include "ops/cases/case.h"
#include "ops/routed_rows.h"

namespace hone::ops::cases {
namespace scattered_cases {

struct Scattered {
  std::int64_t vocabulary, tokens, width;
  at::ScalarType dtype;
  bool some;  // every other token only
  Layout layout;
};

using Numbers = std::vector<std::int64_t>;

// Most rows come often, one of them in every third token.
Numbers rows_of(const Scattered& s, std::int64_t count) {
  Numbers out;
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(i % 3 == 0 ? 1 % s.vocabulary : i * i % s.vocabulary);
  return out;
}

Numbers from_of(const Scattered& s) {
  Numbers out;
  for (std::int64_t i = s.tokens - 1; s.some && i >= 0; i -= 2) out.push_back(i);
  return out;
}

Case added(const Scattered& s) {
  Case one{.op = "add_rows",
           .what = std::to_string(s.tokens) + " tokens to " + std::to_string(s.vocabulary) + " x " +
                   std::to_string(s.width) + ", " + describe(s.dtype) + (s.some ? ", some, " : ", ") +
                   describe(s.layout),
           .bounds = {bound_of(s.dtype, 1e-6, 1e-6)}};
  const auto numbers = [=] {
    const Numbers from = from_of(s);
    return std::pair(rows_of(s, s.some ? static_cast<std::int64_t>(from.size()) : s.tokens), from);
  };
  one.run = [=](at::Device device) {
    const auto [rows, from] = numbers();
    const Placed out(noise({s.vocabulary, s.width}, 1), device, s.layout);
    const Placed d(noise({s.tokens, s.width}, 2, s.dtype), device, s.layout);
    add_rows(out.view(), d.view(), rows, from);
    return Tensors{out.taken()};
  };
  one.exact = [=] {
    const auto [rows, from] = numbers();
    const at::Tensor out = wide(noise({s.vocabulary, s.width}, 1));
    const at::Tensor d = wide(noise({s.tokens, s.width}, 2, s.dtype));
    for (std::size_t i = 0; i < rows.size(); ++i)
      out.select(0, rows[i]).add_(d.select(0, s.some ? from[i] : static_cast<std::int64_t>(i)));
    return Tensors{out};
  };
  one.own_bits_from = base::InstructionLevel::kPlain;
  one.levels = SameBits::kAllLevels;
  return one;
}

struct Gathered {
  std::int64_t vocabulary, tokens, width;
  at::ScalarType out, table;
  Layout layout;
};

// What is returned is dense: a table's rows may be strided.
Case gathered(const Gathered& g) {
  Case one{.op = "gather_rows",
           .what = std::to_string(g.tokens) + " of " + std::to_string(g.vocabulary) + " x " +
                   std::to_string(g.width) + ", " + describe(g.table) + " to " + describe(g.out) + ", " +
                   describe(g.layout),
           .bounds = {bound_of(g.out, 0, g.table == at::kBFloat16 ? 0 : kOneRounding)}};
  const auto table = [=] { return noise({g.vocabulary, g.width}, 1, g.table); };
  const auto ids = [=] {
    Numbers all;
    for (std::int64_t i = 0; i < g.tokens; ++i) all.push_back((i * i + g.vocabulary - 1) % g.vocabulary);
    return at::tensor(all, at::kLong);
  };
  one.run = [=](at::Device device) {
    const Placed from(table(), device, g.layout), of(ids(), device, Layout::kDense);
    return Tensors{gather_rows(from.view(), of.view(), g.out).cpu()};
  };
  one.exact = [=] { return Tensors{wide(table()).index_select(0, ids())}; };
  one.own_bits_from = base::InstructionLevel::kPlain;
  one.levels = SameBits::kAllLevels;
  return one;
}

}  // namespace scattered_cases

void add_scattered_cases(Cases& all) {
  using namespace scattered_cases;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const bool some : {false, true}) {
      for (const auto& [vocabulary, tokens, width] :
           {std::array<std::int64_t, 3>{1, 1, 1}, {7, 40, 33}, {50, 301, 896}, {3, 5, 2052}}) {
        const bool fours = width % 4 == 0;
        for (const Layout layout : {Layout::kDense, fours ? Layout::kUnaligned : Layout::kStrided})
          all.push_back(added({vocabulary, tokens, width, dtype, some, layout}));
      }
    }
  }
}

void add_gathered_cases(Cases& all) {
  using namespace scattered_cases;
  for (const at::ScalarType out : {at::kFloat, at::kBFloat16}) {
    for (const at::ScalarType table : {at::kFloat, at::kBFloat16}) {
      for (const auto& [vocabulary, tokens, width] :
           {std::array<std::int64_t, 3>{1, 1, 1}, {7, 40, 33}, {50, 301, 896}, {3, 0, 64}}) {
        const bool fours = width % 4 == 0;
        for (const Layout layout : {Layout::kDense, fours ? Layout::kUnaligned : Layout::kStrided})
          all.push_back(gathered({vocabulary, tokens, width, out, table, layout}));
      }
    }
  }
}

}  // namespace hone::ops::cases
