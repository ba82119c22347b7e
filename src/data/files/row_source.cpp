#include "data/files/row_source.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/numeric.h"
#include "base/strings/suggest.h"
#include "base/strings/utf8.h"
#include "data/files/describe_row.h"
#include "data/files/kept_texts.h"
#include "data/files/map_row.h"
#include "data/files/row_function.h"
#include "data/forms/system_turn.h"
#include "data/records/shuffle.h"

namespace hone::data {

using base::Json;
using base::RowPart;
using base::RowSet;
using base::RowSlice;
using base::UserError;

namespace {

constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();

// Python's round: halves to even.
std::int64_t rounded(double value) {
  return static_cast<std::int64_t>(std::nearbyint(value));
}

// ---- slices (datasets/arrow_reader.py, _rel_to_abs_instr)

struct RowRange {
  std::int64_t from = 0, to = kAll;
  std::int64_t size() const { return std::max<std::int64_t>(to - from, 0); }
};

bool needs_count(const RowSlice& slice) {
  return slice.percent || slice.from.value_or(0) < 0 || slice.to.value_or(0) < 0;
}

std::int64_t of_percent(std::int64_t percent, std::int64_t rows, const RowPart& part) {
  if (!part.slice.drop_remainder)
    return rounded(static_cast<double>(percent) * static_cast<double>(rows) / 100);
  if (rows >= 100) return percent * (rows / 100);
  throw UserError({.where = "split '" + part.split + "'",
                   .expected = "at least 100 rows for the rounding pct1_dropremainder",
                   .found = std::to_string(rows),
                   .cause = "a percent of fewer rows is no row",
                   .fix = "leave (pct1_dropremainder) out"});
}

// `rows`: of the part's files, kAll where the slice does not ask for it.
RowRange range_of(const RowPart& part, std::int64_t rows) {
  const auto bound = [&](const std::optional<std::int64_t>& asked, std::int64_t otherwise) {
    if (!asked) return otherwise;
    std::int64_t out = part.slice.percent ? of_percent(*asked, rows, part) : *asked;
    if (out < 0) out = std::max<std::int64_t>(rows + out, 0);
    return std::min(out, rows);
  };
  return {.from = bound(part.slice.from, 0), .to = bound(part.slice.to, rows)};
}

using OpenFile = std::shared_ptr<const RowFile>;

struct OpenPart {
  std::vector<OpenFile> files;
  RowRange range;
};

std::int64_t count_of(const std::vector<OpenFile>& files) {
  std::int64_t rows = 0;
  for (const OpenFile& file : files) rows += file->count();
  return rows;
}

// `counted`: the range's end is a number of rows, not kAll.
OpenPart open_part(const RowPart& part, bool counted) {
  OpenPart out;
  for (const base::fs::path& path : part.files) out.files.push_back(std::make_shared<const RowFile>(path));
  out.range = range_of(part, counted || needs_count(part.slice) ? count_of(out.files) : kAll);
  return out;
}

struct OpenSet {
  const RowSet* set = nullptr;
  std::vector<OpenPart> parts;
  std::int64_t most = kAll;  // rows of the set that the mixture takes

  std::int64_t rows() const {
    std::int64_t sum = 0;
    for (const OpenPart& part : parts) sum += part.range.size();
    return sum;
  }
};

// TRL 1.16's get_dataset: of each set its first round(weight * total) rows, `total` such that none is used up twice.
void share_out(std::vector<OpenSet>& sets) {
  double sum = 0;
  for (const OpenSet& set : sets) sum += *set.set->fraction;
  double total = std::numeric_limits<double>::infinity();
  for (const OpenSet& set : sets) {
    const double weight = *set.set->fraction / sum;
    if (weight > 0) total = std::min(total, static_cast<double>(set.rows()) / weight);
  }
  for (OpenSet& set : sets) set.most = rounded(*set.set->fraction / sum * total);
}

std::vector<OpenSet> open_sets(const base::RowFiles& files) {
  std::vector<OpenSet> out;
  const bool shares = !files.sets.empty() && files.sets.front().fraction.has_value();
  for (const RowSet& set : files.sets) {
    OpenSet opened{.set = &set};
    for (const RowPart& part : set.parts) opened.parts.push_back(open_part(part, shares || set.first));
    if (set.first && !set.drawn)
      opened.most = static_cast<std::int64_t>(std::floor(*set.first * static_cast<double>(opened.rows())));
    out.push_back(std::move(opened));
  }
  if (shares) share_out(out);
  return out;
}

// ---- columns

Json select_columns(Json row, const RowSet& set, const RowNames& names, int number) {
  if (set.columns.empty()) return row;
  Json out = Json::object();
  for (const std::string& column : set.columns) {
    if (!row.contains(column)) {
      const std::vector<std::string> there = columns_of(row);
      throw UserError({.where = names.of(number),
                       .expected = "the column '" + base::cut_text(column, 100) + "', which `columns` of " +
                                   set.name + " names",
                       .found = "columns: " + join(there) + "." + base::did_you_mean(column, there),
                       .cause = "",
                       .fix = "correct `columns`"});
    }
    out[column] = std::move(row[column]);
  }
  return out;
}

// Gives the rows of a mixture, and says which columns differ where one of its sets has rows of another kind.
class Mixture {
 public:
  explicit Mixture(const RowSource::Take& take) : take_(take) {}

