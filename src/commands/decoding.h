// Shared by generate and chat: from a plan to the arguments of rollout/, and streamed text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/adapter_set.h"
#include "adapters/lora.h"
#include "base/json.h"
#include "config/commands/tool_plans.h"
#include "model/causal_lm.h"
#include "rollout/completion.h"
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

// The text of a growing list of tokens, piece by piece. A token that ends within a character is held back
// until the next, so that the concatenated pieces equal the decoding of all tokens; special tokens are left
// out.
class TextStream {
 public:
  explicit TextStream(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}  // which must outlive it

  std::string next(std::span<const std::int32_t> ids);  // `ids` is the list before and at least one more
  std::string rest(std::span<const std::int32_t> ids);  // the rest, even if incomplete

 private:
  std::string piece(std::span<const std::int32_t> ids, bool whole);

  const text::Tokenizer& tokenizer_;
  // Text of ids[0, emitted_) has been given; decoding begins at begin_, some tokens before: some decoders
  // look at the token before (a space is left out at the beginning of a text).
  std::size_t begin_ = 0, emitted_ = 0;
};

}  // namespace hone::commands
