#include "tools/tool_spec.h"

#include <algorithm>

#include "base/error.h"
#include "python/user_file.h"

namespace hone::tools {

namespace {

[[noreturn]] void refuse_word(const std::string& word, const std::string& option, const std::string& found,
                              const std::string& fix) {
  throw base::UserError({.where = option + " " + word,
                         .expected = "path/to/file.py:name, package.module:name or hone.tools.calculator",
                         .found = found,
                         .cause = {},
                         .fix = fix});
}

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

}  // namespace

ToolFile parse_tool_word(const std::string& word, const std::string& option) {
  ToolFile out;
  std::string names;
  if (const std::size_t colon = word.rfind(':'); colon != std::string::npos) {
    out.file_or_module = trimmed(word.substr(0, colon));
    names = word.substr(colon + 1);
  } else if (word.ends_with(".py")) {
    refuse_word(word, option, "no name of a function", "add it: " + word + ":name");
  } else if (const std::size_t dot = word.rfind('.'); dot != std::string::npos) {
    out.file_or_module = word.substr(0, dot);
    names = word.substr(dot + 1);
  } else {
    refuse_word(word, option, "no file and no module", "name its file: tools.py:" + word);
  }
  if (out.file_or_module.empty()) refuse_word(word, option, "no file and no module", "tools.py" + word);
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    std::string name = trimmed(names.substr(begin, end - begin));
    if (name.empty())
      refuse_word(word, option, "no name of a function",
                  "write names with commas between: tools.py:search,calc");
    if (std::ranges::find(out.names, name) != out.names.end())
      refuse_word(word, option, name + " twice", "leave one of them out");
    out.names.push_back(std::move(name));
    begin = end + 1;
  }
  out.is_file = out.file_or_module.ends_with(".py") || out.file_or_module.find('/') != std::string::npos;
  if (out.is_file) out.file_or_module = python::whole_path(out.file_or_module, option + " " + word);
  return out;
}

}  // namespace hone::tools
