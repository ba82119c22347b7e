// The mixtures of data sets of alignment-handbook and open-r1, as TRL's options and hone's own:
//
//   dataset_mixer: {id: share, ...}   of one set with all its rows: dataset_name; else datasets, with `first`: share, and
//                                     eval_datasets of the test splits
//   dataset_splits: [train_x, test_x] a split with "train" in its name trains, one with "test" evaluates, or with
//                                     "valid", "eval" or "dev", as forks have it
//   dataset_configs: [name, ...]      one for each set
//   dataset_mixture: {datasets: [{id, config, split, columns, weight}], seed, test_split_size}
//
// alignment-handbook takes the first rows of each set, and shuffles the whole once: so does shuffle_dataset of SFT,
// which is set unless the recipe sets it. open-r1 shuffles each set with the mixture's seed (0 by default) and takes
// `weight` of its rows, then shuffles the whole and splits it with the same seed (src/open_r1/utils/data.py).
#pragma once

#include <string>
#include <vector>

#include "config/settings.h"

namespace hone::config {

// From the names that Settings kept (Fate::kMixture) into options. Returns notes. UserError for another form.
std::vector<std::string> resolve_mixtures(Settings& settings);

}  // namespace hone::config
