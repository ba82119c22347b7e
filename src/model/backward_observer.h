// Is told how far a fused backward has come (fused_pass.h), so that the gradients of one layer at a time need memory.
#pragma once

#include <cstddef>

namespace hone::model {

class BackwardObserver {
 public:
  virtual ~BackwardObserver() = default;
  // The backward of layer `layer` is next: it adds to the .grad of the layer's trained tensors.
  virtual void before_layer(std::size_t layer) = 0;
  // These gradients are complete, and the pass does not read the layer's weights again.
  virtual void after_layer(std::size_t layer) = 0;
};

}  // namespace hone::model
