// Names of recipes' own scripts: switches that are off, numbers of rows, the configuration of an evaluation set.
#include <algorithm>

#include "config/helpers.h"

namespace hone::config {
namespace recipe_names_test {

class RecipeNames : public ConfigTest {
 protected:
  static bool has_note(const Plan& plan, const std::string& text) {
    return std::ranges::any_of(plan.notes,
                               [&](const std::string& note) { return note.find(text) != std::string::npos; });
  }
  std::string over_rows(const std::string& more) const {
    return write("rows.yaml", "model_name_or_path: " + path("model") + "\ndataset_name: " + path("rows") +
                                  "\nuse_peft: true\n" + more);
  }
  Plan folder(const std::string& more) const {
    return parse_run(Method::kSft, {"--config", over_rows(more)});
  }
  std::string folder_error(const std::string& more) const {
    return short_paths(error_of([&] { folder(more); }));
  }
};

TEST_F(RecipeNames, AnUnknownSwitchThatIsOffIsANote) {
  for (const char* off : {"false", "False", "null", "", "[]", "{}"}) {
    const Plan plan = run_yaml(std::string("humanline: ") + off + "\n");
    EXPECT_TRUE(has_note(plan, "humanline")) << off;
    EXPECT_TRUE(has_note(plan, "no option of hone sft, and off")) << off;
  }
  // 0 is a value of a number, "none" that of a choice, and both may mean something.
  for (const char* on : {"true", "0", "0.0", "none", "\"\"", "\"false\"", "[a]"})
    EXPECT_NE(yaml_error(std::string("humanline: ") + on + "\n").find("unknown option humanline"),
              std::string::npos)
        << on;
}

TEST_F(RecipeNames, AMisspelledNameIsAnErrorAlsoWhenItIsOff) {
  EXPECT_NE(yaml_error("gradient_checkpoiting: false\n").find("Did you mean 'gradient_checkpointing'?"),
            std::string::npos);
  EXPECT_NE(yaml_error("shufle_dataset: false\n").find("Did you mean 'shuffle_dataset'?"), std::string::npos);
  EXPECT_NE(run_error({"--humanline", "false"}).find("unknown option --humanline"), std::string::npos);
}

TEST_F(RecipeNames, MaximaOfRowsAreSlices) {
  const Plan plan = folder("max_train_samples: 1\neval_strategy: epoch\nmax_eval_samples: 1\n");
  EXPECT_EQ(plan.train_rows.sets.at(0).parts.at(0).slice.to, 1);
  EXPECT_EQ(plan.eval_rows.sets.at(0).parts.at(0).slice.to, 1);
  EXPECT_TRUE(folder("max_train_samples: -1\n").train_rows.sets.at(0).parts.at(0).slice.whole());
  EXPECT_TRUE(has_note(plan, "max_train_samples: read as dataset_train_split: train[:1]"));
  EXPECT_TRUE(has_note(plan, "max_eval_samples: read as dataset_test_split: test[:1]"));
  EXPECT_TRUE(has_note(folder("max_train_samples: -1\n"), "max_train_samples: -1 takes every row"));
  EXPECT_NE(folder_error("max_train_samples: many\n").find("a number of rows as max_train_samples"),
            std::string::npos);
  EXPECT_NE(folder_error("max_train_samples: 3\ndataset_train_split: train[:50%]\n").find("train[:50%]"),
            std::string::npos);
  EXPECT_NE(folder_error("max_train_samples: 3\ndatasets:\n- path: " + path("rows") +
                         "\n- path: " + path("rows") + "\n")
                .find("several data sets"),
            std::string::npos);
}

TEST_F(RecipeNames, TheConfigurationOfTheEvaluationSetIsApplied) {
  write("many/easy/test.jsonl", "{\"text\": \"c\"}\n");
  write("many/hard/test.jsonl", "{\"text\": \"d\"}\n");
  const std::string begin = "eval_strategy: epoch\neval_dataset_name: ";
  const Plan plan = run_yaml(begin + path("many") + "\neval_dataset_config: hard\n");
  EXPECT_EQ(plan.eval_rows.files(), std::vector<std::filesystem::path>{path("many/hard/test.jsonl")});
  EXPECT_TRUE(
      has_note(run_yaml(begin + path("rows") + "\neval_dataset_config: default\n"), "default is not used"));
  EXPECT_TRUE(has_note(run_yaml("eval_dataset_config: default\n"), "there is no eval_dataset"));
  EXPECT_NE(yaml_error(begin + path("many") + "\neval_dataset_config: harder\n").find("harder"),
            std::string::npos);
}

TEST_F(RecipeNames, SplitsToEvaluateAreEachASet) {
  const Plan plan = folder("eval_strategy: epoch\ndataset_eval_splits: [test, train]\n");
  ASSERT_EQ(plan.eval_sets.size(), 2U);
  EXPECT_EQ(plan.eval_sets[0].name, "test");
  EXPECT_EQ(plan.eval_sets[1].rows.files(), std::vector<std::filesystem::path>{path("rows/train.jsonl")});
  EXPECT_EQ(folder("dataset_eval_splits: []\neval_strategy: epoch\n").eval_sets.size(), 0U);
  EXPECT_NE(folder_error("dataset_eval_splits: [tset]\neval_strategy: epoch\n").find("tset"),
            std::string::npos);
  const Plan mixed = parse_run(
      Method::kSft,
      {"--config", write("mix.yaml", "model_name_or_path: " + path("model") +
                                         "\ndataset_mixture:\n  datasets:\n  - id: " + path("rows") +
                                         "\neval_strategy: epoch\ndataset_eval_splits: [test]\n")});
  EXPECT_EQ(mixed.eval_sets.at(0).rows.files(), std::vector<std::filesystem::path>{path("rows/test.jsonl")});
}

TEST_F(RecipeNames, ALimitOfNoneKeepsEveryCheckpoint) {
  for (const char* limit : {"0", "-1"}) {
    const Plan plan = run_yaml(std::string("save_strategy: steps\nsave_total_limit: ") + limit + "\n");
    EXPECT_EQ(plan.save_total_limit, 0);
    EXPECT_TRUE(has_note(plan, "keeps every checkpoint, as in transformers")) << limit;
  }
  EXPECT_FALSE(has_note(run_yaml("save_total_limit: 2\n"), "keeps every checkpoint"));
}

TEST_F(RecipeNames, TheMethodIsThatOfTheCommand) {
  const auto of = [&](Method method, const char* word) {
    return parse_run(method, {"--config", yaml_file(std::string("reward_funcs: accuracy\nmethod: ") + word)});
  };
  EXPECT_EQ(of(Method::kGrpo, "grpo").method, Method::kGrpo);
  EXPECT_EQ(of(Method::kRloo, "rloo").method, Method::kRloo);
  EXPECT_NE(error_of([&] { of(Method::kGrpo, "rloo"); }).find("the command says the method"),
            std::string::npos);
}

}  // namespace recipe_names_test
}  // namespace hone::config
