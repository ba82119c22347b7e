// The token at which an answer ends in a model's chat template: "<|im_end|>", "<end_of_turn>", "<|end|>".
// Often it is not the tokenizer's eos_token, and a GGUF or an edited folder may name it nowhere else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace hone::text {

// What the template writes behind an assistant's answer, without leading white space; empty: nothing, or the
// answer is not to be found. UserError as ChatTemplate::render, for a template that takes no question and answer.
std::string text_after_answer(const ChatTemplate& chat_template);

// The first token of that text when it is a special one; nullopt: turns end with ordinary text.
std::optional<std::int32_t> turn_end(const Tokenizer& tokenizer, const ChatTemplate& chat_template);

}  // namespace hone::text
