// With lora_a_out = s x A^T: dB += dY^T lora_a_out, d_lora_a_out = s dY B, dA += d_lora_a_out^T x, dx = dY W
// + d_lora_a_out A; under dropout x is the dropped input and d_lora_a_out A passes through the mask. A frozen
// side adds (dY B_f) A_f to dx. DoRA's two differences are in dora.h. A weight that is trained in full gets dY^T x.
#include "ops/fused_linear.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/dora.h"
#include "ops/dropout.h"
#include "ops/gemm.h"
#include "ops/join/join.h"
#include "ops/routed_rows.h"

namespace hone::ops {
namespace {

bool drops(const LoraWeights& side, const PassContext& pass) {
  return pass.training && side.dropout > 0;
}

// The input that the side saw: x, or x dropped by the module's own mask.
at::Tensor side_input(const LoraWeights& side, const at::Tensor& x, const PassContext& pass) {
  if (!drops(side, pass)) return x;
  at::Tensor dropped = at::empty_like(x);
  dropout_into(dropped, x, pass, side.dropout_key, side.dropout);
  return dropped;
}

// Rows [begin, end) of what a linear reads, and the side that they go through; null: none. Its products A x are in columns
// [first, first + rank).
struct SideRows {
  std::int64_t begin = 0, end = 0, first = 0;
  const LoraWeights* side = nullptr;

  std::int64_t rank() const { return side == nullptr ? 0 : side->a.size(0); }
  bool is_dora() const { return side != nullptr && side->magnitude.defined(); }
  at::Tensor of(const at::Tensor& rows) const {
    return rows.defined() ? rows.narrow(0, begin, end - begin) : rows;
  }
  at::Tensor columns(const at::Tensor& a_outs) const { return a_outs.narrow(1, first, rank()); }
};

std::vector<SideRows> side_rows(const Linear& linear, std::int64_t count, const PassContext& pass) {
  const AdapterRows own = {.begin = 0, .end = count, .sides = nullptr};
  const auto adapters = pass.adapter_rows.empty() ? std::span(&own, 1) : pass.adapter_rows;
  base::require(adapters.back().end == count, "ops::linears_into", "an adapter for each row");
  std::vector<SideRows> all;
  std::int64_t first = 0;
  for (const AdapterRows& rows : adapters) {
    all.push_back({rows.begin, rows.end, first, side_of(linear, rows.sides, pass)});
    first += all.back().rank();
  }
  return all;
}

std::vector<at::Tensor> mixed_a_forwards(std::span<const Linear* const> linears, const at::Tensor& x,
                                         const PassContext& pass) {
  base::require(!pass.training, "ops::lora_a_forwards", "one adapter in a pass that trains");
  std::vector<at::Tensor> a_outs(linears.size());
  std::vector<Gemm> products;
  for (std::size_t i = 0; i < linears.size(); ++i) {
    const std::vector<SideRows> all = side_rows(*linears[i], x.size(0), pass);
    const std::int64_t ranks = all.back().first + all.back().rank();
    if (ranks == 0) continue;
    a_outs[i] = at::zeros({x.size(0), ranks}, x.options());
    for (const SideRows& rows : all) {
      if (rows.side == nullptr) continue;
      const Weight& a = rows.side->a_operand(linears[i]->weight.dtype());
      products.push_back({rows.columns(rows.of(a_outs[i])),
                          {{rows.of(x), &a, GemmDirection::kForward}},
                          {.scale = rows.side->scale}});
    }
  }
  gemms(products);
  return a_outs;
}

bool is_dora(const Linear& linear, const at::Tensor& lora_a_out) {
  return lora_a_out.defined() && linear.lora->magnitude.defined();
}

at::Tensor gradient_of(const at::Tensor& parameter) {
  base::require(parameter.grad().defined(), "ops::linears_backward",
                "a gradient buffer for everything that is trained");
  return parameter.grad();
}

// Adds what the trained weight and bias get: dY^T x and the sum of dY.
void whole_backward(const Linear& linear, const at::Tensor& d_out, const at::Tensor& x) {
  if (linear.trained_weight.defined()) add_weight_gradient(gradient_of(linear.trained_weight), d_out, x);
  if (linear.trained_bias.defined()) gradient_of(linear.trained_bias).add_(d_out.sum(0, false, at::kFloat));
}

// Sums that go into the gradients of sides, together: neighbors share the threads out better than one after another. What they
// read lives until they are added, so dropped inputs do not wait.
class SideSums {
 public:
  void put(const LinearGradient& gradient, const at::Tensor& d_lora_a_out, const at::Tensor& x,
           const PassContext& pass) {
    const LoraWeights& side = *gradient.linear->lora;
    outers_.push_back({gradient_of(side.b).t(), gradient.lora_a_out, gradient.d_out});
    outers_.push_back({gradient_of(side.a), d_lora_a_out, side_input(side, x, pass)});
    if (drops(side, pass) || side.magnitude.defined()) add();
  }
  void add() {
    add_outers(outers_);
    outers_.clear();
  }

