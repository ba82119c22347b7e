#include "ops/experts/expert_products.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/error.h"
#include "ops/backend/operators.h"
#include "ops/backend/reference/reference.h"

namespace hone::ops {
namespace {

bool is_plain(const Weight& weight) {
  return weight.has_numbers() && !weight.is_packed() && !weight.is_quantized();
}

// Whether the device multiplies groups with matrices of these sides.
bool takes_groups(at::Device device, at::ScalarType dtype, std::int64_t rows, std::int64_t columns) {
  const auto ask = backend::operators_of(device).group_multiple;
  const std::int64_t multiple = ask == nullptr ? 0 : ask(device, dtype);
  return multiple > 0 && rows % multiple == 0 && columns % multiple == 0;
}

bool takes_groups(const ExpertTerm& term) {
  const ExpertMatrices& m = *term.matrices;
  return takes_groups(term.a.device(), m.weights.front()->dtype(), m.out(), m.in());
}

bool takes_groups(const at::Tensor& left, const at::Tensor& right) {
  return takes_groups(left.device(), left.scalar_type(), left.size(1), right.size(1));
}

// [E, out, in] where the matrices lie one behind another, else undefined.
at::Tensor as_one_tensor(const ExpertMatrices& m) {
  if (!is_plain(*m.weights.front())) return {};
  const at::Tensor& first = m.weights.front()->plain();
  const std::int64_t row = first.stride(0), matrix = first.size(0) * row;
  std::int64_t begin = first.storage_offset();
  for (const Weight* const weight : m.weights) {
    if (!is_plain(*weight)) return {};
    const at::Tensor& one = weight->plain();
    if (!one.storage().is_alias_of(first.storage()) || one.stride(0) != row || one.storage_offset() != begin)
      return {};
    begin += matrix;
  }
  const auto experts = static_cast<std::int64_t>(m.weights.size()) / m.parts;
  return first.as_strided({experts, m.out(), m.in()}, {m.parts * matrix, row, 1}, first.storage_offset());
}

// [E, out, in] in the products' dtype.
at::Tensor stacked(const ExpertMatrices& m) {
  if (m.codes != nullptr) return dequantize(*m.codes, m.weights.front()->dtype()).view({-1, m.out(), m.in()});
  if (at::Tensor view = as_one_tensor(m); view.defined()) return view;
  const bool all_plain =
      std::all_of(m.weights.begin(), m.weights.end(), [](const Weight* one) { return is_plain(*one); });
  const auto count = static_cast<std::int64_t>(m.weights.size());
  const Weight& first = *m.weights.front();
  at::Tensor all;
  if (all_plain) {
    std::vector<at::Tensor> tensors;
    for (const Weight* const one : m.weights) tensors.push_back(one->plain());
    all = at::stack(tensors);
  } else {
    all =
        at::empty({count, first.out(), first.in()}, at::TensorOptions(first.dtype()).device(first.device()));
    for (std::int64_t i = 0; i < count; ++i)
      all.select(0, i).copy_(m.weights[static_cast<std::size_t>(i)]->dense());
  }
  return all.view({count / m.parts, m.out(), m.in()});
}

at::Tensor multiply_grouped(const ExpertTerm& term, const ExpertRows& rows) {
  const at::Tensor matrices = stacked(*term.matrices);
  const bool forward = term.side == GemmDirection::kForward;
  return grouped_products(term.a, forward ? matrices.transpose(1, 2) : matrices, rows.ends());
}

// The products of one expert's rows: forward one for each part, backward one over all parts.
void add_gemms(std::vector<Gemm>& to, const at::Tensor& out, const std::vector<ExpertTerm>& terms,
               std::size_t expert, const ExpertRows& rows, double scale) {
  const auto parts = static_cast<std::size_t>(terms.front().matrices->parts);
  const auto weight = [&](const ExpertTerm& term, std::size_t part) {
    return term.matrices->weights[expert * parts + part];
  };
  const at::Tensor of_expert = rows.of(out, expert);
  if (terms.front().side == GemmDirection::kBackward) {
    std::vector<GemmTerm> all;
    for (const ExpertTerm& term : terms) {
      std::int64_t begin = 0;
      for (std::size_t part = 0; part < static_cast<std::size_t>(term.matrices->parts); ++part) {
        const Weight* const one =
            term.matrices->weights[expert * static_cast<std::size_t>(term.matrices->parts) + part];
        all.push_back({rows.of(term.a, expert).narrow(1, begin, one->out()), one, GemmDirection::kBackward});
        begin += one->out();
      }
    }
    to.push_back({of_expert, std::move(all), {.scale = scale}});
    return;
  }
  std::int64_t begin = 0;
  for (std::size_t part = 0; part < parts; ++part) {
    std::vector<GemmTerm> all;
    for (const ExpertTerm& term : terms)
      all.push_back({rows.of(term.a, expert), weight(term, part), GemmDirection::kForward});
    const std::int64_t width = weight(terms.front(), part)->out();
    to.push_back({of_expert.narrow(1, begin, width), std::move(all), {.scale = scale}});
    begin += width;
  }
}

}  // namespace

at::Tensor grouped_products(const at::Tensor& a, const at::Tensor& right, const at::Tensor& ends) {
  constexpr const char* kWhere = "ops::grouped_products";
  base::require(a.dim() == 2 && right.dim() == 3 && a.size(1) == right.size(1), kWhere,
                "a [S, K] and right [E, K, N]");
  base::require(a.scalar_type() == right.scalar_type(), kWhere, "a and right of one dtype");
  base::require(ends.dim() == 1 && ends.size(0) == right.size(0) && ends.scalar_type() == at::kInt, kWhere,
                "ends [E] int32");
  at::Tensor out;
  backend::run(a.device(), &backend::Operators::grouped_products, reference::grouped_products, out, a, right,
               ends);
  return out;
}

at::Tensor grouped_outers(const at::Tensor& left, const at::Tensor& right, const at::Tensor& ends) {
  constexpr const char* kWhere = "ops::grouped_outers";
  base::require(left.dim() == 2 && right.dim() == 2 && left.size(0) == right.size(0), kWhere,
                "left [S, R] and right [S, N]");
  base::require(left.scalar_type() == right.scalar_type(), kWhere, "left and right of one dtype");
  base::require(ends.dim() == 1 && ends.scalar_type() == at::kInt, kWhere, "ends [E] int32");
  at::Tensor out;
  backend::run(left.device(), &backend::Operators::grouped_outers, reference::grouped_outers, out, left,
               right, ends);
  return out;
}

std::shared_ptr<const Quantized> lay_out_experts(std::span<Linear* const> linears, std::int64_t parts) {
  if (linears.empty()) return nullptr;
  const Weight& first = linears.front()->weight;
  const std::int64_t out = first.out(), in = first.in(), count = static_cast<std::int64_t>(linears.size());
  const at::ScalarType dtype = first.dtype();
  const auto alike = [&](const Linear* one) {
    const Weight& weight = one->weight;
    return weight.out() == out && weight.in() == in && weight.dtype() == dtype && !weight.is_packed() &&
           weight.has_numbers() && weight.is_quantized() == first.is_quantized();
  };
  if (!takes_groups(first.device(), dtype, parts * out, in) ||
      !std::all_of(linears.begin(), linears.end(), alike))
    return nullptr;
  if (first.is_quantized()) {
    std::vector<Quantized> matrices;
    for (const Linear* const one : linears) matrices.push_back(one->weight.quantized());
    std::shared_ptr<const Quantized> all = one_below_another(matrices);
    for (std::size_t i = 0; all != nullptr && i < linears.size(); ++i)
      linears[i]->weight =
          Weight::quantized(std::make_shared<const Quantized>(std::move(matrices[i])), dtype);
    return all;
  }
  const at::Tensor all = at::empty({count, out, in}, first.plain().options());
  for (std::int64_t i = 0; i < count; ++i) {
    Linear& linear = *linears[static_cast<std::size_t>(i)];
    const at::Tensor place = all.select(0, i);
    place.copy_(linear.weight.plain());
    linear.weight = place;
  }
  return nullptr;
}

at::Tensor expert_product(const std::vector<ExpertTerm>& terms, const ExpertRows& rows, double scale) {
  base::require(!terms.empty(), "ops::expert_product", "at least one term");
  if (std::all_of(terms.begin(), terms.end(), [](const ExpertTerm& term) { return takes_groups(term); })) {
    at::Tensor sum;
    for (const ExpertTerm& term : terms) {
      const at::Tensor product = multiply_grouped(term, rows);
      sum = sum.defined() ? sum.add_(product) : product;
    }
    return scale == 1 ? sum : sum.mul_(scale);
  }
  const ExpertTerm& first = terms.front();
  const std::int64_t width =
      first.side == GemmDirection::kForward ? first.matrices->out() : first.matrices->in();
  at::Tensor out =
      at::empty({rows.size(), width}, first.a.options().dtype(first.matrices->weights.front()->dtype()));
  std::vector<Gemm> products;
  for (std::size_t e = 0; e < static_cast<std::size_t>(rows.experts()); ++e) {
    if (rows.rows_of(e) > 0) add_gemms(products, out, terms, e, rows, scale);
  }
  gemms(products);
  return out;
}

void add_expert_outers(std::span<const ExpertOuter> products, const ExpertRows& rows) {
  std::vector<const ExpertOuter*> apart;
  for (const ExpertOuter& one : products) {
    if (takes_groups(one.left, one.right)) {
      at::Tensor(one.sums).add_(grouped_outers(one.left, one.right, rows.ends()));
    } else {
      apart.push_back(&one);
    }
  }
  if (apart.empty()) return;
  std::vector<Outer> outers;
  for (std::size_t e = 0; e < static_cast<std::size_t>(rows.experts()); ++e) {
    if (rows.rows_of(e) == 0) continue;
    for (const ExpertOuter* const one : apart)
      outers.push_back(
          {one->sums.select(0, static_cast<std::int64_t>(e)), rows.of(one->left, e), rows.of(one->right, e)});
  }
  add_outers(outers);
}

void add_expert_gradients(const std::vector<at::Tensor>& gradients, const at::Tensor& d, const at::Tensor& x,
                          const ExpertRows& rows) {
  if (std::none_of(gradients.begin(), gradients.end(), [](const at::Tensor& one) { return one.defined(); }))
    return;
  if (takes_groups(d, x)) {
    const at::Tensor all = grouped_outers(d, x, rows.ends());
    for (std::size_t e = 0; e < gradients.size(); ++e)
      if (gradients[e].defined()) at::Tensor(gradients[e]).add_(all.select(0, static_cast<std::int64_t>(e)));
    return;
  }
  for (std::size_t e = 0; e < gradients.size(); ++e) {
    if (gradients[e].defined() && rows.rows_of(e) > 0)
      add_weight_gradient(gradients[e], rows.of(d, e), rows.of(x, e));
  }
}

}  // namespace hone::ops
