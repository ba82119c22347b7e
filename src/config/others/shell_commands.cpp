#include "config/others/shell_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "config/others/shell_sum.h"

namespace hone::config {
namespace {

bool begins_variable(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool is_variable_letter(char c) {
  return begins_variable(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
}

// A value outside quotes, as bash splits it.
ShellCommand bash_words(const ShellWord& value) {
  ShellCommand out;
  for (std::size_t at = 0; at < value.text.size();) {
    const std::size_t begin = value.text.find_first_not_of(" \t\n", at);
    if (begin == std::string::npos) break;
    const std::size_t end = std::min(value.text.find_first_of(" \t\n", begin), value.text.size());
    out.push_back(
        {.text = value.text.substr(begin, end - begin), .line = value.line, .unknown = value.unknown});
    at = end;
  }
  return out;
}

// Reads commands one after the other; variables that the script sets itself are put in.
class Shell {
 public:
  Shell(const std::string& text, const std::string& path, OtherRun* out)
      : text_(text), path_(path), out_(out) {}

  ShellScript read() {
    while (at_ < text_.size()) step();
    end_word();
    end_command();
    return {.commands = std::move(commands_), .variables = std::move(variables_)};
  }

 private:
  char peek(std::size_t more = 0) const { return at_ + more < text_.size() ? text_[at_ + more] : '\0'; }

  void step() {
    const char c = text_[at_];
    if (c == '\\') {
      backslash();
    } else if (c == '(' && open_ && begins_array()) {
      begin_array();
    } else if (!array_.empty() && (c == ')' || c == '\n')) {
      ++at_;
      end_word();
      if (c == ')') end_array();
      if (c == '\n') ++line_;
    } else if (begins_placeholder()) {
      begin_word();
      while (text_[at_] != '>') put(text_[at_++]);
      put(text_[at_++]);
    } else if (c == '>' || c == '<' || (c == '&' && peek(1) == '>')) {
      redirection();
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
      quoted();
    } else if (c == '$' || c == '`') {
      begin_word();
      dollar(/*quoted=*/false);
    } else {
      begin_word();
      put(c);
      ++at_;
    }
  }

  // "<your model>": bash would read a file of that name, but no such script is meant to run as it is.
  bool begins_placeholder() const {
    if (peek() != '<' || std::isalpha(static_cast<unsigned char>(peek(1))) == 0) return false;
    const std::size_t end = text_.find_first_of("<>\n", at_ + 1);
    if (end == std::string::npos || text_[end] != '>' || text_[end - 1] == ' ') return false;
    return end + 1 == text_.size() ||
           std::string_view(" \t\r\n\\").find(text_[end + 1]) != std::string_view::npos;
  }

  // "> file", "2>&1", "&> file", "< file", ">(program)" are no words of the command.
  void redirection() {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    if (open_ && std::all_of(word_.text.begin(), word_.text.end(), is_digit)) open_ = false;  // of a stream
    end_word();
    while (at_ < text_.size() && std::string_view("<>&|").find(peek()) != std::string_view::npos) ++at_;
    while (peek() == ' ' || peek() == '\t') ++at_;
    skips_ = true;
    if (peek() != '(') return;
    skips_ = false;
    for (int depth = 0; at_ < text_.size() && peek() != '\n'; ++at_) {
      depth += peek() == '(' ? 1 : peek() == ')' ? -1 : 0;
      if (depth == 0) break;
    }
    if (peek() == ')') ++at_;
  }

  // Between double quotes a backslash takes the meaning of $, `, " and itself, and joins lines.
  void quoted() {
    for (++at_; at_ < text_.size() && text_[at_] != '"';) {
      const char c = text_[at_];
      if (c == '\\' && peek(1) == '\n') {
        at_ += 2;
        ++line_;
      } else if (c == '\\' && (peek(1) == '$' || peek(1) == '`' || peek(1) == '"' || peek(1) == '\\')) {
        put(text_[at_ + 1]);
        at_ += 2;
      } else if (c == '$' || c == '`') {
        dollar(/*quoted=*/true);
      } else {
        put(text_[at_++]);
      }
    }
    ++at_;
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

  // $NAME, ${NAME}, ${NAME:-value}, ${NAME[@]} and sums of integers; everything else is known to a shell only. Outside
  // quotes a value with blanks is several words.
  void dollar(bool quoted) {
    const std::size_t begin = at_;
    if (peek() == '$' && begins_variable(peek(1))) {
      std::size_t end = at_ + 1;
      while (end < text_.size() && is_variable_letter(text_[end])) ++end;
      put_variable(text_.substr(at_ + 1, end - at_ - 1), nullptr, quoted);
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
        put_variable(inside.substr(0, name), rest.empty() ? nullptr : &fallback, quoted);
        at_ = end + 1;
        return;
      }
      if (const auto array = arrays_.find(inside.substr(0, name));
          array != arrays_.end() && (rest == "[@]" || rest == "[*]")) {
        put_words(array->second);
        at_ = end + 1;
        return;
      }
    }
    if (put_sum()) return;
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

  // "$(expr 32 / $N)" and "$((32 / N))", where all of it is known.
  bool put_sum() {
    const std::string_view rest = std::string_view(text_).substr(at_);
    const bool expr = rest.starts_with("$(expr "), twice = rest.starts_with("$((");
    if (!expr && !twice) return false;
    const std::string_view close = twice ? "))" : ")";
    const std::size_t begin = twice ? 3 : 7, end = rest.find(close, begin);
    if (end == std::string_view::npos) return false;
    const auto value = shell_sum(rest.substr(begin, end - begin), [&](const std::string& name) {
      const auto found = variables_.find(name);
      return found == variables_.end() || !found->second.unknown.empty() ? std::string() : found->second.text;
    });
    if (!value) return false;
    word_.text += std::to_string(*value);
    at_ += end + close.size();
    return true;
  }

  bool begins_array() const {
    const std::string& text = word_.text;
    return command_.empty() && text.size() > 1 && text.ends_with('=') && begins_variable(text[0]) &&
           std::all_of(text.begin(), text.end() - 1, is_variable_letter);
  }
  void begin_array() {
    array_ = word_.text.substr(0, word_.text.size() - 1);
    open_ = false;
    ++at_;
  }
  void end_array() {
    arrays_[array_] = std::move(command_);
    command_.clear();
    array_.clear();
  }

  // The first joins the word that is being read, and the last stays open.
  void put_words(const ShellCommand& words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (i > 0) end_word();
      begin_word();
      word_.text += words[i].text;
      if (word_.unknown.empty()) word_.unknown = words[i].unknown;
    }
  }

  void put_variable(const std::string& name, const std::string* fallback, bool quoted) {
    if (const auto found = variables_.find(name); found != variables_.end()) {
      if (!quoted && found->second.text.find_first_of(" \t\n") != std::string::npos) {
        put_words(bash_words(found->second));
        return;
      }
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
    word_ = ShellWord{.text = {}, .line = line_, .unknown = {}};
  }
  void put(char c) {
    if (c == '\n') ++line_;
    word_.text += c;
  }
  void end_word() {
    if (open_ && !skips_) command_.push_back(std::move(word_));
    if (open_) skips_ = false;
    open_ = false;
  }

  // NAME=value in front of a command, or alone, is kept as a variable.
  void end_command() {
    std::size_t skip = 0;
    while (skip < command_.size()) {
      ShellWord& word = command_[skip];
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
          ShellWord{.text = word.text.substr(equals + 1), .line = word.line, .unknown = word.unknown};
      ++skip;
    }
    command_.erase(command_.begin(), command_.begin() + static_cast<std::ptrdiff_t>(skip));
    if (!command_.empty()) commands_.push_back(std::move(command_));
    command_.clear();
    skips_ = false;
  }

  const std::string& text_;
  const std::string& path_;
  OtherRun* out_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool open_ = false;
  bool skips_ = false;  // the next word is a file of a redirection
  ShellWord word_;
  ShellCommand command_;
  std::vector<ShellCommand> commands_;
  std::map<std::string, ShellWord> variables_;
  std::map<std::string, ShellCommand> arrays_;
  std::string array_;  // the one that is being read
};

}  // namespace

ShellScript shell_commands(const std::string& text, const std::string& path, OtherRun* out) {
  return Shell(text, path, out).read();
}

}  // namespace hone::config
