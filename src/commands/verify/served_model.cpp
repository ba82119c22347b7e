#include "commands/verify/served_model.h"

#include <algorithm>

#include "base/error.h"
#include "base/strings/suggest.h"

namespace hone::commands {

using adapters::Server;
using base::Json;
using python::HttpCalls;
using python::member_of;

namespace {

constexpr const char* kModelList = "/v1/models";
constexpr const char* kCompletions = "/v1/completions";

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : "";
}

// By the word that each writes into its list of models.
Server server_by(const std::string& owner) {
  if (owner == "hone") return Server::kHone;
  if (owner == "vllm") return Server::kVllm;
  if (owner == "sglang") return Server::kSglang;
  if (owner == "llamacpp") return Server::kLlamaCpp;
  if (owner == "library") return Server::kOllama;
  return Server::kOther;
}

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& one : names) out += (out.empty() ? "" : ", ") + one;
  return out;
}

std::string last_part(const std::string& folder) {
  const base::fs::path path = base::fs::path(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

}  // namespace

ServedModel::ServedModel(HttpCalls& http, const std::string& server, const std::string& name,
                         const std::string& folder)
    : http_(http) {
  const Json models = http_.object(http_.get(kModelList), kModelList);
  const Json data = member_of(models, "data");
  if (!data.is_array() || data.empty() || text_of(member_of(data[0], "id")).empty())
    http_.refuse(kModelList, "a list of models", base::dump_json(models), "correct the address");
  names_.server =
      adapters::server_of_word(server).value_or(server_by(text_of(member_of(data[0], "owned_by"))));
  choose_name(data, name, folder);
}

void ServedModel::choose_name(const Json& data, const std::string& name, const std::string& folder) {
  std::vector<std::string> ids, with_parent;
  const auto parent_of = [&data](const std::string& id) -> std::string {
    for (const Json& one : data)
      if (text_of(member_of(one, "id")) == id) return text_of(member_of(one, "parent"));
    return "";
  };
  for (const Json& one : data) {
    const std::string id = text_of(member_of(one, "id"));
    if (id.empty()) continue;
    ids.push_back(id);
    if (!parent_of(id).empty()) with_parent.push_back(id);
  }
  const auto has = [&ids](const std::string& id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  if (!name.empty()) {
    // SGLang may be started with adapters that its list does not have.
    if (!has(name) && names_.server != Server::kSglang)
      http_.refuse(kModelList, "a model '" + name + "'", listed(ids) + "." + base::did_you_mean(name, ids),
                   "name one of them with --served_model_name");
    names_.adapter = name;
  } else if (const std::string last = last_part(folder); has(last)) {
    names_.adapter = last;
  } else if (with_parent.size() == 1) {
    names_.adapter = with_parent[0];
  } else if (ids.size() == 1) {
    names_.adapter = ids[0];
  } else {
    http_.refuse(kModelList, "one model that may be the adapter", listed(ids),
                 "name it with --served_model_name");
  }
  names_.base = parent_of(names_.adapter);
  if (names_.base.empty() && !has(names_.adapter)) names_.base = ids[0];
}

bool ServedModel::scores_prompts() const {
  return names_.server != Server::kLlamaCpp && names_.server != Server::kOllama;
}

Json ServedModel::post(const std::string& path, const Json& body) const {
  return http_.object(http_.post(path, body), path);
}

ServedScores ServedModel::score(const AskedText& text, std::int64_t count,
                                const text::Tokenizer& tokenizer) const {
  switch (names_.server) {
    case Server::kSglang:
      return of_sglang(text);
    case Server::kLlamaCpp:
      return of_llama_server(text, count);
    case Server::kOllama:
      return of_ollama(text, count, tokenizer);
    default:
      return echoed(text);
  }
}

namespace {

std::vector<std::int32_t> whole(const AskedText& text) {
  std::vector<std::int32_t> out = text.prompt;
  out.insert(out.end(), text.more.begin(), text.more.end());
  return out;
}

bool begins_within_character(const Json& bytes) {
  if (!bytes.is_array() || bytes.empty() || !bytes[0].is_number_integer()) return false;
  const auto first = bytes[0].get<std::int64_t>();
  return first >= 0x80 && first < 0xC0;
}

const Json& first_choice(const Json& answer, Json& kept) {
  kept = member_of(answer, "choices");
  static const Json none;
  return kept.is_array() && !kept.empty() ? kept[0] : none;
}

}  // namespace

// The first token has no log-probability, and one more than we sent is generated.
ServedScores ServedModel::echoed(const AskedText& text) const {
  ServedScores out{.ids = whole(text), .from = 1, .logprobs = {}};
  const Json answer = post(kCompletions, {{"model", names_.adapter},
                                          {"prompt", out.ids},
                                          {"echo", true},
                                          {"logprobs", 1},
                                          {"max_tokens", 1},
                                          {"temperature", 0}});
  Json kept;
  const Json found = member_of(member_of(first_choice(answer, kept), "logprobs"), "token_logprobs");
  if (!found.is_array() || found.size() < out.ids.size())
    http_.refuse(kCompletions, "log-probabilities of the tokens that were sent, with echo",
                 base::dump_json(answer),
                 "this server does not score prompts; say which it is with --server");
  for (std::size_t i = 1; i < out.ids.size(); ++i) {
    if (!found[i].is_number()) http_.refuse(kCompletions, "a number for each token", base::dump_json(found));
    out.logprobs.push_back(found[i].get<float>());
  }
  return out;
}

ServedScores ServedModel::of_sglang(const AskedText& text) const {
  ServedScores out{.ids = whole(text), .from = 1, .logprobs = {}};
  Json body = {{"input_ids", out.ids},
               {"sampling_params", {{"max_new_tokens", 1}, {"temperature", 0}}},
               {"return_logprob", true},
               {"logprob_start_len", 0}};
  if (!names_.base.empty()) body["lora_path"] = names_.adapter;
  const Json answer = post("/generate", body);
  const Json found = member_of(member_of(answer, "meta_info"), "input_token_logprobs");
  if (!found.is_array() || found.size() != out.ids.size())
    http_.refuse("/generate", "input_token_logprobs of each token", base::dump_json(answer));
  for (std::size_t i = 1; i < out.ids.size(); ++i) {
    if (!found[i].is_array() || found[i].empty() || !found[i][0].is_number())
      http_.refuse("/generate", "a number for each token", base::dump_json(found[i]));
    out.logprobs.push_back(found[i][0].get<float>());
  }
  return out;
}

std::optional<ServedScores> ServedModel::score_by_name(const AskedText& text) const {
  if (names_.server != Server::kSglang || names_.base.empty()) return std::nullopt;
  try {
    return echoed(text);
  } catch (const base::UserError&) {
    return std::nullopt;
  }
}

// llama-server gives no log-probability of a token that ends within a character, and goes on with the next one: what
// stands behind such a token is not known to follow its neighbor in the list.
ServedScores ServedModel::of_llama_server(const AskedText& text, std::int64_t count) const {
  ServedScores out{.ids = text.prompt, .from = static_cast<std::int64_t>(text.prompt.size()), .logprobs = {}};
  const Json answer = post("/completion", {{"prompt", text.prompt},
                                           {"n_predict", count},
                                           {"temperature", 0},
                                           {"n_probs", 1},
                                           {"return_tokens", true},
                                           {"cache_prompt", false}});
  const Json found = member_of(answer, "completion_probabilities"), tokens = member_of(answer, "tokens");
  const bool has_tokens = tokens.is_array() && !tokens.empty();
  if (!found.is_array() && !(found.is_null() && has_tokens))
    http_.refuse("/completion", "completion_probabilities", base::dump_json(answer),
                 "update llama-server: older ones give other numbers");
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Json id = member_of(found[i], "id"), logprob = member_of(found[i], "logprob");
    if (!id.is_number_integer() || !logprob.is_number())
      http_.refuse("/completion", "an id and a logprob for each token", base::dump_json(found[i]));
    if (begins_within_character(member_of(found[i], "bytes"))) break;
    if (has_tokens && (i >= tokens.size() || tokens[i] != id)) break;
    out.ids.push_back(id.get<std::int32_t>());
    out.logprobs.push_back(logprob.get<float>());
  }
  return out;
}

ServedScores ServedModel::of_ollama(const AskedText& text, std::int64_t count,
                                    const text::Tokenizer& tokenizer) const {
  ServedScores out{.ids = text.prompt, .from = static_cast<std::int64_t>(text.prompt.size()), .logprobs = {}};
  const Json answer = post("/api/generate", {{"model", names_.adapter},
                                             {"prompt", text.prompt_text},
                                             {"raw", true},
                                             {"stream", false},
                                             {"logprobs", true},
                                             {"options", {{"temperature", 0}, {"num_predict", count}}}});
  const Json found = member_of(answer, "logprobs"), response = member_of(answer, "response");
  if (!found.is_array() || !response.is_string())
    http_.refuse("/api/generate", "a response with logprobs", base::dump_json(answer),
                 "update Ollama: older ones have no logprobs");
  const std::vector<std::int32_t> ids = tokenizer.encode(response.get<std::string>(), false).ids;
  if (ids.size() != found.size())
    return out;  // its tokens are others: a text that begins differently, or a stop
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Json logprob = member_of(found[i], "logprob");
    if (!logprob.is_number())
      http_.refuse("/api/generate", "a logprob for each token", base::dump_json(found[i]));
    out.ids.push_back(ids[i]);
    out.logprobs.push_back(logprob.get<float>());
  }
  return out;
}

