#include "model/layers/fused_moe.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "base/error.h"
#include "ops/fused_linear.h"
#include "ops/gemm.h"
#include "ops/machine/device_memory.h"
#include "ops/routed_rows.h"
#include "ops/swiglu.h"

namespace hone::model {
namespace {

using ops::GemmDirection;

// Of one LoRA on a stack, expert by expert, as products read them; empty without one.
struct Factors {
  std::vector<ops::Weight> a, b;  // [r, in], [out, r]
  double scale = 1;

  bool any() const { return !a.empty(); }
};

Factors factors_of(const ops::Linear& stack, const FactorCast& cast, std::int64_t experts,
                   at::ScalarType dtype, const ops::PassContext& pass) {
  Factors out;
  if (!stack.lora || !pass.adapters_on) return out;
  const StackedFactors& held = cast.of(stack, experts, dtype);
  out.scale = stack.lora->scale;
  for (std::int64_t e = 0; e < experts; ++e) {
    out.a.emplace_back(held.a.select(0, e));
    out.b.emplace_back(held.b.select(0, e));
  }
  return out;
}

// work(first, count) for blocks of rows, each of `columns` numbers: what is between its operators stays in a core's cache.
// Without autograd; on the CPU all threads share the blocks.
void by_row_blocks(const at::Tensor& rows, std::int64_t columns,
                   const std::function<void(std::int64_t first, std::int64_t count)>& work) {
  constexpr std::int64_t kNumbers = 1 << 15;  // of a block: 128 KB in fp32
  const std::int64_t count = rows.size(0), block = std::max<std::int64_t>(1, kNumbers / columns);
  const std::int64_t blocks = ops::is_host(rows.device()) ? (count + block - 1) / block : 1;
  if (blocks <= 1) return work(0, count);
  at::parallel_for(0, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    const at::NoGradGuard no_grad;
    for (std::int64_t i = begin; i < end; ++i) work(i * block, std::min(block, count - i * block));
  });
}

at::Tensor gradient_buffer(const at::Tensor& parameter) {
  base::require(parameter.grad().defined(), "fused_sparse_backward",
                "a gradient buffer for everything that is trained");
  return parameter.grad();
}

class Experts {
 public:
  Experts(const SparseMlp& mlp, const ModelConfig& config, const ops::PassContext& pass,
          const at::Tensor& logits)
      : mlp_(mlp),
        config_(config),
        pass_(pass),
        dtype_(mlp.router.weight.dtype()),
        width_(config.experts.width),
        routing_(route(logits, config.experts)),
        rows_(rows_by_expert(routing_.chosen, config.experts.count)),
        in_(factors_of(mlp.gate_up_stack, mlp.gate_up_cast, config.experts.count, dtype_, pass)),
        down_(factors_of(mlp.down_stack, mlp.down_cast, config.experts.count, dtype_, pass)) {
    for (std::size_t e = 0; e < mlp.experts.size(); ++e)
      if (rows_.rows_of(e) > 0) used_.push_back(e);
  }

  const Routing& routing() const { return routing_; }
  const ExpertRows& rows() const { return rows_; }
  const Factors& in_factors() const { return in_; }
  const Factors& down_factors() const { return down_; }
  const std::vector<std::size_t>& used() const { return used_; }
  bool is_gelu() const { return config_.activation == Activation::kGeluTanh; }
  std::int64_t width() const { return width_; }
  const SparseMlp& mlp() const { return mlp_; }
  const ops::PassContext& pass() const { return pass_; }

  at::Tensor rows_of(const at::Tensor& sorted, std::size_t expert) const {
    return sorted.narrow(0, rows_.begins[expert], rows_.rows_of(expert));
  }
  at::Tensor empty(std::int64_t columns, const at::Tensor& like) const {
    return at::empty({rows_.begins.back(), columns}, like.options().dtype(dtype_));
  }
  // [S] fp32: the weight of each sorted row.
  at::Tensor sorted_weights() const {
    at::Tensor out = at::empty({rows_.begins.back()}, routing_.weights.options().dtype(at::kFloat));
    out.index_copy_(0, rows_.place.flatten(), routing_.weights.flatten().to(at::kFloat));
    return out;
  }

  // scale * x A^T of each expert's rows; undefined without a LoRA.
  at::Tensor a_out(const Factors& factors, const at::Tensor& x) const {
    if (!factors.any()) return {};
    const at::Tensor out = empty(factors.a.front().out(), x);
    std::vector<ops::Gemm> products;
    for (const std::size_t e : used_)
      products.push_back({rows_of(out, e),
                          {{rows_of(x, e), &factors.a[e], GemmDirection::kForward}},
                          {.scale = factors.scale}});
    ops::gemms(products);
    return out;
  }

