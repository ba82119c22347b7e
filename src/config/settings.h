// The user's settings: values by option name, each with its origin. Later origins override earlier ones:
// defaults, then the YAML file, then the command line, as in TrlParser.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "config/option_table.h"

namespace hone::config {

struct ExpandedText;  // environment_text.h

// A mistake in the form of a file or a command line, and not in a value: an option without a value or twice,
// bytes that are no text, values nested without end. It stays a mistake where the option has no effect.
class FormError : public base::UserError {
 public:
  using UserError::UserError;
};

struct Setting {
  base::Json value;    // null, bool, integer, float, string, array or object, already of the option's kind
  std::string where;   // "run.yaml:7" or "--learning_rate"
  std::string former;  // the former name that set it; empty: its own
  int source = 0;      // counts files and command lines: a later one overrides an earlier one
};

// The value of a name that is read together with others (Fate::kMixture).
struct Kept {
  base::Json value;
  std::string where;
};

// Says what a name in a file or on the command line became.
struct ReadName {
  enum class As { kOption, kFormer, kMixed, kNoted, kPassed, kMistake } as = As::kOption;
  std::string name;    // as it was written
  std::string where;   // "run.yaml:7", "--name"
  std::string option;  // kOption, kFormer: the option
  std::string why;     // kNoted: the reason; kFormer: "TRL's former name"
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
  // Processes of the run (BatchPlan::ranks), by which sizes of whole batches are divided.
  std::int64_t ranks() const { return ranks_; }
  void set_ranks(std::int64_t ranks) { ranks_ = ranks; }

  // UserError for an unreadable file and for YAML that does not parse. Mistakes of single options (a duplicate or
  // unknown name, a wrong type) are collected: throw_mistakes.
  void read_yaml(const std::string& path);
  void read_yaml_text(const std::string& text, const std::string& file_name);
  // `--config FILE` is read first, wherever it is on the command line. Accepts --name value, --name=value,
  // --flag, --no_flag, several values for a list; dashes and underscores are equivalent.
  void read_arguments(const std::vector<std::string>& arguments);

  // Checks range, choice and class of every value that was set; what is wrong is collected, and the option then
  // has its default. Returns one note for each reason of ignored options and names, with the names.
  std::vector<std::string> collect_values();
  std::vector<std::string> check() const;  // the notes only; UserError of all mistakes

  // Runs a check and collects its UserError, unless it has read an option that is among the mistakes already: what it
  // says would be of the default. False when it threw.
  bool collect(const std::function<void()>& check);
  // One UserError of all mistakes so far; returns when there is none.
  void throw_mistakes() const;
  const std::vector<base::UserError>& mistakes() const { return mistakes_; }
  const std::vector<ReadName>& names() const { return names_; }  // in the order of reading

  const Kept* kept(std::string_view name) const;                           // null: it is not there
  void put(std::string_view option, base::Json value, std::string where);  // what kept names come to

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
  bool changed(std::string_view name) const;    // its value differs from the default
  std::vector<std::string> unused() const;      // a note for each that changed without what it needs
  std::vector<RowOption> of_some_rows() const;  // those that changed and are for some forms of rows only
  // "loss_type is not vespo", where the row needs that; empty: it needs nothing, or has what it needs.
  std::string unmet_need(const Option& option) const;
  bool is_wrong(std::string_view name) const { return wrong_.contains(name); }  // it is among the mistakes

  // Writes the values of the supported options whose rows are bound to fields of Part (binding.h).
  template <typename Part>
  void fill(Part& part) const {
    fill(typeid(Part), &part);
  }

  const Schema& schema() const { return *schema_; }

 private:
  using ReadValue = std::function<base::Json(const Option&)>;
  struct ValueMistake {
    std::string option;
    std::size_t mistake, name;  // places in mistakes_ and names_
  };
  struct Later {
    base::Json any;  // the value as it stands there
    std::string where;
    std::function<base::Json()> value;  // of the option's type
  };

  void set(const Option& option, base::Json value, std::string where, const FormerName* former = nullptr);
  // One name and its value: an option, a former name, one of ignore_unknown, or a mistake.
  void take(const std::string& name, const std::string& where, bool dashes, const ReadValue& read);
  void take_former(const FormerName& former, const std::string& where, const ReadValue& read);
  // When all of a source is read: the keys of mappings that it gave, and the names that yield to others.
  void apply_later();
  void take_yielding(const FormerName& former, const Later& later);
  // A mistake in the value of an option without effect becomes a note (idle_options.h); a FormError does not.
  void pardon_idle();
  void apply_key(const FormerName& former, const Kept& kept);
  void take_option(const FormerName& former, const base::Json& value, const std::string& where,
                   const ReadValue& read);
  void note_environment(const std::string& name, const ExpandedText& text);
  void forget(std::string_view name);  // a mistake: the option has its default
  void unset(std::string_view name);   // the option has its default, and that is right
  void check_option(const Option& option, std::vector<std::string>& notes) const;
  void fill(std::type_index type, void* part) const;

  std::int64_t ranks_ = 1;
  const Schema* schema_;
  int source_ = 0;
  std::map<std::string, Setting, std::less<>> settings_;
  std::vector<base::UserError> mistakes_;
  std::vector<ReadName> names_;
  std::map<std::string, Kept, std::less<>> kept_;
  std::vector<std::pair<const FormerName*, Kept>> keys_;
  std::vector<std::pair<const FormerName*, Later>> yielding_;
  std::vector<ValueMistake> value_mistakes_;
  std::vector<std::string> notes_;    // of what was read
  std::set<std::string> as_written_;  // where a text names variables that are not set, which a note tells
  std::set<std::string, std::less<>> wrong_;  // options among the mistakes
  mutable bool read_wrong_ = false;           // one of them was read
  std::vector<std::string> ignore_unknown_;
  mutable std::map<std::string, base::Json, std::less<>> defaults_;
};

// UserError about the value of option `name`.
[[noreturn]] void conflict(const Settings& settings, std::string_view name, std::string expected,
                           std::string found, std::string cause = {}, std::string fix = {});

// A value as YAML: plain if that is safe, else in double quotes.
std::string yaml_text(const base::Json& value);

}  // namespace hone::config
