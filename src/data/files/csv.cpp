#include "data/files/csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings/utf8.h"

namespace hone::data {
namespace {

using base::Json;
using base::UserError;

constexpr std::size_t kRowsThatDecide = 10'000;  // CsvConfig.chunksize

struct CsvRecord {
  std::vector<std::string> fields;
  std::int64_t line = 0;
};

std::string line_of(const base::fs::path& path, std::int64_t line) {
  return path.string() + ":" + std::to_string(line);
}

// pandas' tokenizer (tokenizer.c, tokenize_bytes), without escape characters and comments. A quote counts at the
// beginning of a field; what follows a closing quote belongs to the field.
class CsvTokenizer {
 public:
  CsvTokenizer(const base::fs::path& path, char separator, const std::function<bool(CsvRecord)>& take)
      : path_(path), separator_(separator), take_(take) {}

  bool put(std::string_view block) {
    return std::all_of(block.begin(), block.end(), [this](char c) { return put(c); });
  }

  void end() {
    if (state_ == State::kQuoted) {
      throw UserError(
          {.where = line_of(path_, quote_line_) + ":" + std::to_string(quote_column_),
           .expected = "a closing quote for the one that opens here",
           .found = "the end of the file",
           .cause = "a quote that is not doubled (\"\") within a quoted field, or a file that was cut",
           .fix = "correct this row"});
    }
    if (state_ != State::kRecord) end_record();
  }

 private:
  enum class State { kRecord, kField, kPlain, kQuoted, kQuoteInQuoted };

  bool put(char c) {
    const bool after_return = std::exchange(returned_, c == '\r');
    if (after_return && c == '\n') return true;  // the second half of a line end, counted already
    if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U) ++column_;
    const bool line_end = c == '\n' || c == '\r';
    const bool counts = c == '\n' || (c == '\r' && state_ != State::kQuoted);
    const bool more = step(c, line_end);
    if (counts) {
      ++line_;
      column_ = 0;
    }
    return more;
  }

  bool step(char c, bool line_end) {
    if (state_ == State::kQuoted) {
      // A line end within quotes stays as it is; of \r\n both characters do.
      if (c == '\r') returned_ = false;
      if (c == '"') {
        state_ = State::kQuoteInQuoted;
      } else {
        add(c);
      }
      return true;
    }
    if (state_ == State::kRecord && line_end) return true;  // a blank line
    if (state_ == State::kRecord) begin_record();
    if (line_end) return end_record();
    if (c == separator_) {
      end_field();
    } else if (c == '"' && state_ == State::kField) {
      state_ = State::kQuoted;
      quote_line_ = line_;
      quote_column_ = column_;
    } else {
      // Two quotes within a quoted field are one.
      state_ = c == '"' && state_ == State::kQuoteInQuoted ? State::kQuoted : State::kPlain;
      add(c);
    }
    return true;
  }

  void begin_record() {
    record_.line = line_;
    state_ = State::kField;
  }

  void end_field() {
    record_.fields.push_back(std::move(field_));
    field_.clear();
    state_ = State::kField;
  }

  bool end_record() {
    end_field();
    state_ = State::kRecord;
    size_ = 0;
    const auto is_blank = [](const std::string& text) {
      return text.find_first_not_of(' ') == std::string::npos && !text.empty();
    };
    const bool blank = record_.fields.size() == 1 && is_blank(record_.fields[0]);
    CsvRecord done = std::exchange(record_, {});
    return blank || take_(std::move(done));
  }

  void add(char c) {
    if (++size_ > kMostRowBytes) throw_endless_row(path_, record_.line);
    field_ += c;
  }

