#include "config/datasets/dataset_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/files/path_kind.h"
#include "config/datasets/data_patterns.h"

namespace hone::config {
namespace {

namespace fs = base::fs;

// "train-00001-of-00004.parquet"
struct Shard {
  std::string before, after;  // "train-", ".parquet"
  int all = 0;                // 4

  std::string name(int i) const { return fmt::format("{}{:05}-of-{:05}{}", before, i, all, after); }
};

std::optional<Shard> shard_of(const std::string& name) {
  constexpr std::size_t kDigits = 5;
  const std::size_t of = name.find("-of-");
  if (of == std::string::npos || of < kDigits || name.size() < of + 4 + kDigits) return std::nullopt;
  const auto digits = [&name](std::size_t at) {
    return std::all_of(name.begin() + static_cast<std::ptrdiff_t>(at),
                       name.begin() + static_cast<std::ptrdiff_t>(at + kDigits),
                       [](char c) { return c >= '0' && c <= '9'; });
  };
  if (!digits(of - kDigits) || !digits(of + 4)) return std::nullopt;
  return Shard{.before = name.substr(0, of - kDigits),
               .after = name.substr(of + 4 + kDigits),
               .all = std::stoi(name.substr(of + 4, kDigits))};
}

}  // namespace

std::string missing_shard(const base::RowSet& set) {
  std::set<std::string> seen;
  for (const base::RowPart& part : set.parts) {
    for (const fs::path& file : part.files) {
      const auto shard = shard_of(file.filename().string());
      if (!shard || !seen.insert((file.parent_path() / shard->name(0)).string()).second) continue;
      for (int i = 0; i < shard->all; ++i) {
        if (!base::exists(file.parent_path() / shard->name(i))) return shard->name(i);
      }
    }
  }
  return {};
}

bool names_a_shard(const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [](const std::string& one) { return !has_magic(one) && shard_of(one).has_value(); });
}

}  // namespace hone::config
