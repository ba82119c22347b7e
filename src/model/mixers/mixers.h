// The mixers, one file each (model/config/mixer.h). mixer.cpp there has their table. Only it and the mixers
// include this.
#pragma once

#include "model/config/mixer.h"

namespace hone::model {

const Mixer& attention_mixer();
const Mixer& short_conv_mixer();
const Mixer& delta_rule_mixer();

}  // namespace hone::model
