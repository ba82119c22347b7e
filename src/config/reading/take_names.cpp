// Names of options, former names and names of dialects -> settings.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/strings/suggest.h"
#include "config/settings.h"

namespace hone::config {
namespace {

using base::Json;

constexpr std::string_view kIgnoreUnknown = "ignore_unknown";
constexpr std::string_view kGroupFilter = "filter_groups", kGroupBatches = "max_num_gen_batches";

// Values that switch off what a name would switch on.
bool says_nothing(const Json& value) {
  const bool text = value.is_string();
  return value.is_null() || value == Json(false) || value == Json(0) ||
         (text && value.get_ref<const std::string&>().empty()) || (text && value == "none") ||
         (text && value == "None") || (value.is_structured() && value.empty());
}

const Option& any_value() {
  static const Option any("", "", Kind::kAny);
  return any;
}

// A switch of a program that hone does not know is off: what it would do is not asked for. 0 may be a value like another.
// A name like one of hone's is a misspelling, which may mean to switch something off.
bool is_idle_unknown(const Schema& schema, const std::string& name,
                     const std::function<Json(const Option&)>& read) {
  Json value = true;
  try {
    value = read(any_value());
  } catch (const base::UserError&) {
    return false;  // that the name is unknown says more
  }
  const bool off = value.is_null() || value == Json(false) || (value.is_structured() && value.empty());
  if (!off) return false;
  const std::vector<std::string> names = schema.names();
  return base::did_you_mean(name, names).empty();
}

// A key of verl's filter_groups: {enable, metric, max_num_gen_batches}.
struct GroupKey {
  std::string name, option, text;
  std::string note;  // empty: it is an option
};

// Empty: the value is no mapping.
std::vector<GroupKey> group_keys(const std::function<Json(const Option&)>& read) {
  Json map;
  try {
    map = read(any_value());
  } catch (const base::UserError&) {
    return {};  // the option's own reading says it
  }
  std::vector<GroupKey> out;
  if (!map.is_object()) return out;
  for (const auto& [key, value] : map.items()) {
    GroupKey one{.name = fmt::format("{}.{}", kGroupFilter, key), .option = {}, .text = {}, .note = {}};
    one.option = key == "enable" ? std::string(kGroupFilter) : key == kGroupBatches ? key : one.name;
    one.text = value.is_string() ? value.get<std::string>() : base::dump_json(value);
    if (key == "metric") one.note = "hone compares the sum of the rewards";
    if (key == kGroupBatches && (value.is_null() || value == Json(0)))
      one.note = "verl's 0 is no limit; hone's default counts";
    out.push_back(std::move(one));
  }
  return out;
}

// "left" by "left=keep_end right=keep_start": keep_end. Values that are not there stay; an empty one says nothing.
std::string translated(std::string_view words, const std::string& value) {
  for (const std::string& pair : split_words(words)) {
    if (pair.starts_with(value + "=")) return pair.substr(value.size() + 1);
  }
  return value;
}

}  // namespace

void Settings::take_option(const FormerName& former, const Json& value, const std::string& where,
                           const ReadValue& read) {
  const Option* option = schema_->find(former.option);
  base::require(option != nullptr, "former name " + std::string(former.name), "the name of an option");
  ReadName out{.as = ReadName::As::kFormer,
               .name = std::string(former.name),
               .where = where,
               .option = std::string(option->name),
               .why = former.yields ? std::string(former.why) : fmt::format("its name in {}", former.whose)};
  if (value.is_null()) {
    out.as = ReadName::As::kNoted;
    out.why = "null leaves the default";
  } else if (former.words.empty()) {
    set(*option, read(*option), where, &former);
  } else {
    const std::string word =
        translated(former.words, value.is_string() ? value.get<std::string>() : base::dump_json(value));
    if (word.empty()) {
      out.as = ReadName::As::kNoted;
      out.why = "this value leaves the default";
    } else {
      set(*option, convert_text(*option, word, true, where), where, &former);
    }
  }
  names_.push_back(std::move(out));
}

void Settings::apply_later() {
  for (const auto& [former, kept] : keys_) collect([&] { apply_key(*former, kept); });
  keys_.clear();
  for (const auto& [former, later] : yielding_) collect([&] { take_yielding(*former, later); });
  yielding_.clear();
}

void Settings::take_yielding(const FormerName& former, const Later& later) {
  const auto at = settings_.find(former.option);
  const bool own = at != settings_.end() && at->second.source == source_ && at->second.former.empty();
  if (!own) {
    take_option(former, later.any, later.where, [&](const Option&) { return later.value(); });
    return;
  }
  names_.push_back({.as = ReadName::As::kNoted,
                    .name = std::string(former.name),
                    .where = later.where,
                    .option = {},
                    .why = fmt::format("not used, {} is there too; {}", former.option, former.why)});
}

void Settings::apply_key(const FormerName& former, const Kept& kept) {
  const auto& [value, where] = kept;
  const Option* option = schema_->find(former.option);
  base::require(option != nullptr, "former name " + std::string(former.name), "the name of an option");
  Json map = this->value(former.option).is_object() ? this->value(former.option) : Json::object();
  // Accelerate's keys stand beside the file that an option names (config/sharding/sharding.h).
  if (this->value(former.option).is_string()) map["config_file"] = this->value(former.option);
  const std::string key(former.name);
  if (map.contains(key) && map[key] != value) {
    throw base::UserError({.where = where,
                           .expected = fmt::format("one value of {}", key),
                           .found = fmt::format("{}, and {} in {}", base::short_json(value),
                                                base::short_json(map[key]), option->name),
                           .fix = "remove one of the two"});
  }
  map[key] = value;
  settings_[std::string(option->name)] = {
      .value = std::move(map), .where = where, .former = "", .source = source_};
  names_.push_back({.as = ReadName::As::kFormer,
                    .name = key,
                    .where = where,
                    .option = std::string(option->name),
                    .why = "which has it as a key"});
}

void Settings::take_former(const FormerName& former, const std::string& where, const ReadValue& read) {
  const std::string name(former.name);
  const Json value = read(any_value());
  switch (former.fate) {
    case Fate::kOption: {
      if (!former.yields) return take_option(former, value, where, read);
      const Option* option = schema_->find(former.option);
      base::require(option != nullptr, "former name " + name, "the name of an option");
      Json own = value.is_null() ? Json() : read(*option);
      yielding_.emplace_back(&former, Later{.any = value, .where = where, .value = [own] { return own; }});
      return;
    }
    case Fate::kKey:
      if (value.is_null()) break;
      keys_.emplace_back(&former, Kept{.value = value, .where = where});
      return;
    case Fate::kMixture:
      if (value.is_null()) break;
      kept_[name] = {.value = value, .where = where};
      names_.push_back({.as = ReadName::As::kMixed, .name = name, .where = where, .option = {}, .why = {}});
      return;
    case Fate::kNote:
      names_.push_back({.as = ReadName::As::kNoted,
                        .name = name,
                        .where = where,
                        .option = {},
                        .why = std::string(former.why)});
      return;
    case Fate::kRefused:
      if (says_nothing(value)) break;
      if (value.is_string() && !former.words.empty() && contains_word(former.words, value.get<std::string>()))
        break;
      throw base::UserError({.where = where,
                             .expected = fmt::format("no {} of {}", name, former.whose),
                             .found = fmt::format("{}: {}", name, base::short_json(value)),
                             .cause = std::string(former.why),
                             .fix = std::string(former.fix)});
  }
  names_.push_back(
      {.as = ReadName::As::kNoted, .name = name, .where = where, .option = {}, .why = "off, as in hone"});
}

void Settings::take(const std::string& name, const std::string& where, bool dashes, const ReadValue& read) {
  const std::vector<GroupKey> keys = name == kGroupFilter ? group_keys(read) : std::vector<GroupKey>();
  for (const GroupKey& key : keys) {
    if (key.note.empty())
      take(key.option, where, false,
           [&](const Option& one) { return convert_text(one, key.text, true, where); });
    else
      names_.push_back(
          {.as = ReadName::As::kNoted, .name = key.name, .where = where, .option = {}, .why = key.note});
  }
  if (!keys.empty()) return;
  const std::size_t before = mistakes_.size();
  const Option* option = schema_->find(name);
  const FormerName* former = option == nullptr ? find_former_name(name, schema_->command) : nullptr;
  const bool there = former == nullptr || former->option.empty() || schema_->find(former->option) != nullptr;
  const bool passed =
      std::find(ignore_unknown_.begin(), ignore_unknown_.end(), name) != ignore_unknown_.end();
  const auto take_it = [&] {
    if (option != nullptr) {
      set(*option, read(*option), where);
      names_.push_back(
          {.as = ReadName::As::kOption, .name = name, .where = where, .option = name, .why = {}});
    } else if (passed) {
      names_.push_back({.as = ReadName::As::kPassed, .name = name, .where = where, .option = {}, .why = {}});
    } else if (former != nullptr && there) {
      take_former(*former, where, read);
    } else if (!dashes && is_idle_unknown(*schema_, name, read)) {
      names_.push_back({.as = ReadName::As::kNoted,
                        .name = name,
                        .where = where,
                        .option = {},
                        .why = fmt::format("no option of hone {}, and off", schema_->command)});
    } else {
      throw_unknown(*schema_, name, dashes ? "command line" : where, dashes);
    }
  };
  bool of_value = true;
  collect([&] {
    try {
      take_it();
    } catch (const FormError&) {
      of_value = false;
      throw;
    }
  });
  if (mistakes_.size() == before) return;
  const std::string wrong = option != nullptr ? name : former != nullptr ? std::string(former->option) : "";
  if (!wrong.empty()) {
    forget(wrong);
    if (of_value) value_mistakes_.push_back({.option = wrong, .mistake = before, .name = names_.size()});
  }
  names_.push_back({.as = ReadName::As::kMistake,
                    .name = name,
                    .where = where,
                    .option = wrong,
                    .why = mistakes_.back().text().found});
}

}  // namespace hone::config
