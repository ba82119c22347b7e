// The ids between a sampled turn with calls and the next sampled one: the rest of the call turn, the results,
// the header of the assistant's turn. What was sampled is never rendered or tokenized again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "tools/turn.h"

namespace hone::tools {

// TRL's training form of a chat template that renders a call turn otherwise once its result follows (Qwen3
// takes the empty thinking block away): prompts and suffixes then use this text. nullopt: the template keeps
// what it rendered, or there is no such form, and SuffixMaker refuses it.
std::optional<std::string> tool_training_template(const text::Tokenizer& tokenizer, const std::string& source,
                                                  const std::string& where);

class SuffixMaker {
 public:
  struct Options {
    // Control tokens in a result's text are encoded as ordinary text; false: they become the tokens, as in
    // TRL.
    bool plain_control_tokens = true;
    base::Json template_kwargs;          // an object or null
    std::vector<std::int32_t> stop_ids;  // what ends sampling; empty: check (e) is left out
  };
  // Keeps references to both, which have to live as long. Renders conversations of one call, two calls, two
  // rounds, an empty and a long result, with and without reasoning. UserError, which names the turn and the
  // characters, unless (a) a call turn is rendered the same once results follow, (b) turn and suffix are the
  // full text, (c) the suffix does not repeat the token that ends the turn, (d) with plain_control_tokens a
  // result has no control token, (e) what ends a call turn is one of stop_ids.
  SuffixMaker(const text::Tokenizer& tokenizer, const text::ChatTemplate& chat, const Options& options,
              const std::string& where);

  // The calls of the turn and their results, in call order. last_id: the last sampled id; where the suffix
  // would begin with the same stop id, it is left out. UserError where the template refuses the results.
  std::vector<std::int32_t> suffix(const std::vector<Call>& calls, const std::vector<std::string>& results,
                                   std::int32_t last_id) const;
  // The ids that end a call turn in this template, in its order: sampling has to stop there.
  const std::vector<std::int32_t>& turn_ends() const;
  const std::vector<std::string>& notes() const;  // a sentence each

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace hone::tools