  const base::fs::path& path_;
  char separator_;
  const std::function<bool(CsvRecord)>& take_;
  State state_ = State::kRecord;
  bool returned_ = false;
  std::int64_t line_ = 1, column_ = 0, quote_line_ = 0, quote_column_ = 0;
  std::size_t size_ = 0;
  std::string field_;
  CsvRecord record_;
};

// ---- values

bool is_missing(std::string_view text) {
  static const std::set<std::string_view> words = {
      "",     "#N/A", "#N/A N/A", "#NA",  "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
      "<NA>", "N/A",  "NA",       "NULL", "NaN",     "None",     "n/a",  "nan",  "null"};
  return words.contains(text);
}

enum class ColumnType { kNull, kInt, kUnsigned, kFloat, kBool, kText };

const char* words_of(ColumnType type) {
  switch (type) {
    case ColumnType::kInt:
    case ColumnType::kUnsigned:
      return "whole numbers";
    case ColumnType::kFloat:
      return "numbers";
    case ColumnType::kBool:
      return "true or false";
    default:
      return "text";
  }
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

template <typename Number>
std::optional<Number> number_of(std::string_view text) {
  text = trimmed(text);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  Number out{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

std::optional<bool> bool_of(std::string_view text) {
  if (text == "True" || text == "TRUE" || text == "true") return true;
  if (text == "False" || text == "FALSE" || text == "false") return false;
  return std::nullopt;
}

bool is_whole_number(std::string_view text) {
  text = trimmed(text);
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// The type that all values of a column have, tried in pandas' order.
class TypeFinder {
 public:
  void see(std::string_view text) {
    if (is_missing(text)) {
      missing_ = true;
      return;
    }
    any_ = true;
    whole_ &= is_whole_number(text);
    fits_int_ &= number_of<std::int64_t>(text).has_value();
    fits_unsigned_ &= number_of<std::uint64_t>(text).has_value();
    number_ &= number_of<double>(text).has_value();
    bool_ &= bool_of(text).has_value();
  }

  ColumnType type() const {
    if (!any_) return ColumnType::kNull;
    if (whole_ && fits_int_) return missing_ ? ColumnType::kFloat : ColumnType::kInt;
    if (whole_) return fits_unsigned_ && !missing_ ? ColumnType::kUnsigned : ColumnType::kText;
    if (number_) return ColumnType::kFloat;
    return bool_ ? ColumnType::kBool : ColumnType::kText;
  }

 private:
  bool any_ = false, missing_ = false, whole_ = true, fits_int_ = true, fits_unsigned_ = true, number_ = true,
       bool_ = true;
};

// nullopt: not of that type.
std::optional<Json> value_of(std::string_view text, ColumnType type) {
  if (is_missing(text)) return Json();
  const auto as_json = [](const auto& value) { return value ? std::optional<Json>(*value) : std::nullopt; };
  switch (type) {
    case ColumnType::kInt:
      return as_json(number_of<std::int64_t>(text));
    case ColumnType::kUnsigned:
      return as_json(number_of<std::uint64_t>(text));
    case ColumnType::kFloat:
      return as_json(number_of<double>(text));
    case ColumnType::kBool:
      return as_json(bool_of(text));
    default:
      return Json(std::string(text));
  }
}

// ---- rows

// "a", "a" -> "a", "a.1"; "" -> "Unnamed: 3".
std::vector<std::string> column_names(const CsvRecord& header) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < header.fields.size(); ++i) {
    std::string name = header.fields[i].empty() ? "Unnamed: " + std::to_string(i) : header.fields[i];
    const std::string base = name;
    for (int n = 1; std::find(out.begin(), out.end(), name) != out.end(); ++n) {
      name = base + "." + std::to_string(n);
    }
    out.push_back(name);
  }
  return out;
}

class CsvRows {
 public:
  using Take = std::function<bool(Json, std::int64_t)>;
  using Read = std::function<void(const CsvReading&)>;  // may be empty
  CsvRows(const base::fs::path& path, const Take& take, const Read& read)
      : path_(path), take_(take), read_(read) {}

  bool put(CsvRecord record) {
    check_text(record);
    if (columns_.empty()) {
      columns_ = column_names(record);
      told_.resize(columns_.size());
      return true;
    }
    if (record.fields.size() > columns_.size()) throw_too_many(record);
    record.fields.resize(columns_.size());
    if (!types_.empty()) return give(record);
    first_.push_back(std::move(record));
    return first_.size() < kRowsThatDecide || decide();
  }

  // Finds the columns' types and gives the rows that waited for them.
  bool decide() {
    if (!types_.empty() || columns_.empty()) return true;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      TypeFinder finder;
      for (const CsvRecord& record : first_) finder.see(record.fields[i]);
      types_.push_back(finder.type());
    }
    const std::vector<CsvRecord> rows = std::exchange(first_, {});
    return std::all_of(rows.begin(), rows.end(), [this](const CsvRecord& record) { return give(record); });
  }

 private:
  bool give(const CsvRecord& record) {
    Json row = Json::object();
    auto& members = row.get_ref<Json::object_t&>();
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      std::optional<Json> value = value_of(record.fields[i], types_[i]);
      if (!value) throw_other_type(record, i);
      if (read_) tell(record, i, *value);
      // Names are distinct, so that nothing needs to be searched.
      members.emplace_back(columns_[i], std::move(*value));
    }
    return take_(std::move(row), record.line);
  }

  void tell(const CsvRecord& record, std::size_t i, const Json& value) {
    const std::string& text = record.fields[i];
    if (text.empty() || value.is_string() || (value.is_number() && value.dump() == text)) return;
    bool& told = value.is_null() ? told_[i].missing : told_[i].other;
    if (std::exchange(told, true)) return;
    read_({.column = columns_[i], .text = text, .value = value, .line = record.line});
  }

  void check_text(const CsvRecord& record) const {
    for (std::size_t i = 0; i < record.fields.size(); ++i) {
      if (base::bad_utf8_at(record.fields[i]) == std::string::npos) continue;
      throw UserError({.where = line_of(path_, record.line),
                       .expected = "text in UTF-8",
                       .found = "other bytes in field " + std::to_string(i + 1),
                       .cause = "a file in another encoding, such as Latin-1",
                       .fix = "convert it: iconv -f LATIN1 -t UTF-8 IN > OUT"});
    }
  }

  [[noreturn]] void throw_too_many(const CsvRecord& record) const {
    throw UserError({.where = line_of(path_, record.line),
                     .expected = std::to_string(columns_.size()) + " fields, as in the header",
                     .found = std::to_string(record.fields.size()),
                     .cause = "a separator within a field that is not quoted, or a broken quote above",
                     .fix = "put quotes around the field"});
  }

  [[noreturn]] void throw_other_type(const CsvRecord& record, std::size_t i) const {
    throw UserError({.where = line_of(path_, record.line),
                     .expected = "column '" + columns_[i] + "' to be " + words_of(types_[i]) +
                                 ", as in the first " + std::to_string(kRowsThatDecide) + " rows",
                     .found = "'" + base::cut_text(record.fields[i], 100) + "'",
                     .cause = "the types of columns are those of the file's beginning, as with datasets",
                     .fix = "write the column in one form, or the rows as JSON Lines"});
  }

  const base::fs::path& path_;
  const Take& take_;
  const Read& read_;
  struct Told {
    bool missing = false, other = false;
  };
  std::vector<Told> told_;  // of each column
  std::vector<std::string> columns_;
  std::vector<ColumnType> types_;
  std::vector<CsvRecord> first_;
};

}  // namespace

