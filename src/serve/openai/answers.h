// These put what has been sampled into the forms of OpenAI's answers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "rollout/completion.h"
#include "serve/openai/observed.h"
#include "serve/openai/wish.h"

namespace hone::serve::openai {

// One completion of one prompt.
struct Choice {
  std::int64_t index = 0, prompt = 0;
  rollout::Completion completion;
  SampleFacts facts;
  std::unique_ptr<Observed> observed;
  std::size_t counted = 0;  // tokens of the completion whose log-probabilities Sampling has counted
  // Of the prompt, with echo and logprobs, from its second token on; null: it has no second one. Shared by its choices.
  std::shared_ptr<const PromptScores> scores;
};

struct Told {
  const Served& served;
  const Wish& wish;
  std::string id;  // "cmpl-..."
  std::int64_t created = 0;
};

// A completion's text: without its stop token and its stop string, unless those were asked for.
std::string text_of(const Told& told, const Choice& choice);
// "stop", "length"; and stop_reason: the id or text of the request's own stops, or null.
std::string finish_of(const rollout::Completion& completion);
base::Json stop_reason_of(const Told& told, const Choice& choice);

// logprobs of the completion's tokens [from, to), as /v1/completions has them; `offset`: characters before
// them.
base::Json completion_logprobs(const Told& told, const Choice& choice, std::size_t from, std::size_t to,
                               std::size_t offset);
// {"content": [...]} as chat has them.
base::Json chat_logprobs(const Told& told, const Choice& choice, std::size_t from, std::size_t to);
// {role, content, tool_calls?, reasoning_content?}; `calls`: whether there are some.
base::Json message_of(const Told& told, const Choice& choice, bool& calls);
base::Json usage_of(const Told& told, const std::vector<Choice>& choices);
// id, object, created, model, and choices without any.
base::Json head_of(const Told& told, const char* object);

// The whole answer, as JSON's text. A Refusal (400) when it has more than `most_bytes`; it is made a choice at a time,
// so that what it takes in memory is that and one choice.
std::string answer_of(const Told& told, const std::vector<Choice>& choices, std::size_t most_bytes);

std::size_t characters(const std::string& text);  // how many, of UTF-8

// The shortest decimal number that is this float, as a double.
double shortest(float value);

}  // namespace hone::serve::openai
