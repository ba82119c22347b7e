// What bad data files, splits and mixtures get.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "config/datasets/dataset_files.h"
#include "data/files/row_source.h"

namespace hone::data {
namespace row_file_test {

namespace fs = base::fs;

const fs::path kFixture = fs::path(HONE_FIXTURES) / "data" / "datasets";

class RowFiles : public ::testing::Test {
 protected:
  RowFiles() : folder_(fs::path(testing::TempDir()) / ("hone_row_files_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~RowFiles() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& bytes) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  fs::path fixture(const std::string& name, const std::string& as, std::size_t bytes) const {
    return write(as, base::read_text(kFixture / name).substr(0, bytes));
  }
  base::RowSet find(const std::string& path, const std::string& split = "train",
                    const std::string& config = "") const {
    return config::find_rows({.path = path.starts_with('/') ? path : (folder_ / path).string(),
                              .config = config,
                              .data_dir = "",
                              .data_files = nullptr,
                              .split = split,
                              .split_name = "dataset_train_split",
                              .option = "dataset_name",
                              .where = "run.yaml:3"});
  }
  const fs::path& folder() const { return folder_; }

 private:
  fs::path folder_;
};

std::vector<std::string> names_of(const base::RowFiles& files) {
  std::vector<std::string> out;
  RowNames names;
  RowSource(files).for_each(names, [&](const base::Json&, int number) {
    out.push_back(fs::path(names.of(number)).filename().string());
  });
  return out;
}

template <typename Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const base::UserError& error) {
    return error.what();
  }
  return "no error";
}

std::string read_error(const fs::path& file) {
  return error_of([&] { names_of(base::RowFiles(file)); });
}

void expect_parts(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' in:\n" << message;
  }
}