ServedModel::Rendering ServedModel::tokenized(const Json& messages) const {
  const Json answer =
      post("/tokenize", {{"model", names_.adapter}, {"messages", messages}, {"add_generation_prompt", true}});
  const Json ids = member_of(answer, "tokens");
  if (!ids.is_array()) http_.refuse("/tokenize", "a list of tokens", base::dump_json(answer));
  Rendering out;
  for (const Json& one : ids) {
    if (!one.is_number_integer()) http_.refuse("/tokenize", "ids of tokens", base::dump_json(ids));
    out.ids.push_back(one.get<std::int32_t>());
  }
  out.has_ids = true;
  out.tokens = static_cast<std::int64_t>(out.ids.size());
  return out;
}

ServedModel::Rendering ServedModel::render(const Json& messages) const {
  Rendering out;
  if (names_.server == Server::kLlamaCpp) {
    const Json answer = post("/apply-template", {{"messages", messages}});
    out.text = text_of(member_of(answer, "prompt"));
    out.has_text = true;
    return out;
  }
  if (names_.server == Server::kHone || names_.server == Server::kVllm) {
    try {
      return tokenized(messages);
    } catch (const base::UserError&) {
      // A proxy may let requests of /v1 through alone.
    }
  }
  const Json answer =
      post("/v1/chat/completions", {{"model", names_.adapter}, {"messages", messages}, {"max_tokens", 1}});
  const Json count = member_of(member_of(answer, "usage"), "prompt_tokens");
  if (count.is_number_integer()) out.tokens = count.get<std::int64_t>();
  return out;
}

}  // namespace hone::commands