std::string CsvReading::describe() const {
  if (text.empty()) return "an empty field is read as a missing value";
  std::string out = "the text '" + base::cut_text(text, 100) + "' is read as ";
  if (value.is_null()) return out + "a missing value";
  if (value.is_boolean()) return out + (value.get<bool>() ? "True" : "False");
  return out + "the number " + base::dump_python_json(value);
}

std::vector<CsvReading> csv_readings(const base::fs::path& path, char separator, std::int64_t line) {
  std::vector<std::string> texts, names;
  const std::function<bool(CsvRecord)> put = [&](CsvRecord record) {
    if (names.empty()) {
      names = column_names(record);
      return true;
    }
    if (record.line == line) texts = std::move(record.fields);
    return texts.empty();
  };
  CsvTokenizer tokenizer(path, separator, put);
  FileText text(path);
  bool more = true;
  for (std::string_view block = text.next(); more && !block.empty(); block = text.next())
    more = tokenizer.put(block);
  if (more) tokenizer.end();
  texts.resize(names.size());
  std::vector<CsvReading> out;
  // The values are those of the columns' types, which more rows decide.
  for_each_csv_row(FileText(path), path, separator, [&](const Json& row, std::int64_t at) {
    if (at != line) return true;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const Json& value = row.at(names[i]);
      if (!value.is_string())
        out.push_back({.column = names[i], .text = texts[i], .value = value, .line = line});
    }
    return false;
  });
  return out;
}

void for_each_csv_row(FileText text, const base::fs::path& path, char separator,
                      const std::function<bool(Json, std::int64_t)>& take,
                      const std::function<void(const CsvReading&)>& read) {
  CsvRows rows(path, take, read);
  const std::function<bool(CsvRecord)> put = [&rows](CsvRecord record) {
    return rows.put(std::move(record));
  };
  CsvTokenizer tokenizer(path, separator, put);
  for (std::string_view block = text.next(); !block.empty(); block = text.next()) {
    if (!tokenizer.put(block)) return;
  }
  tokenizer.end();
  rows.decide();
}

}  // namespace hone::data
