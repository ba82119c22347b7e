// The mixers of a layer that are no attention: a short convolution and a delta rule, in a step of a sampler after what caches hold.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "model/layers/fused_layer.h"

namespace hone::model {

// out [T, H] from bcx [T, 3 H], whose inputs are conv_inputs(bcx); each of `rows` begins after what it says.
void convolve(const DecoderLayer& layer, const LayerPass& pass, const at::Tensor& out, const at::Tensor& bcx,
              const at::Tensor& inputs, const std::vector<ops::ConvRows>& rows);

// Convolves each segment after what its cache holds, and appends its inputs.
void convolve_after(const DecoderLayer& layer, const LayerPass& pass, const std::vector<StepCache>& caches,
                    const Segments& segments, const at::Tensor& out, const at::Tensor& bcx);

// The delta rule of each segment after what its cache holds, which gets its tokens; out [T, V E] from in, q|k|v|z|b|a.
void delta_rule_after(const DecoderLayer& layer, const LayerPass& pass, const std::vector<StepCache>& caches,
                      const Segments& segments, const at::Tensor& out, const at::Tensor& in);

}  // namespace hone::model
