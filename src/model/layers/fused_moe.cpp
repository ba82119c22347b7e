#include "model/layers/fused_moe.h"

#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/experts/expert_products.h"
#include "ops/fused_linear.h"
#include "ops/routed_rows.h"
#include "ops/swiglu.h"

namespace hone::model {
namespace {

using ops::GemmDirection;

// The matrices of one weight of a stack, expert by expert.
ops::ExpertMatrices all_of(const std::vector<ops::Weight>& weights, std::int64_t parts = 1) {
  ops::ExpertMatrices out{.weights = {}, .parts = parts, .codes = {}};
  out.weights.reserve(weights.size());
  for (const ops::Weight& one : weights) out.weights.push_back(&one);
  return out;
}

// Of one LoRA on a stack, as products read them; empty without one.
struct Factors {
  ops::ExpertMatrices a, b, parts;  // [r, in]; [out, r], whole and in the linears' parts
  double scale = 1;

  bool any() const { return !a.weights.empty(); }
};

Factors factors_of(const ops::Linear& stack, const FactorCast& cast, std::int64_t experts, std::int64_t parts,
                   at::ScalarType dtype, const ops::PassContext& pass) {
  if (!stack.lora || !pass.adapters_on) return {};
  const ExpertFactors& held = cast.of(stack, experts, parts, dtype);
  return {.a = all_of(held.a),
          .b = all_of(held.b),
          .parts = all_of(held.parts, parts),
          .scale = stack.lora->scale};
}

at::Tensor gradient_buffer(const at::Tensor& parameter) {
  base::require(parameter.grad().defined(), "fused_sparse_backward",
                "a gradient buffer for everything that is trained");
  return parameter.grad();
}

// What a pass reads of the experts of a layer, in the order of its rows.
class Experts {
 public:
  Experts(const SparseMlp& mlp, const ModelConfig& config, const ops::PassContext& pass,
          const at::Tensor& logits)
      : mlp_(mlp),
        config_(config),
        dtype_(mlp.router.weight.dtype()),
        width_(config.experts.width),
        routing_(route(logits, config.experts)),
        rows_(routing_.chosen, config.experts.count),
        in_(factors_of(mlp.gate_up_stack, mlp.gate_up_cast, config.experts.count, 2, dtype_, pass)),
        down_(factors_of(mlp.down_stack, mlp.down_cast, config.experts.count, 1, dtype_, pass)) {
    gate_ups_ = {.weights = {}, .parts = 2, .codes = mlp.gate_up_codes};
    downs_.codes = mlp.down_codes;
    for (const Expert& expert : mlp.experts) {
      for (const ops::Linear* linear : {&expert.gate, &expert.up})
        gate_ups_.weights.push_back(&ops::weight_of(*linear, pass));
      downs_.weights.push_back(&ops::weight_of(expert.down, pass));
    }
  }

  const Routing& routing() const { return routing_; }
  const ops::ExpertRows& rows() const { return rows_; }
  const ops::ExpertMatrices& gate_ups() const { return gate_ups_; }
  const ops::ExpertMatrices& downs() const { return downs_; }
  const Factors& in_factors() const { return in_; }
  const Factors& down_factors() const { return down_; }
  bool is_gelu() const { return config_.activation == Activation::kGeluTanh; }
  std::int64_t width() const { return width_; }
  const SparseMlp& mlp() const { return mlp_; }

  // [S] fp32: the weight of each sorted row.
  at::Tensor sorted_weights() const {
    at::Tensor out = at::empty({rows_.size()}, routing_.weights.options().dtype(at::kFloat));
    out.index_copy_(0, rows_.place().flatten(), routing_.weights.flatten().to(at::kFloat));
    return out;
  }

  // scale * x A^T of each expert's rows; undefined without a LoRA.
  at::Tensor a_out(const Factors& factors, const at::Tensor& x) const {
    if (!factors.any()) return {};
    return ops::expert_product({{x, &factors.a, GemmDirection::kForward}}, rows_, factors.scale);
  }

  // gate | up [S, 2 I] of x [S, H].
  at::Tensor gate_up(const at::Tensor& x, const at::Tensor& a_out) const {
    return forward(gate_ups_, x, in_, a_out);
  }

  at::Tensor product(const at::Tensor& gate_up) const {
    at::Tensor out = at::empty({gate_up.size(0), width_}, gate_up.options());
    ops::swiglu_into(out, gate_up.narrow(1, 0, width_), gate_up.narrow(1, width_, width_), is_gelu());
    return out;
  }

  at::Tensor down(const at::Tensor& product, const at::Tensor& a_out) const {
    return forward(downs_, product, down_, a_out);
  }

 private:
  at::Tensor forward(const ops::ExpertMatrices& matrices, const at::Tensor& x, const Factors& factors,
                     const at::Tensor& a_out) const {
    std::vector<ops::ExpertTerm> terms = {{x, &matrices, GemmDirection::kForward}};
    if (a_out.defined()) terms.push_back({a_out, &factors.parts, GemmDirection::kForward});
    return ops::expert_product(terms, rows_);
  }

