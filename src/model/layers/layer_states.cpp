#include "model/layers/layer_states.h"

#include <ATen/ATen.h>

#include <ranges>

#include "ops/delta_rule.h"
#include "ops/short_conv.h"

namespace hone::model {

void convolve(const DecoderLayer& layer, const LayerPass& pass, const at::Tensor& out, const at::Tensor& bcx,
              const at::Tensor& inputs, const std::vector<ops::ConvRows>& rows) {
  ops::short_conv_into(out, inputs, bcx, tensor_of(layer, TensorKind::kConvWeight, pass.context),
                       tensor_of(layer, TensorKind::kConvBias, pass.context), rows);
}

// Convolves each segment after what its cache holds, and appends its inputs.
void convolve_after(const DecoderLayer& layer, const LayerPass& pass, const std::vector<StepCache>& caches,
                    const Segments& segments, const at::Tensor& out, const at::Tensor& bcx) {
  const std::int64_t wanted = pass.config.conv_taps - 1;
  const at::Tensor inputs = ops::conv_inputs(bcx);
  std::vector<ops::ConvRows> rows;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    at::Tensor earlier = caches[i].own->inputs.last(wanted);
    for (const auto& before : std::views::reverse(caches[i].before)) {
      if (earlier.size(0) == wanted) break;
      earlier = at::cat({before->inputs.last(wanted - earlier.size(0)), earlier});
    }
    rows.push_back({segments[i].begin, segments[i].end, earlier});
  }
  convolve(layer, pass, out, bcx, inputs, rows);
  for (std::size_t i = 0; i < segments.size(); ++i)
    caches[i].own->inputs.append(inputs.narrow(0, segments[i].begin, segments[i].end - segments[i].begin));
}

// The delta rule of each segment after what its cache holds, which gets its tokens.
void delta_rule_after(const DecoderLayer& layer, const LayerPass& pass, const std::vector<StepCache>& caches,
                      const Segments& segments, const at::Tensor& out, const at::Tensor& in) {
  std::vector<ops::DeltaStep> steps;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const auto& before = caches[i].before;
    steps.push_back({.begin = segments[i].begin,
                     .end = segments[i].end,
                     .before = before.empty() ? nullptr : &before.back()->delta,
                     .own = &caches[i].own->delta});
  }
  ops::delta_rule_step(out, in, delta_weights(layer, pass.context), delta_shape(pass.config), steps);
}

}  // namespace hone::model
