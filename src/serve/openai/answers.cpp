#include "serve/openai/answers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "serve/openai/errors.h"

namespace hone::serve::openai {

namespace {

using base::Json;
using Ids = std::span<const std::int32_t>;

constexpr float kLeast = -9999;  // JSON has no infinity

std::string token_text(const Told& told, std::int32_t id) {
  if (told.wish.texts_as_ids) return "token_id:" + std::to_string(id);
  return told.served.tokenizer.decode({&id, 1}, false);
}

float logprob_at(const Choice& choice, std::size_t i) {
  const std::vector<float>& raw = choice.observed->raw();
  return raw.empty() ? choice.completion.logprobs.at(i) : raw.at(i);
}

// The most likely tokens, with the one that is there and its own number.
TopTokens with_own(TopTokens top, std::int32_t id, float logprob) {
  const auto place = std::find_if(top.begin(), top.end(), [&](const auto& one) { return one.first == id; });
  if (place == top.end()) {
    top.emplace_back(id, logprob);
  } else {
    place->second = logprob;
  }
  return top;
}

// Where two tokens have one text the larger stays.
Json top_of(const Told& told, const TopTokens& top) {
  Json out = Json::object();
  for (const auto& [id, logprob] : top) {
    const std::string text = token_text(told, id);
    const double value = shortest(logprob);
    const auto place = out.find(text);
    if (place == out.end()) {
      out[text] = value;
    } else if (place->get<double>() < value) {
      *place = value;
    }
  }
  return out;
}

// The arrays of /v1/completions, one token after the other.
struct Arrays {
  const Told& told;
  std::size_t offset = 0;
  Json tokens = Json::array(), logprobs = Json::array(), top = Json::array(), offsets = Json::array();

  void add(std::int32_t id, std::optional<float> logprob, const TopTokens* most) {
    const std::string text = token_text(told, id);
    tokens.push_back(text);
    offsets.push_back(offset);
    offset += characters(text);
    logprobs.push_back(logprob ? Json(shortest(*logprob)) : Json());
    top.push_back(logprob && most != nullptr ? top_of(told, with_own(*most, id, *logprob)) : Json());
  }
  Json whole() const {
    return {
        {"tokens", tokens}, {"token_logprobs", logprobs}, {"top_logprobs", top}, {"text_offset", offsets}};
  }
};

void add_completion(Arrays& arrays, const Choice& choice, std::size_t from, std::size_t to) {
  static const TopTokens kNone;
  const std::vector<TopTokens>& top = choice.observed->top();
  for (std::size_t i = from; i < to; ++i)
    arrays.add(choice.completion.ids[i], logprob_at(choice, i), top.empty() ? &kNone : &top.at(i));
}

// Nothing comes before the first token, so that it has no score.
void add_prompt(Arrays& arrays, const Choice& choice, Ids prompt) {
  static const TopTokens kNone;
  arrays.add(prompt[0], std::nullopt, nullptr);
  for (std::size_t i = 1; i < prompt.size(); ++i) {
    const std::vector<TopTokens>& top = choice.scores->top;
    arrays.add(prompt[i], choice.scores->logprobs.at(i - 1), top.empty() ? &kNone : &top.at(i - 1));
  }
}

Json chat_token(const Told& told, std::int32_t id, float logprob) {
  const std::string text = token_text(told, id);
  // Bytes of the token itself, even where its text is a marker or half a character.
  const std::string exact = told.served.tokenizer.decode({&id, 1}, false);
  Json bytes = Json::array();
  for (const char c : exact) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", text}, {"logprob", shortest(logprob)}, {"bytes", bytes}};
}

Json completion_choice(const Told& told, const Choice& choice) {
  const Wish& wish = told.wish;
  const std::vector<std::int32_t>& prompt = wish.prompts[static_cast<std::size_t>(choice.prompt)];
  Json out = {{"index", choice.index}};
  std::string text = text_of(told, choice);
  if (wish.echo) text = told.served.tokenizer.decode(prompt, wish.skip_special) + text;
  out["text"] = text;
  out["finish_reason"] = finish_of(choice.completion);
  out["stop_reason"] = stop_reason_of(told, choice);
  out["logprobs"] = nullptr;
  if (wish.logprobs) {
    Arrays arrays{.told = told};
    if (wish.echo) add_prompt(arrays, choice, prompt);
    add_completion(arrays, choice, 0, choice.completion.ids.size());
    out["logprobs"] = arrays.whole();
  }
  if (wish.return_ids) {
    out["token_ids"] = choice.completion.ids;
    out["prompt_token_ids"] = prompt;
  }
  return out;
}

Json chat_choice(const Told& told, const Choice& choice) {
  bool calls = false;
  Json message = message_of(told, choice, calls);
  Json out = {{"index", choice.index},
              {"message", std::move(message)},
              {"finish_reason", calls ? "tool_calls" : finish_of(choice.completion)},
              {"stop_reason", stop_reason_of(told, choice)},
              {"logprobs", nullptr}};
  if (told.wish.logprobs) out["logprobs"] = chat_logprobs(told, choice, 0, choice.completion.ids.size());
  if (told.wish.return_ids) out["token_ids"] = choice.completion.ids;
  return out;
}

Json generate_choice(const Told& told, const Choice& choice) {
  Json out = {{"index", choice.index},
              {"token_ids", choice.completion.ids},
              {"finish_reason", finish_of(choice.completion)},
              {"stop_reason", stop_reason_of(told, choice)},
              {"logprobs", nullptr}};
  if (told.wish.logprobs) out["logprobs"] = chat_logprobs(told, choice, 0, choice.completion.ids.size());
  return out;
}

}  // namespace

std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

double shortest(float value) {
  std::array<char, 32> digits{};
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), std::max(value, kLeast));
  double out = 0;
  std::from_chars(digits.data(), written.ptr, out);
  return out;
}

