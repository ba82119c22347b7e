// A sequence-classification model as a reward (LlamaForSequenceClassification and similar: the decoder, with
// score.weight [1, H] instead of a language model's head), as TRL 1.16's GRPOTrainer uses one:
//
//   a conversation   the model's own chat template over the prompt's and the completion's messages
//   text             prompt + completion
//
// encoded by the model's own tokenizer without adding special tokens; the score is that of the last token
// that is not the pad token (of a tokenizer without one, the end-of-sequence token, which TRL takes for it).
// Rows are packed without padding, so a score does not depend on the rest of the batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "base/files/file.h"
#include "base/json.h"
#include "config/plan.h"
#include "rewards/reward.h"

namespace hone::train {

// A folder with adapter_config.json is a reward model's adapter (hone reward, or TRL's RewardTrainer with
// PEFT): its base is base_model_name_or_path, its tokenizer that of the folder, if it has one.
//
// UserError for other folders: several labels, no score.weight, no tokenizer. Its name is the folder's last
// part. `template_kwargs` (object or null) is chat_template_kwargs. Held and run on `device`.
// `base`: of an adapter, instead of base_model_name_or_path.
std::unique_ptr<rewards::Reward> open_model_reward(const std::string& folder, config::Precision precision,
                                                   const base::Json& template_kwargs = {},
                                                   at::Device device = at::kCPU,
                                                   const base::fs::path& base = {});

}  // namespace hone::train
