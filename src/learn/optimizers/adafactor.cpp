// transformers.Adafactor (Shazeer and Stern 2018) as its Trainer makes it: scale_parameter and relative_step
// off, no first moment, clip_threshold 1, decay_rate -0.8. A matrix has a sum of squares for each row and each
// column only; other tensors have one for each element.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "learn/optimizers/rows.h"

namespace hone::learn {
namespace {

constexpr double kLeastSquare = 1e-30;  // eps[0]
constexpr double kClipThreshold = 1.0;
constexpr double kDecayRate = -0.8;

// The shape without dimension `gone`, counted from the end.
std::vector<std::int64_t> without(std::vector<std::int64_t> shape, std::int64_t gone) {
  shape.erase(shape.end() - gone);
  return shape;
}

std::vector<StateSize> adafactor_state(const OptimizerOptions&, const FlatTensor& tensor) {
  const std::vector<std::int64_t>& shape = tensor.shape;
  const bool factored = shape.size() >= 2 && tensor.size > 0;
  return {{"exp_avg_sq_row", factored ? tensor.size / shape[shape.size() - 1] : 0},
          {"exp_avg_sq_col", factored ? tensor.size / shape[shape.size() - 2] : 0},
          {"exp_avg_sq", factored ? 0 : tensor.size}};
}

// 1 / sqrt of the estimate that rows and columns give.
at::Tensor factored_scale(const at::Tensor& rows, const at::Tensor& columns) {
  const at::Tensor of_row = rows.div(rows.mean(-1, true)).rsqrt_().unsqueeze(-1);
  return of_row.mul(columns.unsqueeze(-2).rsqrt());
}

void adafactor_apply(const StepNumbers& n, at::Tensor p, const at::Tensor& g,
                     std::vector<at::Tensor>& state) {
  const double keep = 1.0 - std::pow(static_cast<double>(n.step), kDecayRate);
  at::Tensor update = g.pow(2).add_(kLeastSquare);
  if (p.dim() >= 2) {
    const std::vector<std::int64_t> shape = p.sizes().vec();
    at::Tensor rows = state[0].view(without(shape, 1)), columns = state[1].view(without(shape, 2));
    rows.mul_(keep).add_(update.mean(-1), 1.0 - keep);
    columns.mul_(keep).add_(update.mean(-2), 1.0 - keep);
    update = factored_scale(rows, columns).mul_(g);
  } else {
    at::Tensor squares = state[2].view(p.sizes());
    squares.mul_(keep).add_(update, 1.0 - keep);
    update = squares.rsqrt().mul_(g);
  }
  const at::Tensor rms = update.norm(2).div(std::sqrt(static_cast<double>(update.numel())));
  update.div_(rms.div(kClipThreshold).clamp_min_(1.0)).mul_(n.learning_rate);
  if (n.weight_decay != 0) p.add_(p, -n.weight_decay * n.learning_rate);
  p.sub_(update);
}

}  // namespace

const OptimizerRow kAdafactorRow = {OptimizerKind::kAdafactor, "adafactor", Units::kTensors, &adafactor_state,
                                    &adafactor_apply};

}  // namespace hone::learn
