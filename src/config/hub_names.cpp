#include "config/hub_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/files/home_path.h"
#include "base/files/path_kind.h"
#include "base/json.h"
#include "base/strings/ascii.h"

namespace hone::config {

namespace {

namespace fs = base::fs;

constexpr std::size_t kMostLetters = 200;
constexpr std::string_view kModels = "models--", kDatasets = "datasets--";

// An environment variable that is set to something.
std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : base::expand_home(value, name);  // as huggingface_hub
}

bool is_true(const std::string& word) {  // as huggingface_hub reads such variables
  const std::string upper = base::upper_ascii(word);
  return upper == "1" || upper == "ON" || upper == "YES" || upper == "TRUE";
}

// "models--owner--name"
std::string folder_of(HubKind kind, const std::string& id) {
  std::string out(kind == HubKind::kModel ? kModels : kDatasets);
  for (const char c : id) out += c == '/' ? std::string("--") : std::string(1, c);
  return out;
}

// Every shard that the index names, or the one file.
bool has_weights(const fs::path& folder) {
  if (base::is_file(folder / "model.safetensors")) return true;
  const fs::path index = folder / "model.safetensors.index.json";
  if (!base::is_file(index)) return false;
  try {
    const base::Json json = base::parse_json(base::read_text(index), index.string());
    const auto map = json.find("weight_map");
    if (map == json.end() || !map->is_object()) return false;
    std::set<std::string> shards;
    for (const auto& [name, shard] : map->items())
      shards.insert(shard.is_string() ? shard.get<std::string>() : "");
    return std::all_of(shards.begin(), shards.end(), [&](const std::string& shard) {
      return !shard.empty() && base::is_file(folder / shard);
    });
  } catch (const base::UserError&) {
    return false;  // an interrupted download: fetched again
  }
}

bool is_whole(HubKind kind, const fs::path& folder) {
  if (!base::is_folder(folder)) return false;
  if (kind == HubKind::kModel) {
    const bool adapter = base::is_file(folder / "adapter_config.json");
    return adapter ? base::is_file(folder / "adapter_model.safetensors")
                   : base::is_file(folder / "config.json") && has_weights(folder);
  }
  std::error_code ignored;
  return fs::directory_iterator(folder, ignored) != fs::directory_iterator();
}

}  // namespace

bool looks_like_hub_name(const std::string& word) {
  const std::size_t slash = word.find('/');
  if (slash == std::string::npos || word.size() > kMostLetters) return false;
  const auto is_name = [](std::string_view part) {
    const auto letter = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    };
    return !part.empty() && letter(part[0]) && std::all_of(part.begin(), part.end(), [&](char c) {
      return letter(c) || c == '.' || c == '_' || c == '-';
    });
  };
  for (const char* ending :
       {".jsonl", ".json", ".gguf", ".parquet", ".csv", ".tsv", ".arrow", ".gz", ".zst", ".py", ".yaml"}) {
    if (word.ends_with(ending)) return false;
  }
  const std::string_view all = word;
  return is_name(all.substr(0, slash)) && is_name(all.substr(slash + 1));
}

bool is_hub_name(const std::string& path) {
  return looks_like_hub_name(path) && !base::exists(path) && !base::exists(path.substr(0, path.find('/')));
}

base::fs::path hub_cache_folder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (std::string folder = variable(name); !folder.empty()) return folder;
  }
  if (const std::string home = variable("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  const std::string cache = variable("XDG_CACHE_HOME");
  return (cache.empty() ? fs::path(variable("HOME")) / ".cache" : fs::path(cache)) / "huggingface" / "hub";
}

std::optional<base::fs::path> hub_snapshot(HubKind kind, const std::string& id, const std::string& revision) {
  if (!looks_like_hub_name(id) || revision.find("..") != std::string::npos) return std::nullopt;
  const fs::path folder = hub_cache_folder() / folder_of(kind, id);
  const std::string wanted = revision.empty() ? "main" : revision;
  std::string commit = wanted;  // a commit has no file in refs/
  if (base::is_file(folder / "refs" / wanted)) {
    try {
      commit = base::read_text(folder / "refs" / wanted);
    } catch (const base::UserError&) {
      return std::nullopt;
    }
  }
  const bool plain =
      !commit.empty() && commit.size() < kMostLetters &&
      std::all_of(
          commit.begin(), commit.end(),
          [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
  if (!plain) return std::nullopt;
  const fs::path snapshot = folder / "snapshots" / commit;
  return is_whole(kind, snapshot) ? std::optional(snapshot) : std::nullopt;
}

std::string hub_id_of(const base::fs::path& snapshot) {
  const fs::path clean = snapshot.filename().empty() ? snapshot.parent_path() : snapshot;
  if (clean.parent_path().filename() != "snapshots") return "";
  std::string name = clean.parent_path().parent_path().filename().string();
  for (const std::string_view prefix : {kModels, kDatasets}) {
    if (!name.starts_with(prefix)) continue;
    name.erase(0, prefix.size());
    const std::size_t dashes = name.find("--");
    return dashes == std::string::npos ? name : name.substr(0, dashes) + "/" + name.substr(dashes + 2);
  }
  return "";
}

std::string not_here(const HubRequest& request) {
  const std::string cache = hub_cache_folder().string();
  if (request.lacks.empty()) return fmt::format("it is neither a path here nor in {}", cache);
  return fmt::format("its copy in {} lacks {}",
                     (fs::path(cache) / folder_of(request.kind, request.id)).string(), request.lacks);
}

std::string how_to_fetch(const HubRequest& request) {
  const bool dataset = request.kind == HubKind::kDataset;
  return fmt::format(
      "run `hf download {}{}{}` where there is a network, and copy {} to this machine's {}", request.id,
      dataset ? " --repo-type dataset" : "",
      request.revision.empty() || request.revision == "main" ? "" : " --revision " + request.revision,
      folder_of(request.kind, request.id), hub_cache_folder().string());
}

bool hub_is_offline() {
  return is_true(variable("HF_HUB_OFFLINE")) || is_true(variable("TRANSFORMERS_OFFLINE"));
}

}  // namespace hone::config
