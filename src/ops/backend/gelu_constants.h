// gelu_pytorch_tanh(g) = g sigmoid(kGeluScale (g + kGeluCubic g^3)); the scale is 2 sqrt(2 / pi). Apart from swiglu.h,
// because files that are compiled for wide instructions read it.
#pragma once

namespace hone::ops {

constexpr float kGeluScale = 1.5957691216057308F, kGeluCubic = 0.044715F;

}  // namespace hone::ops