  // gate | up [S, 2 I] of x [S, H].
  at::Tensor gate_up(const at::Tensor& x, const at::Tensor& a_out) const {
    const at::Tensor out = empty(2 * width_, x);
    std::vector<ops::Weight> halves;
    halves.reserve(2 * used_.size());
    std::vector<ops::Gemm> products;
    for (const std::size_t e : used_) {
      const Expert& expert = mlp_.experts[e];
      for (const ops::Linear* linear : {&expert.gate, &expert.up}) {
        const std::int64_t first = linear == &expert.gate ? 0 : width_;
        std::vector<ops::GemmTerm> terms = {
            {rows_of(x, e), &ops::weight_of(*linear, pass_), GemmDirection::kForward}};
        if (a_out.defined()) {
          halves.emplace_back(in_.b[e].plain().narrow(0, first, width_));
          terms.push_back({rows_of(a_out, e), &halves.back(), GemmDirection::kForward});
        }
        products.push_back({rows_of(out, e).narrow(1, first, width_), std::move(terms), {}});
      }
    }
    ops::gemms(products);
    return out;
  }

  at::Tensor product(const at::Tensor& gate_up) const {
    at::Tensor out = empty(width_, gate_up);
    ops::swiglu_into(out, gate_up.narrow(1, 0, width_), gate_up.narrow(1, width_, width_), is_gelu());
    return out;
  }

  at::Tensor down(const at::Tensor& product, const at::Tensor& a_out) const {
    const at::Tensor out = empty(config_.hidden_size, product);
    std::vector<ops::Gemm> products;
    for (const std::size_t e : used_) {
      std::vector<ops::GemmTerm> terms = {
          {rows_of(product, e), &ops::weight_of(mlp_.experts[e].down, pass_), GemmDirection::kForward}};
      if (a_out.defined()) terms.push_back({rows_of(a_out, e), &down_.b[e], GemmDirection::kForward});
      products.push_back({rows_of(out, e), std::move(terms), {}});
    }
    ops::gemms(products);
    return out;
  }