  void give(const RowSet& set, Json row, int number) {
    if (&set == set_) return take_(std::move(row), number);
    set_ = &set;
    std::vector<std::string> columns = columns_of(row);
    if (first_set_ == nullptr) {
      first_set_ = &set;
      first_columns_ = std::move(columns);
      return take_(std::move(row), number);
    }
    try {
      take_(std::move(row), number);
    } catch (const UserError& error) {
      if (columns == first_columns_) throw;
      throw UserError({.where = "datasets: " + set.name,
                       .expected = "the columns of " + first_set_->name + ": " + join(first_columns_),
                       .found = join(columns),
                       .cause = "its rows are of another form: " + error.text().where + ": expected " +
                                error.text().expected,
                       .fix = "rename the columns in one of the two, or name those to keep with `columns`"});
    }
  }

 private:
  const RowSource::Take& take_;
  const RowSet* set_ = nullptr;
  const RowSet* first_set_ = nullptr;
  std::vector<std::string> first_columns_;
};

// Rows on their way from a file to take(): chosen columns, the user's function, the mapping.
class RowLine {
 public:
  RowLine(const base::RowFiles& files, RowNames& names, std::int64_t most, const RowSource::Take& take)
      : mapping_(files.mapping),
        empty_system_turn_(files.empty_system_turn),
        names_(names),
        most_(most),
        mixture_(take) {
    if (!mapping_.function.word.empty()) function_.emplace(mapping_.function);
  }

  // False: no more rows are wanted.
  bool give(const RowSet& set, const RowText& row, int number) {
    Json json = select_columns(row.parse(), set, names_, number);
    ++read_;
    if (!function_) return pass(set, std::move(json), number);
    waiting_.push_back(std::move(json));
    places_.push_back({.set = &set, .number = number});
    return waiting_.size() < kFunctionBlock || flush();
  }

  // The rows that wait for the function.
  bool flush() {
    if (waiting_.empty()) return given_ < most_;
    const auto made =
        function_->call(waiting_, [this](std::size_t i) { return names_.of(places_[i].number); });
    const std::vector<Place> places = std::exchange(places_, {});
    waiting_.clear();
    for (std::size_t i = 0; i < made.size(); ++i) {
      for (const Json& row : made[i]) {
        if (!pass(*places[i].set, row, places[i].number)) return false;
      }
    }
    return true;
  }

  std::int64_t given() const { return given_; }
  std::int64_t read() const { return read_; }

 private:
  static constexpr std::size_t kFunctionBlock = 64;
  static constexpr std::int64_t kLookedAt =
      64;  // rows in which an option of the mapping should have an effect
  struct Place {
    const RowSet* set;
    int number;
  };

  bool pass(const RowSet& set, Json row, int number) {
    try {
      if (!mapping_.empty()) row = mapped(set, std::move(row), number);
      if (empty_system_turn_) insert_empty_system_turn(row);
      names_.seen().add(row);
      mixture_.give(set, std::move(row), number);
    } catch (const UserError& error) {
      throw_with_reading(error, number);
    }
    return ++given_ < most_;
  }

  Json mapped(const RowSet& set, Json row, int number) {
    const bool first = std::exchange(mapped_, &set) != &set;
    MapEffects* const effects = given_ < kLookedAt ? &names_.seen().effects : nullptr;
    return map_row(std::move(row), mapping_, names_.of(number), first, effects);
  }

