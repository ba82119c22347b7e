// YAML -> Settings. yaml-cpp keeps duplicate keys and does not apply merge keys (<<), so both are done here.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/strings/utf8.h"
#include "config/reading/environment_text.h"
#include "config/reading/open_quote.h"
#include "config/reading/user_paths.h"
#include "config/reading/yaml_limits.h"
#include "config/reading/yaml_value.h"
#include "config/settings.h"

namespace hone::config {
namespace {

using base::Json;

struct Document {
  const std::string& file;
  std::string at(const YAML::Mark& mark) const {
    return mark.is_null() ? file : fmt::format("{}:{}", file, mark.line + 1);
  }
};

bool is_plain(const YAML::Node& node) {
  return node.Tag() == "?" || node.Tag().empty();
}

std::string shape(const YAML::Node& node) {
  if (node.IsMap()) return "a mapping";
  if (node.IsSequence()) return "a list";
  return node.IsNull() ? "nothing" : fmt::format("'{}'", base::cut_text(node.Scalar(), 200));
}

// Counts what the nodes of a document stand for; an alias counts each time.
class Budget {
 public:
  explicit Budget(const Document& document) : document_(document) {}

  void take(const YAML::Node& node, int depth) {
    constexpr std::size_t kNode = 32;
    spent_ += kNode + (node.IsScalar() ? node.Scalar().size() : 0);
    if (depth <= kMaxYamlDepth && spent_ <= kMaxYamlValues) return;
    const bool deep = depth > kMaxYamlDepth;
    throw FormError(
        {.where = document_.at(node.Mark()),
         .expected = deep ? fmt::format("values nested at most {} levels deep", kMaxYamlDepth)
                          : fmt::format("values of at most {} together", base::human_bytes(kMaxYamlValues)),
         .found = deep ? "a deeper one" : "more",
         .cause = "an alias (*name) inside the value that it names, or aliases of aliases",
         .fix = "write the value out"});
  }

