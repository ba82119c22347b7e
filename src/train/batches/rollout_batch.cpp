#include "train/batches/rollout_batch.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/files/appended_file.h"

namespace hone::train {

namespace {

using base::Json;
using base::UserError;

constexpr const char* kRolloutsFormat = "hone-rollouts-1";
constexpr const char* kDialoguesFormat = "hone-rollouts-2";

// nlohmann's get() casts: a fraction or 1e300 would become some number.
std::int64_t whole_of(const Json& value, const std::string& what, const std::string& where) {
  const bool whole = value.is_number_integer() &&
                     (!value.is_number_unsigned() ||
                      value.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()});
  if (whole) return value.get<std::int64_t>();
  throw UserError({.where = where, .expected = what, .found = base::dump_json(value).substr(0, 200)});
}

Json floats(const std::vector<float>& values) {
  Json out = Json::array();
  for (const float value : values)
    out.push_back(std::isfinite(value) ? Json(static_cast<double>(value)) : Json());
  return out;
}

std::vector<float> floats_of(const Json& sample, const char* name, std::size_t tokens,
                             const std::string& where) {
  std::vector<float> out;
  if (!sample.contains(name) || sample.at(name).is_null()) return out;
  for (const Json& value : sample.at(name)) {
    out.push_back(value.is_null() ? std::numeric_limits<float>::quiet_NaN() : value.get<float>());
  }
  if (out.size() == tokens) return out;
  throw UserError({.where = where,
                   .expected = std::string(name) + " for each of the " + std::to_string(tokens) + " tokens",
                   .found = std::to_string(out.size())});
}

double reward_of(const Json& value, const std::string& where) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  const auto out = value.get<double>();
  if (std::isfinite(static_cast<float>(out))) return out;
  throw UserError({.where = where,
                   .expected = "rewards that are finite in "
                               "fp32",
                   .found = base::dump_json(value)});
}

std::vector<std::int32_t> ids_of(const Json& json, const std::string& where) {
  std::vector<std::int32_t> out;
  for (const Json& value : json) {
    const std::int64_t id = whole_of(value, "token ids", where);
    if (id < 0 || id > std::numeric_limits<std::int32_t>::max()) {
      throw UserError({.where = where, .expected = "token ids", .found = base::dump_json(value)});
    }
    out.push_back(static_cast<std::int32_t>(id));
  }
  return out;
}

std::vector<GivenTokens> given_of(const Json& sample, std::size_t tokens, const std::string& where) {
  std::vector<GivenTokens> out;
  std::int64_t from = 0;
  for (const Json& one : sample.value("given", Json::array())) {
    const bool is_pair = one.is_array() && one.size() == 2;
    const GivenTokens span = {.begin = is_pair ? whole_of(one[0], "a token's place", where) : -1,
                              .end = is_pair ? whole_of(one[1], "a token's place", where) : -1};
    if (span.begin < from || span.end <= span.begin || span.end > static_cast<std::int64_t>(tokens)) {
      throw UserError({.where = where + " given",
                       .expected = "[begin, end) of the tokens 0 to " + std::to_string(tokens) +
                                   ", in order and apart from each other",
                       .found = base::dump_json(one).substr(0, 200)});
    }
    out.push_back(span);
    from = span.end + 1;
  }
  return out;
}

void read_dialogue(const Json& json, RolloutSample& out, const std::string& where) {
  out.messages = json.value("messages", Json());
  if (!out.messages.is_null() && !out.messages.is_array()) {
    throw UserError({.where = where + " messages",
                     .expected = "a list of messages, or null",
                     .found = base::dump_json(out.messages).substr(0, 200)});
  }
  for (const Json& one : json.value("calls", Json::array())) {
    out.calls.push_back({.turn = one.at("turn").get<std::int64_t>(),
                         .name = one.at("name").get<std::string>(),
                         .arguments = one.at("arguments"),
                         .result = one.at("result").get<std::string>(),
                         .failed = one.at("failed").get<bool>(),
                         .seconds = one.value("seconds", 0.0)});
  }
}

void write_dialogue(const RolloutSample& sample, Json& to) {
  Json given = Json::array(), calls = Json::array();
  for (const GivenTokens& one : sample.given) given.push_back({one.begin, one.end});
  for (const ToolCall& one : sample.calls) {
    calls.push_back({{"turn", one.turn},
                     {"name", one.name},
                     {"arguments", one.arguments},
                     {"result", one.result},
                     {"failed", one.failed},
                     {"seconds", one.seconds}});
  }
  to["given"] = given;
  to["messages"] = sample.messages;
  to["calls"] = calls;
}

