// The user's settings: values by option name, each with its origin. Later origins override earlier ones:
// defaults, then the YAML file, then the command line, as in TrlParser.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "config/option_table.h"

namespace hone::config {

struct Setting {
  base::Json value;   // null, bool, integer, float, string, array or object, already of the option's kind
  std::string where;  // "run.yaml:7" or "--learning_rate"
};

// `text` as a value of `option`, or UserError naming `where`. `plain` is false for quoted YAML scalars, which
// are never null. A number in quotes is still a number: TRL converts strings by the option's type.
base::Json convert_text(const Option& option, std::string_view text, bool plain, const std::string& where);

// "-5", "-.5" and "- a list item" are values; other arguments that begin with '-' are options (argparse).
bool is_option_word(const std::string& word);
std::string option_name(const std::string& word);  // "--lora-r=8", "lora_r": "lora_r"

// UserError for a name outside the table: for a former name it gives the replacement, for others similar
// names.
[[noreturn]] void throw_unknown(const Schema& schema, std::string_view name, const std::string& where,
                                bool dashes);

class Settings {
 public:
  explicit Settings(const Schema& schema) : schema_(&schema) {}

  // Both throw UserError: unreadable file, YAML syntax, duplicate or unknown key, wrong type.
  void read_yaml(const std::string& path);
  void read_yaml_text(const std::string& text, const std::string& file_name);
  // `--config FILE` is read first, wherever it is on the command line. Accepts --name value, --name=value,
  // --flag, --no_flag, several values for a list; dashes and underscores are equivalent.
  void read_arguments(const std::vector<std::string>& arguments);

  // Checks range, choice and class of every value that was set. Returns one note for each reason of ignored
  // options, with the options' names.
  std::vector<std::string> check() const;

  bool is_set(std::string_view name) const;
  const base::Json& value(std::string_view name) const;   // the set value, else the default
  std::string where(std::string_view name) const;         // "run.yaml:7", "--name", or "name (default)"
  void replace(std::string_view name, base::Json value);  // sets a resolved value; keeps `where`

  bool flag(std::string_view name) const;  // null counts as false
  std::optional<bool> maybe_flag(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  std::optional<std::int64_t> maybe_integer(std::string_view name) const;
  double number(std::string_view name) const;
  std::string text(std::string_view name) const;  // null: ""
  std::vector<std::string> list(std::string_view name) const;
  bool changed(std::string_view name) const;  // its value differs from the default
  std::vector<std::string> unused() const;    // a note for each that changed without what it needs

  // Writes the values of the supported options whose rows are bound to fields of Part (binding.h).
  template <typename Part>
  void fill(Part& part) const {
    fill(typeid(Part), &part);
  }

  const Schema& schema() const { return *schema_; }

 private:
  void set(const Option& option, base::Json value, std::string where);
  void fill(std::type_index type, void* part) const;

  const Schema* schema_;
  std::map<std::string, Setting, std::less<>> settings_;
  mutable std::map<std::string, base::Json, std::less<>> defaults_;
};

// UserError about the value of option `name`.
[[noreturn]] void conflict(const Settings& settings, std::string_view name, std::string expected,
                           std::string found, std::string cause = {}, std::string fix = {});

// A value as YAML: plain if that is safe, else in double quotes.
std::string yaml_text(const base::Json& value);

}  // namespace hone::config
