// Shards of a split, as the hub's data sets are cut: train-00000-of-00002.parquet, train-00001-of-00002.parquet.
#pragma once

#include <string>
#include <vector>

#include "base/row_files.h"

namespace hone::config {

// The name of a shard that lies not beside the others: a download was interrupted, or another program fetched single files. Empty: all do.
std::string missing_shard(const base::RowSet& set);

// Whether one of `patterns` is the name of a single shard: then the others need not be there.
bool names_a_shard(const std::vector<std::string>& patterns);

}  // namespace hone::config
