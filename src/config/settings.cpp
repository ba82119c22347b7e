#include "config/settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/strings/suggest.h"
#include "base/strings/utf8.h"
#include "config/options/idle_options.h"
#include "config/reading/user_paths.h"

namespace hone::config {
namespace {

using base::Json;

bool is_off(const Json& value) {
  return value.is_null() || value == Json(false) || value == Json("") ||
         (value.is_structured() && value.empty());
}

// `fsdp: ""` and `push_to_hub: false` switch off what is off already.
bool means_default(const Option& option, const Json& value) {
  const Json fallback = option.default_value();
  return value == fallback || (is_off(value) && is_off(fallback));
}

// "pissa_niter_16" is a case of the value "pissa_niter_N", and "cuda:0" one of "cuda:N", which counts from 0.
std::string with_number_as_n(const std::string& word) {
  const std::size_t end = word.find_last_not_of("0123456789");
  if (end == std::string::npos || end + 1 == word.size() || word.size() - end > 6) return word;
  const bool zero = word[end + 1] == '0';
  const bool numbered = word[end] == '_' ? !zero : word[end] == ':' && (!zero || end + 2 == word.size());
  return numbered ? word.substr(0, end + 1) + "N" : word;
}

bool is_pattern(const std::string& word) {
  return word.ends_with("_N") || word.ends_with(":N");
}

void check_choice(const Option& option, const Setting& setting, std::vector<std::string>& notes) {
  if (setting.value.is_null()) return;
  const std::string word = setting.value.get<std::string>();
  const bool pattern = is_pattern(word);  // "pissa_niter_N" is no value itself
  if (contains_word(option.values, with_number_as_n(word)) && !pattern) return;
  if (contains_word(option.same_values, word)) {
    notes.push_back(fmt::format("{}: {} means the same here as {}", option.name, word,
                                split_words(option.values).front()));
    return;
  }
  const std::string supported = fmt::format("{}", fmt::join(split_words(option.values), ", "));
  if (contains_word(option.not_yet, word)) {
    throw base::UserError({.where = setting.where,
                           .expected = fmt::format("a value of {} that hone has", option.name),
                           .found = word,
                           .cause = std::string(option.reason),
                           .fix = "choose " + supported});
  }
  // A value that hone has is the better neighbor.
  std::string near = pattern ? "" : base::did_you_mean(word, split_words(option.values));
  for (const std::string_view others : {option.same_values, option.not_yet}) {
    if (near.empty()) near = base::did_you_mean(word, split_words(others));
  }
  throw base::UserError({.where = setting.where,
                         .expected = fmt::format("a value of {}", option.name),
                         .found = fmt::format("'{}'.{}", base::cut_text(word, 200), near),
                         .cause = pattern ? "N stands for a whole number" : "",
                         .fix = "choose " + supported});
}

// Whole numbers without bounds of their own: they are counts, which are multiplied, and held as 32 bits in
// places. A seed is any number.
Range range_of(const Option& option) {
  Range range = option.range;
  if (option.kind != Kind::kInt || option.name == "seed" || option.name == "data_seed") return range;
  range.least = std::max(range.least, -kMaxSteps);
  range.most = std::min(range.most, kMaxSteps);
  return range;
}

void check_range(const Option& option, const Setting& setting) {
  const Range range = range_of(option);
  if (!setting.value.is_number() || range.holds(setting.value.get<double>())) return;
  // The bound that was meant for this option, as long as it is the one that was passed.
  const bool own = !option.range.holds(setting.value.get<double>());
  throw base::UserError(
      {.where = setting.where,
       .expected = fmt::format("{} {}", option.name, (own ? option.range : range).describe()),
       .found = base::short_json(setting.value),
       .cause = {},
       .fix = fmt::format("the default is {}", option.default_text)});
}

// Bytes that are not UTF-8 could not be written to plan.yaml and read again, and a path ends at its first
// NUL.
void check_text(const std::string& text, const Option& option, const std::string& where) {
  const std::size_t bad = base::bad_utf8_at(text), nul = text.find('\0');
  if (bad == std::string::npos && nul == std::string::npos) return;
  const std::size_t from = std::min(bad, nul) < 40 ? 0 : std::min(bad, nul) - 40;
  std::string shown = base::with_bad_utf8_shown(std::string_view(text).substr(from, 120));
  for (std::size_t at = shown.find('\0'); at != std::string::npos; at = shown.find('\0'))
    shown.replace(at, 1, "\\x00");
  throw FormError({.where = where,
                   .expected = fmt::format("text in UTF-8, without NUL bytes, for option {}", option.name),
                   .found = fmt::format("'{}'", shown),
                   .cause = bad != std::string::npos ? "a file name or a terminal in another encoding" : "",
                   .fix = "rename the file, or convert the text to UTF-8"});
}

void check_texts(const Json& value, const Option& option, const std::string& where) {
  if (value.is_string()) check_text(value.get_ref<const std::string&>(), option, where);
  if (!value.is_structured()) return;
  for (const auto& [key, item] : value.items()) {
    if (value.is_object()) check_text(key, option, where);
    check_texts(item, option, where);
  }
}

}  // namespace

void Settings::set(const Option& option, Json value, std::string where, const FormerName* former) {
  check_texts(value, option, where);
  value = with_user_paths(option, std::move(value), where, as_written_.contains(where));
  const auto at = settings_.find(option.name);
  const std::string name = former == nullptr ? "" : std::string(former->name);
  const bool twice = at != settings_.end() && at->second.source == source_ && at->second.former != name;
  if (twice && at->second.value != value) {
    const FormerName* other =
        former != nullptr ? former : find_former_name(at->second.former, schema_->command);
    const auto says_nothing = [&](const Json& one) {
      return other != nullptr && other->zero_says_nothing && (is_off(one) || one == Json(0));
    };
    if (says_nothing(value)) return;
    if (!says_nothing(at->second.value)) {
      const auto shown = [&](const std::string& by) { return by.empty() ? std::string(option.name) : by; };
      throw FormError({.where = where,
                       .expected = fmt::format("one value of {}", option.name),
                       .found = fmt::format("{}: {}, and {}: {} at {}", shown(name), base::short_json(value),
                                            shown(at->second.former), base::short_json(at->second.value),
                                            at->second.where),
                       .cause = fmt::format("{} is another name of {}",
                                            other == nullptr ? name : std::string(other->name), option.name),
                       .fix = "remove one of the two"});
    }
  }
  settings_[std::string(option.name)] = {
      .value = std::move(value), .where = std::move(where), .former = name, .source = source_};
}

void Settings::forget(std::string_view name) {
  wrong_.emplace(name);
  if (const auto at = settings_.find(name); at != settings_.end()) settings_.erase(at);
}

void Settings::unset(std::string_view name) {
  if (const auto at = settings_.find(name); at != settings_.end()) settings_.erase(at);
}

void Settings::pardon_idle() {
  std::map<std::string, std::string, std::less<>> reasons;
  std::set<std::size_t> idle;
  for (const auto& [name, mistake, read] : value_mistakes_) {
    const auto [reason, fresh] = reasons.try_emplace(name);
    const Option* option = fresh ? schema_->find(name) : nullptr;
    if (option != nullptr) reason->second = idle_reason(*this, *option);
    if (reason->second.empty()) continue;
    wrong_.erase(name);
    idle.insert(mistake);
    ReadName& of_it = names_[read];
    of_it.as = ReadName::As::kNoted;
    of_it.why = fmt::format("{} is not used, {}", of_it.why, reason->second);
  }
  std::vector<base::UserError> kept;
  for (std::size_t at = 0; at < mistakes_.size(); ++at) {
    if (!idle.contains(at)) kept.push_back(mistakes_[at]);
  }
  mistakes_ = std::move(kept);
  value_mistakes_.clear();
}

bool Settings::collect(const std::function<void()>& check) {
  bool right = true;
  read_wrong_ = false;
  try {
    check();
  } catch (const base::UserError& error) {
    right = false;
    if (!read_wrong_) mistakes_.push_back(error);
  }
  read_wrong_ = false;
  return right;
}

void Settings::throw_mistakes() const {
  base::throw_all(mistakes_);
}

void Settings::check_option(const Option& option, std::vector<std::string>& notes) const {
  const Setting& setting = settings_.find(option.name)->second;
  if (option.option_class == OptionClass::kRefused && !means_default(option, setting.value)) {
    throw base::UserError(
        {.where = setting.where,
         .expected = fmt::format("{} at its default {}", option.name, option.default_text),
         .found = base::cut_text(yaml_text(setting.value), 200),
         .cause = std::string(option.reason),
         .fix = fmt::format("remove {}", setting.former.empty() ? option.name : setting.former)});
  }
  if (option.kind == Kind::kChoice) check_choice(option, setting, notes);
  check_range(option, setting);
}

std::vector<std::string> Settings::collect_values() {
  std::vector<std::string> notes = notes_;
  pardon_idle();
  std::map<std::string, std::size_t, std::less<>>
      told;  // reason -> its note, which names all that it answers
  const auto ignore = [&](std::string_view name, std::string_view reason) {
    const auto [note, fresh] = told.emplace(reason, notes.size());
    if (fresh) {
      notes.push_back(fmt::format("{}: {}", name, reason));
    } else {
      std::string& line = notes[note->second];
      line.insert(line.size() - reason.size() - 2, fmt::format(", {}", name));
    }
  };
  for (const Option& option : schema_->options) {
    if (!settings_.contains(option.name)) continue;
    const std::size_t before = mistakes_.size();
    collect([&] { check_option(option, notes); });
    if (mistakes_.size() > before) {
      const std::string why = idle_reason(*this, option);
      if (why.empty()) {
        forget(option.name);
        continue;
      }
      notes.push_back(fmt::format("{}: {} is not used, {}", option.name, mistakes_.back().text().found, why));
      mistakes_.pop_back();
      unset(option.name);
    } else if (option.option_class == OptionClass::kIgnored) {
      ignore(option.name, option.reason);
    }
  }
  for (const ReadName& one : names_) {
    if (one.as == ReadName::As::kFormer)
      notes.push_back(fmt::format("{}: read as {}, {}", one.name, one.option, one.why));
    if (one.as == ReadName::As::kNoted) ignore(one.name, one.why);
    if (one.as == ReadName::As::kPassed) ignore(one.name, "passed over, as ignore_unknown says");
  }
  return notes;
}

std::vector<std::string> Settings::check() const {
  Settings checked = *this;
  std::vector<std::string> notes = checked.collect_values();
  checked.throw_mistakes();
  return notes;
}

const Kept* Settings::kept(std::string_view name) const {
  const auto at = kept_.find(name);
  return at == kept_.end() ? nullptr : &at->second;
}

void Settings::put(std::string_view option, Json value, std::string where) {
  const Option* const row = schema_->find(option);
  base::require(row != nullptr, "config::Settings::put", "the name of an option");
  value = with_user_paths(*row, std::move(value), where);
  settings_[std::string(option)] = {
      .value = std::move(value), .where = std::move(where), .former = {}, .source = source_};
}

bool Settings::is_set(std::string_view name) const {
  return settings_.contains(name);
}

const Json& Settings::value(std::string_view name) const {
  read_wrong_ = read_wrong_ || wrong_.contains(name);
  if (const auto at = settings_.find(name); at != settings_.end()) return at->second.value;
  if (const auto at = defaults_.find(name); at != defaults_.end()) return at->second;
  const Option* option = schema_->find(name);
  base::require(option != nullptr, "config::Settings", "the name of a row in the option table");
  return defaults_.emplace(std::string(name), option->default_value()).first->second;
}

std::string Settings::where(std::string_view name) const {
  const auto at = settings_.find(name);
  return at != settings_.end() ? at->second.where : fmt::format("{} (default)", name);
}

void Settings::replace(std::string_view name, Json value) {
  if (const auto at = settings_.find(name); at != settings_.end()) {
    at->second.value = std::move(value);
  } else {
    defaults_.insert_or_assign(std::string(name), std::move(value));
  }
}

bool Settings::flag(std::string_view name) const {
  return maybe_flag(name).value_or(false);
}

std::optional<bool> Settings::maybe_flag(std::string_view name) const {
  const Json& found = value(name);
  return found.is_null() ? std::nullopt : std::optional(found.get<bool>());
}

std::int64_t Settings::integer(std::string_view name) const {
  return value(name).get<std::int64_t>();
}

std::optional<std::int64_t> Settings::maybe_integer(std::string_view name) const {
  const Json& found = value(name);
  return found.is_null() ? std::nullopt : std::optional(found.get<std::int64_t>());
}

double Settings::number(std::string_view name) const {
  return value(name).get<double>();
}

std::string Settings::text(std::string_view name) const {
  const Json& found = value(name);
  return found.is_null() ? std::string() : found.get<std::string>();
}

std::vector<std::string> Settings::list(std::string_view name) const {
  const Json& found = value(name);
  if (found.is_null()) return {};
  if (found.is_string()) return {found.get<std::string>()};
  return found.get<std::vector<std::string>>();
}

bool Settings::changed(std::string_view name) const {
  const Option* option = schema_->find(name);
  return option != nullptr && value(name) != option->default_value();
}

std::string Settings::unmet_need(const Option& option) const {
  const Option* const needs = option.needed_option.empty() ? nullptr : schema_->find(option.needed_option);
  if (needs == nullptr) return {};
  const Json& other = value(option.needed_option);
  const std::vector<std::string> needed = split_words(option.needed_values);
  const bool many = needs->kind == Kind::kList;
  const bool used =
      other.is_boolean()
          ? other.get<bool>()
          : std::any_of(needed.begin(), needed.end(), [&](const Json& word) {
              return many ? std::find(other.begin(), other.end(), word) != other.end() : other == word;
            });
  if (used) return {};
  std::string words = other.is_boolean() ? "false" : fmt::format("{}", fmt::join(needed, ", "));
  if (const std::size_t last = words.rfind(", "); last != std::string::npos) words.replace(last, 2, " or ");
  const bool negated = !many && !other.is_boolean();
  return fmt::format("{}{} is {}{}", many ? "no " : "", option.needed_option, negated ? "not " : "", words);
}

std::vector<std::string> Settings::unused() const {
  std::vector<std::string> notes;
  for (const Option& option : schema_->options) {
    if (option.needed_option.empty() || !changed(option.name)) continue;
    if (const std::string unmet = unmet_need(option); !unmet.empty())
      notes.push_back(fmt::format("{}: not used, {}", option.name, unmet));
  }
  for (std::string& note : idle_notes(*this)) notes.push_back(std::move(note));
  return notes;
}

std::vector<RowOption> Settings::of_some_rows() const {
  std::vector<RowOption> out;
  for (const Option& option : schema_->options) {
    const bool some =
        !option.row_forms.empty() && option.row_forms != kAnyRows && option.row_forms != kMappedRows;
    if (!some || option.option_class != OptionClass::kSupported || !changed(option.name)) continue;
    if (value(option.name) == Json(false)) continue;
    out.push_back({.name = std::string(option.name), .forms = std::string(option.row_forms)});
  }
  return out;
}

void Settings::fill(std::type_index type, void* part) const {
  for (const Option& option : schema_->options) {
    const bool ours = option.binding.set && option.binding.part == type;
    if (ours && option.option_class == OptionClass::kSupported)
      option.binding.set(part, value(option.name), where(option.name));
  }
}

void conflict(const Settings& settings, std::string_view name, std::string expected, std::string found,
              std::string cause, std::string fix) {
  throw base::UserError({.where = settings.where(name),
                         .expected = std::move(expected),
                         .found = std::move(found),
                         .cause = std::move(cause),
                         .fix = std::move(fix)});
}

}  // namespace hone::config
