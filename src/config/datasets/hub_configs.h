// The README.md of a repository of the hub says this of its data files, in the YAML at its beginning:
//
//   configs:
//   - config_name: en
//     data_files: [{split: train, path: en/train-*}]     also: a pattern, a list of them, a mapping
//     data_dir: folder
//     default: true
#pragma once

#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"

namespace hone::config {

struct HubConfig {
  std::string name;
  std::string data_dir;
  base::Json data_files;    // null, a pattern, a list of them, or a mapping of splits to either
  bool is_default = false;  // named "default", or marked so
};

// Empty without such a file, without `configs` in it, and for YAML that does not parse: the names of files count then.
std::vector<HubConfig> read_hub_configs(const base::fs::path& readme);

}  // namespace hone::config
