#include "serve/tinker/sample_fields.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"

namespace hone::serve {

using base::Json;

namespace {

constexpr std::int64_t kMostSamples = 128, kMostStops = 64, kMostTop = 64;
constexpr std::int64_t kMostNumbers = std::int64_t{1} << 22;  // of the most likely tokens, in one answer
constexpr std::int64_t kMaxTokenId = std::numeric_limits<std::int32_t>::max();

void require_neutral(const Fields& fields) {
  if (fields.has("target_prompt_logprobs"))
    fields.fail("target_prompt_logprobs", "nothing: use forward with target_tokens of shape [N, K]",
                "a tensor");
  if (fields.whole_or("prompt_alt_tokens_k", 0) != 0)
    fields.fail("prompt_alt_tokens_k", "0: hone does not have it", "another number");
  if (fields.flag_or("record_stability_info", false))
    fields.fail("record_stability_info", "false: the formula of stable_reinforce is not published",
                "true; use loss_fn importance_sampling, ppo or cispo");
  for (const char* name : {"base_model", "model_path"})
    if (fields.has(name)) fields.fail(name, "sampling_session_id alone", "another way to name the weights");
}

std::vector<std::int32_t> read_prompt(const Fields& fields) {
  const auto prompt = fields.maybe_object("prompt");
  if (!prompt) fields.fail("prompt", "an object with chunks", "nothing");
  prompt->only({"chunks"});
  const Json* const chunks = prompt->find("chunks");
  if (chunks == nullptr || !chunks->is_array()) prompt->fail("chunks", "an array", "none");
  std::vector<std::int32_t> out;
  for (const Json& chunk : *chunks) {
    const Fields one(chunk, "prompt.chunks");
    one.only({"tokens", "type"});
    if (one.maybe_text("type").value_or("encoded_text") != "encoded_text")
      one.fail("type", "'encoded_text': hone samples language models", one.text("type"));
    const Json* const tokens = one.find("tokens");
    if (tokens == nullptr || !tokens->is_array()) one.fail("tokens", "an array of token ids", "none");
    for (const Json& token : *tokens) {
      const bool fits = token.is_number_integer() && token.get<std::int64_t>() >= 0 &&
                        token.get<std::int64_t>() <= kMaxTokenId;
      if (!fits) one.fail("tokens", "token ids", kind_of_json(token));
      out.push_back(token.get<std::int32_t>());
    }
  }
  if (out.empty()) prompt->fail("chunks", "one token at least", "none");
  return out;
}

void read_stop(const Fields& params, const SampleSetting& setting, rollout::RequestOptions& options) {
  const Json* const stop = params.find("stop");
  if (stop == nullptr) {
    options.stop_ids = setting.stop_ids;
    return;
  }
  const Json all = stop->is_array() ? *stop : Json::array({*stop});
  if (all.size() > static_cast<std::size_t>(kMostStops))
    params.fail("stop", "up to " + std::to_string(kMostStops), std::to_string(all.size()));
  std::vector<std::string> texts;
  for (const Json& one : all) {
    if (one.is_string() && !one.get<std::string>().empty()) {
      texts.push_back(one.get<std::string>());
    } else if (one.is_number_integer()) {
      options.stop_ids.push_back(one.get<std::int64_t>());
    } else {
      params.fail("stop", "texts or token ids", kind_of_json(one));
    }
  }
  if (texts.empty()) return;
  if (!setting.ends_with_stop) params.fail("stop", "token ids: this server has no tokenizer", "texts");
  options.stops = [ends = setting.ends_with_stop, texts](std::span<const std::int32_t> ids) {
    return ends(ids, texts);
  };
}

void read_params(const Fields& params, const SampleSetting& setting, SampleRun& run) {
  params.only({"max_tokens", "seed", "stop", "temperature", "top_k", "top_p"});
  rollout::RequestOptions& options = run.options;
  options.sampler.temperature = params.number_or("temperature", 1);
  if (options.sampler.temperature < 0) params.fail("temperature", "a number from 0", "a negative one");
  options.sampler.top_k = std::max<std::int64_t>(0, params.whole_or("top_k", -1, -1));
  options.sampler.top_p = params.number_or("top_p", 1);
  if (!(options.sampler.top_p > 0 && options.sampler.top_p <= 1))
    params.fail("top_p", "a number above 0, up to 1", std::to_string(options.sampler.top_p));
  read_stop(params, setting, options);
  if (params.has("seed")) {
    options.seed = static_cast<std::uint64_t>(params.whole("seed", std::numeric_limits<std::int64_t>::min(),
                                                           std::numeric_limits<std::int64_t>::max()));
  } else {
    options.seed = setting.seed;
    options.step = static_cast<std::uint64_t>(setting.session);
    run.key.prompt = static_cast<std::uint64_t>(setting.seq);
  }
  const auto tokens = static_cast<std::int64_t>(run.prompt.size());
  options.max_new_tokens =
      params.whole_or("max_tokens", std::max<std::int64_t>(1, setting.max_context - tokens), 1);
  if (tokens + options.max_new_tokens <= setting.max_context) return;
  params.fail("max_tokens",
              "a prompt and max_tokens within the maximum context length of " +
                  std::to_string(setting.max_context) + " tokens",
              std::to_string(tokens) + " and " + std::to_string(options.max_new_tokens));
}

// An answer of 8 bytes for each of these.
void require_numbers(const Fields& fields, const SampleRun& run) {
  const std::int64_t numbers = static_cast<std::int64_t>(run.prompt.size()) * run.prompt_top +
                               run.samples * run.options.max_new_tokens * run.sample_top;
  if (numbers <= kMostNumbers) return;
  fields.fail(
      run.sample_top > 0 ? "topk_sample_logprobs" : "topk_prompt_logprobs",
      "at most " + std::to_string(kMostNumbers) +
          " numbers: topk_prompt_logprobs x tokens of the prompt, and topk_sample_logprobs x num_samples x "
          "max_tokens",
      std::to_string(numbers));
}

}  // namespace

void read_sample(const Fields& fields, const SampleSetting& setting, SampleRun& run) {
  fields.only({"num_samples", "prompt", "sampling_params", "base_model", "model_path", "sampling_session_id",
               "seq_id", "prompt_logprobs", "topk_prompt_logprobs", "topk_sample_logprobs",
               "target_prompt_logprobs", "prompt_alt_tokens_k", "prompt_logprobs_last_n",
               "record_stability_info", "type"});
  require_neutral(fields);
  run.prompt = read_prompt(fields);
  run.samples = fields.whole_or("num_samples", 1, 1, kMostSamples);
  run.options.share_prefixes = true;
  const auto params = fields.maybe_object("sampling_params");
  read_params(params ? *params : Fields(Json::object(), "sampling_params"), setting, run);
  run.prompt_logprobs = fields.flag_or("prompt_logprobs", false);
  run.prompt_top = fields.whole_or("topk_prompt_logprobs", 0, 0, kMostTop);
  run.sample_top = fields.whole_or("topk_sample_logprobs", 0, 0, kMostTop);
  require_numbers(fields, run);
  if (!fields.has("prompt_logprobs_last_n")) return;
  const auto tokens = static_cast<std::int64_t>(run.prompt.size());
  if (!run.prompt_logprobs) fields.fail("prompt_logprobs_last_n", "prompt_logprobs beside it", "none");
  run.scored_from = tokens - fields.whole("prompt_logprobs_last_n", 1, std::max<std::int64_t>(1, tokens - 1));
}

WireTop empty_top(std::size_t places, std::int64_t k) {
  const std::size_t slots = places * static_cast<std::size_t>(k);
  return {.k = static_cast<std::uint32_t>(k),
          .ids = std::vector<std::int32_t>(slots, 0),
          .logprobs = std::vector<float>(slots, kNoTopLogprob)};
}

void put_top(const std::vector<TopTokens>& scores, std::size_t from, WireTop& top) {
  for (std::size_t i = 0; i < scores.size(); ++i) {
    for (std::size_t j = 0; j < scores[i].size() && j < top.k; ++j) {
      const std::size_t slot = (from + i) * top.k + j;
      if (slot >= top.ids.size()) return;
      std::tie(top.ids[slot], top.logprobs[slot]) = scores[i][j];
    }
  }
}

}  // namespace hone::serve
