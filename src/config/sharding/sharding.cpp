#include "config/sharding/sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/files/file.h"
#include "base/json_tools.h"
#include "base/strings/ascii.h"
#include "base/strings/suggest.h"
#include "base/strings/utf8.h"
#include "config/reading/yaml_limits.h"
#include "config/reading/yaml_value.h"
#include "config/sharding/sharding_keys.h"

namespace hone::config {
namespace {

using base::Json;
using base::UserError;

constexpr const char* kDeepSpeed = "deepspeed";
constexpr const char* kAccelerate = "accelerate_config";
constexpr const char* kFsdp = "fsdp";
constexpr const char* kFsdpConfig = "fsdp_config";
constexpr const char* kConfigFile = "config_file";

// The names that `trl --accelerate_config` has besides files; stage -1: none.
struct Named {
  std::string_view name, type;
  int stage;
};
constexpr std::array<Named, 7> kNamed = {{{"single_gpu", "NO", -1},
                                          {"multi_gpu", "MULTI_GPU", -1},
                                          {"zero1", "DEEPSPEED", 1},
                                          {"zero2", "DEEPSPEED", 2},
                                          {"zero3", "DEEPSPEED", 3},
                                          {"fsdp1", "FSDP", -1},
                                          {"fsdp2", "FSDP", -1}}};

Json named_config(const std::string& name) {
  for (const Named& one : kNamed) {
    if (one.name != name) continue;
    Json out = {{"distributed_type", one.type}};
    if (one.stage >= 0) out["deepspeed_config"] = {{"zero_stage", one.stage}};
    return out;
  }
  return nullptr;
}

// A file's text is the value; so is JSON text itself.
Json read_mapping(const std::string& text, const std::string& where) {
  const bool inlined = text.find('{') != std::string::npos;
  const std::string contents = inlined ? text : base::read_settings(text, kMaxYamlBytes);
  const std::string name = inlined ? where : text;
  const bool json = contents.find_first_not_of(" \t\r\n") == contents.find('{');
  return json ? base::parse_json(contents, name) : yaml_value(contents, name);
}

// Where a mapping's keys are: its file, where it is one.
std::string place_of(const Json& value, const std::string& where) {
  if (!value.is_string()) return where;
  const auto text = value.get<std::string>();
  return text.find('{') == std::string::npos && named_config(text).is_null() ? text : where;
}

void require_mapping(const Json& value, const std::string& where) {
  if (value.is_object() || value.is_null()) return;
  throw UserError({.where = where,
                   .expected = "a mapping of keys to values, or the name of a file with one",
                   .found = base::short_json(value),
                   .cause = {},
                   .fix = "docs/ranks.md has the keys"});
}

constexpr const char* kZeroStage = "zero_stage";
constexpr const char* kOffload = "offload_folder";

// The whole of accelerate_config, deepspeed or fsdp in one run: options, then the files that they name.
class Sharding {
 public:
  explicit Sharding(Settings& settings) : settings_(settings) {}

  std::vector<std::string> apply() {
    read_option(kAccelerate, [&](const Json& value, const std::string& where) { accelerate(value, where); });
    read_option(kDeepSpeed,
                [&](const Json& value, const std::string& where) { deepspeed(value, kDeepSpeed, where); });
    read_option(kFsdp, [&](const Json& value, const std::string& where) { fsdp(value, where); });
    settings_.collect([&] { check_batch(); });
    settings_.collect([&] { check_steps(); });
    settings_.collect([&] { note_precision(); });
    note_stages();
    settings_.collect([&] { set_offload(); });
    note_processes();
    return std::move(notes_);
  }

 private:
  template <typename Read>
  void read_option(const char* option, const Read& read) {
    if (!settings_.is_set(option)) return;
    const std::string where = settings_.where(option);
    settings_.collect([&] {
      if (!is_off_value(settings_.value(option))) read(settings_.value(option), where);
    });
    settings_.replace(option, nullptr);
  }

