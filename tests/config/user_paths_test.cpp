// "~" and environment variables in the paths of options (config/reading/user_paths.h).
#include "config/reading/user_paths.h"

#include <cstdlib>

#include "config/commands/tool_plans.h"
#include "config/helpers.h"
#include "config/hub_names.h"

namespace hone::config {
namespace user_paths_test {

using base::Json;

class UserPaths : public ConfigTest {
 protected:
  void SetUp() override {
    ConfigTest::SetUp();
    if (const char* home = std::getenv("HOME")) before_ = home;
    setenv("HOME", "/home/somebody", 1);
  }
  void TearDown() override {
    setenv("HOME", before_.c_str(), 1);
    ConfigTest::TearDown();
  }
  static Json taken(std::string_view name, const Json& value) {
    return with_user_paths(Option(name, "", Kind::kAny), value, "run.yaml:3");
  }
  static std::string refusal(std::string_view name, const Json& value) {
    try {
      return "taken as " + taken(name, value).dump();
    } catch (const base::UserError& error) {
      return error.what();
    }
  }
  std::string before_;
};

// An option that names a file or a folder is in the table, or here with its reason.
TEST_F(UserPaths, EveryOptionWithAPathIsInTheTable) {
  const std::map<std::string, std::string> no_paths = {
      {"dataset_config", "a configuration, or a folder within the data set"},
      {"max_shard_size", "a size"},
      {"hub_strategy", "words"},
      {"hub_model_id", "a name of the hub"},
      {"report_to", "names of loggers"},
      {"report_page", "a switch"},
      {"bf16", "a switch"},
      {"skip_doctor", "a switch"},
      {"fix", "a switch"},
      {"env", "is not read"},
      {"adapter_only", "a switch"},
      {"logprobs", "a switch"},
      {"dump_rollouts", "a switch"},
      {"load_best_model_at_end", "a switch"},
      {"overwrite_output_dir", "a switch"},
      {"trust_remote_code", "a switch"},
      {"save_on_each_node", "a switch"},
      {"push_to_hub", "a switch"},
      {"as", "the name of a trainer"},
      {"dataset_streaming", "a switch"},
      {"log_completions_hub_repo", "is refused"},
      {"markdown", "a switch"}};
  for (const Schema* schema : all_schemas()) {
    for (const Option& option : schema->options) {
      const std::string meaning(option.meaning), name(option.name);
      bool says_path = name.ends_with("_path") || name.ends_with("_dir");
      for (const char* word :
           {"file", "folder", "path", "output_dir of", "interpreter", "configuration that"})
        says_path = says_path || meaning.find(word) != std::string::npos;
      if (!says_path || no_paths.contains(name)) continue;
      EXPECT_NE(path_form(name), PathForm::kNone) << schema->command << ": " << name << ": " << meaning;
    }
  }
}

TEST_F(UserPaths, TheHomeFolder) {
  EXPECT_EQ(taken("output_dir", "~/runs/x"), "/home/somebody/runs/x");
  EXPECT_EQ(taken("output_dir", "~"), "/home/somebody");
  EXPECT_EQ(taken("output_dir", "a/~/b"), "a/~/b");
  EXPECT_EQ(taken("base_adapters", Json({"~/a", "b"})), Json({"/home/somebody/a", "b"}));
  EXPECT_EQ(taken("reward_funcs", Json({"~/r.py:f", "accuracy_reward"})),
            Json({"/home/somebody/r.py:f", "accuracy_reward"}));
  EXPECT_EQ(taken("adapters", Json({"one=~/a", "~/b"})), Json({"one=/home/somebody/a", "/home/somebody/b"}));
  EXPECT_EQ(
      taken("datasets", Json::parse(R"([{"path": "~/d", "data_files": ["~/d/*.jsonl"], "split": "~/x"}])")),
      Json::parse(
          R"([{"path": "/home/somebody/d", "data_files": ["/home/somebody/d/*.jsonl"], "split": "~/x"}])"));
  EXPECT_EQ(
      taken("eval_datasets", Json::parse(R"({"math": [{"path": "~/d", "data_files": {"test": "~/t"}}]})")),
      Json::parse(R"({"math": [{"path": "/home/somebody/d", "data_files": {"test": "/home/somebody/t"}}]})"));
  EXPECT_EQ(taken("chat_template", "~/t.jinja"), "/home/somebody/t.jinja");
  EXPECT_EQ(taken("chat_template", "~/{{ x }}"), "~/{{ x }}");
  EXPECT_EQ(taken("sample_prompts", Json({"~/p.jsonl"})), Json({"/home/somebody/p.jsonl"}));
  EXPECT_EQ(taken("system_prompt", "~/x"), "~/x") << "a text";
}

TEST_F(UserPaths, InYamlAndOnTheCommandLine) {
  const std::string yaml = "model_name_or_path: ~/model\noutput_dir: ~/runs/$x\n";
  const auto refused = [&](const std::vector<std::string>& words) {
    try {
      parse_run(Method::kSft, words);
    } catch (const base::UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string text = refused(
      {"--model_name_or_path=~/no-model", "--dataset_name", "~/no-rows.jsonl", "--output_dir", "~/x"});
  EXPECT_NE(text.find("/home/somebody/no-model"), std::string::npos) << text;
  EXPECT_NE(text.find("/home/somebody/no-rows.jsonl"), std::string::npos) << text;
  const std::string file = write("run.yaml", yaml);
  EXPECT_NE(refused({"--config", file}).find("environment variables are not expanded"), std::string::npos);
  const std::string absent = refused({"--config", "~/absent.yaml"});
  EXPECT_NE(absent.find("/home/somebody/absent.yaml"), std::string::npos) << absent;
}

TEST_F(UserPaths, EnvironmentVariablesAreNamed) {
  setenv("HONE_TEST_FOLDER", "/tmp", 1);
  const std::string text = refusal("output_dir", "${HONE_TEST_FOLDER}/runs");
  EXPECT_NE(text.find("write /tmp/runs"), std::string::npos) << text;
  EXPECT_NE(refusal("output_dir", "$HONE_TEST_FOLDER").find("write /tmp"), std::string::npos);
  setenv("HONE_TEST_FOLDER", "hf_secret", 1);
  for (const char* path : {"${HONE_TEST_FOLDER}/runs", "a/$NOT_SET", "~/$NOT_SET/x"}) {
    const std::string said = refusal("dataset_name", path);
    EXPECT_NE(said.find("environment variables are not expanded"), std::string::npos) << said;
    EXPECT_EQ(said.find("hf_secret"), std::string::npos) << said;
  }
  unsetenv("HONE_TEST_FOLDER");
  for (const char* path : {"cost$", "5$/x", "a/$", "${", "${}", "$1"})
    EXPECT_EQ(taken("output_dir", path), path);
  write("real$NAME", "x");
  EXPECT_EQ(taken("dataset_name", path("real$NAME")), path("real$NAME")) << "a file that is called so";
  EXPECT_EQ(taken("judge_prompt", "$NAME"), "$NAME");
}

TEST_F(UserPaths, WithoutAHome) {
  unsetenv("HOME");
  EXPECT_NE(refusal("output_dir", "~/x").find("HOME is not set"), std::string::npos);
  EXPECT_EQ(taken("output_dir", "x"), "x");
}

TEST_F(UserPaths, TheHubsVariables) {
  setenv("HF_HUB_CACHE", "~/hub", 1);
  EXPECT_EQ(hub_cache_folder(), "/home/somebody/hub");
  unsetenv("HF_HUB_CACHE");
}

}  // namespace user_paths_test
}  // namespace hone::config
