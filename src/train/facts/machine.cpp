#include "train/facts/machine.h"

#include <algorithm>
#include <thread>

namespace hone::train {

std::int64_t threads_or_default(std::int64_t asked) {
  if (asked > 0) return asked;
  return std::max<std::int64_t>(1, std::thread::hardware_concurrency());
}

}  // namespace hone::train
