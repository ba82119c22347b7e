#include "config/reading/edit_yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "base/error.h"
#include "base/strings/lines.h"

namespace hone::config {

namespace {

// The option that a line sets at the top level, with '-' as '_'; "" for other lines.
std::string option_of(const std::string& line) {
  if (line.empty() || line[0] == ' ' || line[0] == '\t' || line[0] == '#') return "";
  const std::size_t colon = line.find(':');
  if (colon == std::string::npos) return "";
  std::string name = line.substr(0, colon);
  name.erase(name.find_last_not_of(' ') + 1);
  if (name.size() >= 2 && (name[0] == '"' || name[0] == '\'') && name.back() == name[0]) {
    name = name.substr(1, name.size() - 2);
  }
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// " # why" behind a value that stands on one line and has no quotes, in which a # may be text.
std::string comment_of(const std::string& line) {
  const std::size_t at = line.find(" #");
  if (at == std::string::npos || line.find_first_of("\"'") < at) return "";
  const std::size_t begin = line.find_last_not_of(' ', at);
  return line.substr(begin + 1);
}

bool belongs_to_value(const std::string& line) {
  return !line.empty() && (line[0] == ' ' || line[0] == '\t' || line.starts_with("- ") || line == "-");
}

void set_option(std::vector<std::string>& lines, const std::string& name, const std::string& value,
                std::vector<std::string>& diff) {
  std::string line = fmt::format("{}: {}", name, value);
  const auto at = std::find_if(lines.begin(), lines.end(),
                               [&](const std::string& each) { return option_of(each) == name; });
  if (at == lines.end()) {
    diff.push_back("+" + line);
    lines.push_back(line);
    return;
  }
  const auto end = std::find_if_not(at + 1, lines.end(), belongs_to_value);
  if (end == at + 1) line += comment_of(*at);
  for (auto old = at; old != end; ++old) diff.push_back("-" + *old);
  diff.push_back("+" + line);
  *at = line;
  lines.erase(at + 1, end);
}

bool says(const std::string& text, const std::string& name, const std::string& value) {
  try {
    const YAML::Node root = YAML::Load(text);
    return root.IsMap() && root[name] && YAML::Dump(root[name]) == YAML::Dump(YAML::Load(value));
  } catch (const YAML::Exception&) {
    return false;
  }
}

}  // namespace

EditedYaml edit_yaml(const std::string& text, const std::vector<std::pair<std::string, std::string>>& changes,
                     const std::string& file_name) {
  EditedYaml out;
  std::vector<std::string> lines = base::lines_of(text);
  for (const auto& [name, value] : changes) set_option(lines, name, value, out.diff);
  for (const std::string& line : lines) out.text += line + "\n";
  for (const auto& [name, value] : changes) {
    if (says(out.text, name, value)) continue;
    throw base::UserError({.where = file_name,
                           .expected = "one `option: value` per line",
                           .found = "a form that cannot be changed line by line",
                           .fix = fmt::format("write {}: {} into it yourself", name, value)});
  }
  return out;
}

}  // namespace hone::config