std::string text_of(const Told& told, const Choice& choice) {
  const Wish& wish = told.wish;
  Ids ids = choice.completion.ids;
  const rollout::FinishReason reason = choice.completion.finish_reason;
  if (reason == rollout::FinishReason::kStopToken && !wish.include_stop) ids = ids.first(ids.size() - 1);
  std::string text = told.served.tokenizer.decode(ids, wish.skip_special);
  if (reason != rollout::FinishReason::kStopString || wish.include_stop) return text;
  // Stop strings are looked for after each token: the one that was found has the last token as a part.
  const std::size_t before =
      told.served.tokenizer.decode(ids.first(ids.size() - 1), wish.skip_special).size();
  std::size_t cut = text.size();
  for (const std::string& stop : wish.stops) {
    const std::size_t from = before - std::min(before, stop.size() + 3);
    cut = std::min(cut, text.find(stop, from));
  }
  text.resize(std::min(cut, text.size()));
  return text;
}

std::string finish_of(const rollout::Completion& completion) {
  return completion.finish_reason == rollout::FinishReason::kLength ? "length" : "stop";
}

Json stop_reason_of(const Told& told, const Choice& choice) {
  const rollout::Completion& completion = choice.completion;
  if (completion.finish_reason == rollout::FinishReason::kStopToken) {
    const std::vector<std::int64_t>& own = told.served.stop_ids;
    const std::int64_t last = completion.ids.back();
    return std::find(own.begin(), own.end(), last) == own.end() ? Json(last) : Json();
  }
  if (completion.finish_reason != rollout::FinishReason::kStopString) return {};
  const std::string text = told.served.tokenizer.decode(completion.ids, false);
  const std::string* found = nullptr;
  std::size_t last = 0;
  for (const std::string& stop : told.wish.stops) {
    const std::size_t place = text.rfind(stop);
    if (place == std::string::npos || (found != nullptr && place + stop.size() <= last)) continue;
    found = &stop;
    last = place + stop.size();
  }
  return found == nullptr ? Json() : Json(*found);
}

Json completion_logprobs(const Told& told, const Choice& choice, std::size_t from, std::size_t to,
                         std::size_t offset) {
  Arrays arrays{.told = told, .offset = offset};
  add_completion(arrays, choice, from, to);
  return arrays.whole();
}

