// Names of the hub, and the cache that huggingface_hub keeps.
#include "config/hub_names.h"

#include "config/helpers.h"

namespace hone::config {
namespace hub_names_test {

constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

class HubNames : public ConfigTest {
 protected:
  void SetUp() override {
    ConfigTest::SetUp();
    setenv("HF_HUB_CACHE", path("hub").c_str(), 1);
  }
  void TearDown() override {
    unsetenv("HF_HUB_CACHE");
    ConfigTest::TearDown();
  }
  // A file of a snapshot, with refs/main naming its commit.
  void snapshot(const std::string& repository, const std::string& file, const std::string& text = "{}") {
    write("hub/" + repository + "/refs/main", kCommit);
    write("hub/" + repository + "/snapshots/" + kCommit + "/" + file, text);
  }
  static std::optional<base::fs::path> model(const std::string& id, const std::string& revision = "main") {
    return hub_snapshot(HubKind::kModel, id, revision);
  }
};

TEST_F(HubNames, WhatIsAName) {
  for (const char* name : {"Qwen/Qwen2.5-0.5B-Instruct", "trl-lib/tldr", "a/b_c.d-e"})
    EXPECT_TRUE(looks_like_hub_name(name)) << name;
  for (const char* path : {"gpt2", "./a/b", "/a/b", "a/b/c", "a/b.jsonl", "data/x.parquet", "a/", "/b",
                           "a/b c", "../b", "a/rewards.py"})
    EXPECT_FALSE(looks_like_hub_name(path)) << path;
}

TEST_F(HubNames, AWholeSnapshotIsFound) {
  EXPECT_EQ(model("o/m"), std::nullopt);
  snapshot("models--o--m", "config.json");
  EXPECT_EQ(model("o/m"), std::nullopt) << "a config without weights: an interrupted download";
  snapshot("models--o--m", "model.safetensors", "x");
  const base::fs::path folder = path("hub") + "/models--o--m/snapshots/" + kCommit;
  EXPECT_EQ(model("o/m"), folder);
  EXPECT_EQ(model("o/m", kCommit), folder);
  EXPECT_EQ(model("o/m", "v2"), std::nullopt);
  EXPECT_EQ(hub_id_of(folder), "o/m");
  EXPECT_EQ(hub_id_of(path("hub")), "");
}

TEST_F(HubNames, EveryShardHasToBeThere) {
  snapshot("models--o--m", "config.json");
  snapshot("models--o--m", "model.safetensors.index.json",
           R"({"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}})");
  snapshot("models--o--m", "1.safetensors", "x");
  EXPECT_EQ(model("o/m"), std::nullopt);
  snapshot("models--o--m", "2.safetensors", "x");
  EXPECT_NE(model("o/m"), std::nullopt);
  for (const char* bad : {"", "[1]", "{\"weight_map\": 3}", "{\"weight_map\": {\"a\": 1}}"}) {
    snapshot("models--o--m", "model.safetensors.index.json", bad);
    EXPECT_EQ(model("o/m"), std::nullopt) << bad;
  }
}

TEST_F(HubNames, ARefIsNoPath) {
  snapshot("models--o--m", "config.json");
  snapshot("models--o--m", "model.safetensors", "x");
  write("hub/models--o--m/refs/main", "../../../etc");
  EXPECT_EQ(model("o/m"), std::nullopt);
  EXPECT_EQ(model("o/m", "../../x"), std::nullopt);
}

TEST_F(HubNames, DatasetsAreApartFromModels) {
  snapshot("datasets--o--d", "data/train.jsonl");
  EXPECT_EQ(model("o/d"), std::nullopt);
  const auto folder = hub_snapshot(HubKind::kDataset, "o/d", "");
  ASSERT_TRUE(folder);
  EXPECT_EQ(hub_id_of(*folder), "o/d");
}

TEST_F(HubNames, TheCacheFollowsTheVariablesOfHuggingFace) {
  unsetenv("HF_HUB_CACHE");
  setenv("HF_HOME", "/somewhere", 1);
  EXPECT_EQ(hub_cache_folder(), "/somewhere/hub");
  unsetenv("HF_HOME");
  EXPECT_TRUE(hub_cache_folder().string().ends_with("/huggingface/hub"));
  setenv("HF_HUB_OFFLINE", "1", 1);
  EXPECT_TRUE(hub_is_offline());
  setenv("HF_HUB_OFFLINE", "0", 1);
  EXPECT_FALSE(hub_is_offline());
  unsetenv("HF_HUB_OFFLINE");
}

// A run that names a model which is not here can be parsed: what to download is in its plan.
TEST_F(HubNames, APlanSaysWhatToDownload) {
  const std::vector<std::string> words = {
      "--model_name_or_path", "o/m",          "--model_revision", "main",      "--dataset_name",
      path("train.jsonl"),    "--output_dir", path("out"),        "--use_peft"};
  EXPECT_EQ(parse_run(Method::kSft, words).downloads,
            (std::vector<HubRequest>{{HubKind::kModel, "o/m", "main", "model_name_or_path"}}));
  snapshot("models--o--m", "config.json");
  snapshot("models--o--m", "model.safetensors", "x");
  const Plan plan = parse_run(Method::kSft, words);
  EXPECT_TRUE(plan.downloads.empty());
  EXPECT_EQ(hub_id_of(plan.model_name_or_path), "o/m");
}

}  // namespace hub_names_test
}  // namespace hone::config
