#include "rollout/kv_memory.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "ops/kv_tiles.h"

namespace hone::rollout {

namespace {

// The number that a file of one number holds; nothing there, or "max": the largest.
std::int64_t number_in(const char* path) {
  std::int64_t value = 0;
  std::ifstream file(path);
  return file >> value ? value : std::numeric_limits<std::int64_t>::max();
}

std::int64_t available_of_the_machine() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (std::int64_t kib = 0; file >> name >> kib >> unit;) {
    if (name == "MemAvailable:") return kib * 1024;
  }
  return std::numeric_limits<std::int64_t>::max();
}

std::int64_t available_of_the_group() {
  const std::int64_t most = number_in("/sys/fs/cgroup/memory.max");
  if (most == std::numeric_limits<std::int64_t>::max()) return most;
  const std::int64_t used = number_in("/sys/fs/cgroup/memory.current");
  return used < most ? most - used : 0;
}

}  // namespace

std::int64_t kv_bytes(const model::ModelConfig& config, at::ScalarType dtype, std::int64_t prompt_tokens,
                      const GenerateOptions& options) {
  const auto tiles = [](std::int64_t tokens) { return (tokens + ops::kKvTile - 1) / ops::kKvTile; };
  const std::int64_t whole = tiles(prompt_tokens + options.max_new_tokens);
  std::int64_t room = tiles(std::min(prompt_tokens, std::max<std::int64_t>(1, options.prefill_tokens)) + 1);
  while (room < whole) room *= 2;
  return room * ops::kKvTile * 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim *
         static_cast<std::int64_t>(at::elementSize(dtype));
}

std::int64_t free_memory() {
  const std::int64_t bytes = std::min(available_of_the_machine(), available_of_the_group());
  return bytes == std::numeric_limits<std::int64_t>::max() ? 0 : bytes;
}

std::int64_t kv_limit(const GenerateOptions& options) {
  return options.kv_memory > 0 ? options.kv_memory : free_memory() / 2;
}

}  // namespace hone::rollout