 private:
  const SparseMlp& mlp_;
  const ModelConfig& config_;
  const ops::PassContext& pass_;
  at::ScalarType dtype_;
  std::int64_t width_;
  Routing routing_;
  ExpertRows rows_;
  Factors in_, down_;
  std::vector<std::size_t> used_;  // experts with rows
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
      by_row_blocks(out, out.size(1), [&](std::int64_t first, std::int64_t count) {
        out.narrow(0, first, count)
            .copy_(rows.narrow(0, first, count) * weights.narrow(0, first, count).unsqueeze(1));
      });
      return out;
    };
    const std::vector<Expert>& experts = experts_.mlp().experts;
    const bool trains = std::any_of(experts.begin(), experts.end(), [](const Expert& expert) {
      return expert.down.trained_weight.defined();
    });
    const at::Tensor weighted_product = trains ? weighted(product) : at::Tensor();
    const SparseMlp& mlp = experts_.mlp();
    const Factors& factors = experts_.down_factors();
    const at::Tensor d_a = back_to_a(factors, d_rows);
    const at::Tensor out = experts_.empty(experts_.width(), d_rows);
    std::vector<ops::Gemm> products;
    for (const std::size_t e : experts_.used()) {
      const ops::Linear& linear = mlp.experts[e].down;
      std::vector<ops::GemmTerm> terms = {
          {experts_.rows_of(d_rows, e), &ops::weight_of(linear, experts_.pass()), GemmDirection::kBackward}};
      if (d_a.defined()) terms.push_back({experts_.rows_of(d_a, e), &factors.a[e], GemmDirection::kBackward});
      products.push_back({experts_.rows_of(out, e), std::move(terms), {}});
      add_weight(linear, experts_.rows_of(d_rows, e), weighted_product, e);
    }
    ops::gemms(products);
    if (!d_a.defined()) return out;
    add_factors(mlp.down_stack, d_rows, weighted(tape_.down_a), weighted(d_a), product);
    return out;
  }

  // From d_gate_up [S, 2 I] that of the sorted x; the gates and ups get theirs.
  at::Tensor gate_up(const at::Tensor& d_gate_up, const at::Tensor& x) {
    const SparseMlp& mlp = experts_.mlp();
    const Factors& factors = experts_.in_factors();
    const std::int64_t width = experts_.width();
    const at::Tensor d_a = back_to_a(factors, d_gate_up);
    const at::Tensor out = experts_.empty(x.size(1), x);
    std::vector<ops::Gemm> products;
    for (const std::size_t e : experts_.used()) {
      const Expert& expert = mlp.experts[e];
      const at::Tensor d = experts_.rows_of(d_gate_up, e);
      const at::Tensor d_gate = d.narrow(1, 0, width), d_up = d.narrow(1, width, width);
      std::vector<ops::GemmTerm> terms = {
          {d_gate, &ops::weight_of(expert.gate, experts_.pass()), GemmDirection::kBackward},
          {d_up, &ops::weight_of(expert.up, experts_.pass()), GemmDirection::kBackward}};
      if (d_a.defined()) terms.push_back({experts_.rows_of(d_a, e), &factors.a[e], GemmDirection::kBackward});
      products.push_back({experts_.rows_of(out, e), std::move(terms), {}});
      add_weight(expert.gate, d_gate, x, e);
      add_weight(expert.up, d_up, x, e);
    }
    ops::gemms(products);
    if (d_a.defined()) add_factors(mlp.gate_up_stack, d_gate_up, tape_.in_a, d_a, x);
    return out;
  }

 private:
  // scale * d B: the gradient of x A^T.
  at::Tensor back_to_a(const Factors& factors, const at::Tensor& d) const {
    if (!factors.any()) return {};
    const at::Tensor out = experts_.empty(factors.a.front().out(), d);
    std::vector<ops::Gemm> products;
    for (const std::size_t e : experts_.used())
      products.push_back({experts_.rows_of(out, e),
                          {{experts_.rows_of(d, e), &factors.b[e], GemmDirection::kBackward}},
                          {.scale = factors.scale}});
    ops::gemms(products);
    return out;
  }

  void add_weight(const ops::Linear& linear, const at::Tensor& d, const at::Tensor& x, std::size_t e) const {
    if (linear.trained_weight.defined())
      ops::add_weight_gradient(gradient_buffer(linear.trained_weight), d, experts_.rows_of(x, e));
  }

  // dA += d_a^T x and dB += d^T a_out of each expert, in its place of the stack.
  void add_factors(const ops::Linear& stack, const at::Tensor& d, const at::Tensor& a_out,
                   const at::Tensor& d_a, const at::Tensor& x) const {
    const auto experts = static_cast<std::int64_t>(experts_.mlp().experts.size());
    const at::Tensor a = gradient_buffer(stack.lora->a), b = gradient_buffer(stack.lora->b);
    const at::Tensor by_a = a.view({experts, -1, a.size(1)}), by_b = b.view({b.size(0), -1, experts});
    // Neighbors in B's gradient belong to different experts: they are added to it together.
    const at::Tensor sums = at::zeros({experts, by_b.size(1), by_b.size(0)}, b.options());
    std::vector<ops::Outer> products;
    for (const std::size_t e : experts_.used()) {
      const auto expert = static_cast<std::int64_t>(e);
      products.push_back({by_a.select(0, expert), experts_.rows_of(d_a, e), experts_.rows_of(x, e)});
      products.push_back({sums.select(0, expert), experts_.rows_of(a_out, e), experts_.rows_of(d, e)});
    }
    ops::add_outers(products);
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
  at::Tensor sorted = x.index_select(0, experts.rows().token);
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
  ops::sum_routed_rows(out, rows, experts.rows().place, experts.routing().weights);
  return out;
}

at::Tensor fused_sparse_backward(const SparseMlp& mlp, const ModelConfig& config, const at::Tensor& x,
                                 const at::Tensor& d, const ops::PassContext& pass, SparseTape& tape,
                                 const at::Tensor& balance) {
  const Experts experts(mlp, config, pass, tape.logits);
  ExpertsBackward backward(experts, tape);
  const ExpertRows& rows = experts.rows();
  const at::Tensor sorted = x.index_select(0, rows.token), weights = experts.sorted_weights();
  if (!tape.gate_up.defined()) tape.gate_up = experts.gate_up(sorted, tape.in_a);
  if (!tape.product.defined()) tape.product = experts.product(tape.gate_up);
  at::Tensor d_product = backward.down(d.index_select(0, rows.token), tape.product, weights);  // [S, I]
  const at::Tensor by_row = ops::weigh_rows_backward(d_product, tape.product, weights);
  const at::Tensor d_weights =
      by_row.index_select(0, rows.place.flatten()).view(rows.place.sizes());  // [T, k]
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
  ops::sum_routed_rows(out, dx_rows, rows.place, {}, dx);
  tape = {};
  return out;
}

}  // namespace hone::model
