#include "config/others/shell_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "base/json_tools.h"
#include "config/settings.h"

namespace hone::config {
namespace {

using base::Json;

struct Word {
  std::string text;
  int line = 1;
  std::string unknown;  // why its text is not known; empty: it is
};
using Command = std::vector<Word>;

bool begins_variable(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool is_variable_letter(char c) {
  return begins_variable(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
}

// Reads commands one after the other; variables that the script sets itself are put in.
class Shell {
 public:
  Shell(const std::string& text, const std::string& path, OtherRun* out)
      : text_(text), path_(path), out_(out) {}

  std::vector<Command> commands() {
    while (at_ < text_.size()) step();
    end_word();
    end_command();
    return std::move(commands_);
  }

 private:
  char peek(std::size_t more = 0) const { return at_ + more < text_.size() ? text_[at_ + more] : '\0'; }

  void step() {
    const char c = text_[at_];
    if (c == '\\') {
      backslash();
    } else if (c == '\n' || c == ';' || c == '|' || c == '&') {
      ++at_;
      end_word();
      end_command();
      if (c == '\n') ++line_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
      end_word();
    } else if (c == '#' && !open_) {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == '\'') {
      begin_word();
      for (++at_; at_ < text_.size() && text_[at_] != '\''; ++at_) put(text_[at_]);
      ++at_;
    } else if (c == '"') {
      begin_word();
      for (++at_; at_ < text_.size() && text_[at_] != '"';) {
        if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
        if (text_[at_] == '$' || text_[at_] == '`') {
          dollar();
        } else {
          put(text_[at_++]);
        }
      }
      ++at_;
    } else if (c == '$' || c == '`') {
      begin_word();
      dollar();
    } else {
      begin_word();
      put(c);
      ++at_;
    }
  }

  void backslash() {
    std::size_t next = at_ + 1;
    if (next < text_.size() && text_[next] == '\r') ++next;
    if (next < text_.size() && text_[next] == '\n') {
      at_ = next + 1;
      ++line_;
      end_word();
      return;
    }
    std::size_t blank = next;
    while (blank < text_.size() && (text_[blank] == ' ' || text_[blank] == '\t')) ++blank;
    if (blank > next && blank < text_.size() && text_[blank] == '\n' && out_ != nullptr) {
      out_->notes.push_back(
          {.where = fmt::format("{}:{}", path_, line_),
           .name = "\\",
           .text =
               "a blank behind the backslash: bash ends the command here, and the options below are lost"});
      at_ = blank;  // bash gives the program a word of one blank, which sets nothing
      return;
    }
    begin_word();
    if (next < text_.size()) put(text_[next]);
    at_ = std::min(next + 1, text_.size());
  }

  // $NAME, ${NAME}, ${NAME:-value}; everything else is known to a shell only.
  void dollar() {
    const std::size_t begin = at_;
    if (peek() == '$' && begins_variable(peek(1))) {
      std::size_t end = at_ + 1;
      while (end < text_.size() && is_variable_letter(text_[end])) ++end;
      put_variable(text_.substr(at_ + 1, end - at_ - 1), nullptr);
      at_ = end;
      return;
    }
    if (peek() == '$' && peek(1) == '{') {
      const std::size_t end = text_.find('}', at_);
      const std::string inside = end == std::string::npos ? "" : text_.substr(at_ + 2, end - at_ - 2);
      std::size_t name = 0;
      while (name < inside.size() && is_variable_letter(inside[name])) ++name;
      const std::string rest = inside.substr(name);
      if (name > 0 && (rest.empty() || rest.starts_with(":-"))) {
        const std::string fallback = rest.empty() ? "" : rest.substr(2);
        put_variable(inside.substr(0, name), rest.empty() ? nullptr : &fallback);
        at_ = end + 1;
        return;
      }
    }
    // to the end of the line, a blank or the closing bracket
    int depth = 0;
    do {
      if (text_[at_] == '(' || text_[at_] == '{') ++depth;
      if (text_[at_] == ')' || text_[at_] == '}') --depth;
      if (text_[at_] == '\n') ++line_;
      ++at_;
    } while (at_ < text_.size() &&
             (depth > 0 || (text_[at_] != ' ' && text_[at_] != '\n' && text_[at_] != '"' &&
                            text_[at_] != '\'' && text_[at_] != '\\')));
    const std::string shown = text_.substr(begin, std::min<std::size_t>(at_ - begin, 60));
    word_.text += shown;
    word_.unknown = fmt::format("{} is known only to the shell that runs the script", shown);
  }

  void put_variable(const std::string& name, const std::string* fallback) {
    if (const auto found = variables_.find(name); found != variables_.end()) {
      word_.text += found->second.text;
      if (word_.unknown.empty()) word_.unknown = found->second.unknown;
    } else if (fallback != nullptr) {
      word_.text += *fallback;
    } else {
      word_.text += "$" + name;
      word_.unknown = fmt::format("the script does not set ${}", name);
    }
  }

  void begin_word() {
    if (open_) return;
    open_ = true;
    word_ = Word{.text = {}, .line = line_, .unknown = {}};
  }
  void put(char c) {
    if (c == '\n') ++line_;
    word_.text += c;
  }
  void end_word() {
    if (open_) command_.push_back(std::move(word_));
    open_ = false;
  }

  // NAME=value in front of a command, or alone, is kept as a variable.
  void end_command() {
    std::size_t skip = 0;
    while (skip < command_.size()) {
      Word& word = command_[skip];
      if (word.text == "export") {
        ++skip;
        continue;
      }
      const std::size_t equals = word.text.find('=');
      const bool named =
          equals != std::string::npos && equals > 0 && begins_variable(word.text[0]) &&
          std::all_of(word.text.begin(), word.text.begin() + static_cast<std::ptrdiff_t>(equals),
                      is_variable_letter);
      if (!named) break;
      variables_[word.text.substr(0, equals)] =
          Word{.text = word.text.substr(equals + 1), .line = word.line, .unknown = word.unknown};
      ++skip;
    }
    command_.erase(command_.begin(), command_.begin() + static_cast<std::ptrdiff_t>(skip));
    if (!command_.empty()) commands_.push_back(std::move(command_));
    command_.clear();
  }

  const std::string& text_;
  const std::string& path_;
  OtherRun* out_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool open_ = false;
  Word word_;
  Command command_;
  std::vector<Command> commands_;
  std::map<std::string, Word> variables_;
};

bool is_swift_verb(const std::string& word) {
  return word == "sft" || word == "pt" || word == "rlhf";
}

// Where the options begin: behind "swift sft", "megatron sft", "python .../cli/sft.py"; 0: another command.
std::size_t options_begin(const Command& command, std::string& program, std::string& verb) {
  for (std::size_t at = 0; at < command.size(); ++at) {
    const std::string& word = command[at].text;
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

std::optional<std::string> swift_command(const std::string& text) {
  if (text.find("swift") == std::string::npos && text.find("megatron") == std::string::npos)
    return std::nullopt;
  const std::string path;
  std::optional<std::string> out;
  for (const Command& command : Shell(text, path, nullptr).commands()) {
    std::string program, verb;
    if (options_begin(command, program, verb) > 0) out = program + " " + verb;
  }
  return out;
}

OtherFile read_swift_script(const std::string& text, const std::string& path, OtherRun& out) {
  OtherFile file{.path = path, .entries = {}};
  Command last;
  std::string program, verb;
  std::size_t begin = 0, runs = 0;
  for (Command& command : Shell(text, path, &out).commands()) {
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
        {path, "swift", fmt::format("the script starts {} runs: this is the last of them", runs)});
  if (begin == 0) return file;
  const auto place = [&](const Word& word) { return fmt::format("{}:{}", path, word.line); };
  add_option(file, "swift_verb", verb, place(last[begin - 1]));
  if (program == "megatron")
    out.refused.push_back({place(last[begin - 1]), "megatron", "megatron's names are others than swift's",
                           "give the command of swift sft"});
  for (std::size_t at = begin; at < last.size(); ++at) {
    const Word& word = last[at];
    if (!word.text.starts_with("--")) {
      out.unknown.push_back({place(word), word.text,
                             word.unknown.empty() ? "a word that belongs to no option" : word.unknown,
                             "whatever it sets: the run is examined without it", "write the options out"});
      continue;
    }
    std::string name = word.text.substr(2), why = word.unknown;
    std::vector<std::string> values;
    if (const std::size_t equals = name.find('='); equals != std::string::npos) {
      values.push_back(name.substr(equals + 1));
      name.resize(equals);
    }
    while (at + 1 < last.size() && !last[at + 1].text.starts_with("--")) {
      ++at;
      values.push_back(last[at].text);
      if (why.empty()) why = last[at].unknown;
    }
    std::replace(name.begin(), name.end(), '-', '_');
    if (!why.empty()) {
      out.unknown.push_back({place(word), name, why, name, "write the value into the script"});
      add_option(file, name, nullptr, place(word));
    } else {
      add_option(file, name, words_value(values), place(word));
    }
  }
  return file;
}

}  // namespace hone::config
