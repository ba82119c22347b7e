#include "config/datasets/dataset_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/path_kind.h"
#include "base/json_tools.h"
#include "base/strings/suggest.h"
#include "base/strings/utf8.h"
#include "config/datasets/data_patterns.h"
#include "config/datasets/dataset_shards.h"
#include "config/datasets/hub_configs.h"
#include "config/parse.h"
#include "config/reading/split_text.h"

namespace hone::config {
namespace {

namespace fs = base::fs;
using base::is_folder;
using base::Json;
using base::UserError;

constexpr std::size_t kMostStateBytes = std::size_t{64} << 20;

struct Found {
  std::vector<SplitFiles> splits;
  bool any_name = false;  // one split, which answers to every name
};

[[noreturn]] void throw_no_files(const DatasetAsked& asked, const std::string& place,
                                 const std::string& found) {
  throw UserError({.where = asked.where,
                   .expected = fmt::format("data files in {} as {}", place, asked.option),
                   .found = found,
                   .cause = "",
                   .fix = "name a folder with .jsonl, .json, .csv, .tsv, .parquet or .arrow files"});
}

// ---- patterns

// The part of a pattern before its first magic character, up to a slash.
fs::path fixed_part(const std::string& pattern) {
  const std::size_t magic = pattern.find_first_of("*?[");
  const std::size_t slash = pattern.rfind('/', magic);
  if (slash == std::string::npos) return {};
  return pattern.substr(0, slash == 0 ? 1 : slash);
}

std::vector<fs::path> files_of_pattern(const fs::path& folder, const std::string& pattern,
                                       const DatasetAsked& asked) {
  if (!has_magic(pattern)) {
    const fs::path file = folder / pattern;
    if (is_folder(file)) return files_of_pattern(folder, (fs::path(pattern) / "**").string(), asked);
    if (base::exists(file)) return {file};
    throw_no_files(asked, folder.empty() ? "this folder" : folder.string(),
                   fmt::format("no file '{}'", base::cut_text(pattern, 200)));
  }
  const fs::path fixed = fixed_part(pattern);
  const fs::path below = folder / fixed;
  const std::string rest = fixed.empty() ? pattern : pattern.substr(fixed.string().size());
  const std::string relative = rest.starts_with('/') ? rest.substr(1) : rest;
  std::vector<fs::path> out;
  for (const std::string& file : files_below(below.empty() ? fs::path(".") : below)) {
    if (matches(relative, file)) out.push_back(below / file);
  }
  if (out.empty())
    throw_no_files(asked, fmt::format("the pattern '{}'", base::cut_text(pattern, 200)), "none");
  return out;
}

std::vector<fs::path> files_of_patterns(const fs::path& folder, const Json& patterns,
                                        const DatasetAsked& asked) {
  std::vector<fs::path> out;
  const Json list = patterns.is_array() ? patterns : Json::array({patterns});
  for (const Json& pattern : list) {
    if (!pattern.is_string()) {
      throw UserError({.where = asked.where,
                       .expected = "paths or patterns as data_files",
                       .found = pattern.type_name(),
                       .cause = "",
                       .fix = "write data_files: [a.jsonl, more/*.jsonl], or {train: [...], test: [...]}"});
    }
    const std::vector<fs::path> some = files_of_pattern(folder, pattern.get<std::string>(), asked);
    out.insert(out.end(), some.begin(), some.end());
  }
  return out;
}

Found from_data_files(const fs::path& folder, const Json& data_files, const DatasetAsked& asked) {
  Found out;
  if (!data_files.is_object()) {
    out.splits.push_back({.split = "train", .files = files_of_patterns(folder, data_files, asked)});
    return out;
  }
  for (const auto& [split, patterns] : data_files.items()) {
    out.splits.push_back({.split = split, .files = files_of_patterns(folder, patterns, asked)});
  }
  return out;
}

// ---- folders of save_to_disk

Json read_state(const fs::path& file) {
  return base::parse_json(base::read_settings(file, kMostStateBytes), file.string());
}

[[noreturn]] void throw_bad_state(const fs::path& file) {
  throw UserError({.where = file.string(),
                   .expected = "what datasets.save_to_disk writes",
                   .found = "JSON of another form",
                   .cause = "a damaged folder",
                   .fix = "save the data set again"});
}

SplitFiles saved_split(const fs::path& folder, std::string name) {
  const fs::path state_file = folder / "state.json";
  const Json state = read_state(state_file);
  if (!state.is_object() || !state.contains("_data_files") || !state["_data_files"].is_array()) {
    throw_bad_state(state_file);
  }
  SplitFiles out{.split = std::move(name), .files = {}};
  for (const Json& entry : state["_data_files"]) {
    if (!entry.is_object() || !entry.contains("filename") || !entry["filename"].is_string()) {
      throw_bad_state(state_file);
    }
    out.files.push_back(folder / entry["filename"].get<std::string>());
  }
  return out;
}

std::optional<Found> from_saved(const fs::path& folder) {
  if (base::exists(folder / "state.json"))
    return Found{.splits = {saved_split(folder, "train")}, .any_name = true};
  const fs::path dictionary = folder / "dataset_dict.json";
  if (!base::exists(dictionary)) return std::nullopt;
  const Json named = read_state(dictionary);
  if (!named.is_object() || !named.contains("splits") || !named["splits"].is_array())
    throw_bad_state(dictionary);
  Found out;
  for (const Json& split : named["splits"]) {
    if (!split.is_string()) throw_bad_state(dictionary);
    out.splits.push_back(saved_split(folder / split.get<std::string>(), split.get<std::string>()));
  }
  return out;
}

// ---- other folders

[[noreturn]] void throw_no_config(const DatasetAsked& asked, const std::vector<std::string>& names) {
  const bool asked_for = !asked.config.empty();
  throw UserError(
      {.where = asked.where,
       .expected = asked_for ? fmt::format("the configuration '{}' of {}", asked.config, asked.path)
                             : fmt::format("which configuration of {} to read", asked.path),
       .found = names.empty() ? "a folder without configurations"
                              : fmt::format("the configurations {}.{}", fmt::join(names, ", "),
                                            asked_for ? base::did_you_mean(asked.config, names) : ""),
       .cause = "",
       .fix = names.empty() ? "remove dataset_config" : "set dataset_config to one of them"});
}

// The configuration that is asked for, or the default one: named so, marked so, or the only one.
const HubConfig& pick(const std::vector<HubConfig>& configs, const DatasetAsked& asked) {
  const auto found = std::find_if(configs.begin(), configs.end(), [&](const HubConfig& config) {
    return asked.config.empty() ? config.is_default || configs.size() == 1 : config.name == asked.config;
  });
  if (found != configs.end()) return *found;
  std::vector<std::string> names;
  for (const HubConfig& config : configs) names.push_back(config.name);
  throw_no_config(asked, names);
}

// Files that carry a split's own name, which the patterns of datasets do not know: dev2.jsonl, or the folder dev2.
void add_own_names(const fs::path& folder, const std::vector<std::string>& files, const DatasetAsked& asked,
                   std::vector<SplitFiles>& splits) {
  for (const base::RowPart& part : parse_split(asked.split, asked.where)) {
    const std::string& name = part.split;
    if (std::any_of(splits.begin(), splits.end(), [&](const SplitFiles& each) { return each.split == name; }))
      continue;
    SplitFiles own{.split = name, .files = {}};
    for (const std::string& file : files) {
      if (file.starts_with(name + ".") || file.starts_with(name + "/")) own.files.push_back(folder / file);
    }
    if (!own.files.empty()) splits.push_back(std::move(own));
  }
}

Found from_names(const fs::path& folder, const DatasetAsked& asked) {
  const std::vector<std::string> all = files_below(folder);
  const std::string format = main_format(all);
  if (format.empty()) throw_no_files(asked, folder.string(), all.empty() ? "none" : "files of other formats");
  const std::vector<std::string> files = files_of_format(all, format);
  Found out{.splits = splits_by_name(folder, files)};
  add_own_names(folder, files, asked, out.splits);
  return out;
}

Found in_folder(const DatasetAsked& asked) {
  fs::path folder = asked.path;
  if (auto saved = from_saved(folder)) return std::move(*saved);
  const std::vector<HubConfig> configs = read_hub_configs(folder / "README.md");
  if (!configs.empty()) {
    const HubConfig& config = pick(configs, asked);
    if (!config.data_dir.empty()) folder /= config.data_dir;
    if (!config.data_files.is_null()) return from_data_files(folder, config.data_files, asked);
  } else if (!asked.config.empty()) {
    folder /= asked.config;
    // What datasets calls the configuration of a folder that names none.
    if (asked.config == "default" && !is_folder(folder)) {
      folder = asked.path;
    } else if (!is_folder(folder)) {
      std::vector<std::string> names;
      std::error_code error;
      for (fs::directory_iterator at(asked.path, error), end; !error && at != end; at.increment(error)) {
        if (is_folder(at->path())) names.push_back(at->path().filename().string());
      }
      std::sort(names.begin(), names.end());
      throw_no_config(asked, names);
    }
  }
  return from_names(folder, asked);
}

// ---- files

void require_known_ending(const DatasetAsked& asked) {
  if (!main_format({fs::path(asked.path).filename().string()}).empty()) return;
  throw UserError(
      {.where = asked.where,
       .expected = fmt::format("a file of rows as {}: .jsonl, .json, .csv, .tsv, .parquet or .arrow, "
                               "perhaps with .gz or .zst",
                               asked.option),
       .found = asked.path,
       .cause = "the name tells the format",
       .fix = "rename the file, or write the rows as JSON Lines, one object per line"});
}

bool is_builder(const std::string& path) {
  static const std::set<std::string> names = {"json", "csv", "parquet", "arrow"};
  return names.contains(path) && !base::exists(path);
}

Found find(const DatasetAsked& asked) {
  if (is_builder(asked.path) && !asked.data_files.is_null()) {
    return from_data_files(asked.data_dir, asked.data_files, asked);
  }
  if (!base::exists(asked.path) && has_magic(asked.path)) return from_data_files({}, asked.path, asked);
  require_rows_path(asked.path, asked.option, asked.where);
  if (!is_folder(asked.path)) {
    require_known_ending(asked);
    return {.splits = {{.split = "train", .files = {asked.path}}}, .any_name = true};
  }
  if (!asked.data_files.is_null()) {
    return from_data_files(fs::path(asked.path) / asked.data_dir, asked.data_files, asked);
  }
  if (asked.data_dir.empty()) return in_folder(asked);
  DatasetAsked inner = asked;
  inner.path = (fs::path(asked.path) / asked.data_dir).string();
  require_rows_path(inner.path, "data_dir", asked.where);
  return in_folder(inner);
}

// ---- splits

void add_part(const Found& found, base::RowPart part, const DatasetAsked& asked, base::RowSet& out) {
  const auto split = std::find_if(found.splits.begin(), found.splits.end(),
                                  [&](const SplitFiles& each) { return each.split == part.split; });
  if (found.any_name || split != found.splits.end()) {
    part.files = found.any_name ? found.splits.front().files : split->files;
    out.parts.push_back(std::move(part));
    return;
  }
  if (part.split == "all" && part.slice.whole()) {
    for (const SplitFiles& each : found.splits) out.parts.push_back({each.split, each.files, {}});
    return;
  }
  std::vector<std::string> names;
  for (const SplitFiles& each : found.splits) names.push_back(each.split);
  throw UserError(
      {.where = asked.where,
       .expected = fmt::format("the split '{}' in {}", part.split, base::cut_text(asked.path, 300)),
       .found =
           fmt::format("the splits {}.{}", fmt::join(names, ", "), base::did_you_mean(part.split, names)),
       .cause = "",
       .fix = fmt::format("set {} to one of them", asked.split_name)});
}

base::RowSet find_local_rows(const DatasetAsked& asked) {
  const Found found = find(asked);
  base::RowSet out{.name = asked.path};
  for (base::RowPart& part : parse_split(asked.split, asked.where)) {
    add_part(found, std::move(part), asked, out);
  }
  return out;
}

// ---- the hub

void add_patterns(const Json& patterns, std::vector<std::string>& out) {
  if (patterns.is_string()) out.push_back(patterns.get<std::string>());
  if (!patterns.is_structured()) return;
  for (const Json& one : patterns) add_patterns(one, out);
}

// Whether shards are asked for one by one.
bool names_shards(const HubPart& part, const fs::path& snapshot) {
  std::vector<std::string> patterns = part.data_files;
  if (patterns.empty()) {
    for (const HubConfig& config : read_hub_configs(snapshot / "README.md"))
      add_patterns(config.data_files, patterns);
  }
  return names_a_shard(patterns);
}

base::RowSet find_hub_rows(const DatasetAsked& asked, std::vector<HubRequest>& downloads) {
  HubRequest request{.kind = HubKind::kDataset,
                     .id = asked.path,
                     .revision = asked.revision.empty() ? "main" : asked.revision,
                     .option = asked.option,
                     .part = {.config = asked.config, .data_dir = asked.data_dir, .data_files = {}}};
  add_patterns(asked.data_files, request.part.data_files);
  if (const auto snapshot = hub_snapshot(HubKind::kDataset, asked.path, asked.revision)) {
    DatasetAsked local = asked;
    local.path = snapshot->string();
    try {
      base::RowSet out = find_local_rows(local);
      out.name = asked.path;
      const std::string shard = names_shards(request.part, *snapshot) ? "" : missing_shard(out);
      if (shard.empty()) return out;
      request.lacks = shard;
    } catch (const UserError& error) {
      request.lacks = fmt::format("{}; found {}", error.text().expected, error.text().found);
    }
  }
  parse_split(asked.split, asked.where);  // its form, before anything is downloaded
  downloads.push_back(std::move(request));
  return {.name = asked.path};
}

}  // namespace

base::RowSet find_rows(const DatasetAsked& asked, std::vector<HubRequest>& downloads) {
  const bool cached =
      !base::exists(asked.path) && hub_snapshot(HubKind::kDataset, asked.path, asked.revision).has_value();
  return cached || is_hub_name(asked.path) ? find_hub_rows(asked, downloads) : find_local_rows(asked);
}

base::RowSet find_rows(const DatasetAsked& asked) {
  std::vector<HubRequest> downloads;
  base::RowSet out = find_rows(asked, downloads);
  if (downloads.empty()) return out;
  throw UserError({.where = asked.where,
                   .expected = fmt::format("{} on this disk, or in Hugging Face's cache", asked.path),
                   .found = not_here(downloads.front()),
                   .cause = "",
                   .fix = how_to_fetch(downloads.front())});
}

namespace {

// "train.jsonl", "data", "trl-lib/tldr", "a.jsonl + b"
std::string name_of(const base::RowFiles& rows) {
  const std::vector<fs::path> files = rows.files();
  if (rows.sets.size() == 1 && is_hub_name(rows.sets.front().name)) return rows.sets.front().name;
  if (files.size() == 1) return files.front().string();
  std::string out;
  for (const base::RowSet& set : rows.sets) out += (out.empty() ? "" : " + ") + set.name;
  return out;
}

bool evaluates(const Plan& plan) {
  return plan.eval_strategy != IntervalStrategy::kNo || plan.eval_on_start;
}

base::RowFiles find_split(const std::string& path, const Settings& settings, const char* option,
                          const char* split_option, std::vector<HubRequest>& downloads) {
  base::RowFiles out;
  const bool main = std::string_view(option) == "dataset_name";
  out.sets.push_back(find_rows({.path = path,
                                .config = main ? settings.text("dataset_config") : "",
                                .data_dir = "",
                                .data_files = nullptr,
                                .split = settings.text(split_option),
                                .split_name = split_option,
                                .option = option,
                                .where = settings.where(option),
                                .revision = settings.text("dataset_revision")},
                               downloads));
  return out;
}

void add_once(std::vector<HubRequest> more, std::vector<HubRequest>& downloads) {
  for (HubRequest& one : more) {
    if (std::find(downloads.begin(), downloads.end(), one) == downloads.end())
      downloads.push_back(std::move(one));
  }
}

bool mixes(const Settings& settings) {
  const Json& datasets = settings.value("datasets");
  return !datasets.is_null() && !datasets.empty();
}

// eval_datasets: a list is one data set, a mapping one of each name.
void find_listed_test_rows(Plan& plan, const Settings& settings, std::vector<HubRequest>& downloads) {
  plan.eval_sets = find_eval_sets(settings, downloads);
  if (plan.eval_sets.empty()) {
    plan.eval_rows = find_eval_datasets(settings, downloads);
    return;
  }
  if (samples(plan.method)) {
    conflict(settings, "eval_datasets", "a list of data sets",
             fmt::format("a mapping of {} names", plan.eval_sets.size()),
             "an evaluation of this method samples completions of one set of prompts", "write a list");
  }
  for (const EvalSet& one : plan.eval_sets) {
    plan.eval_rows.sets.insert(plan.eval_rows.sets.end(), one.rows.sets.begin(), one.rows.sets.end());
  }
}

// Options about where rows are that what is there has no use for.
void note_idle_places(Plan& plan, const Settings& settings) {
  const auto note = [&](const char* option, const std::string& why) {
    if (settings.changed(option)) plan.notes.push_back(fmt::format("{}: not used, {}", option, why));
  };
  const bool mixture = mixes(settings);
  const std::string& data = plan.dataset_name;
  std::error_code error;
  if (mixture) {
    for (const char* option : {"dataset_config", "dataset_train_split"})
      note(option, "the entries of datasets have their own");
  } else {
    if (base::fs::is_regular_file(data, error)) note("dataset_config", "dataset_name is a file");
    if (base::fs::exists(data, error)) note("dataset_revision", "dataset_name is on this disk");
    note("test_split_size", "it splits the rows of datasets, which is not set");
  }
  if (settings.text("row_function").empty()) note("row_timeout", "row_function is not set");
  if (settings.schema().find("eval_packing") != nullptr && !evaluates(plan))
    note("eval_packing", "nothing is evaluated");
}

}  // namespace

void find_train_rows(Plan& plan, const Settings& settings) {
  note_idle_places(plan, settings);
  if (mixes(settings)) {
    Mixture mixture = find_mixture(settings);
    plan.train_rows = std::move(mixture.train);
    add_once(std::move(mixture.downloads), plan.downloads);
    if (!plan.dataset_name.empty())
      plan.notes.push_back("dataset_name: not used, datasets is set (as in TRL)");
  } else if (!plan.dataset_name.empty()) {  // a replay has no need of it
    plan.train_rows =
        find_split(plan.dataset_name, settings, "dataset_name", "dataset_train_split", plan.downloads);
  } else {
    return;
  }
}

void find_test_rows(Plan& plan, const Settings& settings) {
  const std::string& data = plan.dataset_name;
  const bool told = plan.train_rows.sets.empty() && (mixes(settings) || !data.empty());
  std::vector<HubRequest> downloads;
  // TRL looks at the test split only when it evaluates.
  if (!plan.dataset_test.empty()) {
    plan.eval_rows = find_split(plan.dataset_test, settings, "eval_dataset", "dataset_test_split", downloads);
  } else if (!evaluates(plan) || told) {
    return;
  } else if (!settings.value("eval_datasets").empty()) {
    find_listed_test_rows(plan, settings, downloads);
  } else if (mixes(settings)) {
    plan.eval_rows = find_mixture(settings).test;
  } else if (is_folder(data) || is_hub_name(data)) {
    plan.eval_rows = find_split(data, settings, "dataset_name", "dataset_test_split", downloads);
  }
  add_once(std::move(downloads), plan.downloads);
  if (plan.eval_rows.sets.empty()) {
    conflict(settings, plan.eval_strategy != IntervalStrategy::kNo ? "eval_strategy" : "eval_on_start",
             "rows to evaluate",
             mixes(settings) ? "no eval_dataset, and no test_split_size of datasets"
                             : "no eval_dataset, and dataset_name is one file",
             "",
             mixes(settings)
                 ? "set eval_dataset, or test_split_size"
                 : "set eval_dataset to a file, or dataset_name to a folder with train and test files");
  }
}

void name_rows(Plan& plan) {
  if (!plan.train_rows.sets.empty()) plan.dataset_name = name_of(plan.train_rows);
  if (!plan.eval_rows.sets.empty()) plan.dataset_test = name_of(plan.eval_rows);
}

}  // namespace hone::config
