// Strings <-> token ids, by Hugging Face's own `tokenizers` crate behind text-ffi's C ABI.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "base/gguf/gguf.h"
#include "base/json.h"

namespace hone::text {

struct Encoding {
  std::vector<std::int32_t> ids;  // [T]
  // [T] or empty; [begin, end) in the input
  std::vector<std::pair<std::uint32_t, std::uint32_t>> byte_offsets;
};

// The named special tokens, in text form. `named` holds all of them ("bos_token", "image_token", ...) for the
// variables of a chat template.
struct SpecialTokens {
  std::optional<std::string> bos, eos, pad, unk;
  std::optional<std::string> eot;  // eot_token: where an answer ends if not at eos; a GGUF has it
  std::map<std::string, std::string> named;
};

// The chat templates of a tokenizer. `named`: all of them by name where there are several, "default" among
// them or not; else empty.
struct ChatTemplates {
  std::optional<std::string> main;  // the only one, or "default"
  std::map<std::string, std::string> named;
};

struct TokenizerFiles;

// Thread-safe for const calls.
class Tokenizer {
 public:
  // A folder with tokenizer.json, as transformers' AutoTokenizer reads it (text/tokenizer_files.h). UserError
  // for another, and for what hone does not have. The files are read whole: save() works after the folder is
  // gone.
  static Tokenizer from_folder(const base::fs::path& folder);
  // Built from a GGUF's metadata (text/gguf/gguf_tokenizer.h).
  static Tokenizer from_gguf(const base::GgufFile& file);
  // From the text of a tokenizer.json and of a tokenizer_config.json ("" when absent).
  static Tokenizer from_json(std::string_view tokenizer_json, std::string_view config_json,
                             const std::string& where);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // `add_special`: what the post-processor adds (BOS for Llama 3). Special tokens in the text are recognized.
  Encoding encode(std::string_view text, bool add_special, bool want_offsets = false) const;
  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const;
  std::optional<std::int32_t> token_to_id(std::string_view token) const;
  std::optional<std::string> id_to_token(std::int32_t id) const;
  std::int64_t vocab_size() const;  // added tokens included

  const SpecialTokens& special() const;
  std::optional<std::int32_t> eos_id() const;
  std::optional<std::int32_t> pad_id() const;  // pad, or eos as TRL falls back
  std::optional<std::int32_t> eot_id() const;  // special().eot, where the vocabulary has it
  // The chat template's source, if the folder, the config or the GGUF has one: of several the "default".
  const std::optional<std::string>& chat_template() const;
  const ChatTemplates& chat_templates() const;
  // The added tokens that steer a conversation: the special ones, and those of chat_control_tokens in
  // tokenizer_config.json or else those that a chat template writes, white space excepted. In other text they
  // have to be encoded as that text (transformers 5.23, sanitize_control_tokens).
  std::vector<std::string> control_tokens() const;
  // response_template of tokenizer_config.json: how a sampled turn is parsed (transformers 5.13 and later).
  std::optional<base::Json> response_template() const;
  // Says what of the folder's files is not applied, a sentence each.
  const std::vector<std::string>& notes() const;
  // Replace the template (chat_template_path) or the end-of-sequence token (eos_token), in this object and in
  // save(). set_eos: UserError when the vocabulary lacks the token.
  void set_chat_template(std::string source);
  void set_eos(const std::string& token);
  // Adds tokens behind the vocabulary, in this object and in save(): objects as tokenizer.json's added_tokens
  // has them, with content and flags; their ids are set here. Returns the ids. UserError for a token that is
  // in the vocabulary.
  std::vector<std::int64_t> add_tokens(const std::vector<base::Json>& tokens);
  // Writes the files so that transformers' AutoTokenizer loads the same tokenizer and all its chat templates
  // from them. Files that came from a folder are copied byte for byte, except that tokenizer_config.json
  // names the class that config.json chose and holds the templates of additional_chat_templates, and that
  // truncation and padding of tokenizer.json are left out.
  void save(const base::fs::path& folder) const;

 private:
  friend class EncodeBatch;
  friend std::string tokenizer_json_in_effect(const TokenizerFiles& files);
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hone::text
