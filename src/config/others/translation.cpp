#include "config/others/translation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/strings/suggest.h"
#include "base/strings/utf8.h"
#include "config/reading/environment_text.h"
#include "config/settings.h"
#include "config/write_plan.h"

namespace hone::config {
namespace {

using base::Json;

constexpr std::size_t kShownName = 80;

// null, false, 0, "", "none", [] and {} ask for nothing.
bool asks_for(const Json& value) {
  if (value.is_null()) return false;
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  if (value.is_string()) {
    const std::string text = value.get<std::string>();
    return !text.empty() && text != "none" && text != "no" && text != "false" && text != "False";
  }
  return !value.empty();
}

// "left=keep_end right=keep_start"
Json renamed_word(const Json& value, std::string_view words) {
  if (!value.is_string()) return value;
  const std::string text = value.get<std::string>();
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    const std::string_view pair = words.substr(0, end);
    const std::size_t middle = pair.find('=');
    if (middle != std::string_view::npos && pair.substr(0, middle) == text)
      return std::string(pair.substr(middle + 1));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return value;
}

}  // namespace

const OtherName* Translation::row(std::string_view name) const {
  const auto found =
      std::find_if(names_.begin(), names_.end(), [&](const OtherName& one) { return one.name == name; });
  if (found != names_.end()) return &*found;
  // "vllm_*": every other name that begins so
  const auto family = std::find_if(names_.begin(), names_.end(), [&](const OtherName& one) {
    return one.name.ends_with('*') && name.starts_with(one.name.substr(0, one.name.size() - 1));
  });
  return family == names_.end() ? nullptr : &*family;
}

const Json& Translation::value(std::string_view name) const {
  static const Json nothing;
  const OtherEntry* entry = file_.find(name);
  return entry == nullptr ? nothing : entry->value;
}

bool Translation::flag(std::string_view name) const {
  const Json& found = value(name);
  if (found.is_boolean()) return found.get<bool>();
  if (found.is_number()) return found.get<double>() != 0;
  return found.is_string() && (found == "true" || found == "True" || found == "yes" || found == "on");
}

std::string Translation::text(std::string_view name) const {
  const Json& found = value(name);
  if (found.is_null()) return {};
  return found.is_string() ? found.get<std::string>() : base::dump_json(found);
}

std::optional<double> Translation::number(std::string_view name) const {
  const Json& found = value(name);
  if (!found.is_number() || !std::isfinite(found.get<double>())) return std::nullopt;
  return found.get<double>();
}

std::string Translation::where(std::string_view name) const {
  const OtherEntry* entry = file_.find(name);
  return entry == nullptr ? file_.path : entry->where;
}

bool Translation::has_option(std::string_view option) const {
  if (option == "warmup_ratio") return true;  // read as warmup_steps
  return method_schema(out_.method).find(option) != nullptr;
}

namespace {

// An option whose numbers are written without a point where they are whole: lora_alpha too, which need not be.
bool is_written_whole(const Option& option) {
  const bool counts = option.default_value().is_number_integer();
  return option.kind == Kind::kInt || (option.kind == Kind::kFloat && counts);
}

// 32.0 as 32: trainers take either for a whole number.
Json whole(Json value) {
  constexpr double kLargest = 1e15;
  if (!value.is_number_float()) return value;
  const double number = value.get<double>();
  if (std::trunc(number) != number || std::abs(number) > kLargest) return value;
  return static_cast<std::int64_t>(number);
}

}  // namespace

std::string_view renew_value(std::string_view option, Json& value) {
  if (option != "optim" || value != "adamw_hf") return {};
  value = "adamw_torch";
  return "transformers has no adamw_hf any more: it is read as adamw_torch, the same rule but for where epsilon "
         "is added";
}

void Translation::set(std::string_view option, Json value, std::string_view from) {
  if (is_set(option)) return;
  if (!has_option(option)) {
    note(from, fmt::format("hone {} has no {}: it changes nothing here", method_name(out_.method), option));
    return;
  }
  const Option* const known = method_schema(out_.method).find(option);
  if (known != nullptr && is_written_whole(*known)) value = whole(std::move(value));
  if (const std::string_view why = renew_value(option, value); !why.empty()) note(from, std::string(why));
  if (value.is_string()) {
    const ExpandedText expanded = expand_environment(value.get<std::string>());
    std::vector<std::string> missing = expanded.missing;
    missing.insert(missing.end(), expanded.references.begin(), expanded.references.end());
    if (!missing.empty() && takes_environment(option)) {
      unknown(from, fmt::format("its value names {}, which is not set here", fmt::join(missing, ", ")),
              std::string(option),
              fmt::format("export {}=..., or write the value into the file", missing[0]));
      return;
    }
    const bool is_token = option == "eos_token";  // <|im_end|>
    if (!is_token && value.get<std::string>().starts_with("<") && value.get<std::string>().ends_with(">")) {
      unknown(from, fmt::format("{} is a place to fill in, not a value", value.get<std::string>()),
              std::string(option), "write the name that is meant");
      return;
    }
    if (takes_environment(option)) value = expanded.text;
  }
  out_.options.push_back({.option = std::string(option),
                          .value = std::move(value),
                          .from = std::string(from),
                          .where = where(from)});
}

void Translation::set_default(std::string_view option, Json value, std::string_view why) {
  if (is_set(option) || !has_option(option)) return;
  const bool told = std::any_of(out_.unknown.begin(), out_.unknown.end(),
                                [&](const OtherUnknown& one) { return one.depends == option; });
  if (told) return;
  out_.options.push_back(
      {.option = std::string(option), .value = std::move(value), .from = std::string(why), .where = {}});
}

void Translation::note(std::string_view name, std::string text) {
  out_.notes.push_back({.where = file_.find(name) == nullptr ? "" : where(name),
                        .name = std::string(name),
                        .text = std::move(text)});
}

void Translation::note_processes() {
  // The second is of ms-swift's args.json.
  const double processes = number("processes").value_or(number("global_world_size").value_or(1));
  out_.processes = processes;
  if (has("processes") && !number("processes"))
    note(
        "processes",
        "how many processes take a batch each is known only to the shell that runs the script: a step has so many "
        "times as many rows as in the one process that is examined here (docs/ranks.md)");
  if (processes > 1)
    note("processes",
         fmt::format("{:.0f} processes take a batch each: a step has {:.0f} times as many rows as in the one "
                     "process that is examined here (docs/ranks.md)",
                     processes, processes));
}

void Translation::refuse(std::string_view name, std::string why, std::string fix) {
  out_.refused.push_back(
      {.where = where(name), .name = std::string(name), .why = std::move(why), .fix = std::move(fix)});
}

void Translation::unknown(std::string_view name, std::string why, std::string depends, std::string fix) {
  out_.unknown.push_back({.where = where(name),
                          .name = std::string(name),
                          .why = std::move(why),
                          .depends = std::move(depends),
                          .fix = std::move(fix)});
}

// args.json has a line for each option that the trainer has, most of them its defaults.
void Translation::tell_many(const std::vector<const OtherEntry*>& entries) {
  constexpr std::size_t kNamed = 8;
  std::vector<std::string> names;
  for (const OtherEntry* one : entries) names.push_back(base::cut_text(one->name, kShownName));
  const std::size_t all = names.size();
  if (all > kNamed) names.resize(kNamed);
  out_.unknown.push_back(
      {.where = file_.path,
       .name = fmt::format("{} names", all),
       .why = fmt::format("no names of {}'s that hone knows: {}{}", trainer_title(out_.trainer),
                          fmt::join(names, ", "), all > kNamed ? ", ..." : ""),
       .depends = "whatever they set: the run is examined without them",
       .fix = "most are defaults that the trainer wrote; look for those that you set"});
}

void Translation::tell_unknown(const OtherEntry& entry) {
  std::vector<std::string> known;
  for (const OtherName& one : names_) {
    if (!one.name.ends_with('*')) known.emplace_back(one.name);
  }
  const std::string name = base::cut_text(entry.name, kShownName);
  std::string why = fmt::format("no name of {}'s that hone knows.", trainer_title(out_.trainer));
  why += base::did_you_mean(name, known);
  out_.unknown.push_back({.where = entry.where,
                          .name = name,
                          .why = why,
                          .depends = "whatever it sets: the run is examined without it",
                          .fix = "correct the name, or remove the line"});
}

void Translation::apply(const OtherEntry& entry, const OtherName& row) {
  switch (row.fate) {
    case OtherFate::kPart:
      return;
    case OtherFate::kOption:
      if (!entry.value.is_null()) set(row.option, renamed_word(entry.value, row.words), entry.name);
      return;
    case OtherFate::kNote:
      if (asks_for(entry.value))
        out_.ignored.push_back({.where = entry.where, .name = entry.name, .text = std::string(row.why)});
      return;
    case OtherFate::kRefused:
      if (asks_for(entry.value)) refuse(entry.name, std::string(row.why), std::string(row.fix));
      return;
  }
}

// LLaMA-Factory and ms-swift take every argument of transformers' own, by its own name.
bool Translation::apply_shared(const OtherEntry& entry) {
  if (out_.trainer != Trainer::kFactory && out_.trainer != Trainer::kSwift) return false;
  const Schema& schema = method_schema(out_.method);
  const Option* own = schema.find(entry.name);
  if (own != nullptr && own->origin == kTrainingArguments) {
    if (!entry.value.is_null()) set(entry.name, entry.value, entry.name);
    return true;
  }
  const FormerName* former = own != nullptr ? nullptr : find_former_name(entry.name, schema.command);
  if (former == nullptr || former->whose != "transformers") return false;
  const bool is_simple = former->words.empty() && !former->zero_says_nothing && !former->yields;
  if (former->fate == Fate::kNote) {
    if (asks_for(entry.value))
      out_.ignored.push_back({.where = entry.where, .name = entry.name, .text = std::string(former->why)});
    return true;
  }
  if (former->fate == Fate::kOption && is_simple) {
    if (!entry.value.is_null()) set(former->option, entry.value, entry.name);
    return true;
  }
  if (former->fate != Fate::kRefused) return false;
  const bool is_done =
      entry.value.is_string() && contains_word(former->words, entry.value.get<std::string>());
  if (asks_for(entry.value) && !is_done)
    refuse(entry.name, std::string(former->why), std::string(former->fix));
  return true;
}

void Translation::apply_names() {
  std::vector<const OtherEntry*> strange;
  for (const OtherEntry& entry : file_.entries) {
    if (!entry.before.empty()) {
      out_.notes.push_back(
          {.where = entry.where,
           .name = entry.name,
           .text = fmt::format("it is there twice, at {} too: the last one counts, in silence",
                               fmt::join(entry.before, ", "))});
    }
    const OtherName* known = row(entry.name);
    if (known != nullptr)
      apply(entry, *known);
    else if (!apply_shared(entry) && asks_for(entry.value))
      strange.push_back(&entry);
  }
  if (strange.size() > 1 && file_.path.ends_with(".json")) {
    tell_many(strange);
    return;
  }
  for (const OtherEntry* one : strange) tell_unknown(*one);
}

void Translation::apply_defaults() {
  for (const OtherName& one : names_) {
    if (one.fate == OtherFate::kOption && !one.fallback.empty())
      set_default(one.option, Json::parse(one.fallback));
  }
}

}  // namespace hone::config
