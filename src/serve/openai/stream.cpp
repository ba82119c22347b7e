#include "serve/openai/stream.h"

#include <algorithm>

namespace hone::serve::openai {

using base::Json;

Stream::Stream(const Told& told, Exchange& exchange, std::size_t choices) : told_(told), exchange_(exchange) {
  for (std::size_t i = 0; i < choices; ++i)
    states_.push_back({.text = text::TextStream(told.served.tokenizer, told.wish.skip_special), .said = ""});
}

void Stream::event(const Json& body) {
  if (!has_begun_) exchange_.begin_stream(200, "text/event-stream; charset=utf-8");
  has_begun_ = true;
  exchange_.part("data: " + base::dump_json(body) + "\n\n");
}

// Bytes at the end that may be the beginning of a stop string.
std::size_t Stream::held(const std::string& said) const {
  if (told_.wish.include_stop) return 0;
  std::size_t most = 0;
  for (const std::string& stop : told_.wish.stops) {
    for (std::size_t n = std::min(stop.size(), said.size()); n > most; --n) {
      if (said.compare(said.size() - n, n, stop, 0, n) == 0) most = n;
    }
  }
  return most;
}

// Tokens since the last chunk.
void Stream::add_tokens(Json& chunk, const Choice& choice, State& state, bool is_first) const {
  const Wish& wish = told_.wish;
  const std::size_t to = choice.completion.ids.size();
  Json& one = chunk["choices"][0];
  if (wish.logprobs && wish.form == Form::kChat) {
    one["logprobs"] = chat_logprobs(told_, choice, state.tokens, to);
  } else if (wish.logprobs) {
    Json arrays = completion_logprobs(told_, choice, state.tokens, to, state.characters);
    for (const Json& text : arrays["tokens"])
      state.characters += characters(text.get_ref<const std::string&>());
    one["logprobs"] = std::move(arrays);
  }
  if (wish.return_ids) {
    one["token_ids"] =
        std::vector<std::int32_t>(choice.completion.ids.begin() + static_cast<std::ptrdiff_t>(state.tokens),
                                  choice.completion.ids.end());
    if (is_first) {
      const auto& prompt = wish.prompts[static_cast<std::size_t>(choice.prompt)];
      (wish.form == Form::kChat ? chunk : one)["prompt_token_ids"] = prompt;
    }
  }
  state.tokens = to;
}

void Stream::part(const Choice& choice, State& state, const std::string& text, bool has_ended) {
  const bool is_first = state.tokens == 0;
  Json chunk;
  if (told_.wish.form == Form::kChat) {
    chunk = head_of(told_, "chat.completion.chunk");
    Json delta = Json::object();
    if (!state.has_role) delta = {{"role", "assistant"}};
    delta["content"] = text;
    state.has_role = true;
    chunk["choices"].push_back({{"index", choice.index},
                                {"delta", std::move(delta)},
                                {"logprobs", nullptr},
                                {"finish_reason", nullptr}});
  } else {
    chunk = head_of(told_, "text_completion");
    chunk["choices"].push_back(
        {{"index", choice.index}, {"text", text}, {"logprobs", nullptr}, {"finish_reason", nullptr}});
    if (has_ended) {
      chunk["choices"][0]["finish_reason"] = finish_of(choice.completion);
      chunk["choices"][0]["stop_reason"] = stop_reason_of(told_, choice);
    }
  }
  add_tokens(chunk, choice, state, is_first);
  event(chunk);
}

// The rest of a turn: its calls, then why it has ended.
void Stream::chat_end(const Choice& choice, State& state, const std::string& text) {
  Json delta = Json::object();
  std::string content = text, finish = finish_of(choice.completion);
  if (!told_.wish.tools.is_null()) {
    bool calls = false;
    const Json message = message_of(told_, choice, calls);
    content = message["content"].is_string() ? message["content"].get<std::string>() : "";
    if (message.contains("reasoning_content")) delta["reasoning_content"] = message["reasoning_content"];
    if (calls) {
      finish = "tool_calls";
      delta["tool_calls"] = message["tool_calls"];
      for (std::size_t i = 0; i < delta["tool_calls"].size(); ++i) delta["tool_calls"][i]["index"] = i;
    }
  }
  const bool has_tokens = choice.completion.ids.size() > state.tokens;
  if (!content.empty() || !state.has_role || (has_tokens && (told_.wish.logprobs || told_.wish.return_ids)))
    part(choice, state, content, false);
  const auto chunk = [&](Json body, Json reason) {
    Json out = head_of(told_, "chat.completion.chunk");
    out["choices"].push_back({{"index", choice.index},
                              {"delta", std::move(body)},
                              {"logprobs", nullptr},
                              {"finish_reason", std::move(reason)}});
    return out;
  };
  if (!delta.empty()) event(chunk(delta, nullptr));
  Json last = chunk(Json::object(), finish);
  last["choices"][0]["stop_reason"] = stop_reason_of(told_, choice);
  event(last);
}

void Stream::tell(const Choice& choice, bool has_ended) {
  State& state = states_[static_cast<std::size_t>(choice.index)];
  if (!has_ended) {
    state.said += state.text.next(choice.completion.ids);
    if (!told_.wish.tools.is_null()) return;
    const std::size_t to = state.said.size() - held(state.said);
    const bool tells_tokens = told_.wish.logprobs || told_.wish.return_ids;
    if (to <= state.sent && !tells_tokens) return;
    const std::string text = to > state.sent ? state.said.substr(state.sent, to - state.sent) : "";
    state.sent = std::max(to, state.sent);
    part(choice, state, text, false);
    return;
  }
  const std::string whole = text_of(told_, choice);
  const std::string rest = whole.size() > state.sent ? whole.substr(state.sent) : "";
  if (told_.wish.form == Form::kChat) {
    chat_end(choice, state, rest);
  } else {
    part(choice, state, rest, true);
  }
}

void Stream::end(const std::vector<Choice>& choices) {
  if (told_.wish.include_usage) {
    Json chunk = head_of(told_, told_.wish.form == Form::kChat ? "chat.completion.chunk" : "text_completion");
    chunk["usage"] = usage_of(told_, choices);
    event(chunk);
  }
  exchange_.part("data: [DONE]\n\n");
  exchange_.end();
}

void Stream::fail(const std::string& error) {
  exchange_.part("data: " + error + "\n\n");
  exchange_.end();
}

}  // namespace hone::serve::openai