Json chat_logprobs(const Told& told, const Choice& choice, std::size_t from, std::size_t to) {
  Json content = Json::array();
  const std::vector<TopTokens>& top = choice.observed->top();
  for (std::size_t i = from; i < to; ++i) {
    const std::int32_t id = choice.completion.ids[i];
    const float logprob = logprob_at(choice, i);
    Json one = chat_token(told, id, logprob);
    one["top_logprobs"] = Json::array();
    if (!top.empty()) {
      for (const auto& [other, value] : with_own(top.at(i), id, logprob))
        one["top_logprobs"].push_back(chat_token(told, other, value));
    }
    content.push_back(std::move(one));
  }
  return {{"content", std::move(content)}};
}

Json message_of(const Told& told, const Choice& choice, bool& calls) {
  Json out = {{"role", "assistant"}};
  const std::string plain = text_of(told, choice);
  calls = false;
  if (told.wish.tools.is_null()) {
    out["content"] = plain;
    return out;
  }
  const text::Tokenizer& tokenizer = told.served.tokenizer;
  const std::vector<std::int32_t>& prompt = told.wish.prompts[static_cast<std::size_t>(choice.prompt)];
  const tools::Turn turn =
      told.served.parser->parse(tokenizer.decode(prompt, false),
                                tokenizer.decode(choice.completion.ids, false), plain, told.wish.tools);
  calls = !turn.calls.empty();
  const Json content = turn.message.value("content", Json());
  const bool is_silent =
      content.is_null() || (content.is_string() && content.get_ref<const std::string&>().empty());
  out["content"] = !is_silent ? content : calls ? Json() : Json("");
  for (const char* name : {"reasoning_content", "thinking"}) {
    if (turn.message.contains(name)) out["reasoning_content"] = turn.message[name];
  }
  for (std::size_t i = 0; i < turn.calls.size(); ++i) {
    const tools::Call& call = turn.calls[i];
    out["tool_calls"].push_back(
        {{"id", "call_" + told.id.substr(told.id.find('-') + 1) + "_" + std::to_string(choice.index) + "_" +
                    std::to_string(i)},
         {"type", "function"},
         {"function",
          {{"name", call.name},
           {"arguments", call.arguments.is_string() ? call.arguments.get<std::string>()
                                                    : base::dump_json(call.arguments)}}}});
  }
  return out;
}

Json usage_of(const Told& told, const std::vector<Choice>& choices) {
  std::size_t prompt = 0, sampled = 0;
  std::int64_t cached = 0;
  for (const auto& one : told.wish.prompts) prompt += one.size();
  for (const Choice& one : choices) {
    sampled += one.completion.ids.size();
    if (one.index % told.wish.samples == 0) cached += one.facts.cached;
  }
  return {{"prompt_tokens", prompt},
          {"completion_tokens", sampled},
          {"total_tokens", prompt + sampled},
          {"prompt_tokens_details", {{"cached_tokens", cached}}}};
}

Json head_of(const Told& told, const char* object) {
  return {{"id", told.id},
          {"object", object},
          {"created", told.created},
          {"model", told.wish.weights.name},
          {"system_fingerprint", told.served.fingerprint},
          {"choices", Json::array()}};
}

std::string answer_of(const Told& told, const std::vector<Choice>& choices, std::size_t most_bytes) {
  const Form form = told.wish.form;
  Json rest = form == Form::kGenerate
                  ? Json{{"request_id", told.id}}
                  : head_of(told, form == Form::kChat ? "chat.completion" : "text_completion");
  rest.erase("choices");
  if (form == Form::kChat && told.wish.return_ids) rest["prompt_token_ids"] = told.wish.prompts.front();
  if (form != Form::kGenerate) rest["usage"] = usage_of(told, choices);
  std::string out = R"({"choices":[)";
  const auto add = [&](const std::string& text) {
    out += text;
    if (out.size() > most_bytes) {
      throw Refusal(400,
                    "the answer would have more than " + std::to_string(most_bytes) +
                        " bytes: ask for fewer choices, shorter texts, or fewer log-probabilities",
                    "", "answer_too_large");
    }
  };
  for (const Choice& one : choices) {
    const Json choice = form == Form::kChat         ? chat_choice(told, one)
                        : form == Form::kCompletion ? completion_choice(told, one)
                                                    : generate_choice(told, one);
    add((&one == &choices.front() ? "" : ",") + base::dump_json(choice));
  }
  add("]," + base::dump_json(rest).substr(1));
  return out;
}

}  // namespace hone::serve::openai
