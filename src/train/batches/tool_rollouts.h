// Completions of a model that calls tools while it samples: TRL 1.16's GRPOTrainer._tool_call_loop, sample by sample instead of
// in rounds of the whole batch.
//
//   turn 1 (drawn) | suffix: the results, and what the template puts around them (given) | turn 2 (drawn) | ...
//
// A turn that ends is parsed; its calls go to the pool, while the other samples are sampled; when all its results are there, the
// ids between the turns are appended to the request, whose keys are kept. A sample's ids depend on its prompt, its draws and what its
// tools answer: not on when they answer, nor on the samples beside it (rollout/engine.h). Drawn ids are never tokenized again.
//
// As in TRL: a completion has at most max_completion_length tokens, given ones included. Where results do not fit, the completion
// ends before them, though the calls have been made. With max_tool_calling_iterations a further call is left unanswered.
// Otherwise than in TRL: results are in the order of the calls (TRL puts those of async functions last).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/forms/prompts.h"
#include "model/causal_lm.h"
#include "rollout/completion.h"
#include "rollout/engine.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "tools/response_parser.h"
#include "tools/suffix_maker.h"
#include "tools/tool_pool.h"
#include "train/batches/prompt_limits.h"
#include "train/batches/rollout_batch.h"
#include "train/batches/tool_journal.h"

namespace hone::train {

// The tools of a run, opened once (train/opening/tool_opening.h).
struct ToolUse {
  std::shared_ptr<tools::ToolPool> pool;
  std::shared_ptr<const text::ChatTemplate> chat;  // of prompts and suffixes
  tools::ResponseParser parser;
  tools::SuffixMaker suffixes;
  std::int64_t most_rounds = -1;               // max_tool_calling_iterations; below 0: no bound
  std::int64_t most_result_tokens = 0;         // 0: no bound
  std::int64_t failures_to_stop = 0;           // 0: never
  bool scores = true;                          // environments are asked for their rewards
  std::size_t shared_tools = 0;                // the first ones of tools(): functions, not methods
  std::vector<std::string> environments = {};  // names; "" alone: one without a name; empty: none
  base::Json template_kwargs = {};             // chat_template_kwargs
  std::int64_t vocab_size = 0;
  PromptLimits limits = {};  // of prompts with their tools and what reset() says

  // UserError naming the row for a name that is no environment's, or none where there are several.
  const std::string& environment_of(const data::PromptRow& row) const;
  base::Json schemas(const std::string& environment) const;
  // Prompts as the model reads them, with the schemas of their tools.
  std::vector<data::TokenizedPrompt> tokenize(std::vector<data::PromptRow> rows,
                                              const text::Tokenizer& tokenizer) const;
  // Returns whether `name` is a method of the environment rather than a function that all share.
  bool is_method(const std::string& environment, const std::string& name) const;
  // One reward for each class of environments that has a get_reward, named after the class. None where nothing `scores`.
  std::vector<std::string> reward_names() const;
};

// Who samples a completion: the tools on offer, and the environment that gives some of them.
struct Actor {
  std::string environment;     // "": the only one, or none
  std::int64_t instance = -1;  // of the environment; below 0: none
};

// A prompt, and an actor for each of its completions.
struct ActingPrompt {
  base::Json prompt;  // messages, with what reset() said
  std::vector<std::int32_t> ids;
  std::string text;  // as the model reads it
  std::vector<Actor> actors;
};

// The environments of one prompt do not begin alike.
class WorldsDiffer final : public base::UserError {
 public:
  using base::UserError::UserError;
};

// The prompts of a batch with their environments, reset in order: what reset() returns stands behind the last message. Of one prompt
// all environments have to say the same (WorldsDiffer), and get the same seed, which depends on `options` (seed, step, prompt_keys) alone. UserError
// for one that raises, and for a prompt that is too long with what it says. `journal`: where what they say is kept; what it has of an
// earlier start is taken, and `changed` is told of a reset() that says something else now.
std::vector<ActingPrompt> begin_dialogues(const std::vector<const data::PromptRow*>& rows,
                                          const rollout::GenerateOptions& options,
                                          const text::Tokenizer& tokenizer, ToolUse& use,
                                          ToolJournal* journal = nullptr,
                                          std::vector<std::string>* changed = nullptr);

// [prompts * samples][reward_names()], kNone of other classes' samples and for None.
// `warn` is told of those that could not be asked.
std::vector<std::vector<double>> environment_rewards(
    const std::vector<ActingPrompt>& prompts, ToolUse& use,
    const std::function<void(std::size_t sample, const std::string& what)>& warn);

// A sentence each.
struct ActingNotes {
  std::vector<std::string> calls;    // failures and the like
  std::vector<std::string> changed;  // other answers than those that the journal has
};

using OnActed = std::function<void(std::size_t index, RolloutSample sample, const ActingNotes& notes)>;

// As rollout::generate(): completion prompt * samples + sample, options.prompt_keys, and on_done as they finish. A sample has
// everything but its prompt and rewards. `journal`: where results are kept and looked up; null: nowhere. Returns the seconds in which
// nothing could be sampled, since every sample waited for a tool. UserError of generate() and of the pool.
double generate_with_tools(const model::CausalLm& model, const std::vector<ActingPrompt>& prompts,
                           const rollout::GenerateOptions& options, const text::Tokenizer& tokenizer,
                           ToolUse& use, ToolJournal* journal, const OnActed& on_done);

}  // namespace hone::train