RolloutSample sample_from_json(const Json& json, std::size_t prompts, std::size_t functions,
                               const std::string& where) {
  RolloutSample out;
  out.prompt = static_cast<std::size_t>(whole_of(json.at("prompt"), "the number of a prompt", where));
  out.ids = ids_of(json.at("ids"), where);
  out.truncated = json.at("truncated").get<bool>();
  out.text = json.value("text", "");
  for (const Json& value : json.at("rewards")) out.rewards.push_back(reward_of(value, where));
  if (out.prompt >= prompts || out.ids.empty() || out.rewards.size() != functions) {
    throw UserError({.where = where,
                     .expected = "a sample of one of the " + std::to_string(prompts) +
                                 " prompts, with tokens and a reward of each of " +
                                 std::to_string(functions) + " functions",
                     .found = "prompt " + std::to_string(out.prompt) + ", " + std::to_string(out.ids.size()) +
                              " tokens, " + std::to_string(out.rewards.size()) + " rewards"});
  }
  out.given = given_of(json, out.ids.size(), where);
  read_dialogue(json, out, where);
  out.old_logprobs = floats_of(json, "old_logprobs", out.drawn(), where);
  out.sampling_logprobs = floats_of(json, "sampling_logprobs", out.drawn(), where);
  out.ref_logprobs = floats_of(json, "ref_logprobs", out.drawn(), where);
  out.entropies = floats_of(json, "entropies", out.drawn(), where);
  return out;
}

void check_slices(const RolloutBatch& batch, const std::string& where) {
  if (batch.slices.empty()) return;
  std::vector<int> seen(batch.samples.size());
  bool good = true;
  for (const auto& slice : batch.slices) {
    for (const std::size_t sample : slice) good = good && sample < seen.size() && seen[sample]++ == 0;
  }
  for (const int count : seen) good = good && count == 1;
  if (good) return;
  throw UserError(
      {.where = where,
       .expected = "slices that hold each of the " + std::to_string(seen.size()) + " samples once",
       .found = "another set"});
}

}  // namespace

namespace {

bool has_dialogues(const RolloutBatch& batch) {
  return std::any_of(batch.samples.begin(), batch.samples.end(), [](const RolloutSample& one) {
    return !one.given.empty() || !one.calls.empty() || !one.messages.is_null();
  });
}

}  // namespace

Json to_json(const RolloutBatch& batch) {
  const bool second = batch.has_tools || has_dialogues(batch);
  Json prompts = Json::array(), samples = Json::array();
  for (const RolloutPrompt& prompt : batch.prompts)
    prompts.push_back({{"row", prompt.row}, {"ids", prompt.ids}});
  for (const RolloutSample& sample : batch.samples) {
    Json one = {{"prompt", sample.prompt}, {"ids", sample.ids}, {"truncated", sample.truncated}};
    Json rewards = Json::array();
    for (const double value : sample.rewards) rewards.push_back(std::isfinite(value) ? Json(value) : Json());
    one["rewards"] = rewards;
    if (!sample.old_logprobs.empty()) one["old_logprobs"] = floats(sample.old_logprobs);
    if (!sample.sampling_logprobs.empty()) one["sampling_logprobs"] = floats(sample.sampling_logprobs);
    if (!sample.ref_logprobs.empty()) one["ref_logprobs"] = floats(sample.ref_logprobs);
    if (!sample.entropies.empty()) one["entropies"] = floats(sample.entropies);
    if (!sample.text.empty()) one["text"] = sample.text;
    if (second) write_dialogue(sample, one);
    samples.push_back(std::move(one));
  }
  Json out = {{"format", second ? kDialoguesFormat : kRolloutsFormat},
              {"generation", batch.generation},
              {"reward_names", batch.reward_names},
              {"prompts", prompts},
              {"samples", samples}};
  if (second) out["tools"] = batch.has_tools;
  if (!batch.slices.empty()) out["slices"] = batch.slices;
  return out;
}

