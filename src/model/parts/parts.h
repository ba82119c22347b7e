// The parts of layers, one file each (model/config/layer_part.h). layer_part.cpp there says which layer has
// which. Only it and the parts include this.
#pragma once

#include "model/config/layer_part.h"

namespace hone::model {

const LayerPart& mixing_part();
const LayerPart& mlp_part();
const LayerPart& experts_part();
const LayerPart& own_input_part();
const LayerPart& scale_part();

}  // namespace hone::model
