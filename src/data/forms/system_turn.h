// alignment-handbook's auto_insert_empty_system_msg: conversations begin with a system turn, if need be an empty one.
#pragma once

#include <string_view>

#include "base/json.h"

namespace hone::data {

// Puts {"role": "system", "content": ""} before the first turn of a row's conversation, unless that is a system
// turn: in `messages` (`conversations`), else in `prompt`, else in `chosen` and `rejected`. What is not a list of
// turns stays. alignment/data.py, maybe_insert_system_message.
void insert_empty_system_turn(base::Json& row);

// Whether alignment-handbook does so with this template: it has the word system, or ChatML's <|im_start|>.
bool knows_system_turns(std::string_view chat_template);

}  // namespace hone::data
