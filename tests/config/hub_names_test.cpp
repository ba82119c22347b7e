// Names of the hub, and the cache that huggingface_hub keeps.
#include "config/hub_names.h"

#include "config/datasets/dataset_files.h"
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

// A reward model, or the adapter of one, by its name on the hub.
TEST_F(HubNames, ARewardModelIsFoundOrDownloaded) {
  snapshot("models--o--m", "config.json");
  snapshot("models--o--m", "model.safetensors", "x");
  const std::vector<std::string> words = {
      "--model_name_or_path", "o/m",     "--dataset_name", path("train.jsonl"), "--output_dir", path("out"),
      "--reward_funcs",       "o/judge", "o/other",        "--use_peft"};
  EXPECT_EQ(parse_run(Method::kGrpo, words).downloads,
            (std::vector<HubRequest>{{HubKind::kModel, "o/judge", "", "reward_funcs"},
                                     {HubKind::kModel, "o/other", "", "reward_funcs"}}));
  snapshot("models--o--judge", "adapter_config.json");
  snapshot("models--o--other", "config.json");
  snapshot("models--o--other", "model.safetensors", "x");
  EXPECT_EQ(parse_run(Method::kGrpo, words).downloads.size(), 1U)
      << "an adapter without weights is not whole";
  snapshot("models--o--judge", "adapter_model.safetensors", "x");
  const Plan plan = parse_run(Method::kGrpo, words);
  EXPECT_TRUE(plan.downloads.empty());
  ASSERT_EQ(plan.policy.reward_funcs.size(), 2U);
  EXPECT_EQ(hub_id_of(plan.policy.reward_funcs[0]), "o/judge");
  EXPECT_EQ(hub_id_of(plan.policy.reward_funcs[1]), "o/other");
}

constexpr const char* kRows = "{\"text\": \"a\"}\n";

TEST_F(HubNames, ADataSetIsReadFromItsSnapshot) {
  snapshot("datasets--o--d", "data/train-00000-of-00001.jsonl", kRows);
  snapshot("datasets--o--d", "data/test-00000-of-00001.jsonl", kRows);
  const Plan plan = run({"--dataset_name", "o/d", "--eval_strategy", "steps"});
  EXPECT_TRUE(plan.downloads.empty());
  EXPECT_EQ(plan.dataset_name, "o/d");
  const std::string folder = path("hub") + "/datasets--o--d/snapshots/" + kCommit;
  EXPECT_EQ(plan.train_rows.files().at(0), folder + "/data/train-00000-of-00001.jsonl");
  EXPECT_EQ(plan.eval_rows.files().at(0), folder + "/data/test-00000-of-00001.jsonl");
  const Plan mixed =
      run({"--datasets", R"([{"path": "o/d", "split": "test"}, {"path": "o/d"}])", "--eval_dataset", "o/d"});
  EXPECT_EQ(mixed.train_rows.files().size(), 2U);
  EXPECT_TRUE(mixed.downloads.empty());
}

TEST_F(HubNames, WhatADataSetLacksIsDownloaded) {
  const HubRequest whole{
      .kind = HubKind::kDataset, .id = "o/d", .revision = "main", .option = "dataset_name"};
  EXPECT_EQ(run({"--dataset_name", "o/d", "--eval_strategy", "steps"}).downloads,
            std::vector<HubRequest>{whole});
  snapshot("datasets--o--d", "data/train-00000-of-00002.jsonl", kRows);
  const std::vector<HubRequest> shard = run({"--dataset_name", "o/d"}).downloads;
  ASSERT_EQ(shard.size(), 1U);
  EXPECT_EQ(shard[0].lacks, "train-00001-of-00002.jsonl");
  EXPECT_NE(not_here(shard[0]).find("datasets--o--d lacks train-00001-of-00002.jsonl"), std::string::npos);
  // One that is named need not have the others beside it.
  const std::string one = R"([{"path": "o/d", "data_files": "data/train-00000-of-00002.jsonl"}])";
  EXPECT_TRUE(run({"--datasets", one}).downloads.empty());
  snapshot("datasets--o--d", "data/train-00001-of-00002.jsonl", kRows);
  EXPECT_TRUE(run({"--dataset_name", "o/d"}).downloads.empty());
  const std::vector<HubRequest> split =
      run({"--dataset_name", "o/d", "--dataset_train_split", "tran"}).downloads;
  ASSERT_EQ(split.size(), 1U);
  EXPECT_NE(split[0].lacks.find("Did you mean 'train'?"), std::string::npos) << split[0].lacks;
  const std::vector<HubRequest> old = run({"--dataset_name", "o/d", "--dataset_revision", "v1"}).downloads;
  ASSERT_EQ(old.size(), 1U);
  EXPECT_EQ(old[0].revision, "v1");
  EXPECT_EQ(old[0].lacks, "");
}

TEST_F(HubNames, WhereNothingIsDownloadedItIsSaid) {
  const std::string text = error_of([] {
    find_rows({.path = "o/absent",
               .data_files = nullptr,
               .split = "train",
               .option = "dataset_name",
               .where = "x"});
  });
  EXPECT_NE(text.find("neither a path here nor in"), std::string::npos) << text;
  EXPECT_NE(text.find("hf download o/absent --repo-type dataset"), std::string::npos) << text;
}

}  // namespace hub_names_test
}  // namespace hone::config
