#include "model/fused_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/where.h"
#include "ops/index_tensor.h"
#include "ops/join/join.h"
#include "ops/rms_norm.h"
#include "ops/routed_rows.h"

namespace hone::model {
namespace {

bool is_adapted(const DecoderLayer& layer) {
  for (const ops::Linear* linear : layer.linears()) {
    if (linear->lora || linear->trained_weight.defined() || linear->trained_bias.defined()) return true;
  }
  for (const auto& group : layer.readers()) {  // which has the stacks of experts too
    if (std::any_of(group.begin(), group.end(), [](const ops::Linear* one) { return one->lora.has_value(); }))
      return true;
  }
  const auto defined = [](const at::Tensor& tensor) { return tensor.defined(); };
  const auto& norms = layer.trained.weights;
  const auto& tensors = layer.trained_tensors.values;
  return std::any_of(norms.begin(), norms.end(), defined) ||
         std::any_of(tensors.begin(), tensors.end(), defined);
}

void release_casts(const CausalLm& model, const DecoderLayer& layer) {
  if (model.keeps_casts()) return;
  for (const ops::Linear* linear : layer.linears()) linear->trained_cast.release();
}

// The rows of dx [T, H] to the embedding's rows of `ids`, but for the padding's, as CausalLm::embed().
void add_embedding_gradient(const CausalLm& model, const std::vector<std::int64_t>& ids,
                            const at::Tensor& dx) {
  const std::int64_t padding = model.config().padding_row(model.config().vocab_size);
  std::vector<std::int64_t> tokens, rows;
  for (std::size_t t = 0; t < ids.size(); ++t) {
    if (ids[t] == padding) continue;
    tokens.push_back(static_cast<std::int64_t>(t));
    rows.push_back(ids[t]);
  }
  if (rows.empty()) return;
  const bool all = tokens.size() == ids.size();
  ops::add_rows(model.trained_parts().embedding.grad(), dx, rows,
                all ? std::span<const std::int64_t>() : tokens);
}

}  // namespace

FusedPass::FusedPass(const CausalLm& model, const data::Batch& batch, const ops::PassContext& context,
                     RouterLoad load)
    : model_(model),
      batch_(batch),
      context_(context),
      ropes_(model.ropes(batch.positions)),
      load_(std::move(load)) {
  base::require(batch.ids.size() == batch.positions.size() && !batch.ids.empty(), "ExplicitPass",
                "a batch with one position a token");
  std::int64_t covered = 0;
  for (std::size_t i = 0; i < batch.segments.size(); ++i) {
    const data::Segment& s = batch.segments[i];
    base::require(s.begin == covered && s.end > s.begin, "ExplicitPass",
                  "segments in order, without gap or overlap");
    covered = s.end;
    if (s.prefix == data::kNoPrefix) {
      segments_.emplace_back(s.begin, s.end);
      continue;
    }
    base::require(s.prefix >= 0 && s.prefix < static_cast<std::int64_t>(i) &&
                      batch.segments[static_cast<std::size_t>(s.prefix)].prefix == data::kNoPrefix,
                  "ExplicitPass", "a prefix that comes before its segment and has none itself");
    segments_.emplace_back(s.begin, s.end, s.prefix);
  }
  base::require(covered == static_cast<std::int64_t>(batch.ids.size()), "ExplicitPass",
                "segments that cover every token");
  trained_ = model.token_rows().places(batch.ids, context);
  if (trains_embedding() || trains_per_layer()) return;
  const std::vector<DecoderLayer>& layers = model.layers();
  while (first_adapted_ < layers.size() && !is_adapted(layers[first_adapted_])) ++first_adapted_;
}

bool FusedPass::trains_embedding() const {
  return trained_.any() || (context_.adapters_on && model_.trained_parts().embedding.defined());
}

bool FusedPass::trains_per_layer() const {
  return model_.per_layer() != nullptr && context_.adapters_on &&
         (model_.per_layer()->is_trained() || trains_embedding());
}

void FusedPass::per_layer_backward(const at::Tensor& d_per_layer, const at::Tensor& dx) const {
  if (!d_per_layer.defined()) return;
  fused_per_layer_backward(*model_.per_layer(), {model_.config(), model_.dtypes(), batch_.ids, context_},
                           d_per_layer, per_layer_tape_, trains_embedding() ? dx : at::Tensor());
}

at::Tensor FusedPass::forward(const at::Tensor& rows, std::optional<RecomputeLevel> recompute) {
  const at::NoGradGuard no_grad;
  const std::vector<DecoderLayer>& layers = model_.layers();
  load_.clear();
  shared_.clear();
  LayerPass pass{model_.config(), ropes_, context_, model_.config().experts.count > 0 ? &load_ : nullptr};
  pass.shared = &shared_;
  pass.keeps_shared = recompute.has_value();
  tape_.clear();
  base::require(!recompute || model_.fused_trains(), "FusedPass::forward",
                "no LoRA on embedding or head, to be trained");
  if (recompute) tape_.resize(layers.size() - first_adapted_);
  // Trained rows were found for the backward already.
  at::Tensor x = trained_.any() ? model_.token_rows().put(model_.embed(batch_.ids), trained_)
                                : model_.embed(batch_.ids, context_);
  x = model_.into_layers(x, context_);
  if (const PerLayerInputs* const inputs = model_.per_layer()) {
    PerLayerTape* const tape = recompute && trains_per_layer() ? &per_layer_tape_ : nullptr;
    per_layer_ =
        fused_per_layer_inputs(*inputs, {model_.config(), model_.dtypes(), batch_.ids, context_}, x, tape);
    pass.per_layer = per_layer_;
  }
  PassObserver* const observer = context_.adapters_on ? model_.pass_observer() : nullptr;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    base::enter_layer(static_cast<std::int64_t>(i));
    LayerTape* tape = recompute && i >= first_adapted_ ? &tape_[i - first_adapted_] : nullptr;
    if (observer != nullptr) observer->before_forward(i);
    x = fused_layer_forward(layers[i], pass, x, segments_, recompute.value_or(RecomputeLevel::kNone), tape);
    release_casts(model_, layers[i]);
    if (observer != nullptr) observer->after_forward(i);
  }
  for (auto& [number, keys] : shared_) keys.tiles.clear();
  base::enter_layer(-1);
  rows_ = RepeatedRows(rows, x.size(0), x.device());
  last_ = x.index_select(0, rows_.different());
  at::Tensor out = at::empty(last_.sizes(), last_.options().dtype(model_.dtypes().linear));
  ops::rms_norm_into(out, last_, model_.final_norm(context_), model_.config().rms_norm_eps);
  return rows_.spread(out);
}

