// A field of a response template turns the text between its delimiters into a value (transformers 5.23,
// content_parsers.py).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/strings/pattern.h"

namespace hone::tools {

struct NotParsed {};  // where transformers raises: the whole turn is plain text then

// UserError for a response template that cannot be used.
[[noreturn]] void refuse_template(const std::string& where, const std::string& expected,
                                  const std::string& found);

class Content {
 public:
  // `kind`: text, int, float, bool, json, xml-inline, kv-lines; `args`: the field's content_args or null.
  // UserError.
  Content(const std::string& kind, const base::Json& args, const std::string& where);

  // Throws NotParsed, or base::PatternTooSlow when `steps` are used up.
  base::Json parse(std::u32string_view text, long& steps) const;

 private:
  base::Json text_of(std::u32string_view text) const;
  base::Json json(std::u32string_view text, long& steps) const;
  base::Json xml_inline(std::u32string_view text, long& steps) const;
  base::Json kv_lines(std::u32string_view text, long& steps) const;
  base::Json value_of(std::u32string_view text, long& steps) const;

  enum class Kind : unsigned char { kText, kInt, kFloat, kBool, kJson, kXml, kLines } kind_ = Kind::kText;
  bool strip_ = true, unquoted_keys_ = false, allow_non_json_ = false, merge_duplicates_ = false;
  std::vector<std::pair<std::u32string, std::u32string>> string_delims_;
  std::optional<base::Pattern> tag_;
  std::u32string line_sep_ = U"\n", kv_sep_ = U":";
  std::shared_ptr<const Content> value_;  // value_parser; none: the text as it is
};

// Every placeholder "{name}" or "{name.key}" that is a whole string of `transform`, replaced by its value in
// `scope`. Throws NotParsed for a name that `scope` lacks.
base::Json transformed(const base::Json& transform, const base::Json& scope);
// UserError for a string that mixes a placeholder with other text.
void check_transform(const base::Json& transform, const std::string& where);

}  // namespace hone::tools