 private:
  std::vector<Outer> outers_;
};

// d_lora_a_out [T, r].
at::Tensor through_b(const LinearGradient& gradient) {
  const LoraWeights& side = *gradient.linear->lora;
  at::Tensor d_lora_a_out = at::empty_like(gradient.lora_a_out);
  const GemmTerm term{gradient.d_out, &side.b_operand(gradient.linear->weight.dtype()),
                      GemmDirection::kBackward};
  gemm(d_lora_a_out, {&term, 1}, {.scale = side.scale});
  return d_lora_a_out;
}

// The sides of an output; none where no product A x was made.
std::vector<SideRows> sides_of(const LinearOutput& output, std::int64_t count, const PassContext& pass) {
  if (!output.lora_a_out.defined()) return {};
  return side_rows(*output.linear, count, pass);
}

bool any_dora(std::span<const SideRows> all) {
  return std::any_of(all.begin(), all.end(), [](const SideRows& rows) { return rows.is_dora(); });
}

// The base's product of all rows at once, and each side's: its zeros leave the sums of others' rows as they are.
// `frozen` is x A_f^T, or undefined.
Gemm product_of(const LinearOutput& output, const at::Tensor& x, const at::Tensor& frozen,
                std::span<const SideRows> sides, const PassContext& pass, const at::Tensor& residual) {
  const Linear& linear = *output.linear;
  std::vector<GemmTerm> terms = {{x, &weight_of(linear, pass), GemmDirection::kForward}};
  if (frozen.defined()) terms.push_back({frozen, &linear.frozen_lora->b, GemmDirection::kForward});
  for (const SideRows& rows : sides) {
    if (rows.side == nullptr) continue;
    const Weight& b = rows.side->b_operand(linear.weight.dtype());
    terms.push_back({rows.columns(output.lora_a_out), &b, GemmDirection::kForward});
  }
  return {output.out, std::move(terms), {.bias = bias_of(linear, pass), .residual = residual}};
}

// DoRA scales the base's product too, so each side's rows have one of their own.
void dora_rows_into(const LinearOutput& output, const at::Tensor& x, std::span<const SideRows> sides,
                    const PassContext& pass, const at::Tensor& residual) {
  for (const SideRows& rows : sides) {
    const at::Tensor in = rows.of(x), added = rows.of(residual);
    LinearOutput own = {rows.of(output.out), output.linear, {}};
    if (rows.side != nullptr) own.lora_a_out = rows.columns(rows.of(output.lora_a_out));
    if (rows.is_dora()) {
      dora_into(own.out, *own.linear, *rows.side, in, side_input(*rows.side, in, pass), own.lora_a_out,
                added);
      continue;
    }
    SideRows alone = rows;
    alone.first = 0;
    const Gemm product = product_of(own, in, {}, {&alone, 1}, pass, added);
    gemms({&product, 1});
  }
}

// x A_f^T of each frozen side, shared out among the threads at once; undefined where there is none.
std::vector<at::Tensor> frozen_a_outs(std::span<const LinearOutput> outputs, const at::Tensor& x) {
  std::vector<at::Tensor> lora_a_outs(outputs.size());
  std::vector<Gemm> products;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Linear& linear = *outputs[i].linear;
    if (!linear.frozen_lora) continue;
    lora_a_outs[i] = at::empty({x.size(0), linear.frozen_lora->a.out()}, x.options());
    products.push_back({lora_a_outs[i], {{x, &linear.frozen_lora->a, GemmDirection::kForward}}, {}});
  }
  if (!products.empty()) gemms(products);
  return lora_a_outs;
}

// What dx gets through the frozen side: (dY B_f) A_f.
GemmTerm through_frozen(const FrozenLora& frozen, const at::Tensor& d_out) {
  const at::Tensor d_lora_a_out = at::empty({d_out.size(0), frozen.a.out()}, d_out.options());
  const GemmTerm term{d_out, &frozen.b, GemmDirection::kBackward};
  gemm(d_lora_a_out, {&term, 1});
  return {d_lora_a_out, &frozen.a, GemmDirection::kBackward};
}

// ---- linears that are joined (ops/join/join.h)

template <typename Rows>
std::vector<const Linear*> linears_of(std::span<const Rows> all) {
  std::vector<const Linear*> out;
  for (const Rows& one : all) out.push_back(one.linear);
  return out;
}

// Slices of one buffer that lie side by side, as one; undefined where they do not.
at::Tensor merged(const std::vector<at::Tensor>& slices) {
  const at::Tensor& first = slices.front();
  if (slices.size() == 1) return first;  // itself, so that a residual that is added in place is seen to be it
  std::int64_t width = 0;
  for (const at::Tensor& one : slices) {
    if (one.stride(1) != 1 || one.stride(0) != first.stride(0) ||
        !one.storage().is_alias_of(first.storage()) || one.storage_offset() != first.storage_offset() + width)
      return {};
    width += one.size(1);
  }
  return first.as_strided({first.size(0), width}, {first.stride(0), 1}, first.storage_offset());
}

template <typename Rows>
bool has_sides(std::span<const Rows> all) {
  return std::any_of(all.begin(), all.end(), [](const Rows& one) { return one.lora_a_out.defined(); });
}

// The sides' products behind x; empty: there is no room.
std::vector<at::Tensor> joined_a_forwards(std::span<const Linear* const> linears, const at::Tensor& x,
                                          const PassContext& pass) {
  const Join* const join = pass.adapters_on ? Join::of(linears, true) : nullptr;
  const at::Tensor behind = join != nullptr ? join->behind(x) : at::Tensor();
  if (!behind.defined()) return {};
  std::vector<at::Tensor> out(linears.size());
  bool drops_any = false;
  for (std::size_t i = 0; i < linears.size(); ++i) {
    if (!linears[i]->lora) continue;
    out[i] = behind.narrow(1, join->first(i), join->rank(i));
    drops_any = drops_any || drops(*linears[i]->lora, pass);
  }
  if (!drops_any) {
    const GemmTerm term{x, &join->a(), GemmDirection::kForward};
    gemm(behind, {&term, 1}, {.scale = join->scale()});
    return out;
  }
  for (std::size_t i = 0; i < linears.size(); ++i) {
    if (!linears[i]->lora) continue;
    const Weight a = join->a().plain().narrow(0, join->first(i), join->rank(i));
    const GemmTerm term{side_input(*linears[i]->lora, x, pass), &a, GemmDirection::kForward};
    gemm(out[i], {&term, 1}, {.scale = join->scale()});
  }
  return out;
}

// The one product of joined linears; none: they are not joined, or not all sides were asked for.
std::optional<Gemm> joined_product(std::span<const LinearOutput> outputs, const at::Tensor& x,
                                   const at::Tensor& residual) {
  const bool sides = has_sides(outputs);
  const Join* const join = Join::of(linears_of(outputs), sides);
  if (join == nullptr) return std::nullopt;
  const at::Tensor behind = sides ? join->behind(x) : at::Tensor();
  std::vector<at::Tensor> outs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outs.push_back(outputs[i].out);
    if (!sides) continue;
    const at::Tensor& side = outputs[i].lora_a_out;
    if (!behind.defined() || side.defined() != (join->rank(i) > 0)) return std::nullopt;
    if (!side.defined()) continue;
    // A side's product that was kept apart, because x was not kept, goes behind x again.
    const at::Tensor place = behind.narrow(1, join->first(i), join->rank(i));
    if (!side.storage().is_alias_of(place.storage())) place.copy_(side);
  }
  const at::Tensor out = merged(outs);
  if (!out.defined()) return std::nullopt;
  return Gemm{out,
              {{sides ? join->with_behind(x) : x, &join->forward(sides), GemmDirection::kForward}},
              {.bias = join->bias(), .residual = residual}};
}