void FusedPass::backward(at::Tensor d, double balance) {
  const at::NoGradGuard no_grad;
  const std::vector<DecoderLayer>& layers = model_.layers();
  base::require(last_.defined() && d.dim() == 2 && d.size(0) == rows_.count() && d.size(1) == last_.size(1) &&
                    tape_.size() == layers.size() - first_adapted_,
                "FusedPass::backward", "the gradient of the taped forward before it");
  LayerPass pass{model_.config(), ropes_, context_};
  pass.shared = &shared_;
  pass.per_layer = per_layer_;
  if (trains_per_layer()) pass.d_per_layer = at::empty_like(per_layer_);
  if (balance != 0 && load_.defined()) pass.balance = load_.gradient() * balance;
  // with room for what joined linears want behind their outputs' gradient
  at::Tensor dx =
      ops::output_rows({&layers.back().o, 1}, static_cast<std::int64_t>(batch_.ids.size()), last_.options());
  dx.zero_();
  at::Tensor cast;
  if (ops::copies_blocks(dx.device())) pass.cast = &cast;
  d = rows_.gather(d);
  {
    at::Tensor d_rows = at::zeros_like(last_);
    const double eps = model_.config().rms_norm_eps;
    if (const at::Tensor& trained = model_.trained_final_norm(); trained.defined())
      ops::rms_norm_weight_gradient(trained.grad(), model_.scales_hidden() ? d * model_.hidden_scale() : d,
                                    last_, eps);
    ops::rms_norm_backward_add(d_rows, d, last_, model_.final_norm(context_), eps);
    dx.index_copy_(0, rows_.different(), d_rows);
  }
  d.reset();
  last_.reset();
  PassObserver* const observer = model_.pass_observer();
  for (std::size_t i = layers.size(); i-- > first_adapted_;) {
    base::enter_layer(static_cast<std::int64_t>(i));
    if (observer != nullptr) observer->before_backward(i);
    fused_layer_backward(layers[i], pass, segments_, tape_[i - first_adapted_], dx,
                         i > first_adapted_ || trains_embedding());
    release_casts(model_, layers[i]);
    if (observer != nullptr) observer->after_backward(i);
  }
  base::enter_layer(-1);
  per_layer_backward(pass.d_per_layer, dx);
  if (const double scale = model_.config().embedding_scale; scale != 1 && trains_embedding())
    dx = dx * model_.embedding_scale();
  if (trained_.any()) model_.token_rows().add_gradient(dx, trained_);
  if (model_.trained_parts().embedding.defined()) add_embedding_gradient(model_, batch_.ids, dx);
  if (observer != nullptr) observer->after_pass();
  tape_.clear();
  shared_.clear();
  per_layer_.reset();
  per_layer_tape_ = {};
}

}  // namespace hone::model
