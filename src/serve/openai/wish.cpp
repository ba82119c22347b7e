#include "serve/openai/wish.h"

#include <algorithm>
#include <charconv>

#include "serve/openai/fields.h"
#include "serve/openai/messages.h"
#include "serve/openai/schema_pattern.h"

namespace hone::serve::openai {

namespace {

constexpr std::int64_t kMostSamples = 128, kMostStops = 16, kMostTop = 64, kMostPrompts = 1024;
constexpr double kMostSeed = 9.2e18;

std::vector<std::int32_t> token_ids(const Served& served, const Fields& fields, const std::string& name,
                                    const base::Json& list) {
  std::vector<std::int32_t> out;
  const std::int64_t vocabulary = served.model.config().vocab_size;
  for (const base::Json& one : list) {
    if (!one.is_number_integer()) fields.refuse(name, "a text, or ids of tokens");
    const auto id = one.get<std::int64_t>();
    if (id < 0 || id >= vocabulary)
      throw Refusal(400,
                    name + " has the token id " + std::to_string(id) +
                        ", and the model has those from 0 to " + std::to_string(vocabulary - 1),
                    name);
    out.push_back(static_cast<std::int32_t>(id));
  }
  return out;
}

void read_model(const Served& served, Fields& fields, Wish& wish) {
  const std::string name = fields.text("model", served.weights.base_name());
  const auto found = served.weights.find(name);
  if (!found) {
    throw Refusal(404, "the model '" + name + "' does not exist." + served.weights.suggestion(name), "model",
                  "model_not_found");
  }
  wish.weights = *found;
}

void read_stops(const Served& served, Fields& fields, Wish& wish) {
  const base::Json& stop = fields.value("stop");
  if (stop.is_string()) {
    wish.stops.push_back(stop.get<std::string>());
  } else if (stop.is_array()) {
    for (const base::Json& one : stop) {
      if (!one.is_string()) fields.refuse("stop", "a text or a list of texts");
      wish.stops.push_back(one.get<std::string>());
    }
  } else if (!stop.is_null()) {
    fields.refuse("stop", "a text or a list of texts");
  }
  std::erase(wish.stops, "");
  if (static_cast<std::int64_t>(wish.stops.size()) > kMostStops)
    fields.refuse("stop", "at most " + std::to_string(kMostStops) + " texts");
  if (!fields.flag("ignore_eos")) wish.stop_ids = served.stop_ids;
  const std::vector<std::int32_t> more =
      token_ids(served, fields, "stop_token_ids", base::Json(fields.integers("stop_token_ids")));
  wish.stop_ids.insert(wish.stop_ids.end(), more.begin(), more.end());
  wish.include_stop = fields.flag("include_stop_str_in_output");
}

void read_bias(const Served& served, Fields& fields, Wish& wish) {
  const base::Json& bias = fields.value("logit_bias");
  if (!bias.is_null() && !bias.is_object()) fields.refuse("logit_bias", "an object of token ids and numbers");
  for (const auto& [key, value] : bias.items()) {
    std::int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    const bool is_id = error == std::errc() && end == key.data() + key.size() && id >= 0 &&
                       id < served.model.config().vocab_size;
    if (!is_id || !value.is_number() || value.get<double>() < -100 || value.get<double>() > 100)
      fields.refuse("logit_bias", "an object of token ids and numbers from -100 to 100");
    wish.bias[id] = value.get<float>();
  }
  wish.allowed =
      token_ids(served, fields, "allowed_token_ids", base::Json(fields.integers("allowed_token_ids")));
  if (fields.has("allowed_token_ids") && wish.allowed.empty())
    fields.refuse("allowed_token_ids", "a list of at least one token");
  std::sort(wish.allowed.begin(), wish.allowed.end());
}

// What all forms have.
void read_sampling(const Served& served, Fields& fields, Wish& wish) {
  wish.sampler.temperature = fields.number("temperature", 0, 100).value_or(1);
  wish.sampler.top_p = fields.number("top_p", 0, 1).value_or(1);
  if (wish.sampler.top_p == 0) fields.refuse("top_p", "above 0");
  wish.sampler.top_k = std::max<std::int64_t>(0, fields.integer("top_k", -1, 1 << 30).value_or(0));
  wish.sampler.min_p = fields.number("min_p", 0, 1).value_or(0);
  wish.sampler.repetition_penalty = fields.number("repetition_penalty", 0.01, 100).value_or(1);
  wish.presence_penalty = fields.number("presence_penalty", -2, 2).value_or(0);
  wish.frequency_penalty = fields.number("frequency_penalty", -2, 2).value_or(0);
  if (const auto seed = fields.number("seed", -kMostSeed, kMostSeed)) {
    if (!fields.value("seed").is_number_integer()) fields.refuse("seed", "a whole number");
    wish.seed = static_cast<std::uint64_t>(fields.value("seed").get<std::int64_t>());
  }
  wish.min_tokens = fields.integer("min_tokens", 0, served.max_length).value_or(0);
  read_stops(served, fields, wish);
  read_bias(served, fields, wish);
  wish.skip_special = fields.flag("skip_special_tokens", true);
  fields.neutral("spaces_between_special_tokens", true, "texts are those of the tokenizer");
  fields.neutral("use_beam_search", false, "hone samples");
  fields.neutral("length_penalty", 1.0, "hone has no beam search");
  fields.neutral("truncate_prompt_tokens", nullptr, "cut the prompt before it is sent");
  fields.neutral("prompt_logprobs", nullptr, "ask /v1/completions with echo and logprobs");
  fields.neutral("bad_words", base::Json::array(), "use logit_bias");
  fields.neutral("logits_processors", nullptr, "no code comes from a request");
  fields.ignore("cache_salt");
  fields.ignore("priority");
}

void read_response_format(Fields& fields, Wish& wish) {
  const base::Json& given = fields.value("response_format");
  if (given.is_null()) return;
  Fields format(given, "response_format");
  const std::string type = format.text("type");
  if (type == "json_object") {
    wish.pattern = pattern_of_any_object();
  } else if (type == "json_schema") {
    Fields named(format.value("json_schema"), "response_format.json_schema");
    named.ignore("name");
    named.ignore("description");
    named.ignore("strict");  // every text matches the schema, with and without it
    if (!named.has("schema")) named.refuse("schema", "a JSON schema");
    wish.pattern = pattern_of_schema(named.value("schema"));
    named.finish();
  } else if (type != "text") {
    format.refuse("type", "text, json_object or json_schema");
  }
  format.finish();
  if (wish.pattern.empty() || !wish.stop_ids.empty()) return;
  throw Refusal(400, "response_format needs a token that ends the text: leave ignore_eos out",
                "response_format");
}

void read_common(const Served& served, Fields& fields, Wish& wish) {
  read_model(served, fields, wish);
  read_sampling(served, fields, wish);
  wish.samples = fields.integer("n", 1, kMostSamples).value_or(1);
  wish.stream = fields.flag("stream");
  const base::Json& options = fields.value("stream_options");
  if (!options.is_null()) {
    Fields inner(options, "stream_options");
    wish.include_usage = inner.flag("include_usage");
    inner.neutral("continuous_usage_stats", false, "usage comes at the end");
    inner.ignore("include_obfuscation");
    inner.finish();
  }
  wish.return_ids = fields.flag("return_token_ids");
  wish.texts_as_ids = fields.flag("return_tokens_as_token_ids");
  fields.neutral("best_of", base::Json(wish.samples), "use n");
  read_response_format(fields, wish);
  for (const char* name :
       {"guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs"})
    fields.neutral(name, nullptr, "hone does not constrain texts");
  fields.neutral("use_prompt_embeds", false, "prompts are texts or ids");
  fields.neutral("prompt_embeds", nullptr, "prompts are texts or ids");
  for (const char* name :
       {"user", "metadata", "service_tier", "store", "safety_identifier", "prompt_cache_key", "request_id"})
    fields.ignore(name);
}

void check_lengths(const Served& served, Wish& wish, bool to_the_end) {
  std::int64_t longest = 0;
  for (const auto& prompt : wish.prompts) {
    const auto tokens = static_cast<std::int64_t>(prompt.size());
    if (tokens == 0) throw Refusal(400, "the prompt has no tokens", "prompt");
    longest = std::max(longest, tokens);
  }
  const std::int64_t room = served.max_length - longest;
  if (to_the_end) wish.max_tokens = room;
  if (room < std::max<std::int64_t>(wish.max_tokens, wish.echo ? 0 : 1)) {
    throw Refusal(400,
                  "This model's maximum context length is " + std::to_string(served.max_length) +
                      " tokens. However, you requested " + std::to_string(longest) + " tokens in the prompt" +
                      (to_the_end ? "." : " and " + std::to_string(wish.max_tokens) + " in the completion."),
                  wish.form == Form::kChat ? "messages" : "prompt", "context_length_exceeded");
  }
  wish.min_tokens = std::min(wish.min_tokens, wish.max_tokens);
  if (wish.max_tokens == 0 && !wish.echo) throw Refusal(400, "max_tokens must be at least 1", "max_tokens");
}

// A text, a list of texts, ids, or lists of ids.
void read_prompts(const Served& served, Fields& fields, Wish& wish) {
  const base::Json prompt = fields.value("prompt");
  const bool special = fields.flag("add_special_tokens", true);
  const auto add = [&](const base::Json& one) {
    if (one.is_string()) {
      wish.prompts.push_back(served.tokenizer.encode(one.get<std::string>(), special).ids);
    } else if (one.is_array()) {
      wish.prompts.push_back(token_ids(served, fields, "prompt", one));
    } else {
      fields.refuse("prompt", "a text, a list of texts, ids of tokens, or lists of them");
    }
  };
  if (prompt.is_array() && !prompt.empty() && !prompt.front().is_number()) {
    if (static_cast<std::int64_t>(prompt.size()) * wish.samples > kMostPrompts)
      fields.refuse("prompt", "at most " + std::to_string(kMostPrompts) + " completions at once");
    for (const base::Json& one : prompt) add(one);
  } else {
    add(prompt);
  }
}

}  // namespace

Wish read_completion(const Served& served, const base::Json& body) {
  Fields fields(body);
  Wish wish;
  read_common(served, fields, wish);
  read_prompts(served, fields, wish);
  wish.max_tokens = fields.integer("max_tokens", 0, 1 << 30).value_or(16);
  wish.echo = fields.flag("echo");
  wish.logprobs = fields.integer("logprobs", 0, kMostTop);
  fields.neutral("suffix", nullptr, "the model completes at the end");
  fields.finish();
  check_lengths(served, wish, false);
  if (wish.echo && wish.stream)
    throw Refusal(400, "echo cannot be streamed", "echo", "unsupported_parameter");
  return wish;
}

Wish read_chat(const Served& served, const base::Json& body) {
  Fields fields(body);
  Wish wish;
  wish.form = Form::kChat;
  read_common(served, fields, wish);
  const std::vector<std::int64_t> ids = fields.integers("prompt_token_ids");
  if (!ids.empty()) {
    // What the caller's own renderer made of the messages.
    wish.prompts = {token_ids(served, fields, "prompt_token_ids", base::Json(ids))};
    fields.ignore("messages");
  }
  if (wish.prompts.empty()) wish.prompts = {prompt_of_chat(served, fields, wish.tools)};
  if (!wish.pattern.empty() && !wish.tools.is_null())
    throw Refusal(400, "response_format with tools is not supported: a call is no text of a schema",
                  "response_format", "unsupported_parameter");
  const auto former = fields.integer("max_tokens", 1, 1 << 30);
  const auto most = fields.integer("max_completion_tokens", 1, 1 << 30);
  wish.max_tokens = most.value_or(former.value_or(0));
  const auto top = fields.integer("top_logprobs", 0, kMostTop);
  if (fields.flag("logprobs")) {
    wish.logprobs = top.value_or(0);
  } else if (top.value_or(0) > 0) {
    throw Refusal(400, "top_logprobs needs logprobs: true", "top_logprobs");
  }
  fields.neutral("echo", false, "only /v1/completions has it");
  fields.neutral("reasoning_effort", nullptr, "use chat_template_kwargs");
  fields.neutral("verbosity", nullptr, "say it in a message");
  fields.neutral("functions", nullptr, "use tools");
  fields.neutral("function_call", nullptr, "use tool_choice");
  fields.neutral("modalities", base::Json::array({"text"}), "answers are texts");
  fields.neutral("audio", nullptr, "answers are texts");
  fields.neutral("prediction", nullptr, "answers are sampled");
  fields.neutral("web_search_options", nullptr, "the server has no network");
  fields.finish();
  check_lengths(served, wish, !most && !former);
  return wish;
}

Wish read_generate(const Served& served, const base::Json& body) {
  Fields fields(body);
  Wish wish;
  wish.form = Form::kGenerate;
  read_model(served, fields, wish);
  wish.prompts = {token_ids(served, fields, "token_ids", base::Json(fields.integers("token_ids")))};
  fields.ignore("cache_salt");
  fields.ignore("priority");
  fields.ignore("request_id");
  fields.neutral("stream", false, "only the OpenAI paths stream");
  fields.neutral("features", nullptr, "prompts are ids of tokens");
  fields.neutral("kv_transfer_params", nullptr, "the server is one process");
  const base::Json& given = fields.value("sampling_params");
  Fields inner(given.is_null() ? base::Json::object() : given, "sampling_params");
  read_sampling(served, inner, wish);
  wish.samples = inner.integer("n", 1, kMostSamples).value_or(1);
  const auto most = inner.integer("max_tokens", 1, 1 << 30);
  wish.max_tokens = most.value_or(16);
  wish.logprobs = inner.integer("logprobs", 0, kMostTop);
  inner.ignore("detokenize");
  inner.ignore("output_kind");
  inner.finish();
  fields.finish();
  wish.return_ids = wish.texts_as_ids = true;
  check_lengths(served, wish, false);
  return wish;
}

base::Json tokenize(const Served& served, const base::Json& body) {
  Fields fields(body);
  Wish ignored;
  read_model(served, fields, ignored);
  std::vector<std::int32_t> ids;
  if (fields.has("messages")) {
    base::Json tools;
    ids = prompt_of_chat(served, fields, tools);
  } else {
    if (!fields.value("prompt").is_string()) fields.refuse("prompt", "a text");
    ids = served.tokenizer.encode(fields.text("prompt"), fields.flag("add_special_tokens", true)).ids;
  }
  base::Json out = {{"tokens", ids}, {"count", ids.size()}, {"max_model_len", served.max_length}};
  if (fields.flag("return_token_strs")) {
    base::Json texts = base::Json::array();
    for (const std::int32_t id : ids) texts.push_back(served.tokenizer.id_to_token(id).value_or(""));
    out["token_strs"] = std::move(texts);
  }
  fields.finish();
  return out;
}

base::Json detokenize(const Served& served, const base::Json& body) {
  Fields fields(body);
  Wish ignored;
  read_model(served, fields, ignored);
  const std::vector<std::int32_t> ids =
      token_ids(served, fields, "tokens", base::Json(fields.integers("tokens")));
  fields.finish();
  return {{"prompt", served.tokenizer.decode(ids, false)}};
}

}  // namespace hone::serve::openai
