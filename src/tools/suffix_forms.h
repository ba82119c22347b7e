// Conversations with calls and results as a chat template writes them, in text and in ids.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/json.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "tools/turn.h"

namespace hone::tools {

// The characters around byte `at`, in quotes, with line ends as \n; at the end for a later `at`.
std::string characters_around(const std::string& text, std::size_t at);

class SuffixForms {
 public:
  // Keeps references to both. UserError for a template that loses a call or a result (TRL's
  // supports_tool_calling).
  SuffixForms(const text::Tokenizer& tokenizer, const text::ChatTemplate& chat, base::Json template_kwargs,
              bool plain_control_tokens, std::string where);

  // ids(dummy question, dummy call of the first name, results, header) without ids(dummy question, dummy
  // call), which ends where the sampled turn does. UserError when the latter do not begin the former.
  std::vector<std::int32_t> suffix(const std::vector<Call>& calls,
                                   const std::vector<std::string>& results) const;

  // A turn with calls; `reasoning` under both names that templates read.
  base::Json turn(const std::vector<Call>& calls, const std::string& content,
                  const std::string& reasoning) const;
  base::Json results(const std::vector<Call>& calls, const std::vector<std::string>& texts) const;
  std::string render(const base::Json& messages, bool header) const;
  std::vector<std::int32_t> encode(const std::string& text) const;
  // The ids of a conversation that ends in a turn with calls, up to where the sampled turn ends: behind its
  // last control token, if only white space follows it.
  std::vector<std::int32_t> up_to_turn_end(const std::string& text) const;

  bool is_special(std::int32_t id) const;  // left out by a decoder that skips special tokens
  bool is_white(std::int32_t id) const;
  bool is_control(std::int32_t id) const { return control_ids_.contains(id); }
  const std::vector<std::string>& control_tokens() const { return control_; }
  std::string text_of(std::int32_t id) const;
  // "message 2 of 3 (assistant), character 40": whose text byte `at` of the rendered conversation is.
  std::string place_of(const base::Json& messages, std::size_t at) const;
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  bool shows_calls(std::string& lost) const;
  // Holds what does not depend on the results.
  struct Dummy {
    base::Json messages;
    std::string text;
    std::vector<std::int32_t> ids;
    std::size_t control_ids = 0;  // that the template writes around results
  };
  Dummy dummy(const std::vector<Call>& calls) const;
  std::shared_ptr<const Dummy> kept_dummy(const std::vector<Call>& calls) const;
  std::string full(const Dummy& dummy, const std::vector<Call>& calls,
                   const std::vector<std::string>& texts) const;
  // `ids` without those of the dummy turn.
  std::vector<std::int32_t> behind(const Dummy& dummy, const std::vector<Call>& calls,
                                   const std::vector<std::int32_t>& ids) const;
  // Each control token of `text` cut behind its first character by `mark`.
  std::string cut_control_tokens(const std::string& text, const std::string& mark, bool everywhere) const;
  std::vector<std::int32_t> encode_pieces(const std::string& text, const std::string& mark) const;
  std::size_t control_ids_in(const std::vector<std::int32_t>& ids) const;

  const text::Tokenizer* tokenizer_;
  const text::ChatTemplate* chat_;
  base::Json template_kwargs_;
  bool plain_;
  std::string where_;
  std::vector<std::string> control_;
  std::unordered_set<std::int32_t> control_ids_;
  // Say what the template takes: arguments as JSON text instead of an object; ids of calls, and then every
  // call of a turn.
  bool text_arguments_ = false, with_ids_ = false;
  struct Kept {
    std::mutex lock;
    std::map<std::string, std::shared_ptr<const Dummy>> dummies;  // by the names of the calls
  };
  std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
};

}  // namespace hone::tools
