#include "train/methods/methods.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "train/methods/cpo/cpo.h"
#include "train/methods/distill/distill.h"
#include "train/methods/dpo/dpo.h"
#include "train/methods/grpo/grpo.h"
#include "train/methods/kto/kto.h"
#include "train/methods/online_dpo/online_dpo.h"
#include "train/methods/orpo/orpo.h"
#include "train/methods/reward/reward_model.h"
#include "train/methods/rloo/rloo.h"
#include "train/methods/sft/sft.h"

namespace hone::train {

std::span<const MethodOpening> method_openings() {
  static const std::array rows = {sft::row(),    grpo::row(), rloo::row(), dpo::row(),  online_dpo::row(),
                                  reward::row(), kto::row(),  cpo::row(),  orpo::row(), distill::row()};
  return rows;
}

const MethodOpening& method_opening(config::Method method) {
  const auto rows = method_openings();
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const MethodOpening& one) { return one.method == method; });
  base::require(found != rows.end(), "train::method_opening", "a row of every method");
  return *found;
}

}  // namespace hone::train
