// The rows of a data set: files of any format, splits and their slices, mixtures; in the order of datasets.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"
#include "base/row_files.h"
#include "data/files/row_columns.h"
#include "data/files/row_file.h"

namespace hone::data {

// Messages call the rows by these names. A row's number is its line (or row) in its file plus those of the
// files read before, so that with one file it is the line.
class RowNames {
 public:
  explicit RowNames(base::fs::path name = {}) : name_(std::move(name)) {}

  // Numbers after `last` are now of `file`.
  void begin(std::shared_ptr<const RowFile> file, int last);
  std::string of(int number) const;  // "train.jsonl:12", "train.parquet row 12"
  // The file, or what the user named.
  const base::fs::path& path() const { return name_; }
  // Returns the fields of a CSV's row whose value is not their text (data/files/csv.h).
  std::vector<CsvReading> readings(int number) const;
  bool is_csv(int number) const;

  SeenRows& seen() { return seen_; }
  const SeenRows& seen() const { return seen_; }

 private:
  struct Begun {
    int last;
    std::shared_ptr<const RowFile> file;
  };
  const Begun* begun(int number) const;  // null: none

  base::fs::path name_;
  std::vector<Begun> files_;
  SeenRows seen_;
};

class RowSource {
 public:
  RowSource(
      base::RowFiles files);  // NOLINT(google-explicit-constructor): a data set is what its rows come from
  // A file, or the train.jsonl of a folder.
  RowSource(const base::fs::path& path);  // NOLINT(google-explicit-constructor)
  // Only the first `most` rows of `source`, for what looks at a data set before it is read.
  RowSource(RowSource source, std::int64_t most);

  // take(row, number) for each row, an object, in order, as files().mapping makes it (data/files/map_row.h); `names` knows the rows so
  // far. One row is held at a time, with row_function 64, with a test split or a shuffle_seed all of them, 40 bytes each (data/files/kept_texts.h has the texts). UserError: what data/files/row_file.h,
  // data/files/map_row.h and data/files/row_function.h say, no rows, a column to select that is not there, and of a mixture's sets whose columns differ what take() says of the first row of one of them.
  using Take = std::function<void(base::Json, int)>;
  void for_each(RowNames& names, const Take& take) const;
  // At most the first `most` rows.
  void for_first(std::int64_t most, RowNames& names, const Take& take) const;

  const base::RowFiles& files() const { return files_; }
  // The one file, or what the user named.
  base::fs::path path() const;

 private:
  base::RowFiles files_;
  std::int64_t most_ = 0;  // 0: all
};

// The rows of a data set, or a block of them, whatever their form. A form adds its own, and a function that
// checks a row and puts it to the end: add_row(Json row, int number, its rows), whose first call says the
// form of all.
struct NamedRows {
  base::fs::path path = {};  // RowSource::path
  RowNames names;
  bool begun = false;           // there was a row, in this block or before it
  bool conversational = false;  // the rows' texts are lists of messages
  std::vector<int> lines = {};  // each row's number, as above
  std::int64_t first = 0;       // rows of the data set before these

  // "train.jsonl:12", for messages about row `index`.
  std::string where(std::size_t index) const { return names.of(lines.at(index)); }
};

// All rows. `out`: without rows. UserError: what RowSource::for_each and add_row say.
template <typename RowsOfForm>
RowsOfForm read_all(const RowSource& source, RowsOfForm out) {
  out.path = source.path();
  source.for_each(out.names, [&out](base::Json row, int number) { add_row(std::move(row), number, out); });
  if constexpr (requires { close_block(out); }) close_block(out);
  return out;
}

}  // namespace hone::data
