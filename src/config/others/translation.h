// From a trainer's names to hone's, by its table; what takes several names together is the trainer's own
// function.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/others/other_names.h"
#include "config/others/read_other.h"

namespace hone::config {

// Makes today's value of one that transformers has removed, and says so; empty: the value stays.
std::string_view renew_value(std::string_view option, base::Json& value);

class Translation {
 public:
  Translation(const OtherFile& file, std::span<const OtherName> names, OtherRun& out)
      : file_(file), names_(names), out_(out) {}

  // Every name of the file by its row: options, names without effect, refusals, names that nobody knows, and
  // names that are there twice. Then the defaults of the rows whose option has no value yet.
  void apply_names();
  void apply_defaults();

  // The value of a name, null where it is absent or null.
  const base::Json& value(std::string_view name) const;
  bool has(std::string_view name) const { return !value(name).is_null(); }
  bool flag(std::string_view name) const;  // true, "true", 1
  std::string text(std::string_view name) const;
  std::optional<double> number(std::string_view name) const;
  std::string where(std::string_view name) const;  // of a name that is absent: the file

  // An option of hone from the name `from` of the file. The first value of an option stays. An option that
  // the method does not have is left out, with a note where the file asks for it.
  void set(std::string_view option, base::Json value, std::string_view from);
  void set_default(std::string_view option, base::Json value, std::string_view why = {});
  bool is_set(std::string_view option) const { return out_.find(option) != nullptr; }

  void note(std::string_view name, std::string text);
  void note_processes();  // of a script that starts several
  void refuse(std::string_view name, std::string why, std::string fix);
  void unknown(std::string_view name, std::string why, std::string depends, std::string fix);

  OtherRun& run() { return out_; }
  const OtherFile& file() const { return file_; }

 private:
  const OtherName* row(std::string_view name) const;
  void apply(const OtherEntry& entry, const OtherName& row);
  bool apply_shared(const OtherEntry& entry);  // false: the name is none of transformers' own
  void tell_unknown(const OtherEntry& entry);
  void tell_many(const std::vector<const OtherEntry*>& entries);
  bool has_option(std::string_view option) const;

  const OtherFile& file_;
  std::span<const OtherName> names_;
  OtherRun& out_;
};

// The trainers' own functions. Each sets out.method, and everything else of `out`.
namespace axolotl {
void translate(const OtherFile& file, OtherRun& out);
}
namespace factory {
void translate(const OtherFile& file, const OtherFile* sets, OtherRun& out);
}
namespace swift {
void translate(const OtherFile& file, OtherRun& out);
// The form of the rows, where they are here: by the columns of the first. `is_text`: of swift pt.
void read_form(OtherRun& run, bool is_text);
}  // namespace swift
namespace torchtune {
void translate(const OtherFile& file, OtherRun& out);
}
namespace script {
// A Python script with its arguments, or a notebook where out.file ends with .ipynb. UserError as of fold_script.
void translate(const std::string& text, const std::vector<std::string>& words, OtherRun& out);
}  // namespace script

}  // namespace hone::config
