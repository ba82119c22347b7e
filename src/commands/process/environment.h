// The variables of this process.
#pragma once

#include "parallel/place.h"

namespace hone::commands {

parallel::Environment own_environment();

}  // namespace hone::commands
