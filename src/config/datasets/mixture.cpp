// TRL's DatasetMixtureConfig: `datasets`, `test_split_size`.
#include <fmt/format.h>

#include <array>
#include <optional>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/strings/suggest.h"
#include "config/datasets/dataset_files.h"

namespace hone::config {
namespace {

using base::Json;
using base::UserError;

const std::vector<std::string>& entry_keys() {
  static const std::vector<std::string> keys = {"path",    "name",     "data_dir", "data_files", "split",
                                                "columns", "fraction", "first",    "weight",     "seed"};
  return keys;
}

[[noreturn]] void throw_entry(const std::string& where, std::string expected, const Json& found) {
  throw UserError(
      {.where = where,
       .expected = std::move(expected),
       .found = base::short_json(found),
       .cause = "",
       .fix = "write datasets: [{path: a.jsonl}, {path: b, split: \"train[:10%]\", columns: [messages]}]"});
}

std::string text_at(const Json& entry, const char* key, const std::string& where) {
  if (!entry.contains(key) || entry[key].is_null()) return {};
  if (!entry[key].is_string()) throw_entry(where, fmt::format("`{}` as text", key), entry[key]);
  return entry[key].get<std::string>();
}

void check_keys(const Json& entry, const std::string& where) {
  if (!entry.is_object()) throw_entry(where, "a mapping with `path`", entry);
  for (const auto& [key, value] : entry.items()) {
    const std::vector<std::string>& known = entry_keys();
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    throw UserError({.where = where,
                     .expected = fmt::format("one of {}", fmt::join(known, ", ")),
                     .found = fmt::format("'{}'.{}", key, base::did_you_mean(key, known)),
                     .cause = "",
                     .fix = "correct the name"});
  }
}

std::vector<std::string> columns_of(const Json& entry, const std::string& where) {
  std::vector<std::string> out;
  if (!entry.contains("columns") || entry["columns"].is_null()) return out;
  if (!entry["columns"].is_array()) throw_entry(where, "`columns` as a list of names", entry["columns"]);
  for (const Json& column : entry["columns"]) {
    if (!column.is_string()) throw_entry(where, "`columns` as a list of names", entry["columns"]);
    out.push_back(column.get<std::string>());
  }
  return out;
}

std::optional<double> fraction_of(const Json& entry, const std::string& where) {
  if (!entry.contains("fraction") || entry["fraction"].is_null()) return std::nullopt;
  const Json& fraction = entry["fraction"];
  if (!fraction.is_number() || fraction.get<double>() < 0)
    throw_entry(where, "`fraction` as a number from 0", fraction);
  return fraction.get<double>();
}

// open-r1's: a share of the set's rows, drawn in the order of `seed`.
std::optional<double> weight_of(const Json& entry, const std::string& where) {
  if (!entry.contains("weight") || entry["weight"].is_null()) return std::nullopt;
  const Json& weight = entry["weight"];
  if (!weight.is_number() || weight.get<double>() < 0 || weight.get<double>() > 1)
    throw_entry(where, "`weight` as a share from 0 to 1", weight);
  if (!entry.contains("seed")) throw_entry(where, "`seed`, the order in which `weight` draws rows", entry);
  return weight.get<double>();
}

// The seed that every entry has, or none.
std::optional<std::uint64_t> seed_of(const Json& sets, const std::string& where) {
  const Json seed = sets.empty() ? Json() : sets[0].value("seed", Json());
  for (const Json& entry : sets) {
    const Json other = entry.value("seed", Json());
    if (other != seed) throw_entry(where, "the same `seed` in every entry of datasets, or in none", other);
  }
  if (seed.is_null()) return std::nullopt;
  if (!seed.is_number_integer() || seed.get<std::int64_t>() < 0)
    throw_entry(where, "`seed` as a whole number from 0", seed);
  return seed.get<std::uint64_t>();
}

base::RowSet set_of(const Json& entry, const std::string& where, const Settings& settings,
                    std::vector<HubRequest>& downloads) {
  check_keys(entry, where);
  const std::string split = text_at(entry, "split", where);
  DatasetAsked asked{.path = text_at(entry, "path", where),
                     .config = text_at(entry, "name", where),
                     .data_dir = text_at(entry, "data_dir", where),
                     .data_files = entry.contains("data_files") ? entry["data_files"] : Json(),
                     .split = split.empty() ? "train" : split,
                     .split_name = "split",
                     .option = "path",
                     .where = where,
                     .revision = settings.text("dataset_revision")};
  if (asked.path.empty()) throw_entry(where, "`path`, the data set", entry);
  base::RowSet out = find_rows(asked, downloads);
  out.columns = columns_of(entry, where);
  out.fraction = fraction_of(entry, where);
  if (entry.contains("first") && entry["first"].is_number()) out.first = entry["first"].get<double>();
  if (const std::optional<double> weight = weight_of(entry, where)) {
    out.first = weight;
    out.drawn = true;
  }
  return out;
}

// The sets of an option that lists them.
base::RowFiles listed(const Settings& settings, const char* option, std::vector<HubRequest>& downloads) {
  const Json& sets = settings.value(option);
  const std::string where = settings.where(option);
  if (!sets.is_array()) throw_entry(where, fmt::format("a list of data sets as `{}`", option), sets);
  base::RowFiles out;
  for (std::size_t i = 0; i < sets.size(); ++i)
    out.sets.push_back(set_of(sets[i], fmt::format("{} {}[{}]", where, option, i), settings, downloads));
  return out;
}

void check_fractions(const base::RowFiles& rows, const std::string& where) {
  std::size_t given = 0;
  double sum = 0;
  for (const base::RowSet& set : rows.sets) {
    given += set.fraction ? 1 : 0;
    sum += set.fraction.value_or(0);
  }
  if (given == 0 || (given == rows.sets.size() && sum > 0)) return;
  throw UserError({.where = where,
                   .expected = "`fraction` in every entry of datasets, or in none, and one above 0",
                   .found = fmt::format("{} of {} entries with one, {} in all", given, rows.sets.size(), sum),
                   .cause = "fractions are shares of the whole mixture",
                   .fix = "give every entry a fraction"});
}

}  // namespace

base::RowFiles find_eval_datasets(const Settings& settings, std::vector<HubRequest>& downloads) {
  return listed(settings, "eval_datasets", downloads);
}

std::vector<EvalSet> find_eval_sets(const Settings& settings, std::vector<HubRequest>& downloads) {
  constexpr const char* kOption = "eval_datasets";
  const Json& given = settings.value(kOption);
  std::vector<EvalSet> out;
  if (!given.is_object()) return out;
  for (const auto& [name, value] : given.items()) {
    const std::string where = fmt::format("{} {}.{}", settings.where(kOption), kOption, name);
    EvalSet& set = out.emplace_back(EvalSet{.name = name, .rows = {}});
    for (const Json& entry : value.is_array() ? value : Json::array({value})) {
      set.rows.sets.push_back(
          set_of(entry.is_string() ? Json{{"path", entry}} : entry, where, settings, downloads));
    }
  }
  return out;
}

Mixture find_mixture(const Settings& settings) {
  Mixture out;
  out.train = listed(settings, "datasets", out.downloads);
  check_fractions(out.train, settings.where("datasets"));
  out.train.shuffle_seed = seed_of(settings.value("datasets"), settings.where("datasets"));
  const Json& size = settings.value("test_split_size");
  if (size.is_null()) return out;
  const double share = size.get<double>();
  if (share <= 0)
    conflict(settings, "test_split_size", "a share between 0 and 1, or a number of rows", size.dump());
  const auto seed = out.train.shuffle_seed.value_or(static_cast<std::uint64_t>(settings.integer("seed")));
  out.test = out.train;
  out.train.test_split = {.size = share, .seed = seed, .test = false};
  out.test.test_split = {.size = share, .seed = seed, .test = true};
  return out;
}

}  // namespace hone::config
