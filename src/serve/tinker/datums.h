// This checks what a client sends of a loss, and makes of it what the losses read.
#pragma once

#include <string>

#include "serve/tinker/wire.h"
#include "serve/training/losses.h"

namespace hone::serve {

// UserError, which names the tensor: one that the loss needs and that is absent, one that it does not read, a
// shape that is not that of the tokens, numbers that are not finite, a target that is no token. Without
// `trains` the weights of cross_entropy may be absent, and are 1.
Datum datum_of(const WireDatum& datum, const LossSpec& spec, bool trains, const std::string& where);

}  // namespace hone::serve
