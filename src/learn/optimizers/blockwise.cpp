#include "learn/optimizers/blockwise.h"

namespace hone::learn {

bool is_8bit(const FlatTensor& tensor) {
  return tensor.size >= kLeast8bit && !tensor.is_embedding;
}

std::int64_t state_blocks(std::int64_t size) {
  return (size + kStateBlock - 1) / kStateBlock;
}

}  // namespace hone::learn
