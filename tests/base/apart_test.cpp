// What is read is held against where is written (base/files/apart.h), through every kind of link.
#include "base/files/apart.h"

#include <gtest/gtest.h>

#include "base/helpers.h"

namespace hone::base {
namespace apart_test {

bool is_runs(const std::string& name) {
  return name == "config.json" || name == "metrics.jsonl" || name.starts_with("checkpoint-");
}

class Apart : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "model");
    put(folder_ / "model/config.json", "{}");
    put(folder_ / "model/model.safetensors", "weights");
    put(folder_ / "rows.jsonl", "rows");
    fs::create_directories(folder_ / "out");
  }
  // "" where they are apart.
  std::string refusal(const fs::path& output, const fs::path& read) const {
    return thrown([&] {
      require_apart({{.option = "output_dir", .path = folder_ / output.string(), .touches = is_runs}},
                    {{.option = "model_name_or_path", .path = folder_ / read.string()}});
    });
  }
  std::string file_refusal(const fs::path& output, const fs::path& read) const {
    return thrown([&] {
      require_apart({{.option = "output", .path = folder_ / output.string()}},
                    {{.option = "prompts", .path = folder_ / read.string()}});
    });
  }
  static std::string thrown(const std::function<void()>& work) {
    try {
      work();
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }
  TempFolder folder_;
};

TEST_F(Apart, TheSameFolderByAnyName) {
  fs::create_directory_symlink("model", folder_ / "link");
  fs::create_directory_symlink("link", folder_ / "link-of-link");
  for (const char* name :
       {"model", "model/", "model/.", "out/../model", "link", "link-of-link", "link/../model"}) {
    const std::string text = refusal(name, "model");
    EXPECT_NE(text.find("is the same folder"), std::string::npos) << name << ": " << text;
    EXPECT_NE(text.find("model_name_or_path"), std::string::npos) << text;
    EXPECT_NE(refusal("model", name), "") << name;
  }
}

TEST_F(Apart, FoldersAroundAndWithinEachOther) {
  EXPECT_EQ(refusal("out", "model"), "");
  EXPECT_EQ(refusal("model/out", "model"), "") << "nothing is there yet";
  fs::create_directories(folder_ / "model/out/checkpoint-5");
  put(folder_ / "model/out/metrics.jsonl", "");
  EXPECT_EQ(refusal("model/out", "model"), "") << "what lies in the model's folder is not the model";
  fs::create_directories(folder_ / "out/base");
  put(folder_ / "out/base/config.json", "{}");
  EXPECT_EQ(refusal("out", "out/base"), "");
  EXPECT_EQ(refusal("out", "absent"), "");
  EXPECT_EQ(refusal("absent", "model"), "");
}

TEST_F(Apart, WhatARunWouldReplace) {
  fs::create_directories(folder_ / "out/checkpoint-5/inner");
  put(folder_ / "out/checkpoint-5/config.json", "{}");
  put(folder_ / "out/metrics.jsonl", "rows");
  EXPECT_NE(refusal("out", "out/checkpoint-5"), "");
  EXPECT_NE(refusal("out", "out/checkpoint-5/inner"), "");
  EXPECT_NE(refusal("out", "out/checkpoint-5/config.json"), "");
  EXPECT_NE(refusal("out", "out/metrics.jsonl"), "");
  put(folder_ / "out/rows.jsonl", "rows");
  EXPECT_EQ(refusal("out", "out/rows.jsonl"), "") << "no name of the run's";
  fs::create_symlink("out/metrics.jsonl", folder_ / "rows-link.jsonl");
  EXPECT_NE(refusal("out", "rows-link.jsonl"), "");
}

TEST_F(Apart, LinksFromTheOutputToWhatIsRead) {
  fs::create_hard_link(folder_ / "rows.jsonl", folder_ / "out/metrics.jsonl");
  EXPECT_NE(refusal("out", "rows.jsonl"), "");
  fs::remove(folder_ / "out/metrics.jsonl");
  EXPECT_EQ(refusal("out", "rows.jsonl"), "");
  fs::create_symlink("../rows.jsonl", folder_ / "out/metrics.jsonl");
  EXPECT_NE(refusal("out", "rows.jsonl"), "");
  fs::create_directory_symlink("../model", folder_ / "out/checkpoint-7");
  EXPECT_NE(refusal("out", "model"), "") << "a staged folder replaces the link's target";
  fs::remove(folder_ / "out/checkpoint-7");
  fs::create_directory(folder_ / "out/checkpoint-8");
  fs::create_hard_link(folder_ / "model/model.safetensors", folder_ / "out/checkpoint-8/model.safetensors");
  EXPECT_NE(refusal("out", "model"), "");
}

TEST_F(Apart, AFileThatIsWritten) {
  EXPECT_NE(file_refusal("rows.jsonl", "rows.jsonl"), "");
  EXPECT_NE(file_refusal("out/../rows.jsonl", "rows.jsonl"), "");
  EXPECT_EQ(file_refusal("new.jsonl", "rows.jsonl"), "");
  EXPECT_NE(file_refusal("model/config.json", "model"), "") << "a file of a folder that is read";
  EXPECT_EQ(file_refusal("model/new.json", "model"), "");
  fs::create_symlink("rows.jsonl", folder_ / "link.jsonl");
  fs::create_hard_link(folder_ / "rows.jsonl", folder_ / "hard.jsonl");
  EXPECT_NE(file_refusal("link.jsonl", "rows.jsonl"), "");
  EXPECT_NE(file_refusal("hard.jsonl", "rows.jsonl"), "");
}

TEST_F(Apart, AnotherCaseCountsToo) {
  put(folder_ / "out/Metrics.JSONL", "rows");
  EXPECT_NE(refusal("out", "out/Metrics.JSONL"), "") << "on some file systems it is the run's metrics.jsonl";
}

}  // namespace apart_test
}  // namespace hone::base
