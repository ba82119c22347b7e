// JSON Lines and CSV that are not quite so, against datasets (tests/parity/record_text_rows.py).
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "base/error.h"
#include "data/forms/rows.h"
#include "data/forms/unpaired.h"
#include "data/pair_lists.h"

namespace hone::data {
namespace text_rows_golden_test {

using base::Json;

const base::fs::path kFolder =
    base::fs::temp_directory_path() / ("hone_text_rows_" + std::to_string(::getpid()));

class TextRows : public testing::Test {
 protected:
  TextRows() { base::fs::create_directories(kFolder); }
  ~TextRows() override { base::fs::remove_all(kFolder); }

  static base::fs::path write(const std::string& name, const std::string& bytes) {
    std::ofstream(kFolder / name, std::ios::binary) << bytes;
    return kFolder / name;
  }
};

std::string bytes_of(const std::string& latin) {
  std::string out;
  for (std::size_t i = 0; i < latin.size(); ++i) {
    const auto byte = static_cast<unsigned char>(latin[i]);
    out += byte < 0x80
               ? latin[i]
               : static_cast<char>((byte & 3U) << 6U | (static_cast<unsigned char>(latin[++i]) & 0x3FU));
  }
  return out;
}

struct Read {
  Json rows = Json::array();
  std::string error;
  SeenRows seen;
};

Read read(const base::fs::path& path) {
  Read out;
  RowNames names;
  try {
    RowSource(path).for_each(names, [&out](Json row, int) { out.rows.push_back(std::move(row)); });
  } catch (const base::UserError& error) {
    out.error = error.what();
  }
  out.seen = names.seen();
  return out;
}

// Arrow has one kind of number in a list.
void make_floats(Json& value) {
  if (value.is_number()) value = value.get<double>();
  if (!value.is_structured()) return;
  for (Json& each : value) make_floats(each);
}

// In text, where NaN equals itself; columns that only datasets fills with null are left out.
std::string comparable(Json rows) {
  for (Json& row : rows) {
    for (auto at = row.begin(); at != row.end();) at = at->is_null() ? row.erase(at) : std::next(at);
  }
  make_floats(rows);
  return base::dump_python_json(rows);
}

TEST_F(TextRows, AreThoseOfDatasets) {
  const Json recorded =
      base::parse_python_json(base::read_text(HONE_FIXTURES "/data/text_rows.json"), "text_rows.json");
  int rows = 0, errors = 0;
  for (const Json& one : recorded["files"]) {
    const std::string name = one["file"];
    const Read found = read(write(name, bytes_of(one["bytes"])));
    // Files that were joined: a mark at the beginning of a row is no part of it.
    const bool lenient = name == "bom_within.jsonl";
    if (one.contains("error") && !lenient) {
      EXPECT_NE(found.error.find(name + ":"), std::string::npos) << name << found.error << found.rows.dump();
      EXPECT_NE(found.error.find("do:"), std::string::npos) << found.error;
      ++errors;
    } else {
      EXPECT_EQ(found.error, "") << name;
      const Json expected = lenient ? Json::parse(R"([{"text": "a"}, {"text": "c"}])") : one["rows"];
      EXPECT_EQ(comparable(found.rows), comparable(expected)) << name;
      ++rows;
    }
  }
  EXPECT_GT(rows, 25);
  EXPECT_GT(errors, 10);
}

TEST_F(TextRows, AnErrorIsAtTheLineThatIsWrong) {
  const auto where = [](const std::string& name, const std::string& bytes) {
    return read(write(name, bytes)).error;
  };
  EXPECT_NE(where("a.jsonl", "{\"text\": \"a\"\n{\"text\": \"b\"}\n{\"text\": \"c\"}\n").find("a.jsonl:1"),
            std::string::npos);
  EXPECT_NE(where("b.jsonl", "{\"text\": \"a\"}\n{\n\"text\": 1,\n}\n").find("b.jsonl:4"), std::string::npos);
  EXPECT_NE(where("c.jsonl", "{\"text\": \"a\"}\n{\"text\": \"open\n{\"text\": \"c\"}\n").find("c.jsonl:2"),
            std::string::npos);
  EXPECT_NE(where("d.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"},\n").find("a comma after the row"),
            std::string::npos);
  EXPECT_NE(where("e.jsonl", "{\"text\": \"a\", \"text\": \"b\"}\n").find("'text' twice"), std::string::npos);
  EXPECT_NE(where("f.jsonl", "{\"a\": [{\"x\": 1},\n{\"x\": 2}]}\n{\"a\": []}\nx\n").find("f.jsonl:4"),
            std::string::npos);
}

TEST_F(TextRows, AnErrorAboutAValueThatPandasMadeSaysSo) {
  const auto error = [](const std::string& text) {
    const base::fs::path path = write("x.csv", text);
    try {
      (void)read_rows(RowSource(path), "text");
    } catch (const base::UserError& caught) {
      return std::string(caught.what());
    }
    return std::string("no error");
  };
  const std::string missing = error("prompt,completion\nq,NA\nr,s\n");
  for (const char* part :
       {"x.csv:2", "'completion'", "the text 'NA' is read as a missing value", "JSON Lines"})
    EXPECT_NE(missing.find(part), std::string::npos) << part << missing;
  EXPECT_NE(error("prompt,completion\nq,007\nr,8\n").find("the text '007' is read as the number 7"),
            std::string::npos);
  EXPECT_NE(error("prompt,completion\nq,true\n").find("the text 'true' is read as True"), std::string::npos);
  EXPECT_NE(error("prompt,completion\nq,\nr,s\n").find("an empty field is read as a missing value"),
            std::string::npos);
  EXPECT_NE(error("prompt;completion\nq;s\n").find("separated by ';'"), std::string::npos);
  const base::fs::path label = write("l.csv", "prompt,completion,label\na,b,True\nc,d,nan\n");
  try {
    (void)read_unpaired_rows(RowSource(label));
    ADD_FAILURE();
  } catch (const base::UserError& caught) {
    EXPECT_NE(std::string(caught.what()).find("l.csv:3 label"), std::string::npos) << caught.what();
    EXPECT_NE(std::string(caught.what()).find("the text 'nan' is read as a missing value"),
              std::string::npos);
  }
}

TEST_F(TextRows, AFieldThatIsReadAsAnotherValueIsSeen) {
  const SeenRows seen =
      read(write("s.csv", "prompt,answer,n,f,t\na,007,1,2.50,true\nb,8,2,1,false\nc,9,3,2,true\n")).seen;
  ASSERT_EQ(seen.readings.size(), 3U);
  EXPECT_EQ(seen.readings[0].column, "answer");
  EXPECT_EQ(seen.readings[0].describe(), "the text '007' is read as the number 7");
  EXPECT_EQ(seen.readings[1].column, "f");
  EXPECT_EQ(seen.readings[2].describe(), "the text 'true' is read as True");
  const SeenRows both = read(write("b.csv", "prompt,answer\na,007\nb,\nc,NA\nd,08\ne,null\n")).seen;
  ASSERT_EQ(both.readings.size(), 2U);
  EXPECT_EQ(both.readings[0].describe(), "the text '007' is read as the number 7.0");
  EXPECT_EQ(both.readings[1].describe(), "the text 'NA' is read as a missing value");
  EXPECT_EQ(both.readings[1].line, 4);
}

}  // namespace text_rows_golden_test
}  // namespace hone::data
