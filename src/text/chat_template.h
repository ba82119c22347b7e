// Chat templates, rendered by minijinja with transformers' rules (apply_chat_template, transformers 5.23).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"

namespace hone::text {

struct Rendered {
  std::string text;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> generation_spans;  // byte ranges of {% generation %}
};

struct ChatRequest {
  base::Json messages;         // [{role, content, ...}]
  base::Json tools;            // array or null
  base::Json template_kwargs;  // object or null: chat_template_kwargs of a row
  bool add_generation_prompt = false;
};

// A template comes with a model folder that nobody vouches for. Limits, each an error of one sentence:
//   source     256 KiB; 1,000 operators, members or filters applied to one another; 1,000 branches of elif
//   rendering  5 million instructions + 50 for each byte of the conversation; 64 MB of memory + 32 bytes for
//              each byte; 1 s of CPU time + 2 s for each MB
//   values     a width of 1,000,000 (ljust, rjust, zfill, tojson's indent); what is printed: 200 levels, a
//              million parts
//   calls      500 levels of macros and recursive loops
// Real templates use less than a hundredth of these. A rendering that has to be stopped in the middle costs
// the memory that it held; a process that did so 12 times renders no more.
class ChatTemplate {
 public:
  // `where` names its origin in errors. UserError when the template does not compile.
  ChatTemplate(std::string_view source, const SpecialTokens& special, const std::string& where);
  // Of several, as transformers' get_chat_template takes them: "tool_use" for a conversation with tools, an
  // empty list of them included, else "default"; a UserError in render() where there is no default. At least
  // one template.
  ChatTemplate(const ChatTemplates& templates, const SpecialTokens& special, const std::string& where);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  Rendered render(const ChatRequest& request) const;  // UserError with the template's own message
  bool has_generation_tag() const;  // can an assistant mask be made? Of several: by "default", as TRL asks

 private:
  friend class EncodeBatch;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The tokens of a rendered conversation and its assistant mask: mask[i] is 1 when token i's bytes overlap a
// generation span (transformers' return_assistant_tokens_mask). Encoded with add_special = false.
struct TokenizedChat {
  std::vector<std::int32_t> ids;        // [T]
  std::vector<std::uint8_t> assistant;  // [T]
};
TokenizedChat tokenize_chat(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                            const ChatRequest& request);

}  // namespace hone::text