  // An error about a value that pandas made of a text says so.
  [[noreturn]] void throw_with_reading(const UserError& error, int number) const {
    base::ErrorText text = error.text();
    const bool of_this_row = text.where.starts_with(names_.of(number));
    const std::vector<std::string>& columns = names_.seen().columns;
    const std::size_t separator =
        columns.size() == 1 ? columns.front().find_first_of(";|\t,") : std::string::npos;
    if (of_this_row && separator != std::string::npos && names_.is_csv(number)) {
      text.cause = std::string("the fields of the file are separated by '") + columns.front()[separator] +
                   "', and CSV is read with ',', TSV with a tab";
      text.fix = "write the file with commas, or with tabs and the ending .tsv";
      throw UserError(text);
    }
    for (const CsvReading& one : of_this_row ? names_.readings(number) : std::vector<CsvReading>()) {
      const auto renamed = std::find_if(mapping_.columns.begin(), mapping_.columns.end(),
                                        [&one](const auto& each) { return each.first == one.column; });
      const std::string name = renamed == mapping_.columns.end() ? one.column : renamed->second;
      const bool about_it =
          text.where.ends_with(" " + name) || text.expected.find("'" + name + "'") != std::string::npos;
      if (!about_it) continue;
      text.cause = "in the column '" + base::cut_text(one.column, 100) + "' " + one.describe() +
                   ", as pandas reads CSV, and datasets with it";
      text.fix = "write the rows as JSON Lines, where a text stays one, or another text into this field";
      throw UserError(text);
    }
    throw error;
  }

  const base::RowMapping& mapping_;
  bool empty_system_turn_;
  RowNames& names_;
  std::int64_t most_, given_ = 0, read_ = 0;
  Mixture mixture_;
  std::optional<RowFunction> function_;
  std::vector<Json> waiting_;
  std::vector<Place> places_;
  const RowSet* mapped_ = nullptr;  // the set of the last row
};

// ---- reading

using TakeText = std::function<bool(const RowSet&, const RowText&, int)>;

// False when `take` wants no more.
bool each_text(const OpenSet& set, RowNames& names, int& last, const TakeText& take) {
  std::int64_t left = set.most;
  bool more = true;
  for (const OpenPart& part : set.parts) {
    std::int64_t at = 0;  // rows of the part that were passed
    for (const OpenFile& file : part.files) {
      if (left == 0 || !more || at >= part.range.to) break;
      const int before = last;
      names.begin(file, before);
      const auto take_row = [&](const RowText& row, int number) {
        last = base::narrow<int>(std::int64_t{before} + number);
        const std::int64_t place = at++;
        if (place < part.range.from) return true;
        if (place >= part.range.to) return false;
        more = take(*set.set, row, last);
        return more && --left > 0;
      };
      file->for_each(take_row, [&names](const CsvReading& one) { names.seen().readings.push_back(one); });
    }
  }
  return more;
}

void each_text(const base::RowFiles& files, RowNames& names, const TakeText& take) {
  int last = 0;
  for (const OpenSet& set : open_sets(files)) {
    if (!each_text(set, names, last, take)) return;
  }
}

struct KeptRow {
  const RowSet* set;
  const base::fs::path* path;
  KeptTexts::Place text;
  int line, number;
};

std::vector<KeptRow> all_rows(const base::RowFiles& files, RowNames& names, KeptTexts& texts) {
  std::vector<KeptRow> out;
  each_text(files, names, [&](const RowSet& set, const RowText& row, int number) {
    out.push_back({.set = &set,
                   .path = &row.path(),
                   .text = texts.add(row.json()),
                   .line = row.line(),
                   .number = number});
    return true;
  });
  return out;
}

// open-r1's get_dataset (src/open_r1/utils/data.py): of each set the share that is drawn, then all together, each
// time in the order of `seed`.
std::vector<KeptRow> shuffled(std::vector<KeptRow> rows, std::uint64_t seed) {
  std::vector<KeptRow> out;
  for (auto at = rows.begin(); at != rows.end();) {
    const RowSet* const set = at->set;
    const auto end = std::find_if(at, rows.end(), [set](const KeptRow& row) { return row.set != set; });
    std::vector<KeptRow> group(std::make_move_iterator(at), std::make_move_iterator(end));
    if (set->drawn) {
      dataset_shuffle(group, seed);
      const double share = set->first.value_or(1) * static_cast<double>(group.size());
      group.erase(group.begin() + std::min(static_cast<std::ptrdiff_t>(share), std::ssize(group)),
                  group.end());
    }
    std::move(group.begin(), group.end(), std::back_inserter(out));
    at = end;
  }
  dataset_shuffle(out, seed);
  return out;
}

// datasets' train_test_split(test_size, seed).
std::vector<KeptRow> one_side(std::vector<KeptRow> rows, const base::TestSplit& split,
                              const base::fs::path& path) {
  const auto n = static_cast<std::int64_t>(rows.size());
  const auto test =
      static_cast<std::int64_t>(split.size < 1 ? std::ceil(split.size * static_cast<double>(n)) : split.size);
  if (test < 1 || test >= n) {
    throw UserError({.where = path.string(),
                     .expected = "a test_split_size that leaves rows on both sides",
                     .found = std::to_string(test) + " of " + std::to_string(n) + " rows for the test",
                     .cause = "",
                     .fix = "write a number between 0 and 1, or fewer rows"});
  }
  const std::vector<std::int64_t> order = dataset_shuffle(n, split.seed);
  std::vector<KeptRow> out;
  for (std::int64_t i = split.test ? 0 : test; i < (split.test ? test : n); ++i) {
    out.push_back(std::move(rows[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])]));
  }
  return out;
}

}  // namespace

