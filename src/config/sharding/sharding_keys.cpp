#include "config/sharding/sharding_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/strings/ascii.h"
#include "base/strings/suggest.h"
#include "base/strings/utf8.h"

namespace hone::config {
namespace {

using base::Json;
using base::UserError;

std::string word_of(const Json& value) {
  return base::lower_ascii(value.is_string() ? value.get<std::string>() : base::dump_json(value));
}

bool is_auto(const Json& value) {
  return value.is_null() || word_of(value) == "auto";
}

// Words of FSDP, and the stage that they are.
struct Strategy {
  std::string_view words;
  int stage;
};
constexpr std::array<Strategy, 4> kStrategies = {{{"no_shard 3 no", 0},
                                                  {"shard_grad_op false 2", 2},
                                                  {"full_shard hybrid_shard true 1 4", 3},
                                                  {"hybrid_shard_zero2 _hybrid_shard_zero2 5", 2}}};

constexpr std::string_view kManyRanks =
    "no multi_cpu multi_gpu multi_npu multi_xpu multi_mlu multi_sdaa multi_musa multi_hpu multi_neuron "
    "deepspeed fsdp xla tpu";

}  // namespace

bool is_off_value(const Json& value) {
  if (value.is_object() && value.contains("enabled")) return is_off_value(value["enabled"]);
  if (value.is_structured()) return value.empty();
  if (value.is_null() || value == Json(false) || value == Json(0)) return true;
  const std::string word = word_of(value);
  return word.empty() || word == "none" || word == "auto" || word == "null";
}

void ShardingReader::read(const Json& given, std::string_view prefix) {
  walk("", given, prefix);
}

void ShardingReader::walk(const std::string& under, const Json& object, std::string_view prefix) {
  for (const auto& [name, value] : object.items()) {
    std::string plain = name;
    if (!prefix.empty() && plain.starts_with(prefix)) plain.erase(0, prefix.size());
    const Key key{under, plain, value};
    settings_.collect([&] { read_key(key); });
  }
}

void ShardingReader::read_key(const Key& key) {
  const ShardingRow* row = table_.find(key.under, key.name);
  if (row == nullptr) unknown(key);
  switch (row->fate) {
    case KeyFate::kSection:
      if (key.value.is_null()) return;
      if (!key.value.is_object()) wrong(key, "a mapping");
      if (key.path() == "scheduler") facts_.scheduler = !key.value.empty();
      return walk(key.path(), key.value, "");
    case KeyFate::kOption:
      if (key.name == "gradient_clipping") facts_.clipping = true;
      if (!is_auto(key.value)) set_option(key, row->text, key.value);
      return;
    case KeyFate::kNoted:
      return note(key, row->text);
    case KeyFate::kRefused:
      return refuse(*row, key);
    case KeyFate::kRead:
      if (!key.value.is_null()) read_own(key);
  }
}

void ShardingReader::unknown(const Key& key) const {
  const std::vector<std::string> known = table_.names_under(key.under);
  throw UserError(
      {.where = where_,
       .expected = key.under.empty() ? fmt::format("a key of {}", source_)
                                     : fmt::format("a key of {} in {}", key.under, source_),
       .found = fmt::format("'{}'.{}", base::cut_text(key.name, 200), base::did_you_mean(key.name, known)),
       .cause = "hone does not know it, and it may change the run",
       .fix = "correct its name, or remove it; docs/ranks.md has all keys"});
}

void ShardingReader::wrong(const Key& key, std::string expected, std::string cause, std::string fix) const {
  throw UserError({.where = at(key),
                   .expected = std::move(expected),
                   .found = base::short_json(key.value),
                   .cause = std::move(cause),
                   .fix = std::move(fix)});
}

void ShardingReader::set_option(const Key& key, std::string_view option, const Json& value) {
  const Option* row = settings_.schema().find(option);
  base::require(row != nullptr, "config::ShardingReader", "an option of every method");
  const Json converted = convert_text(
      *row, value.is_string() ? value.get<std::string>() : base::dump_json(value), true, at(key));
  if (!settings_.is_set(option)) {
    settings_.put(option, converted, at(key));
    set_.push_back(fmt::format("{} as {}: {}", key.path(), option, base::short_json(converted)));
    return;
  }
  if (settings_.value(option) == converted) return;
  throw UserError({.where = at(key),
                   .expected = fmt::format("one value of {}", option),
                   .found = fmt::format("{} here, and {}: {} at {}", base::short_json(converted), option,
                                        base::short_json(settings_.value(option)), settings_.where(option)),
                   .cause = fmt::format("{} is the option {}", key.path(), option),
                   .fix = fmt::format("write \"auto\" for {}, or remove one of the two", key.path())});
}

void ShardingReader::refuse(const ShardingRow& row, const Key& key) const {
  if (key.name == "warmup_type") facts_.warmup_type = true;
  if (row.fine.empty() ? is_off_value(key.value)
                       : is_auto(key.value) || contains_word(row.fine, word_of(key.value)))
    return;
  // 0 and "none" are off, unless `fine` says which values of a switch are.
  if (!row.fine.empty() && row.fine != "true" && is_off_value(key.value)) return;
  wrong(key, fmt::format("no {}, or {}", key.path(), row.fine.empty() ? "off" : row.fine),
        std::string(row.text), fmt::format("remove {}", key.path()));
}

void ShardingReader::read_own(const Key& key) {
  const auto number = [&] {
    if (!key.value.is_number()) wrong(key, "a number, or \"auto\"");
    return ShardingFacts::Told{key.value.get<double>(), at(key)};
  };
  if (key.name == "stage" || key.name == "zero_stage") return read_stage(key);
  if (key.name.starts_with("offload_optimizer")) return read_offload(key);
  if (key.name == "betas") return read_betas(key);
  if (key.name == "type") return key.under == "optimizer" ? read_optimizer(key) : read_scheduler(key);
  if (key.name == "sharding_strategy" || key.name == "reshard_after_forward") return read_strategy(key);
  if (key.name == "train_batch_size" || key.name == "total_num_steps") {
    if (is_auto(key.value)) return;
    (key.name == "train_batch_size" ? facts_.train_batch_size : facts_.total_num_steps) = number();
    return;
  }
  read_launcher(key);
}

void ShardingReader::read_launcher(const Key& key) {
  if (key.name == "deepspeed_config_file") {
    facts_.deepspeed_file = key.value;
  } else if (key.name == "fsdp_config") {
    facts_.fsdp = key.value;
  } else if (key.name == "parallelism_config") {
    facts_.parallelism = key.value;
  } else if (key.name == "mixed_precision") {
    facts_.mixed_precision = word_of(key.value) == "false" ? "no" : word_of(key.value);
    constexpr std::string_view kKnown = "no fp16 bf16 fp8";
    if (!contains_word(kKnown, facts_.mixed_precision)) wrong(key, "no, bf16, fp16 or fp8");
  } else if (key.name == "num_processes") {
    if (!key.value.is_number_integer()) wrong(key, "a number of processes");
    facts_.processes = key.value.get<std::int64_t>();
  } else if (key.name == "distributed_type") {
    // In YAML, NO without quotes is false for other readers.
    facts_.distributed_type = word_of(key.value) == "false" ? "no" : word_of(key.value);
    if (contains_word(kManyRanks, facts_.distributed_type)) return;
    const std::vector<std::string> known = split_words(kManyRanks);
    throw UserError({.where = at(key),
                     .expected = "a distributed_type that hone has",
                     .found = fmt::format("{}.{}", base::short_json(key.value),
                                          base::did_you_mean(facts_.distributed_type, known)),
                     .cause = "hone divides batches among ranks, not the model",
                     .fix = "write MULTI_CPU, DEEPSPEED or FSDP"});
  } else {
    base::require(false, "config::ShardingReader", "a key that is read");
  }
}

void ShardingReader::read_stage(const Key& key) {
  if (is_auto(key.value)) return;
  const std::string word = word_of(key.value);
  constexpr std::string_view kStages = "0 1 2 3";
  if (!contains_word(kStages, word)) wrong(key, "stage 0, 1, 2 or 3");
  facts_.stages.push_back({fmt::format("{}: {} {}", source_, key.path(), word), std::stoi(word)});
}

// DeepSpeed's mapping, or accelerate's two keys of it.
void ShardingReader::read_offload(const Key& key) {
  if (is_off_value(key.value)) return;
  facts_.offload_where = at(key);
  const auto text_of = [&](const char* name) {
    const Json& value = key.value.is_object() ? key.value.value(name, Json()) : key.value;
    if (value.is_null()) return std::string();
    if (!value.is_string()) wrong(key, fmt::format("a text for {}", name));
    return value.get<std::string>();
  };
  if (key.value.is_object() || key.name.ends_with("_device")) {
    facts_.offload_device = base::lower_ascii(text_of("device"));
    constexpr std::string_view kDevices = "cpu nvme none";
    if (!facts_.offload_device.empty() && !contains_word(kDevices, facts_.offload_device))
      wrong(key, "the device cpu, nvme or none");
  }
  if (key.value.is_object() || key.name.ends_with("_path")) facts_.offload_path = text_of("nvme_path");
}

void ShardingReader::read_strategy(const Key& key) {
  const std::string word = word_of(key.value);
  for (const Strategy& one : kStrategies) {
    if (!contains_word(one.words, word)) continue;
    facts_.stages.push_back({fmt::format("{}: {} {}", source_, key.path(), word), one.stage});
    return;
  }
  const std::vector<std::string> known = {"full_shard", "shard_grad_op", "no_shard", "hybrid_shard"};
  throw UserError({.where = at(key),
                   .expected = "FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD, true or false",
                   .found = fmt::format("'{}'.{}", word, base::did_you_mean(word, known)),
                   .cause = {},
                   .fix = "correct it, or remove it"});
}

void ShardingReader::read_betas(const Key& key) {
  if (is_auto(key.value)) return;
  if (!key.value.is_array() || key.value.size() != 2) wrong(key, "two numbers, or \"auto\"");
  set_option(key, "adam_beta1", key.value[0]);
  set_option(key, "adam_beta2", key.value[1]);
}

// A file's optimizer or schedule counts in TRL, whatever the option says: two different ones are a mistake. `family` is what words of
// the option have in common, `word` one of them.
void ShardingReader::same_or_set(const Key& key, std::string_view option, const std::string& family,
                                 const std::string& word) {
  if (settings_.text(option).find(family) != std::string::npos) return;
  if (!settings_.is_set(option)) return set_option(key, option, word);
  throw UserError(
      {.where = at(key),
       .expected = fmt::format("one {}", key.under),
       .found = fmt::format("{} here, and {}: {} at {}", base::short_json(key.value), option,
                            settings_.text(option), settings_.where(option)),
       .cause = fmt::format("{} is {}: {}, and in TRL the file's counts", key.path(), option, word),
       .fix = fmt::format("remove {} from the file, or write {}: {}", key.under, option, word)});
}

void ShardingReader::read_optimizer(const Key& key) {
  const std::string word = word_of(key.value);
  if (word == "adam" || word == "adamw") return same_or_set(key, "optim", "adamw", "adamw_torch");
  if (word == "sgd") return same_or_set(key, "optim", "sgd", "sgd");
  if (word == "adagrad") return same_or_set(key, "optim", "adagrad", "adagrad");
  const std::vector<std::string> known = {"Adam", "AdamW", "SGD", "Adagrad"};
  throw UserError(
      {.where = at(key),
       .expected = "an optimizer of DeepSpeed that hone has: Adam, AdamW, SGD or Adagrad",
       .found = fmt::format("{}.{}", base::short_json(key.value), base::did_you_mean(word, known)),
       .cause = "its updates would differ from those of optim",
       .fix = "write AdamW; or remove optimizer, and choose by the option optim"});
}

void ShardingReader::read_scheduler(const Key& key) {
  const std::string word = word_of(key.value);
  if (word == "warmuplr")
    return same_or_set(key, "lr_scheduler_type", "constant_with_warmup", "constant_with_warmup");
  if (word == "warmupdecaylr") return same_or_set(key, "lr_scheduler_type", "linear", "linear");
  const std::vector<std::string> known = {"WarmupLR", "WarmupDecayLR"};
  throw UserError(
      {.where = at(key),
       .expected = "a scheduler of DeepSpeed that hone has: WarmupLR or WarmupDecayLR",
       .found = fmt::format("{}.{}", base::short_json(key.value), base::did_you_mean(word, known)),
       .cause = "the learning rates would differ from those of lr_scheduler_type",
       .fix = "remove scheduler, and choose by the option lr_scheduler_type"});
}

void ShardingReader::note(const Key& key, std::string_view why) {
  const auto same =
      std::find_if(noted_.begin(), noted_.end(), [&](const auto& one) { return one.first == why; });
  if (same == noted_.end()) {
    noted_.emplace_back(why, key.path());
  } else {
    same->second += ", " + key.path();
  }
}

std::vector<std::string> ShardingReader::notes() const {
  std::vector<std::string> out;
  if (!set_.empty()) out.push_back(fmt::format("{}: read {}", source_, fmt::join(set_, ", ")));
  for (const auto& [why, keys] : noted_) out.push_back(fmt::format("{}: {}: {}", source_, keys, why));
  return out;
}

}  // namespace hone::config
