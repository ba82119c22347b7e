// A model behind a server: which server it is, by which name the adapter is asked, and log-probabilities of tokens.
//
//   hone, vLLM, other   POST /v1/completions with `echo` and `logprobs`: of the tokens that we send
//   SGLang              POST /generate with `return_logprob`: the same
//   llama-server        POST /completion with `n_probs`: of the tokens that it generates
//   Ollama              POST /api/generate with `raw` and `logprobs`: the same, as texts
//
// Prompts are ids of tokens, but for Ollama, so that no template of the server's is between. All functions throw UserError
// for what the server answers instead.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "adapters/server_rules.h"
#include "python/http_calls.h"
#include "text/tokenizer.h"

namespace hone::commands {

// A prompt that is asked, and tokens behind it that are scored too where the server scores what we send.
struct AskedText {
  std::string prompt_text;
  std::vector<std::int32_t> prompt, more;
};

// The server's answer: its log-probabilities of ids[from], ids[from + 1], ...
struct ServedScores {
  std::vector<std::int32_t> ids;
  std::int64_t from = 1;
  std::vector<float> logprobs;  // [ids - from]
};

struct ServedNames {
  adapters::Server server = adapters::Server::kOther;
  std::string adapter;  // the name that is asked
  std::string base;     // its parent, where the server's list says so; else empty
};

class ServedModel {
 public:
  // `server`: auto, or a word of server_rules.h; `name`: empty, or the adapter's name there; `folder`: the adapter's, whose
  // last part may be that name. UserError for a name that the server has not, and where none can be chosen.
  ServedModel(python::HttpCalls& http, const std::string& server, const std::string& name,
              const std::string& folder);

  const ServedNames& names() const { return names_; }
  // True: the server scores tokens that we send. False: it scores those that it generates alone.
  bool scores_prompts() const;
  // `count`: tokens to generate, where it generates. An answer without tokens is empty.
  ServedScores score(const AskedText& text, std::int64_t count, const text::Tokenizer& tokenizer) const;

  // Asks for the same scores with the adapter's name alone as `model`, as clients of OpenAI's form do. It gives nothing
  // where score() asks so anyway, and where the server does not score prompts in that form.
  std::optional<ServedScores> score_by_name(const AskedText& text) const;

  // A conversation with a generation prompt as the server renders it: ids, a text, or how many tokens.
  struct Rendering {
    std::vector<std::int32_t> ids;
    std::string text;
    std::int64_t tokens = -1;
    bool has_ids = false, has_text = false;
  };
  Rendering render(const base::Json& messages) const;

 private:
  void choose_name(const base::Json& models, const std::string& name, const std::string& folder);
  ServedScores echoed(const AskedText& text) const;
  ServedScores of_sglang(const AskedText& text) const;
  ServedScores of_llama_server(const AskedText& text, std::int64_t count) const;
  ServedScores of_ollama(const AskedText& text, std::int64_t count, const text::Tokenizer& tokenizer) const;
  Rendering tokenized(const base::Json& messages) const;
  base::Json post(const std::string& path, const base::Json& body) const;

  python::HttpCalls& http_;
  ServedNames names_;
};

}  // namespace hone::commands
