// hone's own kernels with one fault each (tests/emulated/plant.py).
#pragma once

#include <vector>

#include "emulated/machine/guarded_kernels.h"

namespace hone::emulated {

struct Planted {
  const char *op, *what;          // the operator whose cases find it; what is wrong
  void (*plant)(Kernels& table);  // puts the wrong kernel into a table
};

const std::vector<Planted>& planted();

}  // namespace hone::emulated