void RowNames::begin(std::shared_ptr<const RowFile> file, int last) {
  files_.push_back({.last = last, .file = std::move(file)});
}

const RowNames::Begun* RowNames::begun(int number) const {
  const auto found = std::find_if(files_.rbegin(), files_.rend(),
                                  [number](const Begun& each) { return each.last < number; });
  return found == files_.rend() ? nullptr : &*found;
}

std::string RowNames::of(int number) const {
  const Begun* const from = begun(number);
  if (from == nullptr) return name_.string() + ":" + std::to_string(number);
  return from->file->where(number - from->last);
}

std::vector<CsvReading> RowNames::readings(int number) const {
  const Begun* const from = begun(number);
  return from == nullptr ? std::vector<CsvReading>() : from->file->readings(number - from->last);
}

bool RowNames::is_csv(int number) const {
  const Begun* const from = begun(number);
  return from != nullptr &&
         (from->file->format() == FileFormat::kCsv || from->file->format() == FileFormat::kTsv);
}

RowSource::RowSource(base::RowFiles files) : files_(std::move(files)) {}

RowSource::RowSource(RowSource source, std::int64_t most) : files_(std::move(source.files_)), most_(most) {
  files_.test_split.reset();
  files_.shuffle_seed.reset();
}

RowSource::RowSource(const base::fs::path& path)
    : files_(base::fs::is_directory(path) ? path / "train.jsonl" : path) {}

base::fs::path RowSource::path() const {
  const std::vector<base::fs::path> all = files_.files();
  if (all.size() == 1) return all.front();
  return files_.sets.size() == 1 ? base::fs::path(files_.sets.front().name) : base::fs::path("datasets");
}

void RowSource::for_each(RowNames& names, const Take& take) const {
  for_first(most_ > 0 ? most_ : kAll, names, take);
}

void RowSource::for_first(std::int64_t most, RowNames& names, const Take& take) const {
  names = RowNames(path());
  RowLine line(files_, names, most, take);
  const auto give = [&line](const RowSet& set, const RowText& row, int number) {
    return line.give(set, row, number);
  };
  if (!files_.test_split && !files_.shuffle_seed) {
    each_text(files_, names, give);
  } else {
    KeptTexts texts;
    std::vector<KeptRow> rows = all_rows(files_, names, texts);
    if (files_.shuffle_seed) rows = shuffled(std::move(rows), *files_.shuffle_seed);
    if (files_.test_split) rows = one_side(std::move(rows), *files_.test_split, path());
    for (const KeptRow& row : rows) {
      const std::string text = texts.at(row.text);
      if (!give(*row.set, RowText(text, *row.path, row.line), row.number)) break;
    }
  }
  if (line.given() < most) line.flush();
  if (line.given() > 0) return;
  const bool dropped = line.read() > 0;
  throw UserError(
      {.where = path().string(),
       .expected = "at least one row",
       .found = dropped ? "none: row_function dropped all " + std::to_string(line.read()) : "none",
       .cause = dropped ? "it returned None for every row"
                        : "an empty file, only blank lines, or a split whose slice is empty",
       .fix = dropped ? "let it return a row" : "write one JSON object per line"});
}

}  // namespace hone::data
