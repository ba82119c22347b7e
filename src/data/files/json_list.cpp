#include "data/files/json_list.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "base/strings/utf8.h"

namespace hone::data {
namespace {

using base::UserError;
using TakeElement = std::function<bool(std::string_view, std::int64_t)>;

constexpr std::string_view kMember = "data";

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

// One pass over the characters. Depth counts open brackets; the list's own is at `list_depth_`.
class ListSplitter {
 public:
  ListSplitter(const base::fs::path& path, const TakeElement& take) : path_(path), take_(take) {}

  // False when `take` wants no more.
  bool put(std::string_view block) {
    for (const char c : block) {
      if (!put(c)) return false;
      if (c == '\n') ++line_;
    }
    return true;
  }

  void end() {
    if (ended_) return;
    if (list_depth_ == 0 && depth_ == 0 && any_) throw_no_list();
    throw UserError({.where = path_.string() + ":" + std::to_string(line_),
                     .expected = "the end of the JSON list",
                     .found = any_ ? "the end of the file" : "an empty file",
                     .cause = "the file was cut, or a bracket or a quote is not closed",
                     .fix = "write the file again"});
  }

 private:
  bool put(char c) {
    if (in_string_) {
      keep(c);
      if (c == '"' && !escaped_) in_string_ = false;
      escaped_ = c == '\\' && !escaped_;
      return true;
    }
    if (is_blank(c)) {
      if (in_element_) element_ += c;
      return true;
    }
    if (ended_ && (list_depth_ == 1 || depth_ == 0)) throw_after_the_end();
    any_ = true;
    if (in_list() && (c == ',' || c == ']')) return end_element(c);
    if (in_list() && !in_element_) {
      in_element_ = true;
      element_line_ = line_;
    }
    structure(c);
    return true;
  }

  bool in_list() const { return list_depth_ > 0 && depth_ == list_depth_ && !ended_; }

  void structure(char c) {
    if (depth_ == 0 && c != '[' && c != '{') throw_no_list();
    const bool begins = c == '[' && !ended_ && list_depth_ == 0 &&
                        (depth_ == 0 || (depth_ == 1 && after_colon_ && key_ == kMember));
    keep(c);
    after_colon_ = c == ':' && depth_ == 1;
    if (c == '"') {
      in_string_ = true;
      if (depth_ == 1 && list_depth_ == 0) word_.clear();
    } else if (c == ':' && depth_ == 1) {
      key_ = word_;
    } else if (c == '[' || c == '{') {
      ++depth_;
    } else if (c == ']' || c == '}') {
      --depth_;
    }
    if (begins) list_depth_ = depth_;
    if (depth_ == 0 && list_depth_ != 1 && !ended_) throw_no_list();
  }

  // A character of the element, or of a string at the top of the object, which may be a name.
  void keep(char c) {
    if (in_element_) {
      if (element_.size() >= kMostRowBytes) throw_endless_row(path_, element_line_);
      element_ += c;
    } else if (in_string_ && depth_ == 1 && c != '"' && word_.size() <= kMember.size()) {
      word_ += c;
    }
  }

  bool end_element(char c) {
    const bool last = c == ']';
    if (!in_element_ && (!last || elements_ > 0)) {
      throw UserError({.where = path_.string() + ":" + std::to_string(line_),
                       .expected = "a row in the JSON list",
                       .found = std::string("'") + c + "'",
                       .cause = "a comma too many",
                       .fix = "write [{...}, {...}]"});
    }
    if (last) {
      --depth_;
      ended_ = true;
    }
    if (!in_element_) return true;
    in_element_ = false;
    ++elements_;
    while (is_blank(element_.back())) element_.pop_back();
    const bool more = take_(element_, element_line_);
    element_.clear();
    return more;
  }

  [[noreturn]] void throw_no_list() const {
    throw UserError({.where = path_.string(),
                     .expected = "JSON Lines, a JSON list of rows, or {\"data\": [...]}",
                     .found = "JSON of another shape",
                     .cause = "",
                     .fix = "write one {...} per line, or [{...}, {...}]"});
  }

  [[noreturn]] void throw_after_the_end() const {
    throw UserError({.where = path_.string() + ":" + std::to_string(line_),
                     .expected = "nothing after the JSON list",
                     .found = "more text",
                     .cause = "two files in one, or a bracket too many",
                     .fix = "write one list"});
  }

  const base::fs::path& path_;
  const TakeElement& take_;
  std::int64_t line_ = 1, element_line_ = 1, elements_ = 0;
  int depth_ = 0, list_depth_ = 0;
  bool any_ = false, in_string_ = false, escaped_ = false, in_element_ = false, ended_ = false;
  bool after_colon_ = false;
  std::string element_, word_, key_;
};

}  // namespace

bool begins_list_of_rows(FileText text) {
  int depth = 0;
  bool in_string = false, escaped = false;
  std::string word, seen;  // the last string at the object's top; what followed it outside strings
  for (std::string_view block = text.next(); !block.empty(); block = text.next()) {
    for (const char c : block) {
      if (in_string) {
        if (c == '"' && !escaped) in_string = false;
        if (in_string && depth == 1 && word.size() <= kMember.size()) word += c;
        escaped = c == '\\' && !escaped;
        continue;
      }
      if (is_blank(c)) continue;
      if (c == '"' && depth == 1) {
        word.clear();
        seen.clear();
      }
      const bool list = seen == ":[" && word == kMember && depth == 2;
      if (list) return c == '{' || c == ']';
      if (c == '"') {
        in_string = true;
        continue;
      }
      if (seen.size() < 3) seen += c;
      if (c == '{' || c == '[') ++depth;
      if ((c == '}' || c == ']') && --depth == 0) return false;
    }
  }
  return false;
}

void for_each_element(FileText text, const base::fs::path& path, const TakeElement& take) {
  ListSplitter splitter(path, take);
  for (std::string_view block = text.next(); !block.empty(); block = text.next()) {
    if (!splitter.put(block)) return;
  }
  splitter.end();
}

}  // namespace hone::data