// `residual` is of the only output, or undefined.
void multiply_all(std::span<const LinearOutput> outputs, const at::Tensor& x, const PassContext& pass,
                  const at::Tensor& residual) {
  const bool mixed = !pass.adapter_rows.empty() && has_sides(outputs);
  if (const auto joined = mixed ? std::nullopt : joined_product(outputs, x, residual)) {
    gemms({&*joined, 1});
    return;
  }
  const std::vector<at::Tensor> frozen = frozen_a_outs(outputs, x);
  std::vector<Gemm> products;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::vector<SideRows> sides = sides_of(outputs[i], x.size(0), pass);
    if (any_dora(sides)) {
      base::require(!frozen[i].defined(), "ops::linears_into", "no frozen side below DoRA");
      dora_rows_into(outputs[i], x, sides, pass, residual);
    } else {
      products.push_back(product_of(outputs[i], x, frozen[i], sides, pass, residual));
    }
  }
  gemms(products);
}

// The gradients of all sides' factors: two products of all sides together, of which each takes its blocks. What one side's rows are
// to another one is computed in vain, which costs less than a product for each. False: nobody gathers blocks here, x has not all
// products behind it, or a side drops.
bool joined_side_gradients(std::span<const LinearGradient> linears, const Join& join, const at::Tensor& d,
                           const at::Tensor& d_sides, const at::Tensor& x, const PassContext& pass) {
  const at::Tensor behind = join.behind(x);
  if (linears.size() < 2 || !behind.defined() || !copies_blocks(x.device())) return false;
  for (const LinearGradient& one : linears) {
    if (!one.lora_a_out.defined()) continue;
    if (!one.lora_a_out.storage().is_alias_of(behind.storage()) || drops(*one.linear->lora, pass))
      return false;
  }
  const auto options = x.options().dtype(at::kFloat);
  const at::Tensor of_a = at::empty({join.rank(), x.size(1)}, options),
                   of_b = at::empty({d.size(1), join.rank()}, options);
  multiply(of_a, d_sides.t(), x, GemmDirection::kBackward);
  multiply(of_b, d.t(), behind, GemmDirection::kBackward);
  std::vector<BlockCopy> added;
  std::int64_t row = 0;
  for (std::size_t i = 0; i < linears.size(); ++i) {
    const std::int64_t rows = linears[i].d_out.size(1), first = join.first(i), rank = join.rank(i);
    if (linears[i].lora_a_out.defined()) {
      const LoraWeights& side = *linears[i].linear->lora;
      added.push_back({gradient_of(side.a), of_a.narrow(0, first, rank), /*add=*/true});
      added.push_back({gradient_of(side.b), of_b.narrow(0, row, rows).narrow(1, first, rank), /*add=*/true});
    }
    row += rows;
  }
  copy_blocks(added);
  return true;
}