RolloutBatch rollout_batch_from_json(const Json& json, const std::string& where) {
  RolloutBatch out;
  try {
    const bool second = json.at("format") == kDialoguesFormat;
    out.has_tools = second && json.value("tools", true);
    if (!second && json.at("format") != kRolloutsFormat) {
      throw UserError({.where = where,
                       .expected = std::string("format ") + kRolloutsFormat + " or " + kDialoguesFormat,
                       .found = base::dump_json(json.at("format"))});
    }
    out.generation = whole_of(json.at("generation"), "the number of a generation batch", where);
    out.reward_names = json.at("reward_names").get<std::vector<std::string>>();
    for (const Json& prompt : json.at("prompts")) {
      out.prompts.push_back({.row = whole_of(prompt.at("row"), "the number of a row", where),
                             .ids = ids_of(prompt.at("ids"), where)});
      if (out.prompts.back().ids.empty()) {
        throw UserError({.where = where, .expected = "prompts with tokens", .found = "an empty prompt"});
      }
    }
    for (const Json& sample : json.at("samples")) {
      out.samples.push_back(sample_from_json(sample, out.prompts.size(), out.reward_names.size(),
                                             where + " sample " + std::to_string(out.samples.size())));
    }
    if (has_dialogues(out) && !second) {
      throw UserError(
          {.where = where,
           .expected = std::string("format ") + kDialoguesFormat + " for dialogues with tools",
           .found = kRolloutsFormat,
           .fix = std::string("write \"format\": \"") + kDialoguesFormat + "\", \"tools\": true"});
    }
    for (const Json& slice : json.value("slices", Json::array())) {
      std::vector<std::size_t>& samples = out.slices.emplace_back();
      for (const Json& sample : slice)
        samples.push_back(static_cast<std::size_t>(whole_of(sample, "numbers of samples", where)));
    }
  } catch (const Json::exception& error) {
    throw UserError({.where = where,
                     .expected = "a generation batch in the form of train/batches/rollout_batch.h",
                     .found = error.what(),
                     .cause = "the line was edited, or is from another program"});
  }
  check_slices(out, where);
  return out;
}

void set_prompts(RolloutBatch& batch, std::vector<RolloutPrompt> of_samples, std::int64_t group_size) {
  base::require(of_samples.size() == batch.samples.size(), "train::set_prompts", "a prompt of each sample");
  batch.prompts.clear();
  for (std::size_t i = 0; i < of_samples.size(); ++i) {
    const bool begins = i % static_cast<std::size_t>(group_size) == 0;
    if (begins || of_samples[i] != batch.prompts.back()) batch.prompts.push_back(std::move(of_samples[i]));
    batch.samples[i].prompt = batch.prompts.size() - 1;
  }
}

void check_rollouts(const RolloutBatch& batch, std::int64_t group_size, std::int64_t vocab_size,
                    const std::string& where) {
  const auto group = static_cast<std::size_t>(group_size);
  for (std::size_t i = 0; i < batch.samples.size(); ++i) {
    const std::size_t prompt = batch.samples[i].prompt, first = batch.samples[i / group * group].prompt;
    const bool own = batch.prompts.size() > batch.samples.size() / group;  // prompts of their own
    if (prompt == first || (own && batch.prompts[prompt].row == batch.prompts[first].row)) continue;
    throw UserError(
        {.where = where + " sample " + std::to_string(i),
         .expected = "num_generations (" + std::to_string(group) + ") samples of a prompt next to each other",
         .found = "a sample of another prompt",
         .cause = "what replay or the checkpoint holds was recorded with other groups",
         .fix = "set num_generations as in the run that wrote it"});
  }
  const auto check = [&](const std::vector<std::int32_t>& ids) {
    for (const std::int32_t id : ids) {
      if (id < vocab_size) continue;
      throw UserError({.where = where,
                       .expected = "token ids below the model's vocabulary of " + std::to_string(vocab_size),
                       .found = std::to_string(id),
                       .cause = "recorded with another model or tokenizer"});
    }
  };
  for (const RolloutPrompt& prompt : batch.prompts) check(prompt.ids);
  for (const RolloutSample& sample : batch.samples) check(sample.ids);
}

void append_rollouts(const base::fs::path& path, const RolloutBatch& batch) {
  base::AppendedFile(path).append(base::dump_json(to_json(batch)) + "\n");
}

std::vector<RolloutBatch> read_rollouts(const base::fs::path& path) {
  const std::string text = base::read_text(path);
  std::vector<RolloutBatch> out;
  int line_number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    out.push_back(rollout_batch_from_json(base::parse_json(line, path.string(), line_number),
                                          path.string() + ":" + std::to_string(line_number)));
  }
  if (!out.empty()) return out;
  throw UserError({.where = path.string(), .expected = "at least one generation batch", .found = "no lines"});
}

}  // namespace hone::train