 private:
  const Document& document_;
  std::size_t spent_ = 0;
};

// Nested values, without a type to steer by: YAML 1.2's core rules.
Json free_value(const YAML::Node& node, Budget& budget, int depth = 0) {
  budget.take(node, depth);
  if (node.IsNull()) return nullptr;
  if (node.IsSequence()) {
    Json out = Json::array();
    for (const YAML::Node& item : node) out.push_back(free_value(item, budget, depth + 1));
    return out;
  }
  if (node.IsMap()) {
    Json out = Json::object();
    base::ObjectFiller filler(out);
    for (const auto& entry : node) {
      budget.take(entry.first, depth + 1);
      filler.at(entry.first.Scalar()) = free_value(entry.second, budget, depth + 1);
    }
    return out;
  }
  static const Option any("", "", Kind::kAny);
  return convert_text(any, node.Scalar(), is_plain(node), "");
}

[[noreturn]] void wrong_shape(const Option& option, std::string_view what, const YAML::Node& node,
                              const std::string& where) {
  throw base::UserError(
      {.where = where,
       .expected = fmt::format("{} for option {}", what, option.name),
       .found = shape(node),
       .fix = fmt::format("correct it, or remove it for the default {}", option.default_text)});
}

// {a: x, b: y} as ["a=x", "b=y"].
Json named_values(const Option& option, const YAML::Node& node, Budget& budget, const std::string& where) {
  Json out = Json::array();
  for (const auto& entry : node) {
    if (!entry.first.IsScalar() || !entry.second.IsScalar())
      wrong_shape(option, "a mapping of names to single values", entry.second, where);
    budget.take(entry.second, 1);
    out.push_back(entry.first.Scalar() + "=" + entry.second.Scalar());
  }
  return out;
}

Json option_value(const Option& option, const YAML::Node& node, Budget& budget, const std::string& where) {
  if (node.IsNull()) return convert_text(option, "", true, where);
  if (option.kind == Kind::kAny) return free_value(node, budget);
  if (option.kind == Kind::kIds && !node.IsScalar())
    return convert_text(option, base::dump_json(free_value(node, budget)), true, where);
  if (node.IsMap()) {
    if (option.is_named) return named_values(option, node, budget, where);
    if (option.kind != Kind::kMap) wrong_shape(option, "a single value", node, where);
    return free_value(node, budget);
  }
  if (node.IsSequence()) {
    if (option.kind != Kind::kList)
      wrong_shape(option, option.kind == Kind::kMap ? "a mapping" : "a single value", node, where);
    Json out = Json::array();
    for (const YAML::Node& item : node) {
      if (!item.IsScalar()) wrong_shape(option, "a list of names", item, where);
      budget.take(item, 1);
      out.push_back(item.Scalar());
    }
    return out;
  }
  return convert_text(option, node.Scalar(), is_plain(node), where);
}

struct Entry {
  std::string name;
  YAML::Node value;
  std::string where;
};

// The entries of `map`, its own first, then those of its merge keys that it does not set itself.
std::vector<Entry> entries_of(const YAML::Node& map, const Document& document, Budget& budget,
                              std::vector<base::UserError>& mistakes, int depth = 0) {
  budget.take(map, depth);
  std::vector<Entry> own;
  std::vector<YAML::Node> merged;
  std::set<std::string> seen;
  for (const auto& entry : map) {
    const std::string where = document.at(entry.first.Mark());
    budget.take(entry.first, depth);
    if (!entry.first.IsScalar()) {
      throw base::UserError(
          {.where = where, .expected = "an option name before ':'", .found = shape(entry.first)});
    }
    if (entry.first.Scalar() == "<<" && is_plain(entry.first)) {
      if (entry.second.IsMap()) {
        merged.push_back(entry.second);
      } else if (entry.second.IsSequence()) {
        for (const YAML::Node& one : entry.second) merged.push_back(one);
      } else {
        merged.push_back(entry.second);
      }
      continue;
    }
    std::string name = entry.first.Scalar();
    std::replace(name.begin(), name.end(), '-', '_');
    if (!seen.insert(name).second) {
      const auto first = std::find_if(own.begin(), own.end(), [&](const Entry& e) { return e.name == name; });
      const YAML::Node& before = first->value;
      if (before.IsScalar() && entry.second.IsScalar() && before.Scalar() == entry.second.Scalar()) continue;
      mistakes.push_back(base::UserError(
          {.where = where,
           .expected = "each option once",
           .found = fmt::format("{} again; it is set at {} already", base::cut_text(name, 200), first->where),
           .cause = "a line was copied",
           .fix = "remove one of the two"}));
      continue;
    }
    own.push_back({name, entry.second, where});
  }
  for (const YAML::Node& node : merged) {
    if (!node.IsMap()) {
      throw base::UserError({.where = document.at(node.Mark()),
                             .expected = "a mapping, or a list of mappings, after '<<:'",
                             .found = shape(node)});
    }
    for (Entry& entry : entries_of(node, document, budget, mistakes, depth + 1)) {
      if (seen.insert(entry.name).second) own.push_back(std::move(entry));
    }
  }
  return own;
}

// Whether a text in it may name an environment variable. All of it is counted: with_environment copies it
// all.
bool has_dollar(const YAML::Node& node, Budget& budget, int depth = 0) {
  budget.take(node, depth);
  if (node.IsScalar()) return node.Scalar().find('$') != std::string::npos;
  bool out = false;
  for (const auto& entry : node) {
    if (node.IsSequence()) {
      out |= has_dollar(entry, budget, depth + 1);
    } else {
      out |= has_dollar(entry.first, budget, depth + 1);
      out |= has_dollar(entry.second, budget, depth + 1);
    }
  }
  return out;
}

// A copy of the value of `name` whose texts have the values of environment variables; `all` collects their
// names.
YAML::Node with_environment(const std::string& name, const YAML::Node& node, ExpandedText& all) {
  if (node.IsScalar() && keeps_variables(name, node.Scalar())) return node;
  if (node.IsScalar()) {
    const ExpandedText one = expand_environment(node.Scalar());
    all.found.insert(all.found.end(), one.found.begin(), one.found.end());
    all.missing.insert(all.missing.end(), one.missing.begin(), one.missing.end());
    all.references.insert(all.references.end(), one.references.begin(), one.references.end());
    YAML::Node out(one.text);
    out.SetTag(node.Tag());
    return out;
  }
  YAML::Node out(node.Type());
  for (const auto& entry : node) {
    if (node.IsSequence()) {
      out.push_back(with_environment(name, entry, all));
    } else {
      out.force_insert(with_environment(name, entry.first, all), with_environment(name, entry.second, all));
    }
  }
  return out;
}

void require_variables(const Entry& entry, const ExpandedText& all) {
  if (all.missing.empty() && all.references.empty()) return;
  const bool variable = !all.missing.empty();
  const std::string& name = variable ? all.missing.front() : all.references.front();
  throw base::UserError(
      {.where = entry.where,
       .expected = variable ? fmt::format("the environment variable {}, which {} names", name, entry.name)
                            : fmt::format("the value of {}", entry.name),
       .found = variable ? "it is not set" : fmt::format("${{{}}}, a reference to another value", name),
       .cause =
           variable ? "envsubst or a launcher puts it into the recipe" : "a recipe for OmegaConf or Hydra",
       .fix = variable ? fmt::format("export {}=..., or write the value into the file", name)
                       : "write the value into the file"});
}

class NoEvents final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
  }
  void OnMapEnd() override {}
};

