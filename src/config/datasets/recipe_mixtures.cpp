#include "config/datasets/recipe_mixtures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/path_kind.h"
#include "base/json_tools.h"
#include "config/datasets/hub_configs.h"

namespace hone::config {
namespace {

using base::Json;

// In the names of splits.
constexpr std::array<const char*, 5> kSplitWords = {"train", "test", "valid", "eval", "dev"};

[[noreturn]] void wrong_form(const Kept& kept, const char* name, std::string expected, const Json& found) {
  throw base::UserError({.where = kept.where,
                         .expected = std::move(expected),
                         .found = fmt::format("{}: {}", name, base::short_json(found)),
                         .cause = "another form than alignment-handbook's and open-r1's",
                         .fix = "write dataset_name, or TRL's datasets: [{path: a}, {path: b}]"});
}

std::vector<std::string> texts_of(const Kept& kept, const char* name) {
  if (kept.value.is_string()) return {kept.value.get<std::string>()};
  std::vector<std::string> out;
  if (!kept.value.is_array()) wrong_form(kept, name, "a list of names", kept.value);
  for (const Json& one : kept.value) {
    if (!one.is_string()) wrong_form(kept, name, "a list of names", one);
    out.push_back(one.get<std::string>());
  }
  return out;
}

// "train_sft+train_gen" and "test_sft"; empty: none.
struct Splits {
  std::string train, test;
};

Splits splits_of(const Settings& settings) {
  Splits out;
  const Kept* kept = settings.kept("dataset_splits");
  if (kept == nullptr)
    return {.train = settings.text("dataset_train_split"), .test = settings.text("dataset_test_split")};
  for (const std::string& split : texts_of(*kept, "dataset_splits")) {
    const auto is_of = [&split](const char* word) { return split.find(word) != std::string::npos; };
    const bool train = is_of("train");
    if (std::ranges::none_of(kSplitWords, is_of))
      wrong_form(*kept, "dataset_splits", "names with train, test or validation in them", split);
    std::string& side = train ? out.train : out.test;
    side += (side.empty() ? "" : "+") + split;
  }
  return out;
}

void shuffle_once(Settings& settings, const std::string& where) {
  const Option* option = settings.schema().find("shuffle_dataset");
  if (option == nullptr || settings.is_set("shuffle_dataset")) return;
  if (option->default_value() == Json(false)) settings.put("shuffle_dataset", true, where);
}

void resolve_splits(Settings& settings, const Splits& splits, const std::string& where) {
  if (!splits.train.empty()) settings.put("dataset_train_split", splits.train, where);
  if (!splits.test.empty()) settings.put("dataset_test_split", splits.test, where);
}

void resolve_mixer(Settings& settings, const Kept& mixer, std::vector<std::string>& notes) {
  if (!mixer.value.is_object() || mixer.value.empty())
    wrong_form(mixer, "dataset_mixer", "a mapping of data sets to shares", mixer.value);
  for (const char* name : {"dataset_name", "datasets"}) {
    if (!settings.is_set(name)) continue;
    conflict(settings, name, fmt::format("dataset_mixer or {}, not both", name), "both", "",
             "remove one of the two");
  }
  const Splits splits = splits_of(settings);
  const Kept* configs = settings.kept("dataset_configs");
  const std::vector<std::string> names =
      configs == nullptr ? std::vector<std::string>() : texts_of(*configs, "dataset_configs");
  if (!names.empty() && names.size() != mixer.value.size())
    wrong_form(*configs, "dataset_configs", fmt::format("{} names, one for each set", mixer.value.size()),
               configs->value);
  Json train = Json::array(), test = Json::array();
  std::size_t at = 0;
  bool whole = true;
  for (const auto& [id, share] : mixer.value.items()) {
    if (!share.is_number() || share.get<double>() < 0)
      wrong_form(mixer, "dataset_mixer", "a share from 0 for each set", share);
    Json entry = {{"path", id}, {"split", splits.train}, {"first", share}};
    if (!names.empty()) entry["name"] = names[at];
    whole = whole && share.get<double>() == 1;
    if (whole) entry.erase("first");
    Json tested = entry;
    tested.erase("first");
    tested["split"] = splits.test;
    train.push_back(std::move(entry));
    test.push_back(std::move(tested));
    ++at;
  }
  shuffle_once(settings, mixer.where);
  if (train.size() == 1 && whole) {
    settings.put("dataset_name", mixer.value.begin().key(), mixer.where);
    if (!names.empty()) settings.put("dataset_config", names[0], mixer.where);
    resolve_splits(settings, splits, mixer.where);
    notes.push_back(fmt::format("dataset_mixer: read as dataset_name {}", mixer.value.begin().key()));
    return;
  }
  settings.put("datasets", std::move(train), mixer.where);
  if (!splits.test.empty()) settings.put("eval_datasets", std::move(test), mixer.where);
  notes.emplace_back("dataset_mixer: read as datasets, with the first rows of each set");
}

// A file or a folder on this disk without configurations, where a recipe's name of one was of the data that
// it had. A sub-folder may be one, unless it is `data`, or is named for a split.
bool lacks_configs(const std::string& path) {
  const base::fs::path folder(path);
  if (path.empty() || !base::exists(folder)) return false;
  if (!read_hub_configs(folder / "README.md").empty()) return false;
  std::error_code error;
  for (base::fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    const auto is_of = [&name](const char* word) { return name.find(word) != std::string::npos; };
    const bool own = name.starts_with('.') || name == "data" || std::ranges::any_of(kSplitWords, is_of);
    if (!own && base::is_folder(at->path())) return false;
  }
  return true;
}

void resolve_mixture(Settings& settings, const Kept& mixture, std::vector<std::string>& notes) {
  const Json& value = mixture.value;
  if (!value.is_object() || !value.contains("datasets") || !value["datasets"].is_array())
    wrong_form(mixture, "dataset_mixture", "a mapping with `datasets`, a list", value);
  Json sets = Json::array();
  const Json seed = value.value("seed", Json(0));
  for (const Json& one : value["datasets"]) {
    if (!one.is_object() || !one.contains("id"))
      wrong_form(mixture, "dataset_mixture", "entries with `id`", one);
    Json entry = {{"path", one["id"]}, {"split", one.value("split", Json("train"))}, {"seed", seed}};
    if (one.contains("config") && !one["config"].is_null()) entry["name"] = one["config"];
    if (one.contains("columns") && !one["columns"].is_null()) entry["columns"] = one["columns"];
    entry["weight"] = one.value("weight", Json(1));  // also 1 puts the set's rows into the order of the seed
    sets.push_back(std::move(entry));
  }
  settings.put("datasets", std::move(sets), mixture.where);
  const Json size = value.value("test_split_size", Json());
  if (size.is_number()) settings.put("test_split_size", size, mixture.where);
  notes.emplace_back("dataset_mixture: read as datasets");
}

// A name for the first rows of a split, with its number: "train[:1000]". Scripts read numbers below 1 as all rows.
void resolve_first_rows(Settings& settings, const char* name, const char* option,
                        std::vector<std::string>& notes) {
  const Kept* kept = settings.kept(name);
  if (kept == nullptr) return;
  if (!kept->value.is_number_integer()) {
    throw base::UserError({.where = kept->where,
                           .expected = fmt::format("a number of rows as {}", name),
                           .found = base::short_json(kept->value),
                           .fix = fmt::format("correct it, or write a slice: {}: train[:1000]", option)});
  }
  const auto rows = kept->value.get<std::int64_t>();
  if (rows < 1) return notes.push_back(fmt::format("{}: {} takes every row", name, rows));
  const std::string split = settings.text(option);
  const bool own = !settings.value("datasets").empty();
  if (own || split.find_first_of("[+") != std::string::npos) {
    throw base::UserError({.where = kept->where,
                           .expected = fmt::format("{} with one data set and one whole split", name),
                           .found = own ? "several data sets" : fmt::format("{}: {}", option, split),
                           .fix = "write the rows to take as a slice of each split, such as train[:1000]"});
  }
  settings.put(option, fmt::format("{}[:{}]", split, rows), kept->where);
  notes.push_back(fmt::format("{}: read as {}: {}[:{}]", name, option, split, rows));
}

// The configuration of eval_dataset, which as an option has none: an entry of eval_datasets has.
void resolve_eval_config(Settings& settings, std::vector<std::string>& notes) {
  const Kept* kept = settings.kept("eval_dataset_config");
  if (kept == nullptr) return;
  const std::vector<std::string> names = texts_of(*kept, "eval_dataset_config");
  const std::string path = settings.text("eval_dataset");
  if (path.empty()) return notes.push_back("eval_dataset_config: not used, there is no eval_dataset");
  if (names.size() != 1) wrong_form(*kept, "eval_dataset_config", "one name", kept->value);
  if (lacks_configs(path)) {
    return notes.push_back(
        fmt::format("eval_dataset_config: {} is not used, {} has no configurations", names[0], path));
  }
  settings.put(
      "eval_datasets",
      Json::array({{{"path", path}, {"name", names[0]}, {"split", settings.text("dataset_test_split")}}}),
      kept->where);
  settings.put("eval_dataset", nullptr, kept->where);
  notes.emplace_back("eval_dataset_config: eval_dataset is read as eval_datasets");
}

// Splits of the training data, or of the first of its sets, that are evaluated each on its own.
void resolve_eval_splits(Settings& settings, std::vector<std::string>& notes) {
  const Kept* kept = settings.kept("dataset_eval_splits");
  if (kept == nullptr) return;
  const std::vector<std::string> splits = texts_of(*kept, "dataset_eval_splits");
  if (splits.empty()) return notes.push_back("dataset_eval_splits: not used, it is empty");
  const Json& sets = settings.value("datasets");
  Json entry = {{"path", settings.text("dataset_name")}};
  if (const std::string config = settings.text("dataset_config"); !config.empty()) entry["name"] = config;
  if (sets.is_array() && !sets.empty() && sets[0].is_object()) {
    entry = {{"path", sets[0].value("path", Json())}};
    if (sets[0].contains("name")) entry["name"] = sets[0]["name"];
  }
  Json evaluated = Json::object();
  for (const std::string& split : splits) {
    entry["split"] = split;
    evaluated[split] = entry;
  }
  settings.put("eval_datasets", std::move(evaluated), kept->where);
  notes.emplace_back("dataset_eval_splits: read as eval_datasets, each evaluated on its own");
}

}  // namespace

std::vector<std::string> resolve_mixtures(Settings& settings) {
  std::vector<std::string> notes;
  if (const Kept* mixer = settings.kept("dataset_mixer")) {
    resolve_mixer(settings, *mixer, notes);
  } else if (const Kept* mixture = settings.kept("dataset_mixture")) {
    resolve_mixture(settings, *mixture, notes);
  } else if (const Kept* splits = settings.kept("dataset_splits")) {
    resolve_splits(settings, splits_of(settings), splits->where);
    notes.emplace_back("dataset_splits: read as dataset_train_split and dataset_test_split");
  }
  const Kept* configs = settings.kept("dataset_configs");
  if (configs != nullptr && settings.kept("dataset_mixer") == nullptr) {
    const std::vector<std::string> names = texts_of(*configs, "dataset_configs");
    // Recipes of open-r1 and X-R1 name a split here, which their scripts do not read.
    const bool split = names.size() == 1 && (names[0] == "train" || names[0] == "test");
    if (split) {
      notes.push_back(
          fmt::format("dataset_configs: {} is a split; dataset_train_split names those", names[0]));
    } else if (names.size() == 1 && lacks_configs(settings.text("dataset_name"))) {
      notes.push_back(fmt::format("dataset_configs: {} is not used, {} has no configurations", names[0],
                                  settings.text("dataset_name")));
    } else if (names.size() == 1) {
      settings.put("dataset_config", names[0], configs->where);
    }
  }
  resolve_first_rows(settings, "max_train_samples", "dataset_train_split", notes);
  for (const char* name : {"max_test_samples", "max_eval_samples"})
    resolve_first_rows(settings, name, "dataset_test_split", notes);
  resolve_eval_config(settings, notes);
  resolve_eval_splits(settings, notes);
  return notes;
}

}  // namespace hone::config
