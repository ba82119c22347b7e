// Names of data sets -> the files of their splits, as datasets.load_dataset finds them on this disk.
//
//   a file                  any split; data/files/row_file.h says which formats
//   a pattern, data/*.json  its files are the split `train`
//   a folder saved by save_to_disk (state.json, or dataset_dict.json with a folder a split)
//   a folder whose README.md names `configs`, as repositories of the hub do: dataset_config picks one
//   another folder          its sub-folder dataset_config, if that is set; splits by the names of files and
//                           folders (config/datasets/data_patterns.h), or a file or folder of the split's own name
//   owner/name              where no such path is: the snapshot of the hub's data set in Hugging Face's cache, read as a folder
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/row_files.h"
#include "config/hub_names.h"
#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

struct DatasetAsked {
  std::string path;           // dataset_name, eval_dataset, or `path` in datasets
  std::string config;         // dataset_config, or `name`; empty: the default one
  std::string data_dir;       // a folder within the path
  base::Json data_files;      // null, a pattern, a list of them, or a mapping of splits to either
  std::string split;          // "train[:10%]"
  std::string split_name;     // the option that gives the split, for messages
  std::string option;         // the option that gives the path
  std::string where;          // of that option
  std::string revision = {};  // of a data set of the hub: a branch, a tag or a commit; empty: main
};

// UserError: nothing at the path, no data files, a split or configuration that is not there (naming those that
// are), a split of another form. A data set of the hub that is not in the cache, or whose copy lacks what is asked for (a split, a shard of
// "data-00000-of-00002"), is added to `downloads`; the set then has no parts.
base::RowSet find_rows(const DatasetAsked& asked, std::vector<HubRequest>& downloads);
// The same where nothing is downloaded: a UserError that says what to fetch.
base::RowSet find_rows(const DatasetAsked& asked);

// TRL's `datasets`, with `test_split_size` split off by `seed`; both sides. The second has no sets without it.
// UserError for entries of another form, and what find_rows says.
struct Mixture {
  base::RowFiles train, test;
  std::vector<HubRequest> downloads;
};
Mixture find_mixture(const Settings& settings);
// Finds the files of the option eval_datasets.
base::RowFiles find_eval_datasets(const Settings& settings, std::vector<HubRequest>& downloads);
// Finds the sets of eval_datasets where it is a mapping of names; there are none if it is a list.
std::vector<EvalSet> find_eval_sets(const Settings& settings, std::vector<HubRequest>& downloads);

// Into the plan: train_rows, and eval_rows where the run evaluates.
void find_train_rows(Plan& plan, const Settings& settings);
void find_test_rows(Plan& plan, const Settings& settings);
// dataset_name and dataset_test become what messages call these rows.
void name_rows(Plan& plan);

}  // namespace hone::config
