// Which files of a folder are which split, by their names: the patterns of datasets (data_files.py, 5.2).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/files/file.h"

namespace hone::config {

struct SplitFiles {
  std::string split;
  std::vector<base::fs::path> files;
};

// Files below `folder` as paths relative to it, sorted; without hidden ones, without those in folders whose name
// begins with "__" or a dot, and without what describes a data set (README.md, dataset_info.json, ...). At most
// `most`: a folder with more is no data set.
std::vector<std::string> files_below(const base::fs::path& folder, std::size_t most = 100'000);

// '*' and '?' and [sets] within a name, '**' across folders; `path` has forward slashes.
bool matches(std::string_view pattern, std::string_view path);
bool has_magic(std::string_view path);

// The files of one format: the most frequent one, Parquet before others. "": none that hone reads.
std::string main_format(const std::vector<std::string>& files);
std::vector<std::string> files_of_format(const std::vector<std::string>& files, const std::string& format);

// The splits that the names tell, in order: "data/NAME-00000-of-00001.parquet"; else folders, else files whose names
// hold train, validation (valid, dev, val), test (eval, ...) as a word; else all files are `train`.
std::vector<SplitFiles> splits_by_name(const base::fs::path& folder, const std::vector<std::string>& files);

}  // namespace hone::config
