// Shared by the tests of turns: the recorder's tokenizer, hashes and chat templates.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "base/files/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "text/tokenizer.h"

namespace hone::tools {

inline base::Json recorded(const std::string& name) {
  const std::string file = std::string(HONE_FIXTURES) + "/tools/" + name;
  return base::parse_python_json(base::read_text(file), file);
}

// As tests/parity/record_tool_turns.py makes it.
inline std::string hash32(std::string_view text) {
  const std::uint64_t full = base::hash64(text);
  char out[16];
  std::snprintf(out, sizeof out, "%08x", static_cast<unsigned>((full >> 32U) ^ (full & 0xFFFFFFFFU)));
  return out;
}

// A token for each byte, and the control tokens of all families.
inline text::Tokenizer bytes_tokenizer(const std::string& eos, const std::string& chat_template = "",
                                       const base::Json& more = base::Json::object()) {
  base::Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"eos_token", eos}};
  if (!chat_template.empty()) config["chat_template"] = chat_template;
  for (const auto& [key, value] : more.items()) config[key] = value;
  const std::string file = std::string(HONE_FIXTURES) + "/tools/bytes_tokenizer.json";
  return text::Tokenizer::from_json(base::read_text(file), base::dump_json(config), "bytes_tokenizer");
}

// One of TRL's chat templates (tests/parity/fetch_tokenizers); nullopt when it was not fetched.
inline std::optional<std::string> trl_template(const std::string& name) {
  const base::fs::path file =
      base::fs::path(HONE_SOURCE_DIR) / "third_party/trl-templates" / (name + ".jinja");
  if (!base::fs::exists(file)) return std::nullopt;
  return base::read_text(file);
}

}  // namespace hone::tools
