// The keys of DeepSpeed's JSON, of accelerate's YAML and of FSDP's settings, one row for those with one answer: an option that it is,
// a note with what it means here, or a refusal. config/sharding/sharding.h reads the files by these rows; docs/ranks.md shows them.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hone::config {

enum class KeyFate {
  kSection,  // a mapping with rows of its own
  kOption,   // `text` is the option: "auto" leaves it, another value sets it or has to be the same
  kNoted,    // no effect: `text` says why
  kRefused,  // unless off or one of `fine`: `text` says why
  kRead,     // read by config/sharding/sharding_keys.cpp: `text` says how
};

struct ShardingRow {
  std::string_view under;  // "zero_optimization", "optimizer.params"; "": at the top
  std::string_view names;  // separated by spaces
  KeyFate fate;
  std::string_view text = {};
  std::string_view fine = {};  // kRefused: values that change nothing, besides those that are off
};

// kTopKey stands for the top level; the others are answers that several files share.
inline constexpr std::string_view kTopKey;
inline constexpr std::string_view kInMemory = "everything is in the machine's memory already";
inline constexpr std::string_view kWholeModel =
    "with zero_stage 3 a layer's parameters are gathered before it is computed; else each rank has the whole model";
inline constexpr std::string_view kOffloaded =
    "cpu: everything is in the machine's memory already; nvme with its path: the option `offload_folder`";
inline constexpr std::string_view kWholeFiles = "checkpoints are whole, and rank 0 writes them";
inline constexpr std::string_view kRecomputeKeys =
    "recompute and gradient_checkpointing say what is recomputed";
inline constexpr std::string_view kOtherSplit = "hone divides batches among ranks, not the model";

// A file of its own kind, as docs/ranks.md names it.
struct ShardingTable {
  std::string_view title;  // "DeepSpeed's JSON"
  std::span<const ShardingRow> rows;

  const ShardingRow* find(std::string_view under, std::string_view name) const;  // null: unknown
  std::vector<std::string> names_under(std::string_view under) const;
};

const ShardingTable& deepspeed_table();
const ShardingTable& accelerate_table();  // its deepspeed_config too
const ShardingTable& fsdp_table();        // names without "fsdp_"
const std::array<const ShardingTable*, 3>& sharding_tables();

// The rows as Markdown, for docs/ranks.md.
std::string sharding_markdown();

}  // namespace hone::config
