#include "data/files/json_rows.h"

#include <string>
#include <utility>
#include <vector>

namespace hone::data {
namespace {

using TakeJsonRow = std::function<bool(std::string_view, std::int64_t)>;

constexpr std::string_view kRowBlanks = " \t\r\n";

bool is_row_blank(char c) {
  return kRowBlanks.find(c) != std::string_view::npos;
}

// Follows brackets and quotes through the lines of a file.
class RowJoiner {
 public:
  explicit RowJoiner(const base::fs::path& path, const TakeJsonRow& take) : path_(path), take_(take) {}

  // False when `take` wants no more.
  bool put(std::string_view line, std::int64_t number) {
    if (!begun_.empty()) {
      // An object within an object follows a colon, a comma in a list, or a bracket.
      const std::size_t first = line.find_first_not_of(kRowBlanks);
      const bool begins = first != std::string_view::npos && line[first] == '{';
      if (begins && !value_may_follow() && !give_begun()) return false;
    }
    const std::int64_t begins = begun_.empty() ? number : begun_line_;
    std::size_t from = 0;
    while (from < line.size()) {
      const std::size_t end = end_of_row(line, from);
      if (end == std::string_view::npos) break;
      if (!give(line.substr(from, end - from), begun_.empty() ? number : begins)) return false;
      from = end;
    }
    const std::string_view rest = line.substr(from);
    if (rest.find_first_not_of(kRowBlanks) == std::string_view::npos && begun_.empty()) return true;
    if (begun_.empty()) begun_line_ = number;
    if (open_.empty() || in_string_) {  // no object, or a quote that is not closed
      begun_ += rest;
      return give_begun();
    }
    if (begun_.size() + rest.size() > kMostRowBytes) throw_endless_row(path_, begun_line_);
    begun_ += rest;
    begun_ += '\n';
    return true;
  }

  void end() { (void)(begun_.empty() || give_begun()); }

 private:
  // One past the bracket that closes the row which goes on or begins at `from`; npos: not in this line. What
  // is no object is left to the end of the line.
  std::size_t end_of_row(std::string_view line, std::size_t from) {
    for (std::size_t i = from; i < line.size(); ++i) {
      const char c = line[i];
      if (in_string_) {
        if (c == '\\') {
          ++i;
        } else if (c == '"') {
          in_string_ = false;
          last_ = c;
        }
        continue;
      }
      if (is_row_blank(c)) continue;
      if (open_.empty() && c != '{') return std::string_view::npos;
      last_ = c;
      if (c == '"') {
        in_string_ = true;
      } else if (c == '{' || c == '[') {
        open_.push_back(c);
      } else if (c == '}' || c == ']') {
        open_.pop_back();
        if (open_.empty()) return ends_well(line, i + 1) ? i + 1 : std::string_view::npos;
      }
    }
    return std::string_view::npos;
  }

  // Whether nothing, or another object, follows.
  static bool ends_well(std::string_view line, std::size_t at) {
    const std::size_t next = line.find_first_not_of(kRowBlanks, at);
    return next == std::string_view::npos || line[next] == '{';
  }

  bool value_may_follow() const {
    return last_ == ':' || last_ == '[' || (last_ == ',' && !open_.empty() && open_.back() == '[');
  }

  bool give(std::string_view rest, std::int64_t line) {
    if (begun_.empty()) return take_(rest, line);
    begun_ += rest;
    return give_begun();
  }

  bool give_begun() {
    std::string row = std::exchange(begun_, {});
    if (row.ends_with('\n')) row.pop_back();
    open_.clear();
    in_string_ = false;
    return take_(row, begun_line_);
  }

  const base::fs::path& path_;
  const TakeJsonRow& take_;
  std::vector<char> open_;  // brackets
  bool in_string_ = false;
  char last_ = 0;      // the last character of the row outside strings that is not blank
  std::string begun_;  // the lines of a row that is not closed yet
  std::int64_t begun_line_ = 0;
};

}  // namespace

void for_each_json_row(FileText text, const base::fs::path& path, const TakeJsonRow& take) {
  RowJoiner rows(path, take);
  bool more = true;
  for_each_line(std::move(text), path, [&](std::string_view line, std::int64_t number) {
    more = rows.put(line, number);
    return more;
  });
  if (more) rows.end();
}

}  // namespace hone::data
