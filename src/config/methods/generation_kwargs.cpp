#include "config/methods/generation_kwargs.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/strings/suggest.h"
#include "base/strings/utf8.h"

namespace hone::config {
namespace {

using base::Json;
using base::UserError;

constexpr const char* kKwargs = "generation_kwargs";
constexpr std::int64_t kMaxTokenId = 0x7FFFFFFF;

const std::vector<std::string>& known_keys() {
  static const std::vector<std::string> keys = {
      "top_k",          "top_p",          "min_p",        "temperature", "do_sample", "repetition_penalty",
      "max_new_tokens", "min_new_tokens", "stop_strings", "eos_token_id"};
  return keys;
}

// Keys of transformers' GenerationConfig and of vLLM that hone has only where they change nothing.
struct OnlyOff {
  std::string_view key;
  double off;
  const char* why;
  const char* instead;
};
constexpr OnlyOff kOnlyOff[] = {
    {"typical_p", 1, "hone's sampler keeps the most likely tokens; typical_p drops those too",
     "use top_p or min_p"},
    {"epsilon_cutoff", 0, "hone has no absolute cut-off of probabilities", "use min_p"},
    {"eta_cutoff", 0, "hone has no absolute cut-off of probabilities", "use min_p"},
    {"no_repeat_ngram_size", 0, "the completions would not be the model's own", "use repetition_penalty"},
    {"presence_penalty", 0, "hone has one penalty", "use repetition_penalty"},
    {"frequency_penalty", 0, "hone has one penalty", "use repetition_penalty"},
    {"num_beams", 1, "the methods sample, and search no beams", "remove it"},
    {"num_return_sequences", 1, "num_generations says how many completions a prompt has",
     "set num_generations"},
};

struct Keyword {
  const Settings& settings;
  const std::string& key;
  const Json& value;
  const char* length;  // the option that max_new_tokens must agree with

  [[noreturn]] void wrong(const std::string& expected, const std::string& cause = {},
                          const std::string& fix = {}) const {
    conflict(settings, kKwargs, fmt::format("{} for {}.{}", expected, kKwargs, key), base::short_json(value),
             cause, fix);
  }
  std::int64_t integer(std::int64_t least) const {
    if (!value.is_number_integer() || value.get<std::int64_t>() < least) {
      wrong(fmt::format("a whole number, at least {}", least));
    }
    if (value.get<double>() > kMaxSteps) wrong(fmt::format("a whole number, at most {}", kMaxSteps));
    return value.get<std::int64_t>();
  }
  // In the bounds of the option of the same name.
  double number() const {
    const Range& range = settings.schema().find(key)->range;
    if (!value.is_number() || !range.holds(value.get<double>()))
      wrong(fmt::format("a number {}", range.describe()));
    return value.get<double>();
  }
  std::vector<std::string> texts() const {
    const Json list = value.is_array() ? value : Json::array({value});
    std::vector<std::string> out;
    for (const Json& item : list) {
      if (!item.is_string()) wrong("texts");
      if (item.get<std::string>().empty()) wrong("texts", "an empty text is part of every completion");
      out.push_back(item.get<std::string>());
    }
    return out;
  }
  std::vector<std::int64_t> ids() const {
    const Json list = value.is_array() ? value : Json::array({value});
    std::vector<std::int64_t> out;
    for (const Json& item : list) {
      if (!item.is_number_integer() || item.get<std::int64_t>() < 0 || item.get<std::int64_t>() > kMaxTokenId)
        wrong("token ids");
      out.push_back(item.get<std::int64_t>());
    }
    return out;
  }
};

// True when `key` is one of kOnlyOff, at its off.
bool is_off(const Settings& settings, const std::string& key, const Json& value) {
  for (const OnlyOff& each : kOnlyOff) {
    if (each.key != key) continue;
    if (value.is_null() || (value.is_number() && value.get<double>() == each.off)) return true;
    conflict(settings, kKwargs, fmt::format("{}.{} at {}, which is off", kKwargs, key, each.off),
             base::short_json(value), each.why, each.instead);
  }
  return false;
}

[[noreturn]] void unknown(const Settings& settings, const std::string& key) {
  conflict(settings, kKwargs, "keys that hone has in generation_kwargs",
           fmt::format("'{}'.{}", base::cut_text(key, 200), base::did_you_mean(key, known_keys())),
           "a key that hone ignored would change what is sampled",
           fmt::format("hone has {}", fmt::join(known_keys(), ", ")));
}

void apply(const Keyword& keyword, PolicyPlan& plan) {
  const std::string& key = keyword.key;
  if (key == "top_k") {
    plan.top_k = keyword.integer(0);
  } else if (key == "top_p") {
    plan.top_p = keyword.number();
  } else if (key == "min_p") {
    plan.min_p = keyword.number();
  } else if (key == "repetition_penalty") {
    plan.repetition_penalty = keyword.number();
  } else if (key == "min_new_tokens") {
    plan.min_new_tokens = keyword.integer(0);
  } else if (key == "stop_strings") {
    plan.stop_strings = keyword.texts();
  } else if (key == "eos_token_id") {
    plan.stop_token_ids = keyword.ids();
  } else if (key == "do_sample") {
    if (keyword.value != Json(true)) {
      keyword.wrong("true", "completions that are all the same have no advantages", "remove it");
    }
  } else if (key == "temperature") {
    if (keyword.number() != plan.temperature) {
      keyword.wrong(fmt::format("the value of temperature, {},", plan.temperature),
                    "the model would sample at one temperature and train at another",
                    fmt::format("write temperature: {} instead", base::short_json(keyword.value)));
    }
  } else if (key == "max_new_tokens") {
    if (keyword.integer(1) != plan.max_completion_length) {
      keyword.wrong(fmt::format("the value of {}, {},", keyword.length, plan.max_completion_length),
                    fmt::format("losses and memory are computed with {}", keyword.length),
                    fmt::format("write {}: {} instead", keyword.length, base::short_json(keyword.value)));
    }
  } else {
    unknown(keyword.settings, key);
  }
}

}  // namespace

void apply_generation_kwargs(const Settings& settings, PolicyPlan& plan) {
  const Json& keywords = settings.value(kKwargs);
  if (keywords.is_null()) return;
  const bool online = settings.schema().find("max_new_tokens") != nullptr;
  const char* const length = online ? "max_new_tokens" : "max_completion_length";
  // null: the key's default, as GenerationConfig has it
  for (const auto& [key, value] : keywords.items()) {
    if (is_off(settings, key, value)) continue;
    const bool known = std::find(known_keys().begin(), known_keys().end(), key) != known_keys().end();
    if (!known) unknown(settings, key);
    if (!value.is_null()) apply({settings, key, value, length}, plan);
  }
  if (plan.min_new_tokens > plan.max_completion_length) {
    conflict(settings, kKwargs,
             fmt::format("min_new_tokens of at most {}, {}", length, plan.max_completion_length),
             fmt::format("{}", plan.min_new_tokens), "",
             fmt::format("raise {}, or lower min_new_tokens", length));
  }
}

}  // namespace hone::config
