#include "config/others/read_other.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/strings/utf8.h"
#include "config/reading/yaml_value.h"
#include "config/settings.h"

namespace hone::config {
namespace {

using base::Json;

std::string place_at(const std::string& path, const YAML::Mark& mark) {
  return mark.is_null() ? path : fmt::format("{}:{}", path, mark.line + 1);
}

// Its size and depth were found within the limits already.
Json node_value(const YAML::Node& node) {
  if (node.IsNull() || !node.IsDefined()) return nullptr;
  if (node.IsSequence()) {
    Json out = Json::array();
    for (const YAML::Node& item : node) out.push_back(node_value(item));
    return out;
  }
  if (node.IsMap()) {
    Json out = Json::object();
    base::ObjectFiller filler(out);
    for (const auto& entry : node) {
      if (entry.first.IsScalar()) filler.at(entry.first.Scalar()) = node_value(entry.second);
    }
    return out;
  }
  static const Option any("", "", Kind::kAny);
  return convert_text(any, node.Scalar(), node.Tag() == "?" || node.Tag().empty(), "");
}

void add_entries(OtherFile& file, const YAML::Node& map, bool merged) {
  if (!map.IsMap()) return;
  std::vector<YAML::Node> below;
  for (const auto& entry : map) {
    if (!entry.first.IsScalar()) {
      throw base::UserError({.where = place_at(file.path, entry.first.Mark()),
                             .expected = "a name before ':'",
                             .found = "a list or a mapping"});
    }
    const std::string& name = entry.first.Scalar();
    if (name == "<<") {
      below.push_back(entry.second);
      continue;
    }
    const std::string where = place_at(file.path, entry.first.Mark());
    const auto found = std::find_if(file.entries.begin(), file.entries.end(),
                                    [&](const OtherEntry& one) { return one.name == name; });
    if (found == file.entries.end()) {
      file.entries.push_back({.name = name, .value = node_value(entry.second), .where = where, .before = {}});
    } else if (!merged) {
      found->before.push_back(found->where);
      found->where = where;
      found->value = node_value(entry.second);
    }
  }
  for (const YAML::Node& node : below) add_entries(file, node, true);
}

}  // namespace

const OtherEntry* OtherFile::find(std::string_view name) const {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const OtherEntry& one) { return one.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

// JSON is YAML too, but for tabs; its lines are then known as well.
OtherFile read_other_text(const std::string& text, const std::string& path) {
  OtherFile out{.path = path, .entries = {}};
  std::string plain = text;
  if (path.ends_with(".json")) std::replace(plain.begin(), plain.end(), '\t', ' ');
  yaml_value(plain, path);  // the limits, an open quote, and an error with its place
  const YAML::Node root = YAML::Load(plain);
  if (!root.IsMap()) {
    throw base::UserError({.where = path,
                           .expected = "lines of `name: value`",
                           .found = root.IsNull() ? "an empty file" : "something else",
                           .fix = "give the file that the trainer is started with"});
  }
  add_entries(out, root, false);
  return out;
}

}  // namespace hone::config
