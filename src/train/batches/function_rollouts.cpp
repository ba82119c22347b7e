#include "train/batches/function_rollouts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/rng.h"
#include "base/step_progress.h"
#include "rollout/engine.h"
#include "text/stop_strings.h"

namespace hone::train {

namespace {

using base::Json;

constexpr std::size_t kMostSamples = 1 << 15;  // of one prompt: below what keys hold

// Answers the requests of one call of the function. Keys that one request has read stay for the next, which often begins alike.
class Completer {
 public:
  Completer(const model::CausalLm& model, const rollout::GenerateOptions& options,
            const text::Tokenizer& tokenizer, const FunctionUse& use)
      : options_(options),
        tokenizer_(tokenizer),
        use_(use),
        positions_(model.config().max_position_embeddings),
        engine_(model, options) {}

  Json answer(const Json& request) {
    const std::vector<std::vector<std::int32_t>> prompts = prompts_of(request.at("prompts"));
    rollout::RequestOptions one = with(request.at("overrides"));
    one.seed = seed_of_request();
    base::begin_part("sampling", "completions", static_cast<std::int64_t>(prompts.size()));
    std::vector<rollout::RequestId> ids;
    try {
      while (ids.size() < prompts.size()) add(prompts, ids, one);
      while (engine_.advance()) {
        for (const rollout::Event& event : engine_.poll()) base::advance_part(event.has_ended ? 1 : 0);
      }
    } catch (...) {
      for (const rollout::RequestId id : ids) engine_.forget(id);
      throw;
    }
    Json out = Json::array();
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const rollout::Completion done = engine_.take(ids[i]);
      out.push_back({{"prompt_ids", prompts[i]},
                     {"completion_ids", done.ids},
                     {"logprobs", done.sampled_logprobs},
                     {"text", tokenizer_.decode(done.ids, true)}});
    }
    base::begin_part("rollout function", "", 0);
    return {{"completions", std::move(out)}};
  }

 private:
  std::vector<std::vector<std::int32_t>> prompts_of(const Json& prompts) const {
    std::vector<std::vector<std::int32_t>> out(prompts.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      const Json& one = prompts.at(i);
      const std::string where = "generate_rollout_completions, prompt " + std::to_string(i);
      if (one.is_array() && !one.empty() && one.front().is_number()) {
        out[i] = one.get<std::vector<std::int32_t>>();
        continue;
      }
      const data::PromptRow row{.prompt = one, .columns = Json::object(), .where = where};
      out[i] = data::tokenize_prompts({row}, tokenizer_, use_.chat, use_.template_kwargs, use_.vocab_size)
                   .front()
                   .ids;
    }
    return out;
  }

  rollout::RequestOptions with(const Json& overrides) const {
    rollout::RequestOptions out = options_;
    const auto number = [&](const char* name, auto& to) {
      if (overrides.contains(name)) to = overrides.at(name).get<std::remove_reference_t<decltype(to)>>();
    };
    number("temperature", out.sampler.temperature);
    number("top_p", out.sampler.top_p);
    number("top_k", out.sampler.top_k);
    number("min_p", out.sampler.min_p);
    number("repetition_penalty", out.sampler.repetition_penalty);
    number("max_tokens", out.max_new_tokens);
    number("min_tokens", out.min_new_tokens);
    out.sampler.top_k = std::max<std::int64_t>(0, out.sampler.top_k);  // vLLM's -1: off
    for (const Json& id : overrides.value("stop_token_ids", Json::array()))
      out.stop_ids.push_back(id.get<std::int64_t>());
    if (overrides.contains("stop")) {
      out.stops = [stops = overrides.at("stop").get<std::vector<std::string>>(), before = options_.stops,
                   &tokenizer = tokenizer_](std::span<const std::int32_t> ids) {
        return text::ends_with_stop(ids, stops, tokenizer) || (before && before(ids));
      };
    }
    out.share_prefixes = true;
    out.entropies = out.logprobs = false;  // of the trainer's model: of the whole rollout, when it is there
    return out;
  }

  // Of request `count_` of this batch, in 64 bits.
  std::uint64_t seed_of_request() {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 24U;  // of first prompts, and of requests
    const std::uint64_t first = options_.key_of(0);
    base::require(first < kMost && count_ < kMost, "train::roll_out", "fewer than 2^24 requests in a batch");
    const base::Stream random(options_.seed, base::Purpose::kRollout, options_.step, first * kMost + count_);
    count_ += 1;
    return random.bits(0) | std::uint64_t{random.bits(1)} << 32U;
  }

