// Shared by generate and chat: from a plan to the arguments of rollout/, and streamed text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/adapter_set.h"
#include "adapters/lora.h"
#include "base/json.h"
#include "config/commands/tool_plans.h"
#include "model/causal_lm.h"
#include "rollout/completion.h"
#include "text/text_stream.h"
#include "text/tokenizer.h"
#include "train/opening/open_model.h"

namespace hone::commands {

// A model with its adapter, or with several of which the first is on, and the adapters below; prints a note
// when those differ from the ones in training, and, unless it was said before, when an adapter has an
// embedding of its own.
struct OpenedModel {
  std::unique_ptr<model::CausalLm> model;
  std::optional<adapters::Adapter> adapter;
  std::optional<adapters::AdapterSet> adapters;
};
OpenedModel open_model(const config::DecodingPlan& plan, bool tells_of_embedding = true);

// The base of a plan as its adapters were trained on it (adapters/saved_vocabulary.h); its tokenizer_path()
// is theirs. `notes`: see open_base.
std::unique_ptr<model::WeightSource> open_source(const config::DecodingPlan& plan,
                                                 std::vector<std::string>* notes = nullptr);

// A prompt, text or a list of messages, as tokens; `chat` applies the template, with text as the user's
// message and with `variables` (object or null). UserError for messages without `chat`.
std::vector<std::int32_t> encode_prompt(const base::Json& prompt, const train::OpenedText& opened, bool chat,
                                        const base::Json& variables = {});
// chat_template_kwargs of a plan, an object or null.
base::Json template_variables(const config::DecodingPlan& plan);

// The tokenizer must outlive the result.
rollout::GenerateOptions generate_options(const config::SamplingPlan& plan, const model::ModelConfig& config,
                                          const text::Tokenizer& tokenizer);

// Also stops where an answer ends in the chat template (text/turn_end.h), if the model can produce that token:
// a conversation would go on by itself where the model's files name another end.
void stop_at_turn_end(rollout::GenerateOptions& options, const train::OpenedText& opened,
                      const model::ModelConfig& config);

// "stop_token", "stop_string", "length" or "cancelled"
std::string_view finish_reason_name(rollout::FinishReason finish_reason);

using text::TextStream;

}  // namespace hone::commands