// The gradients of joined linears' sides, and dx. False: they are not joined.
bool joined_backward(const at::Tensor& dx, std::span<const LinearGradient> linears, const at::Tensor& x,
                     const PassContext& pass) {
  const bool sides = has_sides(linears);
  const Join* const join = Join::of(linears_of(linears), sides);
  if (join == nullptr) return false;
  std::vector<at::Tensor> d_outs;
  for (std::size_t i = 0; i < linears.size(); ++i) {
    if (sides && linears[i].lora_a_out.defined() != (join->rank(i) > 0)) return false;
    d_outs.push_back(linears[i].d_out);
  }
  const at::Tensor d = merged(d_outs);
  if (!d.defined()) return false;
  if (!sides) {
    if (dx.defined()) multiply(dx, d, join->weights(), GemmDirection::kBackward);
    return true;
  }
  const at::Tensor behind = join->behind(d);
  const at::Tensor d_sides = behind.defined() ? behind : at::empty({d.size(0), join->rank()}, d.options());
  const GemmTerm of_b{d, &join->b(), GemmDirection::kBackward};
  gemm(d_sides, {&of_b, 1}, {.scale = join->scale()});
  const bool together = joined_side_gradients(linears, *join, d, d_sides, x, pass);
  std::vector<GemmTerm> terms = {{d, &join->weights(), GemmDirection::kBackward}};
  std::vector<std::pair<const LoraWeights*, at::Tensor>> masked;  // with d of its A's output
  SideSums sums;
  for (std::size_t i = 0; i < linears.size(); ++i) {
    if (!linears[i].lora_a_out.defined()) continue;
    const LoraWeights& side = *linears[i].linear->lora;
    const at::Tensor d_side = d_sides.narrow(1, join->first(i), join->rank(i));
    if (!together) sums.put(linears[i], d_side, x, pass);
    if (drops(side, pass)) masked.emplace_back(&side, d_side);
  }
  sums.add();
  if (!dx.defined()) return true;
  if (masked.empty() && behind.defined()) {
    terms = {{join->with_behind(d), &join->backward(), GemmDirection::kBackward}};
  } else if (masked.empty()) {
    terms.push_back({d_sides, &join->a(), GemmDirection::kBackward});
  }
  gemm(dx, terms);
  const at::Tensor through = masked.empty() ? at::Tensor() : at::empty_like(x);
  for (const auto& [side, d_side] : masked) {
    multiply(through, d_side, side->a_operand(d.scalar_type()), GemmDirection::kBackward);
    dropout_backward_add(dx, through, pass, side->dropout_key, side->dropout);
  }
  return true;
}

}  // namespace

