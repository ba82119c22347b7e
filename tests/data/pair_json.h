// A side of a pair as TRL's goldens have it.
#pragma once

#include <algorithm>
#include <vector>

#include "base/json.h"
#include "data/preferences.h"

namespace hone::data {

// [ids, completion mask] of prompt and completion.
inline base::Json recorded_form(const PreferenceSequence& side) {
  std::vector<std::int32_t> ids = side.context;
  ids.insert(ids.end(), side.scored.begin(), side.scored.end());
  std::vector<int> mask(ids.size(), 0);
  std::fill(mask.end() - side.completion, mask.end(), 1);
  return base::Json::array({ids, mask});
}

}  // namespace hone::data