  const SparseMlp& mlp_;
  const ModelConfig& config_;
  at::ScalarType dtype_;
  std::int64_t width_;
  Routing routing_;
  ops::ExpertRows rows_;
  Factors in_, down_;
  ops::ExpertMatrices gate_ups_, downs_;
};

// The gradient of logits [T, E] fp32 from that of the weights [T, k] fp32, and of the softmax by `balance`.
at::Tensor route_backward(const Routing& routing, const at::Tensor& d_weights, const ExpertsRule& rule,
                          const at::Tensor& balance) {
  const auto through = [](const at::Tensor& softmax, const at::Tensor& d) {
    return softmax * (d - (softmax * d).sum(1, true));
  };
  const at::Tensor& softmax = routing.softmax;
  at::Tensor d_softmax = at::zeros_like(softmax);
  if (balance.defined()) d_softmax = d_softmax + balance;
  if (!rule.softmax_first) {
    const at::Tensor d_best = through(routing.weights.to(at::kFloat), d_weights);
    return through(softmax, d_softmax).scatter_add(1, routing.chosen, d_best);
  }
  at::Tensor d_best = d_weights;
  if (rule.renormalizes) {
    const at::Tensor best = softmax.gather(1, routing.chosen), sum = best.sum(1, true);
    d_best = (d_weights - (d_weights * best / sum).sum(1, true)) / sum;
  }
  return through(softmax, d_softmax.scatter_add(1, routing.chosen, d_best));
}

// The backward of all experts, from the gradients of their outputs.
class ExpertsBackward {
 public:
  ExpertsBackward(const Experts& experts, SparseTape& tape) : experts_(experts), tape_(tape) {}

  // d_rows [S, H], unweighted: the gradient of each product, unweighted; the down projections get theirs. Weights [S] belong to
  // one side of their outer products.
  at::Tensor down(const at::Tensor& d_rows, const at::Tensor& product, const at::Tensor& weights) {
    const auto weighted = [&](const at::Tensor& rows) {
      at::Tensor out = at::empty_like(rows);
      ops::weigh_rows(out, rows, weights);
      return out;
    };
    const std::vector<at::Tensor> gradients =
        gradients_of([](const Expert& expert) -> const ops::Linear& { return expert.down; });
    if (!gradients.empty()) ops::add_expert_gradients(gradients, d_rows, weighted(product), experts_.rows());
    const Factors& factors = experts_.down_factors();
    const at::Tensor d_a = back_to_a(factors, d_rows), out = backward(experts_.downs(), d_rows, factors, d_a);
    if (d_a.defined())
      add_factors(experts_.mlp().down_stack, d_rows, weighted(tape_.down_a), weighted(d_a), product);
    return out;
  }

  // From d_gate_up [S, 2 I] that of the sorted x; the gates and ups get theirs.
  at::Tensor gate_up(const at::Tensor& d_gate_up, const at::Tensor& x) {
    const std::int64_t width = experts_.width();
    const std::vector<at::Tensor> gates = gradients_of(
                                      [](const Expert& expert) -> const ops::Linear& { return expert.gate; }),
                                  ups = gradients_of(
                                      [](const Expert& expert) -> const ops::Linear& { return expert.up; });
    if (!gates.empty()) ops::add_expert_gradients(gates, d_gate_up.narrow(1, 0, width), x, experts_.rows());
    if (!ups.empty()) ops::add_expert_gradients(ups, d_gate_up.narrow(1, width, width), x, experts_.rows());
    const Factors& factors = experts_.in_factors();
    const at::Tensor d_a = back_to_a(factors, d_gate_up),
                     out = backward(experts_.gate_ups(), d_gate_up, factors, d_a);
    if (d_a.defined()) add_factors(experts_.mlp().gate_up_stack, d_gate_up, tape_.in_a, d_a, x);
    return out;
  }

 private:
  // scale * d B: the gradient of x A^T.
  at::Tensor back_to_a(const Factors& factors, const at::Tensor& d) const {
    if (!factors.any()) return {};
    return ops::expert_product({{d, &factors.b, GemmDirection::kBackward}}, experts_.rows(), factors.scale);
  }

  at::Tensor backward(const ops::ExpertMatrices& matrices, const at::Tensor& d, const Factors& factors,
                      const at::Tensor& d_a) const {
    std::vector<ops::ExpertTerm> terms = {{d, &matrices, GemmDirection::kBackward}};
    if (d_a.defined()) terms.push_back({d_a, &factors.a, GemmDirection::kBackward});
    return ops::expert_product(terms, experts_.rows());
  }