const LoraWeights* side_of(const Linear& linear, const AdapterSides* sides, const PassContext& pass) {
  if (sides == nullptr) return pass.adapters_on && linear.lora ? &*linear.lora : nullptr;
  const auto found = sides->find(&linear);
  return found == sides->end() ? nullptr : &found->second;
}

at::Tensor lora_a_forward(const Linear& linear, const at::Tensor& x, const PassContext& pass) {
  const Linear* const one = &linear;
  return lora_a_forwards({&one, 1}, x, pass).front();
}

std::vector<at::Tensor> lora_a_forwards(std::span<const Linear* const> linears, const at::Tensor& x,
                                        const PassContext& pass) {
  if (!pass.adapter_rows.empty()) return mixed_a_forwards(linears, x, pass);
  if (std::vector<at::Tensor> joined = joined_a_forwards(linears, x, pass); !joined.empty()) return joined;
  std::vector<at::Tensor> lora_a_outs(linears.size());
  std::vector<Gemm> products;
  for (std::size_t i = 0; i < linears.size(); ++i) {
    if (!linears[i]->lora || !pass.adapters_on) continue;
    const LoraWeights& side = *linears[i]->lora;
    const Weight& a = side.a_operand(linears[i]->weight.dtype());
    lora_a_outs[i] = at::empty({x.size(0), a.out()}, x.options());
    products.push_back(
        {lora_a_outs[i], {{side_input(side, x, pass), &a, GemmDirection::kForward}}, {.scale = side.scale}});
    if (!drops(side, pass)) continue;
    gemms(products);  // one dropped input at a time
    products.clear();
  }
  gemms(products);
  return lora_a_outs;
}

void linear_into(at::Tensor out, const Linear& linear, const at::Tensor& x, const at::Tensor& lora_a_out,
                 const PassContext& pass, const at::Tensor& residual) {
  const LinearOutput output{std::move(out), &linear, lora_a_out};
  multiply_all({&output, 1}, x, pass, residual);
}

void linears_into(std::span<const LinearOutput> outputs, const at::Tensor& x, const PassContext& pass) {
  multiply_all(outputs, x, pass, {});
}

void linears_backward(at::Tensor dx, std::span<const LinearGradient> linears, const at::Tensor& x,
                      const PassContext& pass) {
  if (joined_backward(dx, linears, x, pass)) return;
  std::vector<GemmTerm> terms;
  // What passes the mask of a side: its terms, added up before it.
  std::vector<std::pair<const LoraWeights*, std::vector<GemmTerm>>> masked;
  SideSums sums;
  for (const LinearGradient& gradient : linears) {
    const Linear& linear = *gradient.linear;
    const bool dora = is_dora(linear, gradient.lora_a_out);
    const bool mask = gradient.lora_a_out.defined() && drops(*linear.lora, pass);
    LinearGradient inner = gradient;  // of what DoRA scales; the same without it
    if (dora) {
      dora_magnitude_backward(linear, gradient.d_out, side_input(*linear.lora, x, pass), gradient.lora_a_out);
      inner.d_out = dora_inner_gradient(linear, gradient.d_out);
    }
    if (dx.defined())
      terms.push_back(
          {mask ? gradient.d_out : inner.d_out, &weight_of(linear, pass), GemmDirection::kBackward});
    if (dx.defined() && linear.frozen_lora)
      terms.push_back(through_frozen(*linear.frozen_lora, gradient.d_out));
    whole_backward(linear, gradient.d_out, x);
    if (!gradient.lora_a_out.defined()) continue;
    const at::Tensor d_lora_a_out = through_b(inner);
    sums.put(inner, d_lora_a_out, x, pass);
    if (!dx.defined()) continue;
    const GemmTerm through_side{d_lora_a_out, &linear.lora->a_operand(linear.weight.dtype()),
                                GemmDirection::kBackward};
    if (!mask) {
      terms.push_back(through_side);
      continue;
    }
    masked.push_back({&*linear.lora, {through_side}});
    if (dora)
      masked.back().second.push_back(
          {inner.d_out - gradient.d_out, &linear.weight, GemmDirection::kBackward});
  }
  sums.add();
  if (!dx.defined()) return;
  gemm(dx, terms);
  at::Tensor through;
  for (const auto& [side, parts] : masked) {
    if (!through.defined()) through = at::empty_like(x);
    gemm(through, parts);
    dropout_backward_add(dx, through, pass, side->dropout_key, side->dropout);
  }
}

}  // namespace hone::ops
