// Is told how far a fused pass has come (fused_pass.h), so that only one layer's gradients need memory, or only one layer's
// parameters.
#pragma once

#include <cstddef>

namespace hone::model {

class PassObserver {
 public:
  virtual ~PassObserver() = default;
  // Around the forward of layer `layer`, in passes that read what is trained.
  virtual void before_forward(std::size_t /*layer*/) {}
  virtual void after_forward(std::size_t /*layer*/) {}
  // The backward of layer `layer` is next: it adds to the .grad of the layer's trained tensors.
  virtual void before_backward(std::size_t layer) = 0;
  // These gradients are complete, and the pass does not read the layer's weights again.
  virtual void after_backward(std::size_t layer) = 0;
  // After a backward: the gradients of what is outside the layers are complete too.
  virtual void after_pass() {}
};

}  // namespace hone::model
