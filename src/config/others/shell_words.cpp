#include "config/others/shell_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json_tools.h"
#include "config/others/shell_commands.h"
#include "config/settings.h"

namespace hone::config {
namespace {

using base::Json;

using Word = ShellWord;
using Command = ShellCommand;

bool is_swift_verb(const std::string& word) {
  return word == "sft" || word == "pt" || word == "rlhf";
}

bool ends_as_path(const std::string& word, std::string_view name) {
  return word == name || word.ends_with("/" + std::string(name));
}

// Where the options begin of LLaMA-Factory's "llamafactory-cli train", "lmf train" and "src/train.py --stage sft"; 0:
// another word. Scripts of other programs are called train.py too, and have no stage.
std::size_t factory_begin(const Command& command, std::size_t at) {
  const std::string& word = command[at].text;
  if (ends_as_path(word, "llamafactory-cli") || word == "lmf")
    return at + 1 < command.size() && command[at + 1].text == "train" ? at + 2 : 0;
  if (!ends_as_path(word, "train.py") && !ends_as_path(word, "train_bash.py")) return 0;
  const bool staged = std::any_of(command.begin(), command.end(), [](const Word& one) {
    return one.text == "--stage" || one.text == "--finetuning_type" || one.text.starts_with("--stage=") ||
           one.text.starts_with("--finetuning_type=");
  });
  return staged ? at + 1 : 0;
}

// Where the options begin: behind "swift sft", "megatron sft", "python .../cli/sft.py" and LLaMA-Factory's words; 0:
// another command. `program` is swift, megatron or llamafactory.
std::size_t options_begin(const Command& command, std::string& program, std::string& verb) {
  for (std::size_t at = 0; at < command.size(); ++at) {
    const std::string& word = command[at].text;
    if (const std::size_t begin = factory_begin(command, at); begin > 0) {
      program = "llamafactory";
      verb = "train";
      return begin;
    }
    if ((word == "swift" || word == "megatron" || word.ends_with("/swift")) && at + 1 < command.size() &&
        is_swift_verb(command[at + 1].text)) {
      program = word == "megatron" ? word : "swift";
      verb = command[at + 1].text;
      return at + 2;
    }
    for (const char* name : {"sft", "pt", "rlhf"}) {
      if (word.ends_with(fmt::format("swift/cli/{}.py", name))) {
        program = "swift";
        verb = name;
        return at + 1;
      }
    }
  }
  return 0;
}

Json words_value(const std::vector<std::string>& words) {
  static const Option any("", "", Kind::kAny);
  const auto one = [](const std::string& word) {
    if (word.starts_with("{") || word.starts_with("[")) {
      const Json parsed = Json::parse(word, nullptr, false);
      return parsed.is_discarded() ? Json(word) : parsed;
    }
    return convert_text(any, word, true, "");
  };
  if (words.empty()) return true;
  if (words.size() == 1) return one(words[0]);
  Json out = Json::array();
  for (const std::string& word : words) out.push_back(one(word));
  return out;
}

void add_option(OtherFile& file, const std::string& name, Json value, const std::string& where) {
  const auto found = std::find_if(file.entries.begin(), file.entries.end(),
                                  [&](const OtherEntry& one) { return one.name == name; });
  if (found == file.entries.end()) {
    file.entries.push_back({.name = name, .value = std::move(value), .where = where, .before = {}});
    return;
  }
  found->before.push_back(found->where);
  found->where = where;
  found->value = std::move(value);
}

}  // namespace

std::optional<Recognized> trainer_command(const std::string& text) {
  const bool named = text.find("swift") != std::string::npos || text.find("megatron") != std::string::npos ||
                     text.find("train") != std::string::npos;
  if (!named) return std::nullopt;
  const std::string path;
  std::optional<Recognized> out;
  for (const Command& command : shell_commands(text, path, nullptr).commands) {
    std::string program, verb;
    if (options_begin(command, program, verb) == 0) continue;
    out = Recognized{program == "llamafactory" ? Trainer::kFactory : Trainer::kSwift, program + " " + verb};
  }
  return out;
}

namespace {

// Adds the option at command[at], with the words behind it that are its values; returns the last word that it took.
std::size_t take_option(OtherFile& file, const Command& command, std::size_t at, OtherRun& out) {
  const Word& word = command[at];
  const std::string place = fmt::format("{}:{}", file.path, word.line);
  std::string name = word.text.substr(2), why = word.unknown;
  std::vector<std::string> values;
  if (const std::size_t equals = name.find('='); equals != std::string::npos) {
    values.push_back(name.substr(equals + 1));
    name.resize(equals);
  }
  while (at + 1 < command.size() && !command[at + 1].text.starts_with("--")) {
    ++at;
    values.push_back(command[at].text);
    if (why.empty()) why = command[at].unknown;
  }
  std::replace(name.begin(), name.end(), '-', '_');
  if (!why.empty()) {
    out.unknown.push_back({place, name, why, name, "write the value into the script"});
    add_option(file, name, nullptr, place);
  } else {
    add_option(file, name, words_value(values), place);
  }
  return at;
}

// The processes of the run as the entry "processes", where the script says how many: a variable of ms-swift's and
// LLaMA-Factory's, or an option of the launcher before the trainer's own.
void add_processes(OtherFile& file, const ShellScript& script, const Command& command, std::size_t begin) {
  const auto add = [&](const Word& word, std::string text) {
    const bool digits = !text.empty() && text.size() < 6 &&
                        std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    Json value = digits && word.unknown.empty() ? Json(std::stoll(text)) : Json(std::move(text));
    add_option(file, "processes", std::move(value), fmt::format("{}:{}", file.path, word.line));
  };
  if (const auto found = script.variables.find("NPROC_PER_NODE"); found != script.variables.end())
    add(found->second, found->second.text);
  for (std::size_t at = 0; at < begin; ++at) {
    for (const std::string_view name :
         {"--nproc_per_node", "--nproc-per-node", "--num_gpus", "--num_processes"}) {
      const std::string& text = command[at].text;
      if (text == name && at + 1 < begin)
        add(command[at + 1], command[at + 1].text);
      else if (text.starts_with(std::string(name) + "="))
        add(command[at], text.substr(name.size() + 1));
    }
  }
}

// A word before the first option: a file with the options, or what nobody can place.
void tell_word(const Word& word, const std::string& place, OtherRun& out) {
  const bool is_file =
      word.text.ends_with(".yaml") || word.text.ends_with(".yml") || word.text.ends_with(".json");
  if (is_file && word.unknown.empty())
    out.unknown.push_back(
        {place, word.text, "the options are in that file", "all that it sets", "give that file"});
  else
    out.unknown.push_back({place, word.text,
                           word.unknown.empty() ? "a word that belongs to no option" : word.unknown,
                           "whatever it sets: the run is examined without it", "write the options out"});
}

}  // namespace

OtherFile read_command_script(const std::string& text, const std::string& path, OtherRun& out) {
  OtherFile file{.path = path, .entries = {}};
  Command last;
  std::string program, verb;
  std::size_t begin = 0, runs = 0;
  ShellScript script = shell_commands(text, path, &out);
  for (Command& command : script.commands) {
    std::string its_program, its_verb;
    const std::size_t options = options_begin(command, its_program, its_verb);
    if (options == 0) continue;
    last = std::move(command);
    begin = options;
    program = its_program;
    verb = its_verb;
    ++runs;
  }
  if (runs > 1)
    out.notes.push_back(
        {path, program, fmt::format("the script starts {} runs: this is the last of them", runs)});
  if (begin == 0) return file;
  const auto place = [&](const Word& word) { return fmt::format("{}:{}", path, word.line); };
  if (program == "megatron") {
    out.refused.push_back({place(last[begin - 1]), "megatron", "megatron's names are others than swift's",
                           "give the command of swift sft"});
    return file;
  }
  add_processes(file, script, last, begin);
  if (program != "llamafactory") add_option(file, "swift_verb", verb, place(last[begin - 1]));
  for (std::size_t at = begin; at < last.size(); ++at) {
    if (last[at].text.starts_with("--"))
      at = take_option(file, last, at, out);
    else
      tell_word(last[at], place(last[at]), out);
  }
  return file;
}

}  // namespace hone::config
