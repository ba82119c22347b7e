// Rows that nobody means well, and the fuzz tests of all readers of rows.
#include <gtest/gtest.h>

#include <ctime>
#include <fstream>

#include "base/error.h"
#include "data/forms/preferences.h"
#include "data/forms/prompts.h"
#include "data/forms/rows.h"
#include "data/forms/unpaired.h"
#include "data/pair_lists.h"
#include "fuzz/mutate.h"

namespace hone::data {
namespace hostile_rows_test {

namespace fs = base::fs;

class HostileRows : public ::testing::Test {
 protected:
  HostileRows() : file_(fs::temp_directory_path() / ("hone_rows_" + std::to_string(::getpid()) + ".jsonl")) {}
  ~HostileRows() override { fs::remove(file_); }

  const fs::path& write(const std::string& text) const {
    std::ofstream(file_, std::ios::binary) << text;
    return file_;
  }
  // Every reader that takes rows from a file.
  void read_all(const std::string& text) const {
    write(text);
    std::string error;
    int refused = 0;
    const auto one = [&](auto&& read) {
      try {
        read();
      } catch (const base::UserError& thrown) {
        error = thrown.what();
        EXPECT_LT(error.size(), 100'000U);
        ++refused;
      }
    };
    one([&] { parse_rows(text, file_, "text"); });
    one([&] { read_prompts(file_); });
    one([&] { read_prompt_rows(file_); });
    one([&] { read_preference_rows(file_); });
    one([&] { parse_preference_rows(text, file_, ImplicitPrompts::kKeep); });
    one([&] { read_unpaired_rows(file_); });
    if (refused == 6)
      throw base::UserError({.where = "all", .expected = "", .found = error, .cause = "", .fix = ""});
  }
  std::string error_of(const std::string& text) const {
    try {
      read_all(text);
    } catch (const base::UserError& error) {
      return error.what();
    }
    return "";
  }

 private:
  fs::path file_;
};

TEST_F(HostileRows, DeepNumbersAndEncodings) {
  const std::string deep = R"({"text": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  EXPECT_NE(error_of(deep).find("256 levels"), std::string::npos);
  EXPECT_NE(error_of(R"({"text": 1e999})").find("too large for a double"), std::string::npos);
  EXPECT_NE(error_of(R"({"text": "\ud800"})").find("expected JSON"), std::string::npos);
  EXPECT_NE(error_of("{\"text\": \"\xED\xA0\x80\"}").find("expected JSON"), std::string::npos);
  EXPECT_NE(error_of(std::string("\xFF\xFE{\0\"\0", 6)).find("UTF-16"), std::string::npos);
  EXPECT_NE(error_of(std::string(5000, '\0')).find("expected JSON"), std::string::npos);
  EXPECT_EQ(error_of("\xEF\xBB\xBF{\"text\": \"a\"}"), "");
  EXPECT_EQ(error_of(R"({"text": "a\u0000b", "prompt": "\u0000"})"), "");
}

TEST_F(HostileRows, ManyColumnsInLinearTime) {
  std::string row = R"({"prompt": "a")";
  for (int i = 0; i < 30'000; ++i) row += ",\"column" + std::to_string(i) + "\":1";
  const std::clock_t begin = std::clock();
  // The second row has one column more, so that all are filled up.
  const auto rows = read_prompt_rows(write(row + "}\n" + row + ",\"more\":2}\n"));
  EXPECT_EQ(rows[0].columns.size(), 30'001U);
  EXPECT_TRUE(rows[0].columns.back().is_null());
  EXPECT_LT(error_of("{" + row.substr(row.find(',') + 1) + "}").size(), 2000U) << "not every column is named";
  EXPECT_LT(std::clock() - begin, 10 * CLOCKS_PER_SEC);
}

TEST_F(HostileRows, ManyKeysOfAMessageInLinearTime) {
  std::string message = R"({"role": "user", "content": "a")";
  for (int i = 0; i < 50'000; ++i) message += ",\"k" + std::to_string(i) + "\":1";
  const std::string side = "[" + message + R"(},{"role": "assistant", "content": ")";
  const std::clock_t begin = std::clock();
  const std::string row = R"({"chosen": )" + side + R"(a"}], "rejected": )" + side + R"(b"}]})";
  EXPECT_EQ(parse_preference_rows(row, "d.jsonl", ImplicitPrompts::kExtract).rows.size(), 1U);
  EXPECT_LT(std::clock() - begin, 5 * CLOCKS_PER_SEC);
}

std::vector<std::string> corpus() {
  return {
      R"({"text": "a"})",
      R"({"prompt": "a", "completion": " b", "label": true, "other": [1, {"x": null}]})",
      R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": null, "tool_calls": []}]})",
      R"({"conversations": [{"from": "human", "value": "hi"}], "tools": "[{\"name\": \"f\"}]"})",
      R"({"prompt": [{"role": "user", "content": "q"}], "chosen": [{"role": "assistant", "content": "a"}],)"
      R"( "rejected": [{"role": "assistant", "content": "b"}], "margin": 0.5, "chat_template_kwargs": {"a": 1}})",
      R"({"chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],)"
      R"( "rejected": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "b"}]})",
      R"({"chosen_ids": [1, 2], "rejected_ids": [1, 3], "margin": 1e308})",
      R"({"chosen": "The é", "rejected": "The è"})",
  };
}

// A file of one to three rows, of which some are mutated.
std::string mutated_rows(const std::string& row, fuzz::Random& random) {
  std::string out = random.below(3) == 0 ? row + "\n" : "";
  out += fuzz::mutated_json_text(row, random) + "\n";
  if (random.below(3) == 0) out += fuzz::mutated_json_text(row, random);
  return out;
}

TEST_F(HostileRows, Fuzz) {
  fuzz::run(fuzz::seconds(2), corpus(), mutated_rows, [this](const std::string& text) { read_all(text); });
}

TEST_F(HostileRows, FuzzSlow) {
  fuzz::run(fuzz::seconds(60), corpus(), mutated_rows, [this](const std::string& text) { read_all(text); });
}

}  // namespace hostile_rows_test
}  // namespace hone::data
