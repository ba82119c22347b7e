// Names of Hugging Face's hub, and where its libraries keep what they have downloaded: hone reads that cache.
// Layout: huggingface_hub 1.x, "Understand caching". Nothing here opens a connection (commands/hub/hub_download.h does).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/files/file.h"

namespace hone::config {

enum class HubKind { kModel, kDataset };

// What a run reads of a data set's repository: only this is downloaded.
struct HubPart {
  std::string config;    // the configuration of README.md, or a sub-folder; empty: the default one
  std::string data_dir;  // a folder within it
  std::vector<std::string> data_files;  // patterns; empty: what README.md says, or all

  bool operator==(const HubPart&) const = default;
};

// Something that a run names and this machine does not have.
struct HubRequest {
  HubKind kind = HubKind::kModel;
  std::string id;          // "Qwen/Qwen2.5-0.5B-Instruct"
  std::string revision;    // a branch, a tag or a commit
  std::string option;      // that named it
  HubPart part = {};       // of a data set
  std::string lacks = {};  // what the copy in the cache has not; empty: there is no copy

  bool operator==(const HubRequest&) const = default;
};

// "owner/name", and not the path of a file by its ending.
bool looks_like_hub_name(const std::string& word);
// The same, unless `path` or its owner is there on this disk: then a part of a path is missing.
bool is_hub_name(const std::string& path);

// HF_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub.
base::fs::path hub_cache_folder();

// The newest download of `id` at `revision`: <cache>/models--owner--name/snapshots/<commit>, by
// refs/<revision>. Empty when there is none, or when it is not whole: a model needs config.json and its
// safetensors, an adapter its two files, a data set any file.
std::optional<base::fs::path> hub_snapshot(HubKind kind, const std::string& id, const std::string& revision);

// The hub's name of a snapshot folder as above: "owner/name"; empty for any other path.
std::string hub_id_of(const base::fs::path& snapshot);

// Says where it was looked for: "neither a path here nor in CACHE", or "its copy in CACHE lacks ...".
std::string not_here(const HubRequest& request);
// Says what to do by hand for `request`, where nothing may or can be downloaded: one sentence.
std::string how_to_fetch(const HubRequest& request);

// True when HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE forbids connections.
bool hub_is_offline();

}  // namespace hone::config