TEST_F(RowFiles, CsvMistakesAreNamedByLineAndColumn) {
  expect_parts(read_error(write("a.csv", "i,text\n1,\"a\n2,b\n")),
               {"a.csv:2:3]", "a closing quote", "the end of the file"});
  expect_parts(read_error(write("b.csv", "i,text\n1,a\n\n2,b,c\n")), {"b.csv:4]", "2 fields", "found:  3"});
  std::string late = "i\n";
  for (int i = 0; i < 10'000; ++i) late += "1\n";
  expect_parts(read_error(write("c.csv", late + "x\n")),
               {"c.csv:10002]", "column 'i' to be whole numbers", "'x'"});
  EXPECT_EQ(names_of(base::RowFiles(write("c.csv", late + "2\n"))).size(), 10'001U);
  expect_parts(read_error(write("d.csv", "a\n\xFF\n")), {"d.csv:2]", "UTF-8", "field 1"});
  EXPECT_EQ(names_of(base::RowFiles(write("e.csv", "a,b\n\"x\ny\",1\nz,2\n"))),
            (std::vector<std::string>{"e.csv:2", "e.csv:4"}));
  expect_parts(read_error(write("f.csv", "")), {"f.csv]", "at least one row"});
}

TEST_F(RowFiles, JsonLists) {
  EXPECT_EQ(names_of(base::RowFiles(write("a.json", "[\n{\"a\": 1},\n {\"a\": \"]\\\"\"}]\n"))),
            (std::vector<std::string>{"a.json row 1", "a.json row 2"}));
  EXPECT_EQ(names_of(base::RowFiles(write("b.json", "{\"a\": 1}\n{\"a\": 2}\n"))),
            (std::vector<std::string>{"b.json:1", "b.json:2"}));
  // One line that is a row, unless it holds rows.
  EXPECT_EQ(names_of(base::RowFiles(write("c.json", "{\"data\": [1, 2, 3]}"))).size(), 1U);
  EXPECT_EQ(names_of(base::RowFiles(write("c.json", "{\"data\": [{\"a\": 1}, {\"a\": 2}]}"))).size(), 2U);
  EXPECT_EQ(names_of(base::RowFiles(write("c.json", "{\"data\": [{}]}\n{\"data\": [{}]}\n"))).size(), 2U);
  EXPECT_EQ(names_of(base::RowFiles(write("d.jsonl", "[{\"a\": 1}, {\"a\": 2}]"))).size(), 2U);
  expect_parts(read_error(write("e.json", "[{\"a\": 1},\n{\"a\": 2}")),
               {"e.json:2]", "the end of the JSON list"});
  expect_parts(read_error(write("f.json", "[{\"a\": 1},\n]")), {"f.json:2]", "a comma too many"});
  expect_parts(read_error(write("g.json", "[{\"a\": 1}]\n{}")), {"g.json:2]", "nothing after the JSON list"});
  // One row over several lines, as datasets reads it: only `data` holds rows.
  EXPECT_EQ(read_error(write("h.json", "{\n\"rows\": [{\"a\": 1}]\n}")), "no error");
  expect_parts(read_error(write("i.json", "[{\"a\": 1},\n{\"a\": nul}]")), {"i.json:2:"});
  expect_parts(read_error(write("j.json", "[1]")), {"j.json:1]", "found:  a number"});
}

TEST_F(RowFiles, FilesThatAreCutOrLie) {
  const std::string whole = base::read_text(kFixture / "snappy.parquet");
  expect_parts(read_error(fixture("snappy.parquet", "cut.parquet", whole.size() / 2)),
               {"cut.parquet]", "a whole Parquet file", "does not end as one"});
  expect_parts(read_error(write("text.parquet", "{\"a\": 1}\n")), {"text.parquet]", "a whole Parquet file"});
  expect_parts(read_error(write("none.parquet", "")), {"has only 0 bytes"});
  // The middle is gone, so that every offset in the footer lies.
  const std::string lies = whole.substr(0, 200) + whole.substr(whole.size() - 3000);
  expect_parts(read_error(write("lies.parquet", lies)),
               {"lies.parquet]", "a whole Parquet file", "found:  it "});
  expect_parts(read_error(fixture("stream.arrow", "cut.arrow", 3000)), {"cut.arrow]", "ends in the middle"});
  expect_parts(read_error(fixture("file.arrow", "cut_file.arrow", 3000)),
               {"cut_file.arrow]", "ends in the middle"});
  expect_parts(read_error(fixture("rows.jsonl.gz", "cut.jsonl.gz", 300)),
               {"cut.jsonl.gz]", "ends in the middle"});
  expect_parts(read_error(fixture("rows.jsonl.zst", "cut.jsonl.zst", 300)),
               {"cut.jsonl.zst]", "ends in the middle"});
  expect_parts(read_error(write("a.jsonl", "PK\x03\x04 and more")), {"a zip archive", "unpack it"});
}

TEST_F(RowFiles, RowsOfSeveralFilesKeepTheirNames) {
  write("d/train-1.jsonl", "{\"a\": 1}\n\n{\"a\": 2}\n");
  write("d/train-2.jsonl", "{\"a\": 3}\n{\"a\": 4}\n");
  base::RowFiles files;
  files.sets.push_back(find("d", "train[1:]+train[:1]"));
  EXPECT_EQ(names_of(files), (std::vector<std::string>{"train-1.jsonl:3", "train-2.jsonl:1",
                                                       "train-2.jsonl:2", "train-1.jsonl:1"}));
  write("d/train-2.jsonl", "{\"a\": 3}\n{\"a\": x}\n");
  expect_parts(error_of([&] { names_of(files); }), {"train-2.jsonl:2:7]"});
}

TEST_F(RowFiles, SplitsThatAreNotThere) {
  write("d/train.jsonl", "{\"a\": 1}\n");
  write("d/test.jsonl", "{\"a\": 1}\n");
  expect_parts(error_of([&] { find("d", "validation"); }),
               {"run.yaml:3]", "the split 'validation'", "the splits train, test", "dataset_train_split"});
  expect_parts(error_of([&] { find("d", "tran[:5]"); }), {"Did you mean 'train'?"});
  for (const char* bad : {"train[", "train[5]", "train[:x]", "train[:101%]", "[:5]", "train[:5](closest)",
                          "a b", "", "train+", "train[:99999999999999999999]"}) {
    expect_parts(error_of([&] { find("d", bad); }), {"run.yaml:3]", "a split, or a part of one"});
  }
  expect_parts(error_of([&] { find("d", "train", "en"); }), {"the configuration 'en'"});
  expect_parts(error_of([&] { find((kFixture / "configs").string(), "train", "fr"); }),
               {"the configurations en, de"});
  expect_parts(error_of([&] { find("none/*.jsonl"); }), {"the pattern", "*.jsonl", "found:  none"});
  write("e/notes.txt", "text");
  expect_parts(error_of([&] { find("e"); }), {"data files in", "files of other formats"});
  write("f.txt", "text");
  expect_parts(error_of([&] { find("f.txt"); }), {"a file of rows as dataset_name", "f.txt"});
  expect_parts(error_of([&] { find("missing.jsonl"); }), {"run.yaml:3]", "does not exist"});
  base::RowFiles files;
  files.sets.push_back(find("d", "train[1:]"));
  expect_parts(error_of([&] { names_of(files); }), {"at least one row"});
  files.sets = {find("d", "train[:1%](pct1_dropremainder)")};
  expect_parts(error_of([&] { names_of(files); }), {"at least 100 rows"});
}

TEST_F(RowFiles, OwnNamesOfSplits) {
  write("d/train.jsonl", "{\"a\": 1}\n");
  write("d/mine2.jsonl", "{\"a\": 1}\n");
  write("d/more/a.jsonl", "{\"a\": 1}\n");
  EXPECT_EQ(find("d", "mine2").parts.at(0).files, (std::vector<fs::path>{folder() / "d" / "mine2.jsonl"}));
  EXPECT_EQ(find("d", "more").parts.at(0).files, (std::vector<fs::path>{folder() / "d" / "more/a.jsonl"}));
}

TEST_F(RowFiles, AMixturesColumns) {
  base::RowFiles files;
  files.sets.push_back(find(write("a.jsonl", "{\"text\": \"a\", \"n\": 1}\n").string()));
  files.sets.push_back(find(write("b.jsonl", "{\"prompt\": \"a\"}\n{\"prompt\": \"b\"}\n").string()));
  RowNames names;
  const auto need_text = [&](const base::Json& row, int number) {
    if (row.contains("text")) return;
    throw base::UserError(
        {.where = names.of(number), .expected = "text", .found = "", .cause = "", .fix = ""});
  };
  expect_parts(error_of([&] { RowSource(files).for_each(names, need_text); }),
               {"b.jsonl", "the columns of", "a.jsonl: text, n", "found:  prompt", "b.jsonl:1", "`columns`"});
  files.sets[0].columns = {"txt"};
  expect_parts(error_of([&] { RowSource(files).for_each(names, need_text); }),
               {"a.jsonl:1]", "the column 'txt'", "columns: text, n.", "Did you mean 'text'?"});
}

}  // namespace row_file_test
}  // namespace hone::data
