// A request of OpenAI's API or of renderers' generate, read and checked: what is to be sampled, and how it is
// told.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "rollout/completion.h"
#include "serve/served.h"

namespace hone::text {
class TokenPattern;
}

namespace hone::serve::openai {

enum class Form { kCompletion, kChat, kGenerate };

struct Wish {
  Form form = Form::kCompletion;
  NamedWeights weights;
  std::vector<std::vector<std::int32_t>> prompts;
  std::int64_t samples = 1;      // of each prompt: n
  std::int64_t max_tokens = 16;  // 0: the prompt alone, with echo
  rollout::SamplerOptions sampler;
  std::optional<std::uint64_t> seed;
  std::vector<std::int64_t> stop_ids;
  std::vector<std::string> stops;
  std::int64_t min_tokens = 0;
  bool include_stop = false, skip_special = true;
  double presence_penalty = 0, frequency_penalty = 0;
  std::map<std::int32_t, float> bias;
  std::vector<std::int32_t> allowed;                  // sorted; empty: all
  std::string pattern;                                // that the text must match as a whole; empty: any
  std::shared_ptr<const text::TokenPattern> matched;  // the same for its tokens; OpenAiApi makes it
  bool stream = false, include_usage = false;
  bool echo = false;
  std::optional<std::int64_t> logprobs;  // so many of the most likely beside each token; nothing: none at all
  bool return_ids = false, texts_as_ids = false;
  base::Json tools;  // that a turn may call; null: it is plain text

  // Log-probabilities that are told beside one token.
  std::int64_t told_beside() const { return logprobs ? 1 + *logprobs : 0; }
};

// What one answer may have. kMostNumbers: log-probabilities of all its choices, those of prompts with echo among
// them; kMostBytes: of JSON.
inline constexpr std::int64_t kMostNumbers = std::int64_t{1} << 19;
inline constexpr std::size_t kMostBytes = std::size_t{64} << 20;
// Log-probabilities of all requests that are not answered yet. A request that begins beyond it, or adds what goes beyond
// it, gets a 429.
inline constexpr std::int64_t kMostNumbersHeld = std::int64_t{1} << 24;

// Refusals by name for what is unknown, not supported, or out of range. `body`: the request.
Wish read_completion(const Served& served, const base::Json& body);
Wish read_chat(const Served& served, const base::Json& body);
Wish read_generate(const Served& served, const base::Json& body);

// POST /tokenize and /detokenize.
base::Json tokenize(const Served& served, const base::Json& body);
base::Json detokenize(const Served& served, const base::Json& body);

}  // namespace hone::serve::openai