  // Of the linear that `one` gives, where an expert's is trained in full; empty: of none.
  template <typename One>
  std::vector<at::Tensor> gradients_of(const One& one) const {
    std::vector<at::Tensor> out;
    bool any = false;
    for (const Expert& expert : experts_.mlp().experts) {
      const at::Tensor& trained = one(expert).trained_weight;
      any = any || trained.defined();
      out.push_back(trained.defined() ? gradient_buffer(trained) : at::Tensor());
    }
    return any ? out : std::vector<at::Tensor>();
  }

  // dA += d_a^T x and dB += d^T a_out of each expert, in its place of the stack.
  void add_factors(const ops::Linear& stack, const at::Tensor& d, const at::Tensor& a_out,
                   const at::Tensor& d_a, const at::Tensor& x) const {
    const auto experts = static_cast<std::int64_t>(experts_.mlp().experts.size());
    const at::Tensor a = gradient_buffer(stack.lora->a), b = gradient_buffer(stack.lora->b);
    const at::Tensor by_a = a.view({experts, -1, a.size(1)}), by_b = b.view({b.size(0), -1, experts});
    // Neighbors in B's gradient belong to different experts: they are added to it together.
    const at::Tensor sums = at::zeros({experts, by_b.size(1), by_b.size(0)}, b.options());
    const ops::ExpertOuter outers[] = {{by_a, d_a, x}, {sums, a_out, d}};
    ops::add_expert_outers(outers, experts_.rows());
    by_b.add_(sums.permute({2, 1, 0}));
  }

  const Experts& experts_;
  SparseTape& tape_;
};

}  // namespace

at::Tensor fused_sparse_forward(const SparseMlp& mlp, const ModelConfig& config, const at::Tensor& x,
                                const ops::PassContext& pass, const SparseKeeps& keeps, SparseTape* tape,
                                RouterLoad* load) {
  const at::Tensor router_a = ops::lora_a_forward(mlp.router, x, pass);
  at::Tensor logits = at::empty({x.size(0), config.experts.count}, x.options());
  ops::linear_into(logits, mlp.router, x, router_a, pass);
  const Experts experts(mlp, config, pass, logits);
  if (load != nullptr) load->add(experts.routing().chosen, experts.routing().softmax);
  at::Tensor sorted = x.index_select(0, experts.rows().token());
  const at::Tensor in_a = experts.a_out(experts.in_factors(), sorted);
  at::Tensor gate_up = experts.gate_up(sorted, in_a);
  sorted.reset();
  at::Tensor product = experts.product(gate_up);
  const at::Tensor down_a = experts.a_out(experts.down_factors(), product);
  if (tape != nullptr) {
    *tape = {
        .logits = logits, .router_a = router_a, .gate_up = {}, .product = {}, .in_a = in_a, .down_a = down_a};
    if (keeps.gate_up) tape->gate_up = gate_up;
    if (keeps.product) tape->product = product;
  }
  gate_up.reset();
  const at::Tensor rows = experts.down(product, down_a);
  at::Tensor out = at::empty_like(x);
  ops::sum_routed_rows(out, rows, experts.rows().place(), experts.routing().weights);
  return out;
}

at::Tensor fused_sparse_backward(const SparseMlp& mlp, const ModelConfig& config, const at::Tensor& x,
                                 const at::Tensor& d, const ops::PassContext& pass, SparseTape& tape,
                                 const at::Tensor& balance) {
  const Experts experts(mlp, config, pass, tape.logits);
  ExpertsBackward backward(experts, tape);
  const ops::ExpertRows& rows = experts.rows();
  const at::Tensor sorted = x.index_select(0, rows.token()), weights = experts.sorted_weights();
  if (!tape.gate_up.defined()) tape.gate_up = experts.gate_up(sorted, tape.in_a);
  if (!tape.product.defined()) tape.product = experts.product(tape.gate_up);
  at::Tensor d_product = backward.down(d.index_select(0, rows.token()), tape.product, weights);  // [S, I]
  const at::Tensor by_row = ops::weigh_rows_backward(d_product, tape.product, weights);
  const at::Tensor d_weights =
      by_row.index_select(0, rows.place().flatten()).view(rows.place().sizes());  // [T, k]
  tape.product.reset();
  const std::int64_t width = experts.width();
  ops::swiglu_backward(tape.gate_up.narrow(1, 0, width), tape.gate_up.narrow(1, width, width), d_product,
                       experts.is_gelu());
  d_product.reset();
  const at::Tensor dx_rows = backward.gate_up(tape.gate_up, sorted);
  tape.gate_up.reset();

  const at::Tensor d_logits =
      route_backward(experts.routing(), d_weights, config.experts, balance).to(x.scalar_type());
  const at::Tensor dx = at::empty_like(x);
  const ops::LinearGradient router{&mlp.router, d_logits, tape.router_a};
  ops::linears_backward(dx, {&router, 1}, x, pass);
  at::Tensor out = at::empty_like(x);
  ops::sum_routed_rows(out, dx_rows, rows.place(), {}, dx);
  tape = {};
  return out;
}

}  // namespace hone::model