  void read_keys(const ShardingTable& table, const Json& given, const std::string& source,
                 const std::string& where, std::string_view prefix = {}) {
    ShardingReader reader(settings_, facts_, table, source, where);
    reader.read(given, prefix);
    for (std::string& note : reader.notes()) notes_.push_back(std::move(note));
  }

  void accelerate(const Json& value, const std::string& where) {
    Json given = value.is_string() ? named_config(value.get<std::string>()) : Json();
    if (given.is_null()) given = mapping_or_file(value, where);
    if (given.is_null()) return;
    read_keys(accelerate_table(), given, kAccelerate, place_of(value, where));
    if (!is_off_value(facts_.deepspeed_file)) deepspeed(facts_.deepspeed_file, kAccelerate, where);
    if (!facts_.parallelism.is_null()) check_parallelism(facts_.parallelism, where);
    const Json settings = mapping_or_file(facts_.fsdp, where);
    if (facts_.distributed_type == "fsdp") {
      fsdp_keys(settings.is_null() ? Json::object() : settings, kAccelerate, where);
    } else if (!settings.is_null() && !settings.empty()) {
      notes_.push_back(fmt::format("{}: fsdp_config: only read with distributed_type: FSDP", kAccelerate));
    }
  }

  void deepspeed(const Json& value, const std::string& source, const std::string& where) {
    const Json given = mapping_or_file(value, where);
    if (given.is_null()) return;
    facts_.clipping = facts_.scheduler = facts_.warmup_type = false;
    read_keys(deepspeed_table(), given, source, place_of(value, where));
    const double norm = settings_.number("max_grad_norm");
    if (!facts_.clipping && norm > 0) {
      notes_.push_back(
          fmt::format("{}: without gradient_clipping DeepSpeed clips nothing; here max_grad_norm {} counts",
                      source, norm));
    }
    if (facts_.scheduler && !facts_.warmup_type) {
      notes_.push_back(fmt::format(
          "{}: without warmup_type DeepSpeed's warmup is logarithmic; here it is linear", source));
    }
  }

  // `fsdp`: true, or the words that it had before transformers 5.
  void fsdp(const Json& value, const std::string& where) {
    const Json given = mapping_or_file(settings_.value(kFsdpConfig), settings_.where(kFsdpConfig));
    Json settings = given.is_null() ? Json::object() : given;
    const std::vector<std::string> known = {
        "full_shard",         "shard_grad_op", "no_shard",  "hybrid_shard",
        "hybrid_shard_zero2", "offload",       "auto_wrap", "true"};
    std::vector<std::string> words;
    if (value.is_array()) {
      for (const Json& word : value) words.push_back(word.is_string() ? word.get<std::string>() : "");
    } else {
      words = split_words(value.is_string() ? value.get<std::string>() : base::dump_json(value));
    }
    for (std::string& word : words) {
      word = base::lower_ascii(word);
      if (std::find(known.begin(), known.end(), word) == known.end()) {
        throw UserError(
            {.where = where,
             .expected = "fsdp: true, or words of it",
             .found = fmt::format("'{}'.{}", base::cut_text(word, 200), base::did_you_mean(word, known)),
             .cause = {},
             .fix = "write fsdp: true, with fsdp_config"});
      }
      const bool strategy = word.find("shard") != std::string::npos;
      if (strategy && !settings.contains("sharding_strategy")) settings["sharding_strategy"] = word;
    }
    fsdp_keys(settings, kFsdpConfig, where);
  }

  void fsdp_keys(const Json& given, const std::string& source, const std::string& where) {
    const std::size_t before = facts_.stages.size();
    read_keys(fsdp_table(), given, source, where, "fsdp_");
    if (facts_.stages.size() == before)
      facts_.stages.push_back({fmt::format("{}: full_shard, the default", source), 3});
  }

