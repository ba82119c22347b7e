// Messages of a chat request as a chat template takes them, and their tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "base/json.h"
#include "serve/openai/fields.h"
#include "serve/served.h"

namespace hone::serve::openai {

// Reads messages, tools, tool_choice, chat_template_kwargs, add_generation_prompt and their like. `tools`
// becomes those that an answer may call, or null.
std::vector<std::int32_t> prompt_of_chat(const Served& served, Fields& fields, base::Json& tools);

}  // namespace hone::serve::openai
