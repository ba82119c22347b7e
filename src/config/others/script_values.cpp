// Values of a script, and how each becomes an option or is told.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "base/strings/suggest.h"
#include "base/strings/utf8.h"
#include "config/others/script.h"
#include "config/others/translation.h"
#include "config/settings.h"
#include "config/write_plan.h"

namespace hone::config::script {
namespace {

using base::Json;

constexpr std::size_t kShown = 60;
constexpr std::int64_t kMostOfRange = 1000;  // entries of range(n) as a value

std::string last_word(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? name : name.substr(dot + 1);
}

// "60", "not set", "f()".
std::string shown(const Json& value) {
  if (value.contains("absent")) return "not set";
  if (const auto json = known(value)) return base::cut_text(base::dump_json(*json), kShown);
  if (!made_by(value).empty()) return made_by(value) + "()";
  return value.value("name", value.value("function", "something that is not known"));
}

const OtherName* row_of(std::span<const OtherName> table, std::string_view name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const OtherName& one) { return one.name == name; });
  return found == table.end() ? nullptr : &*found;
}

bool asks_nothing(const Json& value) {
  return value.is_null() || value == false || value == 0 || value == Json("") || value == "none" ||
         value == "no" || (value.is_structured() && value.empty());
}

}  // namespace

std::string made_by(const Json& value) {
  return value.is_object() ? value.value("made", "") : "";
}

std::string line_of(const Json& value) {
  const std::string at = value.value("at", "");
  return at.starts_with("cell ") ? at : "line " + at;
}

std::string class_of(const Json& value) {
  return last_word(made_by(value));
}

const Json* argument(const Json& made, std::string_view name, int position) {
  const Json* found = nullptr;
  const Json& args = made.at("args");
  if (const auto one = args.find(name); one != args.end()) {
    found = &*one;
  } else if (position >= 0 && static_cast<std::size_t>(position) < made.at("plain").size()) {
    found = &made.at("plain").at(static_cast<std::size_t>(position));
  }
  if (found == nullptr || (found->contains("value") && found->at("value").is_null())) return nullptr;
  return found;
}