  void check_batch() {
    if (!facts_.train_batch_size) return;
    const auto& [told, where] = *facts_.train_batch_size;
    const std::int64_t rows = settings_.integer("per_device_train_batch_size");
    const std::int64_t batches = settings_.integer("gradient_accumulation_steps");
    const double of_rank = static_cast<double>(rows) * static_cast<double>(batches);
    if (told == of_rank * static_cast<double>(settings_.ranks())) return;
    const double ranks = of_rank > 0 ? told / of_rank : 0;
    const bool whole = ranks >= 1 && ranks <= 4096 && ranks == static_cast<double>(static_cast<int>(ranks));
    throw UserError({.where = where,
                     .expected = fmt::format("train_batch_size {}: per_device_train_batch_size {} x "
                                             "gradient_accumulation_steps {} x ranks {}",
                                             of_rank * static_cast<double>(settings_.ranks()), rows, batches,
                                             settings_.ranks()),
                     .found = fmt::format("train_batch_size {}", told),
                     .cause = whole ? fmt::format("the file is for {} ranks", ranks) : "",
                     .fix = whole
                                ? fmt::format("write \"auto\", or start them: hone launch --nproc {} {} ...",
                                              ranks, settings_.schema().command)
                                : "write \"auto\""});
  }

  void check_steps() {
    if (!facts_.total_num_steps) return;
    const auto& [told, where] = *facts_.total_num_steps;
    const std::int64_t steps = settings_.integer("max_steps");
    if (told == static_cast<double>(steps)) return;
    throw UserError({.where = where,
                     .expected = steps > 0 ? fmt::format("total_num_steps as max_steps, {}", steps)
                                           : "total_num_steps: \"auto\" without max_steps",
                     .found = fmt::format("{}", told),
                     .cause = "the schedule ends with the run's last step",
                     .fix = fmt::format("write \"auto\", or max_steps: {}", told)});
  }

  // TRL's bf16 is true unless it is set, and comes before accelerate's mixed_precision (TrainingArguments).
  void note_precision() {
    const std::string& word = facts_.mixed_precision;
    if (word.empty()) return;
    const bool bf16 = settings_.maybe_flag("bf16").value_or(true);
    if (bf16 && word != "bf16") {
      notes_.push_back(
          fmt::format("{}: mixed_precision {}: bf16 is true, and comes first, as in TRL", kAccelerate, word));
    }
    if (bf16 || word == "no") return;
    conflict(settings_, "bf16", fmt::format("mixed_precision: no with bf16: false"),
             fmt::format("mixed_precision: {} in {}", word, kAccelerate),
             word == "bf16" ? "" : "NUM-03: float16 overflows in training and needs loss scaling",
             "write bf16: true, or mixed_precision: no");
  }

  void note_stages() {
    constexpr std::array<int, 4> kSaved = {0, 8, 12,
                                           16};  // bytes a trained parameter: moments, gradients, weights
    for (const auto& [told, stage] : facts_.stages) {
      const int saved = kSaved.at(static_cast<std::size_t>(stage));
      if (stage == 0) {
        notes_.push_back(fmt::format("{}: plain data parallelism, which is what ranks do here", told));
      } else if (settings_.flag("use_peft")) {
        notes_.push_back(fmt::format(
            "{}: nothing is divided: each rank has the base, and 16 bytes for each of the adapter's parameters "
            "(AdamW in fp32). Dividing would save {} x (W - 1) / W of the 16 on W ranks{}",
            told, saved, stage == 3 ? ", and would send the base over the network in every pass" : ""));
      } else {
        divide(told, stage);
      }
    }
  }

  // The option zero_stage, which the run may have set itself.
  void divide(const std::string& told, int stage) {
    if (!settings_.is_set(kZeroStage)) settings_.put(kZeroStage, stage, told);
    const std::int64_t found = settings_.integer(kZeroStage);
    if (found != stage) {
      notes_.push_back(fmt::format("{}: the run's zero_stage {} counts", told, found));
      return;
    }
    constexpr std::array<std::string_view, 4> kDivided = {
        "", "the optimizer's state is", "the optimizer's state and the gradients are",
        "the optimizer's state, the gradients and the layers' parameters are"};
    notes_.push_back(fmt::format("{}: zero_stage {}: {} divided among ranks{}", told, stage,
                                 kDivided.at(static_cast<std::size_t>(stage)),
                                 settings_.ranks() == 1 ? "; this run has one" : ""));
  }

