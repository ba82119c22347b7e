// Walks through one file of DeepSpeed, accelerate or FSDP by its table.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/settings.h"
#include "config/sharding/sharding_rows.h"

namespace hone::config {

// Holds what several keys say together.
struct ShardingFacts {
  struct Stage {
    std::string told;  // "deepspeed: zero_optimization.stage 2"
    int stage = 0;
  };
  struct Told {
    double value = 0;
    std::string where;
  };
  std::vector<Stage> stages;
  std::optional<Told> train_batch_size, total_num_steps;
  std::optional<std::int64_t> processes, machines;
  base::Json deepspeed_file, fsdp, parallelism;  // of accelerate's YAML, to be read by their own tables
  std::string distributed_type, mixed_precision;
  std::string offload_device, offload_path, offload_where;  // of the optimizer's state
  bool warmup_type = false, scheduler = false, clipping = false;
};

class ShardingReader {
 public:
  // `source`: the option, for notes; `where`: of its value.
  ShardingReader(Settings& settings, ShardingFacts& facts, const ShardingTable& table, std::string source,
                 std::string where)
      : settings_(settings),
        facts_(facts),
        table_(table),
        source_(std::move(source)),
        where_(std::move(where)) {}

  // Mistakes are collected by the settings. Keys "fsdp_x" are x where `prefix` is "fsdp_".
  void read(const base::Json& given, std::string_view prefix = {});
  std::vector<std::string> notes() const;

 private:
  struct Key {
    std::string under, name;
    const base::Json& value;
    std::string path() const { return under.empty() ? name : under + "." + name; }
  };

  void walk(const std::string& under, const base::Json& object, std::string_view prefix);
  void read_key(const Key& key);
  [[noreturn]] void unknown(const Key& key) const;
  void set_option(const Key& key, std::string_view option, const base::Json& value);
  void refuse(const ShardingRow& row, const Key& key) const;
  void read_own(const Key& key);
  void read_launcher(const Key& key);
  void read_stage(const Key& key);
  void read_strategy(const Key& key);
  void read_offload(const Key& key);
  void read_betas(const Key& key);
  void read_optimizer(const Key& key);
  void read_scheduler(const Key& key);
  void same_or_set(const Key& key, std::string_view option, const std::string& family,
                   const std::string& word);
  void note(const Key& key, std::string_view why);
  std::string at(const Key& key) const { return where_ + " " + key.path(); }
  [[noreturn]] void wrong(const Key& key, std::string expected, std::string cause = {},
                          std::string fix = {}) const;

  Settings& settings_;
  ShardingFacts& facts_;
  const ShardingTable& table_;
  std::string source_, where_;
  std::vector<std::pair<std::string, std::string>> noted_;  // why, keys
  std::vector<std::string> set_;                            // "gradient_clipping as max_grad_norm: 0.5"
};

// null, false, 0, "", "none", "auto" and what is empty; a mapping that has `enabled` is off with that.
bool is_off_value(const base::Json& value);

}  // namespace hone::config
