// A message of the Tinker API: its tensors, or a refusal.
#include "fuzz/targets/target.h"
#include "serve/tinker/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hone;
  return fuzz::one_input(data, size, [](std::string_view bytes) {
    serve::read_forward_backward_head(bytes);
    for (const serve::WireDatum& datum : serve::read_forward_backward(bytes).data)
      for (const auto& [name, tensor] : datum.inputs)
        if (tensor.rows() * tensor.columns() > serve::kMaxTensorElements)
          fuzz::finding("a tensor past its limit: " + name);
  });
}
