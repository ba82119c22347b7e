#include "serve/openai/openai_api.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/version.h"
#include "serve/openai/errors.h"
#include "serve/openai/fields.h"
#include "serve/openai/sampling.h"
#include "text/token_pattern.h"
#include "text/vocabulary_hash.h"

namespace hone::serve::openai {

namespace {

using base::Json;

constexpr std::array<std::string_view, 6> kGets = {"/v1/models", "/tokenizer_info", "/metrics",
                                                   "/healthz",   "/health",         "/version"};
constexpr std::array<std::string_view, 5> kPosts = {"/v1/completions", "/v1/chat/completions", "/tokenize",
                                                    "/detokenize", "/inference/v1/generate"};
constexpr std::string_view kOneModel = "/v1/models/";

constexpr std::size_t kMostStates = 20'000;  // of a request's pattern: 13 MB
constexpr std::size_t kMostPatterns = 4;  // that are kept for requests to come, with what they know of tokens

template <typename Paths>
bool has(const Paths& paths, std::string_view path) {
  return std::find(paths.begin(), paths.end(), path) != paths.end();
}

Json text_or_null(const std::optional<std::string>& text) {
  return text ? Json(*text) : Json();
}

}  // namespace

bool OpenAiApi::takes(const HttpRequest& request) const {
  return has(kGets, request.path) || has(kPosts, request.path) || request.path.starts_with(kOneModel);
}

HttpAnswer OpenAiApi::failure(int status, const std::string& message) const {
  return answer_of(
      Refusal(status, message, "", "", status >= 500 ? "server_error" : "invalid_request_error"));
}

void OpenAiApi::tell(Exchange& exchange, HttpAnswer answer) const {
  const std::string& path = exchange.request.path;
  const int status = exchange.answer(std::move(answer));
  served_.metrics.count("openai", path.starts_with(kOneModel) ? "/v1/models" : path, status);
}

void OpenAiApi::handle(std::shared_ptr<Exchange> exchange) {
  const HttpRequest& asked = exchange->request;
  try {
    const bool is_post = has(kPosts, asked.path);
    if (asked.method != (is_post ? "POST" : "GET")) {
      HttpAnswer answer = failure(405, asked.path + " is for " + (is_post ? "POST" : "GET"));
      answer.headers.emplace_back("allow", is_post ? "POST" : "GET");
      tell(*exchange, std::move(answer));
      return;
    }
    if (!is_post) {
      answer_get(*exchange);
      return;
    }
    // A page of another site cannot send this type without asking first, and there is no answer to that.
    if (!asked.has_type("application/json")) throw Refusal(415, "the content-type must be application/json");
    if (served_.drains) throw Refusal(503, "the server is being stopped", "", "", "server_error");
    const auto waiting =
        static_cast<std::int64_t>(served_.scheduler.facts().jobs + served_.background.waiting());
    if (waiting >= served_.most_waiting) {
      throw Refusal(429, std::to_string(waiting) + " requests wait already: try again in a moment", "", "",
                    "overloaded");
    }
    served_.background.run([this, exchange] { post(exchange); });
  } catch (...) {
    tell(*exchange, answer_of(refusal_of(std::current_exception())));
  }
}

void OpenAiApi::answer_get(Exchange& exchange) const {
  const std::string& path = exchange.request.path;
  if (path == "/healthz" || path == "/health") {
    const bool drains = served_.drains;
    tell(exchange,
         {.status = drains ? 503 : 200, .body = drains ? R"({"status":"stopping"})" : R"({"status":"ok"})"});
  } else if (path == "/version") {
    tell(exchange, {.body = base::dump_json({{"version", base::kHoneVersion}})});
  } else if (path == "/metrics") {
    tell(exchange,
         {.body = served_.metrics.text(served_.scheduler.facts(), served_.connections(), served_.kept()),
          .type = "text/plain; version=0.0.4; charset=utf-8"});
  } else if (path == "/tokenizer_info") {
    tell(exchange, {.body = base::dump_json(tokenizer_info())});
  } else if (path == "/v1/models") {
    tell(exchange, {.body = base::dump_json(models())});
  } else {
    const std::string name = percent_decoded(std::string_view(path).substr(kOneModel.size()));
    const Json all = models();
    for (const Json& one : all["data"]) {
      if (one["id"] != name) continue;
      tell(exchange, {.body = base::dump_json(one)});
      return;
    }
    throw Refusal(404, "the model '" + name + "' does not exist." + served_.weights.suggestion(name), "model",
                  "model_not_found");
  }
}

Json OpenAiApi::models() const {
  Json data = Json::array();
  for (const NamedWeights& one : served_.weights.all()) {
    if (!one.listed) continue;
    data.push_back({{"id", one.name},
                    {"object", "model"},
                    {"created", one.created != 0 ? one.created : served_.started},
                    {"owned_by", "hone"},
                    {"root", one.parent.empty() ? served_.root : one.name},
                    {"parent", one.parent.empty() ? Json() : Json(one.parent)},
                    {"max_model_len", served_.max_length}});
  }
  return {{"object", "list"}, {"data", std::move(data)}};
}

Json OpenAiApi::tokenizer_info() const {
  const text::SpecialTokens& special = served_.tokenizer.special();
  return {{"tokenizer_class", "PreTrainedTokenizerFast"},
          {"eos_token", text_or_null(special.eos)},
          {"bos_token", text_or_null(special.bos)},
          {"pad_token", text_or_null(special.pad)},
          {"unk_token", text_or_null(special.unk)},
          {"model_max_length", served_.max_length},
          {"chat_template", text_or_null(served_.tokenizer.chat_template())},
          {"vocabulary_hash", vocabulary_hash()}};
}

const std::string& OpenAiApi::vocabulary_hash() const {
  std::call_once(hashed_, [this] { vocabulary_hash_ = text::vocabulary_name(served_.tokenizer); });
  return vocabulary_hash_;
}

// On the background thread, as what follows.
std::shared_ptr<const text::TokenPattern> OpenAiApi::matched(const std::string& pattern) {
  const auto known =
      std::find_if(patterns_.begin(), patterns_.end(), [&](const auto& one) { return one.first == pattern; });
  if (known != patterns_.end() && known->second->states() <= kMostStates / 2) {
    std::rotate(patterns_.begin(), known, known + 1);
    return patterns_.front().second;
  }
  // Requests before this one have used up most of its states.
  if (known != patterns_.end()) patterns_.erase(known);
  if (!token_texts_) token_texts_ = std::make_shared<const text::TokenTexts>(served_.tokenizer);
  try {
    patterns_.emplace_front(pattern, std::make_shared<const text::TokenPattern>(
                                         token_texts_, pattern, "response_format", kMostStates));
  } catch (const base::UserError&) {  // it is well formed: what is left are a pattern's limits
    throw Refusal(400, "response_format: the schema allows too many forms: it is too large",
                  "response_format");
  }
  if (patterns_.size() > kMostPatterns) patterns_.pop_back();
  return patterns_.front().second;
}

void OpenAiApi::post(const std::shared_ptr<Exchange>& exchange) {
  if (exchange->gone()) return;
  try {
    const Json body = parse_body(exchange->request.body);
    const std::string& path = exchange->request.path;
    if (path == "/tokenize") {
      tell(*exchange, {.body = base::dump_json(tokenize(served_, body))});
    } else if (path == "/detokenize") {
      tell(*exchange, {.body = base::dump_json(detokenize(served_, body))});
    } else {
      sample(exchange, body);
    }
  } catch (...) {
    tell(*exchange, answer_of(refusal_of(std::current_exception())));
  }
}

void OpenAiApi::sample(const std::shared_ptr<Exchange>& exchange, const Json& body) {
  const std::string& path = exchange->request.path;
  const bool is_chat = path == "/v1/chat/completions", is_generate = path == "/inference/v1/generate";
  Wish wish = is_chat       ? read_chat(served_, body)
              : is_generate ? read_generate(served_, body)
                            : read_completion(served_, body);
  if (!wish.pattern.empty()) wish.matched = matched(wish.pattern);
  const std::string id = (is_chat       ? "chatcmpl-"
                          : is_generate ? "gen-"
                                        : "cmpl-") +
                         std::to_string(served_.started) + "x" + std::to_string(exchange->request.id);
  std::make_shared<Sampling>(served_, std::move(wish), exchange, id, [this, path](int status) {
    served_.metrics.count("openai", path, status);
  })->start();
}

}  // namespace hone::serve::openai