// YAML::LoadAll would never end where a line begins with a comma: yaml-cpp gives empty documents there, one
// after the other, until the memory is used up.
bool has_second_document(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  NoEvents ignore;
  return parser.HandleNextDocument(ignore) && parser.HandleNextDocument(ignore);
}

YAML::Node load_document(const std::string& text, const Document& document) {
  const std::string& file_name = document.file;
  try {
    if (has_second_document(text)) {
      throw base::UserError({.where = file_name,
                             .expected = "one YAML document",
                             .found = "more than one",
                             .cause = "a line '---', or one that begins with , ] or }",
                             .fix = "keep one run per file"});
    }
    YAML::Node root = YAML::Load(text);
    refuse_open_quote(text, file_name);
    return root;
  } catch (const YAML::DeepRecursion& error) {
    throw base::UserError({.where = document.at(error.mark),
                           .expected = "YAML nested a few levels deep",
                           .found = fmt::format("more than {} levels", error.depth()),
                           .cause = "a damaged or hostile file",
                           .fix = "write one `option: value` per line"});
  } catch (const YAML::Exception& error) {
    throw base::UserError(
        {.where = error.mark.is_null()
                      ? file_name
                      : fmt::format("{}:{}:{}", file_name, error.mark.line + 1, error.mark.column + 1),
         .expected = "YAML",
         .found = base::cut_text(error.msg, 200),
         .cause = "indentation, a missing space after ':', or an unclosed quote",
         .fix = "write one `option: value` per line"});
  }
}

}  // namespace

base::Json yaml_value(const std::string& text, const std::string& file_name) {
  const Document document{file_name};
  const YAML::Node root = load_document(text, document);
  Budget budget(document);
  return free_value(root, budget);
}

void Settings::note_environment(const std::string& name, const ExpandedText& text) {
  const auto tell = [&](const std::vector<std::string>& variables, const char* what) {
    if (variables.empty()) return;
    std::string note = fmt::format("{}: {} {}", name, fmt::join(variables, ", "), what);
    if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) notes_.push_back(std::move(note));
  };
  tell(text.found, "of the environment is put in");
  tell(text.missing, "is not set in the environment: the text stays as it is written, as in TRL");
  tell(text.references, "refers to another value: the text stays as it is written, as in TRL");
}

void Settings::read_yaml(const std::string& file) {
  const std::string path = user_path(file, "--config");
  read_yaml_text(base::read_settings(path, kMaxYamlBytes), path);
}

void Settings::read_yaml_text(const std::string& text, const std::string& file_name) {
  const Document document{file_name};
  const YAML::Node root = load_document(text, document);
  if (root.IsNull()) return;
  if (!root.IsMap()) {
    throw base::UserError({.where = document.at(root.Mark()),
                           .expected = "a mapping of options to values",
                           .found = shape(root),
                           .cause = "a missing space after ':'",
                           .fix = "write one `option: value` per line"});
  }
  ++source_;
  Budget budget(document), searched(document);  // each counts all values of the file
  std::vector<Entry> entries = entries_of(root, document, budget, mistakes_);
  const auto reader = [&](const Entry& entry) {
    return [&](const Option& option) {
      if (!takes_environment(entry.name) || !has_dollar(entry.value, searched))
        return option_value(option, entry.value, budget, entry.where);
      ExpandedText all;
      const YAML::Node value = with_environment(entry.name, entry.value, all);
      const FormerName* former = find_former_name(entry.name, schema_->command);
      const bool unread = former != nullptr && former->fate == Fate::kNote;
      if (!unread && !names_results(entry.name)) require_variables(entry, all);
      if (!unread) note_environment(entry.name, all);
      if (!all.missing.empty()) as_written_.insert(entry.where);
      return option_value(option, value, budget, entry.where);
    };
  };
  for (const Entry& entry : entries) {
    const Option* option = entry.name == "ignore_unknown" ? schema_->find(entry.name) : nullptr;
    if (option == nullptr) continue;
    collect([&] {
      const Json value = option_value(*option, entry.value, budget, entry.where);
      if (!value.is_array()) return;
      for (const Json& name : value) ignore_unknown_.push_back(name.get<std::string>());
    });
  }
  for (const Entry& entry : entries) take(entry.name, entry.where, false, reader(entry));
  apply_later();
}

}  // namespace hone::config
