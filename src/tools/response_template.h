// A response template, read and checked: how the text of a turn is cut into the fields of a message
// (transformers 5.23, utils/chat_parsing/response_templates.py).
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/strings/pattern.h"
#include "tools/casts.h"
#include "tools/content.h"

namespace hone::tools {

// A delimiter: literal texts, of which the longest at a place counts, or a pattern.
class Delimiter {
 public:
  struct Found {
    std::size_t begin = 0, end = 0;
    base::Json captures;  // named groups that took part
  };
  // Member `literal` or `pattern` of `spec`; nullopt when it has neither. UserError.
  static std::optional<Delimiter> of(const base::Json& spec, const char* literal, const char* pattern,
                                     const std::string& where);

  // The first match that begins at `from` or behind it. Throws base::PatternTooSlow.
  std::optional<Found> find(std::u32string_view text, std::size_t from, long& steps) const;
  // Whether a match at the end of a text that goes on could become another one.
  bool can_grow(const Found& found, std::size_t size) const;
  bool looks_ahead() const { return ahead_; }
  bool has_captures() const { return pattern_ && !pattern_->groups().empty(); }

 private:
  std::vector<std::u32string> literals_;
  bool can_extend_ = true;
  std::optional<base::Pattern> pattern_;
  // The pattern is "(?=[\s\S]*?x)": it is empty where an x follows. `pattern_` is x then, so that a long text
  // without x is searched once and not from each of its places.
  bool ahead_ = false;
};

struct Field {
  std::string name;
  std::optional<Delimiter> open, close;
  Content content;
  bool repeats = false, optional = true, transform_each = false;
  std::optional<std::string> join;
  base::Json transform;  // null: none
};

class ResponseTemplate {
 public:
  // UserError for what transformers refuses, and for patterns that base::Pattern does not have.
  ResponseTemplate(const base::Json& spec, const std::string& where);

  // The message as transformers' parse_response makes it. Throws NotParsed where it raises, and
  // base::PatternTooSlow.
  base::Json parse(std::string_view prompt, std::string_view completion, const Casts& casts) const;
  // Returns whether the text has what opens a field. False for a field without such.
  bool opens(std::string_view text, std::string_view field) const;

 private:
  friend class Scan;
  std::u32string behind_anchor(std::string_view prompt, long& steps) const;

  base::Json defaults_;
  std::vector<Field> fields_;
  std::optional<Delimiter> anchor_;
  int implicit_ = -1;  // the field without `open`
};

}  // namespace hone::tools