std::optional<Json> known(const Json& value) {
  if (const auto found = value.find("value"); found != value.end()) return *found;
  if (const auto name = value.find("name"); name != value.end()) {
    const std::string whole = name->get<std::string>();
    std::string word = last_word(whole);
    // a choice of transformers: SchedulerType.COSINE is "cosine"
    for (const char* type :
         {"SchedulerType.", "IntervalStrategy.", "SaveStrategy.", "OptimizerNames.", "HubStrategy."}) {
      if (whole.find(type) == std::string::npos) continue;
      std::transform(word.begin(), word.end(), word.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      return word;
    }
    if (whole.starts_with("torch.") || whole.find("TaskType.") != std::string::npos) return word;
    return std::nullopt;
  }
  if (const auto range = value.find("range"); range != value.end()) {
    const std::int64_t begin = range->at(0), end = range->at(1), step = range->at(2);
    if (step == 0 || (end - begin) / step > kMostOfRange) return std::nullopt;
    Json out = Json::array();
    for (std::int64_t i = begin; step > 0 ? i < end : i > end; i += step) out.push_back(i);
    return out;
  }
  if (const auto list = value.find("list"); list != value.end()) {
    Json out = Json::array();
    for (const Json& one : *list) {
      const auto item = known(one);
      if (!item) return std::nullopt;
      out.push_back(*item);
    }
    return out;
  }
  return std::nullopt;
}

std::string why_unknown(const Json& value) {
  if (value.contains("unknown")) {
    const std::string from = value.value("from", "");
    const std::string why = value["unknown"].get<std::string>();
    const bool told =
        from.empty() || from == value.value("at", "") || why.find("line " + from) != std::string::npos;
    return told ? why : fmt::format("{} (line {})", why, from);
  }
  if (value.contains("either")) {
    std::vector<std::string> all;
    for (const Json& one : value["either"]) all.push_back(shown(one));
    return fmt::format("the arms of the condition in line {} differ: {}", value.value("at", ""),
                       fmt::join(all, ", or "));
  }
  if (value.contains("list")) {
    for (const Json& one : value["list"]) {
      if (!known(one)) return why_unknown(one);
    }
  }
  if (value.contains("base") && value["base"].contains("args") &&
      value["base"]["args"].contains("(command line)"))
    return fmt::format("the command line gives it, as {} of {}", made_by(value).substr(1),
                       class_of(value["base"]));
  if (made_by(value) == "[]") return fmt::format("it is an entry, in {}", line_of(value));
  if (!made_by(value).empty()) return fmt::format("it comes from {}() in {}", made_by(value), line_of(value));
  if (value.contains("function"))
    return fmt::format("it is the function {}", value["function"].get<std::string>());
  if (value.contains("name")) return "it is " + value["name"].get<std::string>();
  return "reading the script does not give it";
}

std::string text_of(const Json& value) {
  const auto json = known(value);
  return json && json->is_string() ? json->get<std::string>() : "";
}

std::string why_touched(const Json& value) {
  const Json* one = &value;
  for (int depth = 0; depth < 40; ++depth) {
    if (const auto why = one->find("touched"); why != one->end()) return why->get<std::string>();
    const auto base = one->find("base");
    if (base == one->end()) break;
    one = &*base;
  }
  return {};
}

bool is_true(const Json* value) {
  if (value == nullptr) return false;
  const auto json = known(*value);
  return json && *json == true;
}

std::string Script::where(const Json& value) const {
  const std::string at = value.value("at", "");
  return at.empty() ? out.file : out.file + ":" + at;
}

void Script::note(const Json& value, std::string_view name, std::string text) {
  out.notes.push_back({.where = where(value), .name = std::string(name), .text = std::move(text)});
}

void Script::refuse(const Json& value, std::string_view name, std::string why, std::string fix) {
  out.refused.push_back(
      {.where = where(value), .name = std::string(name), .why = std::move(why), .fix = std::move(fix)});
}

void Script::unknown(const Json& value, std::string_view name, std::string why, std::string depends,
                     std::string fix) {
  if (fix.empty()) fix = fmt::format("write {} into hone's own file: --write run.yaml", depends);
  out.unknown.push_back({.where = where(value),
                         .name = std::string(name),
                         .why = std::move(why),
                         .depends = std::move(depends),
                         .fix = std::move(fix)});
}

bool Script::has(std::string_view option) const {
  return out.find(option) != nullptr ||
         std::any_of(out.unknown.begin(), out.unknown.end(),
                     [&](const OtherUnknown& one) { return one.depends == option; });
}

void Script::set_json(std::string_view option, Json value, std::string_view from, const Json& place) {
  if (has(option)) return;
  if (value.is_string() && value.get<std::string>().starts_with("<") &&
      value.get<std::string>().ends_with(">")) {
    unknown(place, from, fmt::format("{} is a place to fill in, not a value", value.get<std::string>()),
            std::string(option), "write the name that is meant");
    return;
  }
  if (const std::string_view why = renew_value(option, value); !why.empty())
    note(place, from, std::string(why));
  out.options.push_back({.option = std::string(option),
                         .value = std::move(value),
                         .from = std::string(from),
                         .where = where(place)});
}

void Script::set(std::string_view option, const Json& value, std::string_view from) {
  if (has(option)) return;
  const auto json = known(value);
  if (!json) {
    unknown(value, from, why_unknown(value), std::string(option));
  } else if (!json->is_null()) {
    set_json(option, *json, from, value);
  }
}

void Script::set_default(std::string_view option, Json value, std::string_view why) {
  if (has(option) || method_schema(out.method).find(option) == nullptr) return;
  out.options.push_back(
      {.option = std::string(option), .value = std::move(value), .from = std::string(why), .where = {}});
}

void Script::take(const Json& args, std::span<const OtherName> table, std::string_view of) {
  const Schema& schema = method_schema(out.method);
  for (const auto& [name, value] : args.items()) {
    if (name == "**") {
      unknown(value, of, "more arguments: " + why_unknown(value), "whatever they set",
              "write them as name=value");
      continue;
    }
    const OtherName* row = row_of(table, name);
    if (row != nullptr && row->fate == OtherFate::kPart) continue;
    const auto json = known(value);
    if (json && json->is_null()) continue;
    if (row != nullptr && row->fate != OtherFate::kOption) {
      const bool asks = !json || !asks_nothing(*json);
      if (asks && row->fate == OtherFate::kNote)
        out.ignored.push_back({.where = where(value), .name = name, .text = std::string(row->why)});
      else if (asks)
        refuse(value, name, std::string(row->why), std::string(row->fix));
      continue;
    }
    const std::string option(row == nullptr ? std::string_view(name) : row->option);
    const FormerName* former =
        schema.find(option) == nullptr ? find_former_name(option, schema.command) : nullptr;
    // Under today's name, so that a default is not put beside it.
    const bool renamed = former != nullptr && former->fate == Fate::kOption && former->words.empty() &&
                         !former->zero_says_nothing && !former->yields &&
                         schema.find(former->option) != nullptr;
    if (renamed) {
      note(value, name, fmt::format("a former name: today it is {}", former->option));
      set(former->option, value, name);
    } else if (schema.find(option) != nullptr || former != nullptr) {
      set(option, value, name);
    } else if (!json || !asks_nothing(*json)) {
      const std::string others = other_methods(option, schema.command);
      unknown(value, name,
              others.empty() ? fmt::format("no name of {} that hone knows.{}", of,
                                           base::did_you_mean(name, schema.names()))
                             : fmt::format("hone {} has no {}", schema.command, option),
              "whatever it sets: the run is examined without it", "correct the name, or remove it");
    }
  }
}

}  // namespace hone::config::script