  void set_offload() {
    const std::string& device = facts_.offload_device;
    const bool idle = settings_.flag("use_peft");
    if (device != "nvme" || idle) {
      if (device == "cpu" || (device == "nvme" && idle))
        notes_.push_back(
            fmt::format("offload_optimizer {}: {}", device,
                        idle && device == "nvme" ? "not used, an adapter's state is small" : kInMemory));
      return;
    }
    if (facts_.offload_path.empty()) {
      throw UserError({.where = facts_.offload_where,
                       .expected = "nvme_path beside the device nvme",
                       .found = "none",
                       .cause = {},
                       .fix = fmt::format("write nvme_path: FOLDER, or the option {}: FOLDER", kOffload)});
    }
    if (!settings_.is_set(kOffload)) settings_.put(kOffload, facts_.offload_path, facts_.offload_where);
    notes_.push_back(fmt::format("offload_optimizer nvme: {}: {}", kOffload, settings_.text(kOffload)));
  }

  void note_processes() {
    if (!facts_.processes || *facts_.processes == settings_.ranks() || *facts_.processes < 1) return;
    const std::int64_t asked = *facts_.processes, ranks = settings_.ranks();
    notes_.push_back(
        ranks > 1 ? fmt::format("{}: num_processes {}: the launcher has started {} ranks", kAccelerate, asked,
                                ranks)
                  : fmt::format(
                        "{0}: num_processes {1}: this run is one process, and a step has the rows of one. To "
                        "start {1}: hone launch --nproc {1} {2} ... (docs/ranks.md); one process with "
                        "gradient_accumulation_steps x {1} trains on the same rows",
                        kAccelerate, asked, settings_.schema().command));
  }

  Settings& settings_;
  ShardingFacts facts_;
  std::vector<std::string> notes_;
};

}  // namespace

Json mapping_or_file(const Json& value, const std::string& where) {
  if (is_off_value(value)) return nullptr;
  if (value.is_string()) {
    Json out = read_mapping(value.get<std::string>(), where);
    require_mapping(out, value.get<std::string>());
    return out;
  }
  require_mapping(value, where);
  if (!value.contains(kConfigFile)) return value;
  // accelerate launch --config_file FILE --num_processes 4: what is given beside the file counts.
  const Json& file = value[kConfigFile];
  Json out = file.is_string() ? named_config(file.get<std::string>()) : Json();
  if (out.is_null()) out = mapping_or_file(file, where);
  if (out.is_null()) out = Json::object();
  for (const auto& [key, item] : value.items()) {
    if (key != kConfigFile) out[key] = item;
  }
  return out;
}

void check_parallelism(const Json& given, const std::string& where) {
  if (!given.is_object()) return;
  for (const auto& [name, value] : given.items()) {
    const bool data = name.ends_with("dp_replicate_size") || name.ends_with("dp_shard_size");
    if (!name.ends_with("_size") || data || value.is_null() || value == 1) continue;
    throw UserError({.where = where,
                     .expected = fmt::format("{}: 1", name),
                     .found = base::short_json(value),
                     .cause = "hone divides batches among ranks, not the model or a sequence",
                     .fix = "remove it"});
  }
}

std::vector<std::string> apply_sharding(Settings& settings) {
  std::vector<std::string> notes;
  if (!settings.is_set(kFsdp) || is_off_value(settings.value(kFsdp))) {
    if (settings.is_set(kFsdpConfig) && !is_off_value(settings.value(kFsdpConfig)))
      notes.emplace_back("fsdp_config: only read with fsdp");
  }
  for (std::string& note : Sharding(settings).apply()) notes.push_back(std::move(note));
  if (settings.is_set(kFsdpConfig)) settings.replace(kFsdpConfig, nullptr);
  return notes;
}

}  // namespace hone::config
