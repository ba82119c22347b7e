// The machine's resources.
#pragma once

#include <cstdint>

namespace hone::train {

// `asked`, or when 0 the processors this process may use.
std::int64_t threads_or_default(std::int64_t asked);

}  // namespace hone::train