  // The next prompt, and those behind it that equal it: it is read once for all of them.
  void add(const std::vector<std::vector<std::int32_t>>& prompts, std::vector<rollout::RequestId>& ids,
           rollout::RequestOptions options) {
    const std::size_t place = ids.size();
    const std::vector<std::int32_t>& prompt = prompts[place];
    const std::int64_t room = positions_ - std::ssize(prompt);
    const std::string where = "generate_rollout_completions, prompt " + std::to_string(place);
    if (room < 1) {
      throw base::UserError({.where = where,
                             .expected = "a prompt of fewer tokens than the model's " +
                                         std::to_string(positions_) + " positions",
                             .found = std::to_string(prompt.size()),
                             .fix = "leave earlier turns out of the prompt"});
    }
    options.max_new_tokens = std::min(options.max_new_tokens, room);  // as vLLM ends at its context's length
    options.min_new_tokens = std::min(options.min_new_tokens, options.max_new_tokens);
    std::size_t end = place + 1;
    while (end < prompts.size() && end - place < kMostSamples && prompts[end] == prompt) ++end;
    const rollout::RequestId first = engine_.add({.ids = prompt,
                                                  .options = std::move(options),
                                                  .key = {.prompt = place},
                                                  .samples = static_cast<std::int64_t>(end - place),
                                                  .where = where});
    for (std::size_t i = place; i < end; ++i) ids.push_back(first + (i - place));
  }

  const rollout::GenerateOptions& options_;
  const text::Tokenizer& tokenizer_;
  const FunctionUse& use_;
  const std::int64_t positions_;
  rollout::Engine engine_;
  std::uint64_t count_ = 0;
};

float number_or_nan(const Json& value) {
  return value.is_null() ? std::numeric_limits<float>::quiet_NaN() : value.get<float>();
}

// Of completion `i` of what the function returned, which its process has checked.
RolloutSample sample_of(const Json& made, std::size_t i, const FunctionUse& use,
                        const text::Tokenizer& tokenizer) {
  RolloutSample out;
  out.ids = made.at("completion_ids").at(i).get<std::vector<std::int32_t>>();
  const Json& mask = made.at("env_mask");
  const Json& logprobs = made.at("logprobs");
  for (std::size_t t = 0; t < out.ids.size(); ++t) {
    const bool drawn = mask.is_null() || mask.at(i).at(t).get<int>() == 1;
    const auto place = static_cast<std::int64_t>(t);
    if (drawn) {
      if (!logprobs.is_null()) out.sampling_logprobs.push_back(number_or_nan(logprobs.at(i).at(t)));
    } else if (!out.given.empty() && out.given.back().end == place) {
      out.given.back().end += 1;
    } else {
      out.given.push_back({.begin = place, .end = place + 1});
    }
  }
  out.truncated = std::find(use.ends.begin(), use.ends.end(), out.ids.back()) == use.ends.end();
  out.text = tokenizer.decode(out.ids, true);
  return out;
}

void require_ids(const std::vector<std::int32_t>& ids, const FunctionUse& use, const std::string& where) {
  const bool good = !ids.empty() && std::all_of(ids.begin(), ids.end(), [&](std::int32_t id) {
    return id >= 0 && id < use.vocab_size;
  });
  if (good) return;
  throw base::UserError({.where = "rollout",
                         .expected = "token ids below the model's vocabulary of " +
                                     std::to_string(use.vocab_size) + " in " + where,
                         .found = ids.empty() ? "none" : "others"});
}

FunctionBatch read_rollout(const Json& made, std::size_t count, const FunctionUse& use,
                           const text::Tokenizer& tokenizer) {
  FunctionBatch out;
  for (std::size_t i = 0; i < count; ++i) {
    out.prompts.push_back({.ids = made.at("prompt_ids").at(i).get<std::vector<std::int32_t>>()});
    out.samples.push_back(sample_of(made, i, use, tokenizer));
    require_ids(out.prompts.back().ids, use, "prompt_ids[" + std::to_string(i) + "]");
    require_ids(out.samples.back().ids, use, "completion_ids[" + std::to_string(i) + "]");
    Json& columns = out.columns.emplace_back(Json::object());
    for (const auto& [name, values] : made.at("columns").items()) columns[name] = values.at(i);
  }
  return out;
}

}  // namespace

FunctionBatch roll_out(const model::CausalLm& model, const std::vector<const data::PromptRow*>& rows,
                       const std::vector<std::int64_t>& numbers, const rollout::GenerateOptions& options,
                       const text::Tokenizer& tokenizer, FunctionUse& use, const Json& trainer_state,
                       bool evaluation) {
  const auto samples = static_cast<std::size_t>(options.samples);
  Json prompts = Json::array();
  for (const data::PromptRow* row : rows) {
    for (std::size_t k = 0; k < samples; ++k) prompts.push_back(row->prompt);
  }
  Completer completer(model, options, tokenizer, use);
  base::begin_part("rollout function", "", 0);
  const Json made = use.host->call(prompts,
                                   {{"state", trainer_state},
                                    {"training", !evaluation},
                                    {"options", use.options},
                                    {"model", use.model},
                                    {"vocab_size", use.vocab_size},
                                    {"positions", model.config().max_position_embeddings}},
                                   [&](const Json& request) { return completer.answer(request); });
  FunctionBatch out;
  try {
    out = read_rollout(made, prompts.size(), use, tokenizer);
  } catch (const Json::exception& error) {
    throw base::UserError({.where = "rollout",
                           .expected = "an answer of the process that runs the rollout function",
                           .found = error.what(),
                           .cause = "the function writes to its connection with hone"});
  }
  for (std::size_t i = 0; i < out.prompts.size(); ++i) out.prompts[i].row = numbers[i / samples];
  out.printed = use.host->printed();
  return out;
}

}  // namespace hone::train
