// Sampled text -> the assistant's message with its calls, as TRL 1.16's parse_response with transformers
// 5.23's response templates reads it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "tools/turn.h"

namespace hone::tools {

// Forms that models emit and TRL's response templates do not have: gpt-oss's "commentary to=functions.x
// <|constrain|>json<|message|>", Llama's calls separated by ";" or behind <|python_tag|>, Mistral's
// [TOOL_CALLS]. They are tried on a turn in which the response template found no call. kOff for parity runs.
enum class Extras : unsigned char { kOff, kOn };

class ResponseParser {
 public:
  // The tokenizer's own `response_template` if it has one, else the one of the family that has exactly the
  // tokenizer's chat template, as TRL chooses; for another text the family whose form of a call `chat`
  // renders, which notes() then says. UserError when there is none: the model cannot be trained with tools.
  static ResponseParser open(const text::Tokenizer& tokenizer, const text::ChatTemplate& chat,
                             const std::string& where, Extras extras = Extras::kOn);
  // UserError for a response template that transformers refuses, and for patterns that base::Pattern does not
  // have. `eos`: one of it at the end of the content is taken off, as TRL does.
  static ResponseParser from_json(const base::Json& response_template, const std::string& where,
                                  const std::string& eos = "");
  // "Qwen3", ..., "the tokenizer's own" or "a given one".
  const std::string& family() const;
  const std::vector<std::string>& notes() const;  // a sentence each

  // `prompt` and `completion` are decoded with special tokens. `tools`: the JSON schemas on offer, for casts;
  // an array or null. Never throws: a text that does not parse becomes plain content without calls, as in
  // TRL; its content is `plain`, the completion without special tokens. Thread-safe.
  Turn parse(std::string_view prompt, std::string_view completion, const std::string& plain,
             const base::Json& tools) const;

  // Whether a text has what begins a call in this form, though the rest may not parse. Never throws.
  bool opens_call(std::string_view completion) const;

 private:
  struct Impl;
  explicit ResponseParser(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace hone::tools
