// OpenAI's API: /v1/models, /v1/completions, /v1/chat/completions; /tokenize, /detokenize and
// /tokenizer_info, which lm-eval asks; /inference/v1/generate of renderers; /metrics, /healthz and /version.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/json.h"
#include "serve/api.h"
#include "serve/openai/wish.h"

namespace hone::text {
struct TokenTexts;
class TokenPattern;
}  // namespace hone::text

namespace hone::serve::openai {

class OpenAiApi : public Api {
 public:
  // `served` must outlive it.
  explicit OpenAiApi(Served& served) : served_(served) {}

  bool takes(const HttpRequest& request) const override;
  void handle(std::shared_ptr<Exchange> exchange) override;
  HttpAnswer failure(int status, const std::string& message) const override;

 private:
  void answer_get(Exchange& exchange) const;
  void post(const std::shared_ptr<Exchange>& exchange);
  void sample(const std::shared_ptr<Exchange>& exchange, const base::Json& body);
  base::Json models() const;
  base::Json tokenizer_info() const;
  const std::string& vocabulary_hash() const;  // computed when it is first asked for
  // The tokens of texts that match the whole pattern; a Refusal where it is too large.
  std::shared_ptr<const text::TokenPattern> matched(const std::string& pattern);
  void tell(Exchange& exchange, HttpAnswer answer) const;

  Served& served_;
  mutable std::once_flag hashed_;
  mutable std::string vocabulary_hash_;
  // The background thread has texts of all tokens, made when they are first needed, and the last patterns by their expressions.
  std::shared_ptr<const text::TokenTexts> token_texts_;
  std::deque<std::pair<std::string, std::shared_ptr<const text::TokenPattern>>> patterns_;
};

}  // namespace hone::serve::openai
