// row_function: the user's Python on every row, and what becomes of one that raises, hangs, dies or returns something else.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "data/files/row_source.h"

namespace hone::data {
namespace row_function_test {

using base::Json;

class RowFunctions : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = base::fs::temp_directory_path() / ("hone_row_function_" + std::to_string(::getpid()));
    base::fs::create_directories(folder_);
  }
  void TearDown() override { base::fs::remove_all(folder_); }

  void rows(const std::string& text) { std::ofstream(folder_ / "rows.jsonl") << text; }
  base::RowFiles asked(const std::string& python, const std::string& name = "row") {
    std::ofstream(folder_ / "map.py") << python;
    base::RowFiles out(folder_ / "rows.jsonl");
    out.mapping.function = {.word = (folder_ / "map.py").string() + ":" + name};
    return out;
  }
  static std::vector<Json> read(const base::RowFiles& files) {
    std::vector<Json> out;
    RowNames names;
    RowSource(files).for_each(names, [&](Json row, int number) {
      row["number"] = number;
      out.push_back(std::move(row));
    });
    return out;
  }
  void expect_fault(const base::RowFiles& files, const std::vector<std::string>& says) {
    try {
      read(files);
      FAIL();
    } catch (const base::UserError& error) {
      const std::string text = error.what();
      for (const std::string& part : says) EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  }
  base::fs::path folder_;
};

TEST_F(RowFunctions, ARowBecomesNoneOneOrSeveral) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += R"({"i": )" + std::to_string(i) + R"(, "m": [{"é": null}]})" + "\n";
  rows(text);
  base::RowFiles files = asked(
      "def row(row):\n"
      "    i = row['i']\n"
      "    if i % 3 == 0: return None\n"
      "    if i % 3 == 1: return dict(row, text=f'row {i}')\n"
      "    return [{'text': 'a', 'i': i, 'pair': (1, 2.5)}, {'text': 'b', 'i': i}]\n");
  const std::vector<Json> found = read(files);
  ASSERT_EQ(found.size(), 199U);  // 67 rows of one, 66 of two
  EXPECT_EQ(found[0].dump(), R"({"i":1,"m":[{"é":null}],"text":"row 1","number":2})");
  EXPECT_EQ(found[1].dump(), R"({"text":"a","i":2,"pair":[1,2.5],"number":3})");
  EXPECT_EQ(found.back()["number"], 200);
  // Names, forms and templates come after it.
  files.mapping.columns = {{"text", "prompt"}};
  files.mapping.text_template = "{prompt}!";
  EXPECT_EQ(read(files)[0]["text"], "row 1!");
}

TEST_F(RowFunctions, WhatRaisesNamesTheRowAndTheLine) {
  rows("{\"i\": 1}\n{\"j\": 2}\n");
  expect_fault(asked("def row(row):\n    return {'text': row['i']}\n"),
               {"rows.jsonl:2]", "KeyError: 'i' (map.py:2 in row)", "Traceback"});
}

TEST_F(RowFunctions, WhatIsNoRowIsSaid) {
  rows("{\"i\": 1}\n");
  expect_fault(asked("def row(row):\n    return 'a'\n"), {"rows.jsonl:1]", "a str: 'a'"});
  expect_fault(asked("def row(row):\n    return {'a': {1, 2}}\n"), {"column 'a' is a set"});
  expect_fault(asked("def row(row):\n    return {'a': float('nan')}\n"), {"column 'a' is nan"});
  expect_fault(asked("def row(row):\n    return {1: 2}\n"), {"the key 1"});
  expect_fault(asked("def row(row):\n    return None\n"), {"row_function dropped all 1"});
}

TEST_F(RowFunctions, OneThatHangsOrDiesIsEnded) {
  rows("{\"i\": 1}\n{\"i\": 2}\n");
  base::RowFiles hangs =
      asked("import time\ndef row(row):\n    if row['i'] == 2:\n        time.sleep(60)\n    return row\n");
  hangs.mapping.function.seconds = 0.5;
  expect_fault(hangs, {"rows.jsonl:2]", "no answer within 0.5 s (map.py:4 in row)", "row_timeout"});
  expect_fault(asked("import os\ndef row(row):\n    print('goodbye', flush=True)\n    os._exit(3)\n"),
               {"rows.jsonl:1]", "ended with status 3", "goodbye"});
}

TEST_F(RowFunctions, WhatCannotBeLoadedIsSaid) {
  rows("{\"i\": 1}\n");
  expect_fault(asked("def rows(row):\n    return row\n"), {"a function row in map.py", "did you mean rows?"});
  expect_fault(asked("import absent_package\n"), {"map.py imports without an error", "absent_package"});
  expect_fault(asked("def row():\n    return {}\n"), {"a function of one row"});
  expect_fault(asked("async def row(row):\n    return {}\n"), {"an async function"});
  base::RowFiles files = asked("def row(row):\n    return row\n");
  files.mapping.function.python = "/nowhere/python";
  expect_fault(files, {"a Python interpreter to run row_function", "--python"});
  files.mapping.function.word = "row";
  expect_fault(files, {"path/to/file.py:function or package.module.function"});
}

TEST_F(RowFunctions, OnlyTheFirstRowsAreAskedFor) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += R"({"i": )" + std::to_string(i) + "}\n";
  rows(text);
  const base::RowFiles files = asked("def row(row):\n    assert row['i'] < 200\n    return row\n");
  RowNames names;
  int count = 0;
  RowSource(files).for_first(5, names, [&](Json, int) { ++count; });
  EXPECT_EQ(count, 5);
}

}  // namespace row_function_test
}  // namespace hone::data
