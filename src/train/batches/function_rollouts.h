// Completions that the user's function makes, TRL 1.16's rollout_func: GRPOTrainer._generate where that is set.
//
// The function gets the prompts of this process, each repeated num_generations times, and returns a prompt and a completion of its own
// for each of them, as token ids. What env_mask leaves out is read and never scored. Its log-probabilities are those of the distribution
// that was drawn from; what the trainer's model says of the tokens is computed by a pass of its own (train/steps/group_method.h).
//
// It may ask for completions of the model as it is now. Their randomness is keyed by (seed, batch, first prompt of this process, number of
// the request in the batch, place of the prompt in the request), so that it depends neither on threads nor on what is sampled together,
// and a batch that is made again draws the same.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/forms/prompts.h"
#include "model/causal_lm.h"
#include "rollout/completion.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "tools/rollout/rollout_host.h"
#include "train/batches/rollout_batch.h"

namespace hone::train {

// The function of a run, opened once (train/opening/tool_opening.h).
struct FunctionUse {
  std::unique_ptr<tools::RolloutHost> host;
  const text::ChatTemplate* chat = nullptr;  // null: the model has none
  base::Json template_kwargs = {};
  base::Json options = {};  // of the run, for the function's trainer
  std::string model;        // its folder or name, for the function's tokenizer
  std::int64_t vocab_size = 0;
  std::vector<std::int64_t> ends = {};  // a completion that ends otherwise was cut
};

struct FunctionBatch {
  std::vector<RolloutPrompt> prompts;    // of each sample
  std::vector<RolloutSample> samples;    // everything but its prompt and rewards
  std::vector<base::Json> columns = {};  // of each sample: an object, for rewards
  std::string printed = {};
};

// `rows`: of each prompt its row, and `numbers` their numbers in the data. options.samples completions each; options has the seed, the
// step and the keys of the prompts. UserError of RolloutHost::call.
FunctionBatch roll_out(const model::CausalLm& model, const std::vector<const data::PromptRow*>& rows,
                       const std::vector<std::int64_t>& numbers, const rollout::GenerateOptions& options,
                       const text::Tokenizer& tokenizer, FunctionUse& use, const base::Json& trainer_state,
                       bool evaluation);

}  // namespace hone::train
