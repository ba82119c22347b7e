// What hone does with each key of the files of a tokenizer folder; the reference is transformers 5.23.
#pragma once

#include <string>
#include <string_view>

#include "base/read_keys.h"

namespace hone::text {

const base::ReadKeys& tokenizer_config_keys();    // tokenizer_config.json
const base::ReadKeys& special_tokens_map_keys();  // special_tokens_map.json
const base::ReadKeys& tokenizer_json_keys();      // the top level of tokenizer.json
const base::ReadKeys& added_token_keys();  // an added token: in tokenizer.json, or an AddedToken object

// "bos_token", ..., of transformers' SPECIAL_TOKENS_ATTRIBUTES.
bool is_named_token(std::string_view key);

// UserError for a key of `config` that its table refuses; `where` is the file.
void check_refused_keys(const base::Json& config, const std::string& where);
// A note for the keys of `object` that no row of `keys` marks and that say something: neither null, false nor
// empty. A key that ends in _token is marked: its text is a special token. Empty: there are none.
std::string note_of_unmarked(const base::ReadKeys& keys, const base::Json& object);

}  // namespace hone::text
