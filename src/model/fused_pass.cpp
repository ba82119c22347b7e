#include "model/fused_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "base/where.h"
#include "model/embedding_noise.h"
#include "ops/rms_norm.h"

namespace hone::model {
namespace {

bool is_adapted(const DecoderLayer& layer) {
  for (const ops::Linear* linear : layer.linears()) {
    if (linear->lora) return true;
  }
  return false;
}

}  // namespace

FusedPass::FusedPass(const CausalLm& model, const data::Batch& batch, const ops::PassContext& context)
    : model_(model), batch_(batch), context_(context), rope_(model.rope(batch.positions)) {
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
  if (trained_.any()) return;
  const std::vector<DecoderLayer>& layers = model.layers();
  while (first_adapted_ < layers.size() && !is_adapted(layers[first_adapted_])) ++first_adapted_;
}

at::Tensor FusedPass::forward(const at::Tensor& rows, std::optional<RecomputeLevel> recompute) {
  const at::NoGradGuard no_grad;
  const std::vector<DecoderLayer>& layers = model_.layers();
  const LayerPass pass{model_.config(), rope_, context_};
  tape_.clear();
  base::require(!recompute || model_.trains_only_linears(), "FusedPass::forward",
                "only LoRA on the layers' linears and rows of the embedding, to be trained");
  if (recompute) tape_.resize(layers.size() - first_adapted_);
  // Trained rows were found for the backward already.
  at::Tensor x = trained_.any() ? model_.token_rows().put(model_.embed(batch_.ids), trained_)
                                : model_.embed(batch_.ids, context_);
  x = with_embedding_noise(x, context_);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    base::enter_layer(static_cast<std::int64_t>(i));
    LayerTape* tape = recompute && i >= first_adapted_ ? &tape_[i - first_adapted_] : nullptr;
    x = fused_layer_forward(layers[i], pass, x, segments_, recompute.value_or(RecomputeLevel::kNone), tape);
  }
  base::enter_layer(-1);
  rows_ = RepeatedRows(rows, x.size(0), x.device());
  last_ = x.index_select(0, rows_.different());
  at::Tensor out = at::empty(last_.sizes(), last_.options().dtype(model_.dtypes().linear));
  ops::rms_norm_into(out, last_, model_.final_norm(context_), model_.config().rms_norm_eps);
  return rows_.spread(out);
}

void FusedPass::backward(at::Tensor d) {
  const at::NoGradGuard no_grad;
  const std::vector<DecoderLayer>& layers = model_.layers();
  base::require(last_.defined() && d.dim() == 2 && d.size(0) == rows_.count() && d.size(1) == last_.size(1) &&
                    tape_.size() == layers.size() - first_adapted_,
                "FusedPass::backward", "the gradient of the taped forward before it");
  const LayerPass pass{model_.config(), rope_, context_};
  at::Tensor dx = at::zeros({static_cast<std::int64_t>(batch_.ids.size()), last_.size(1)}, last_.options());
  d = rows_.gather(d);
  {
    at::Tensor d_rows = at::zeros_like(last_);
    ops::rms_norm_backward_add(d_rows, d, last_, model_.final_norm(), model_.config().rms_norm_eps);
    dx.index_copy_(0, rows_.different(), d_rows);
  }
  d.reset();
  last_.reset();
  for (std::size_t i = layers.size(); i-- > first_adapted_;) {
    base::enter_layer(static_cast<std::int64_t>(i));
    fused_layer_backward(layers[i], pass, segments_, tape_[i - first_adapted_], dx,
                         i > first_adapted_ || trained_.any());
  }
  base::enter_layer(-1);
  if (trained_.any()) model_.token_rows().add_gradient(dx, trained_);
  tape_.clear();
}

}  // namespace hone::model
