#include "config/others/other_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/files/file.h"
#include "base/json_tools.h"
#include "base/strings/plural.h"
#include "config/option_secrets.h"
#include "config/others/shell_words.h"
#include "config/others/translation.h"
#include "config/parse.h"
#include "config/write_plan.h"

namespace hone::config {
namespace {

using base::Json;

constexpr const char* kCheckedName =
    "hone.yaml";  // of the text that is checked; lines of it are the options' places

constexpr OtherCheck kChecks[] = {
    {"each name is known, or told"},
    {"no name is there twice"},
    {"each value has its type and range"},
    {"options that exclude each other"},
    {"adapter and quantization fit together"},
    {"rows of an optimizer step"},
    {"what happens to long rows"},
    {"evaluation has rows"},
    {"schedule and optimizer are ones that hone has"},
    {"no value is a place to fill in, or a variable that is not set"},
    {"the columns of the rows are those of the method", CheckNeeds::kRows},
    {"each row has something to train on", CheckNeeds::kRows},
    {"the first row in the model's template", CheckNeeds::kRows},
    {"the trainer's text of 64 rows beside the model's template", CheckNeeds::kRows},
    {"rows above the limit of length", CheckNeeds::kRows},
};

std::string option_line(const OtherValue& one) {
  return fmt::format("{}: {}\n", one.option, yaml_text(redact_secrets(one.option, one.value)));
}

// "hone.yaml:7..." -> 7; 0 for another place.
std::size_t checked_line(const std::string& where) {
  const std::string prefix = std::string(kCheckedName) + ":";
  if (!where.starts_with(prefix)) return 0;
  std::size_t line = 0;
  std::from_chars(where.data() + prefix.size(), where.data() + where.size(), line);
  return line;
}

// Groups of completions that several processes make whole, where the file leaves their number to a launcher, or says
// one that does.
bool may_be_whole(const OtherRun& run, const base::ErrorText& text) {
  if (!text.expected.starts_with("whole groups of num_generations ") || run.processes == 1) return false;
  if (run.processes == 0) return run.trainer != Trainer::kSwift;
  std::int64_t group = 0, made = 0;
  const std::string_view number = std::string_view(text.expected).substr(32);
  std::from_chars(number.data(), number.data() + number.size(), group);
  std::string count = text.found.substr(0, text.found.find(' '));
  std::erase(count, ',');
  std::from_chars(count.data(), count.data() + count.size(), made);
  return group > 0 && made * static_cast<std::int64_t>(run.processes) % group == 0;
}

void add_mistake(OtherRun& run, const base::UserError& mistake) {
  const base::ErrorText& text = mistake.text();
  const std::size_t line = checked_line(text.where);
  const OtherValue* value = line > 0 && line <= run.options.size() ? &run.options[line - 1] : nullptr;
  const std::string where = value == nullptr ? text.where : value->is_default() ? run.file : value->where;
  std::string name = value == nullptr || value->is_default() ? "" : value->from;
  if (value != nullptr && value->is_default()) name = value->option;
  std::string why = fmt::format("expected {}; found {}", text.expected, text.found);
  if (!text.cause.empty()) why += "; " + text.cause;
  if (may_be_whole(run, text)) {
    run.notes.push_back({where, name, why + ": it takes several processes, whose groups are whole together"});
    return;
  }
  if (text.found.find("does not exist") != std::string::npos) {
    run.unknown.push_back({where, name, why, "what needs rows", "give rows: --data FILE"});
    return;
  }
  // what is unknown was told already
  for (const OtherUnknown& one : run.unknown) {
    if (!one.depends.empty() && text.where.starts_with(one.depends + " ")) return;
  }
  for (const OtherRefusal& one : run.refused) {
    if (!name.empty() && one.name == name && one.where == where) return;
  }
  for (const char* option : {"model_name_or_path", "dataset_name"}) {
    const bool told = text.expected.find(option) != std::string::npos && run.find(option) == nullptr;
    if (told && !run.unknown.empty()) return;
  }
  run.refused.push_back({where, name, why, text.fix});
}

// The options as hone reads them itself: types, ranges, choices, combinations.
void check_as_own(OtherRun& run) {
  std::string text;
  for (const OtherValue& one : run.options) text += option_line(one);
  try {
    Settings settings(method_schema(run.method));
    settings.read_yaml_text(text, kCheckedName);
    const Plan plan = make_plan(run.method, std::move(settings));
    for (const std::string& note : plan.notes) {
      // What is said of an option that is not known would be of hone's default.
      const bool guessed = std::any_of(run.unknown.begin(), run.unknown.end(), [&](const OtherUnknown& one) {
        return !one.depends.empty() && note.starts_with(one.depends + ":");
      });
      if (!guessed) run.notes.push_back({"", "", note});
    }
  } catch (const base::UserErrors& all) {
    for (const base::UserError& one : all.all()) add_mistake(run, one);
  } catch (const base::UserError& one) {
    add_mistake(run, one);
  }
}

// A shell script's words, or YAML, or JSON.
OtherFile entries_of(const std::string& text, const std::string& path, OtherRun& run) {
  const bool commands = run.trainer == Trainer::kSwift || run.trainer == Trainer::kFactory;
  if (commands && trainer_command(text)) return read_command_script(text, path, run);
  return read_other_text(text, path);
}

std::optional<OtherFile> table_of_sets(const OtherFile& file, const OtherAsked& asked) {
  namespace fs = base::fs;
  std::vector<fs::path> places;
  if (!asked.dataset_info.empty()) {
    places.emplace_back(asked.dataset_info);
  } else {
    const fs::path folder = fs::path(asked.path).parent_path();
    const OtherEntry* named = file.find("dataset_dir");
    const std::string data =
        named != nullptr && named->value.is_string() ? named->value.get<std::string>() : "data";
    places = {fs::path(data) / "dataset_info.json", folder / data / "dataset_info.json",
              folder / "dataset_info.json"};
  }
  for (const fs::path& place : places) {
    std::error_code none;
    if (!asked.dataset_info.empty() || fs::is_regular_file(place, none))
      return read_other_text(base::read_text(place), place.string());
  }
  return std::nullopt;
}

void translate_file(const std::string& text, const OtherAsked& asked, OtherRun& run) {
  const OtherFile file = entries_of(text, asked.path, run);
  switch (run.trainer) {
    case Trainer::kAxolotl:
      axolotl::translate(file, run);
      break;
    case Trainer::kFactory: {
      const std::optional<OtherFile> sets = table_of_sets(file, asked);
      factory::translate(file, sets ? &*sets : nullptr, run);
      break;
    }
    case Trainer::kSwift:
      swift::translate(file, run);
      break;
    case Trainer::kTorchtune:
      torchtune::translate(file, run);
      break;
    case Trainer::kTrl:
    case Trainer::kUnsloth:
    case Trainer::kTransformers:
      break;
  }
}

void use_rows(OtherRun& run, const std::string& data) {
  if (data.empty()) return;
  std::erase_if(run.options, [](const OtherValue& one) {
    return one.option == "dataset_name" || one.option == "datasets" || one.option == "test_split_size";
  });
  std::erase_if(run.unknown, [](const OtherUnknown& one) {
    return one.depends == "the rows" || one.depends == "the form of the rows";
  });
  run.options.push_back({"dataset_name", data, "--data", "--data"});
  const auto evaluates = std::find_if(run.options.begin(), run.options.end(),
                                      [](const OtherValue& one) { return one.option == "eval_strategy"; });
  if (evaluates == run.options.end() || run.find("eval_datasets") != nullptr || evaluates->value == "no")
    return;
  run.notes.push_back({"--data", "", "the rows are given apart: their split for evaluation is left out"});
  std::erase_if(run.options, [](const OtherValue& one) {
    return one.option == "eval_strategy" || one.option == "eval_steps" ||
           one.option == "load_best_model_at_end";
  });
}

// swift pt: every token of a text.
bool is_pretraining(const OtherRun& run) {
  return std::any_of(run.notes.begin(), run.notes.end(), [](const OtherNote& one) {
    return one.name == "swift_verb" && one.text.starts_with("pt ");
  });
}

Json told_json(const std::string& where, const std::string& name, const std::string& why,
               const std::string& fix) {
  return Json::object({{"where", where}, {"name", name}, {"why", why}, {"do", fix}});
}

// The name of an unknown, or where it is taken already "name (run.yaml:7)", "name (run.yaml:7) 2".
std::string free_key(const Json& taken, const OtherUnknown& one) {
  std::string name = one.name.empty() ? one.where : one.name;
  if (!taken.contains(name)) return name;
  const std::string placed = fmt::format("{} ({})", name, one.where);
  std::string key = placed;
  for (int n = 2; taken.contains(key); ++n) key = fmt::format("{} {}", placed, n);
  return key;
}

}  // namespace

std::string_view trainer_title(Trainer trainer) {
  switch (trainer) {
    case Trainer::kAxolotl:
      return "axolotl";
    case Trainer::kFactory:
      return "LLaMA-Factory";
    case Trainer::kSwift:
      return "ms-swift";
    case Trainer::kTorchtune:
      return "torchtune";
    case Trainer::kTrl:
      return "TRL";
    case Trainer::kUnsloth:
      return "Unsloth";
    case Trainer::kTransformers:
      return "transformers";
  }
  return "";
}

std::string_view trainer_word(Trainer trainer) {
  switch (trainer) {
    case Trainer::kAxolotl:
      return "axolotl";
    case Trainer::kFactory:
      return "llamafactory";
    case Trainer::kSwift:
      return "swift";
    case Trainer::kTorchtune:
      return "torchtune";
    case Trainer::kTrl:
      return "trl";
    case Trainer::kUnsloth:
      return "unsloth";
    case Trainer::kTransformers:
      return "transformers";
  }
  return "";
}

const OtherValue* OtherRun::find(std::string_view option) const {
  const auto found = std::find_if(options.begin(), options.end(),
                                  [&](const OtherValue& one) { return one.option == option; });
  return found == options.end() ? nullptr : &*found;
}

OtherRun read_other(const std::string& text, const OtherAsked& asked, const Recognized& whose) {
  OtherRun run;
  run.trainer = whose.trainer;
  run.recognized = whose.by;
  run.file = asked.path;
  if (is_script(run.trainer)) {
    script::translate(text, asked.script_arguments, run);
  } else {
    translate_file(text, asked, run);
  }
  if (run.options.empty() && !run.refused.empty()) return run;  // a script without a trainer
  use_rows(run, asked.data);
  if (run.trainer == Trainer::kSwift) swift::read_form(run, is_pretraining(run));
  check_as_own(run);
  return run;
}

namespace {

// A name inside a comment: a line end in it would begin a line of the file.
std::string commented(const std::string& name) {
  const bool plain =
      std::none_of(name.begin(), name.end(), [](unsigned char c) { return c < ' ' || c >= 0x7f; });
  return plain ? name : yaml_text(name);
}

}  // namespace

std::string hone_file(const OtherRun& run) {
  std::string out =
      fmt::format("# hone {}, from {}'s {}. Values marked default are {}'s own.\n", method_name(run.method),
                  trainer_title(run.trainer), commented(base::fs::path(run.file).filename().string()),
                  trainer_title(run.trainer));
  for (const OtherUnknown& one : run.unknown)
    out += fmt::format("# unknown: {}: {}\n", commented(one.name), yaml_text(one.why));
  for (const OtherRefusal& one : run.refused)
    out += fmt::format("# refused: {}: {}\n", commented(one.name), yaml_text(one.why));
  for (const OtherValue& one : run.options) {
    std::string line = option_line(one);
    if (one.is_default()) line.insert(line.size() - 1, "  # default");
    out += line;
  }
  return out;
}

Json other_json(const OtherRun& run) {
  Json options = Json::object(), defaults = Json::object(), unknown = Json::object();
  Json notes = Json::array(), refused = Json::array(), ignored = Json::array();
  for (const OtherValue& one : run.options) {
    const Json value = redact_secrets(one.option, one.value);
    options[one.option] = value;
    if (one.is_default()) defaults[one.option] = value;
  }
  for (const OtherUnknown& one : run.unknown) {
    Json entry = told_json(one.where, one.name, one.why, one.fix);
    entry["not_examined"] = one.depends;
    unknown[free_key(unknown, one)] = entry;
  }
  for (const OtherNote& one : run.notes)
    notes.push_back(Json::object({{"where", one.where}, {"name", one.name}, {"text", one.text}}));
  for (const OtherNote& one : run.ignored)
    ignored.push_back(Json::object({{"where", one.where}, {"name", one.name}, {"text", one.text}}));
  for (const OtherRefusal& one : run.refused)
    refused.push_back(told_json(one.where, one.name, one.why, one.fix));
  return Json::object({{"trainer", trainer_word(run.trainer)},
                       {"method", method_name(run.method)},
                       {"options", options},
                       {"defaults_of_trainer", defaults},
                       {"unknown", unknown},
                       {"notes", notes},
                       {"ignored", ignored},
                       {"refused", refused}});
}

std::span<const OtherCheck> other_checks() {
  return kChecks;
}

std::string counted_checks(bool with_rows) {
  std::size_t waiting = 0;
  for (const OtherCheck& one : kChecks) waiting += one.needs == CheckNeeds::kRows && !with_rows ? 1 : 0;
  const std::size_t all = std::size(kChecks);
  std::string out = fmt::format("examined {} of {} checks", all - waiting, all);
  if (waiting > 0) out += fmt::format("; {} need rows and the model's tokenizer", waiting);
  return out;
}

}  // namespace hone::config
