#include "config/reading/environment_text.h"

#include <algorithm>
#include <cstdlib>

#include "config/helpers.h"

namespace hone::config {
namespace environment_text_test {

using Names = std::vector<std::string>;

class EnvironmentText : public ConfigTest {
 protected:
  void SetUp() override {
    ConfigTest::SetUp();
    ::setenv("HONE_TEST_NAME", "v7", 1);
    ::setenv("HONE_TEST_COUNT", "3", 1);
    ::unsetenv("HONE_TEST_ABSENT");
  }
  void TearDown() override {
    ::unsetenv("HONE_TEST_NAME");
    ::unsetenv("HONE_TEST_COUNT");
    ConfigTest::TearDown();
  }
  static bool has_note(const Plan& plan, const std::string& text) {
    return std::any_of(plan.notes.begin(), plan.notes.end(),
                       [&](const std::string& note) { return note.find(text) != std::string::npos; });
  }
};

TEST_F(EnvironmentText, EveryForm) {
  for (const char* text : {"a-${HONE_TEST_NAME}-b", "a-${oc.env:HONE_TEST_NAME}-b",
                           "a-${HONE_TEST_NAME:-x}-b", "a-${oc.env:HONE_TEST_NAME,x}-b"}) {
    EXPECT_EQ(expand_environment(text).text, "a-v7-b") << text;
  }
  EXPECT_EQ(expand_environment("$HONE_TEST_NAME/out").text, "v7/out");
  EXPECT_EQ(expand_environment("${HONE_TEST_ABSENT:-x}").text, "x");
  EXPECT_EQ(expand_environment("${oc.env:HONE_TEST_ABSENT,x}").text, "x");
}

TEST_F(EnvironmentText, WhatIsNoneStays) {
  for (const char* text : {"$5", "a$", "${", "${}", "${HONE_TEST_NAME", "$x", "$ HOME", "\\$HONE_TEST_NAME",
                           "\\${HONE_TEST_NAME}", "${HONE_TEST_NAME?}", "$\\boxed{}$", "^q_proj$"}) {
    const ExpandedText found = expand_environment(text);
    EXPECT_EQ(found.text, text);
    EXPECT_TRUE(found.found.empty() && found.missing.empty()) << text;
  }
  const ExpandedText missing = expand_environment("a/${HONE_TEST_ABSENT}/$HONE_TEST_ABSENT");
  EXPECT_EQ(missing.text, "a/${HONE_TEST_ABSENT}/$HONE_TEST_ABSENT");
  EXPECT_EQ(missing.missing, (Names{"HONE_TEST_ABSENT", "HONE_TEST_ABSENT"}));
  EXPECT_EQ(expand_environment("${model.name}").references, Names{"model.name"});
}

TEST_F(EnvironmentText, ARecipeThatNamesThem) {
  const Plan plan = run_yaml(
      "output_dir: runs/${HONE_TEST_NAME}\nmax_steps: ${HONE_TEST_COUNT}\n"
      "run_name: \"${HONE_TEST_NAME}\"\n");
  EXPECT_EQ(plan.output_dir, "runs/v7");
  EXPECT_EQ(plan.max_steps, 3);
  EXPECT_EQ(plan.run_name, "v7");
  EXPECT_TRUE(has_note(plan, "output_dir: HONE_TEST_NAME of the environment is put in"));
}

TEST_F(EnvironmentText, AnAbsentOneIsRefusedByName) {
  const std::string told = yaml_error("eval_dataset: ${HONE_TEST_ABSENT}/rows\n");
  EXPECT_NE(told.find("expected the environment variable HONE_TEST_ABSENT, which eval_dataset names"),
            std::string::npos)
      << told;
  EXPECT_NE(told.find("do:     export HONE_TEST_ABSENT=..., or write the value into the file"),
            std::string::npos);
  EXPECT_NE(yaml_error("learning_rate: ${HONE_TEST_ABSENT}\n").find("HONE_TEST_ABSENT"), std::string::npos);
  EXPECT_NE(yaml_error("learning_rate: ${training.rate}\n").find("a reference to another value"),
            std::string::npos);
}

TEST_F(EnvironmentText, NamesOfResultsStayAsTheyAre) {
  const Plan plan =
      run_yaml("output_dir: runs/${HONE_TEST_ABSENT}\nhub_model_id: me/x-${HONE_TEST_ABSENT}\n");
  EXPECT_EQ(plan.output_dir, "runs/${HONE_TEST_ABSENT}");
  EXPECT_TRUE(has_note(plan, "HONE_TEST_ABSENT is not set in the environment"));
  const std::string told = yaml_error("push_to_hub: true\nhub_model_id: me/x-${HONE_TEST_ABSENT}\n");
  EXPECT_NE(told.find("the environment variable HONE_TEST_ABSENT, which hub_model_id names"),
            std::string::npos)
      << told;
  EXPECT_NE(
      run_error({"--output_dir", "runs/${HONE_TEST_ABSENT}"}).find("write the value of HONE_TEST_ABSENT"),
      std::string::npos)
      << "a shell would have put it in";
  const Plan referring = run_yaml("output_dir: ~/${model.name}/$HONE_TEST_ABSENT\n");
  EXPECT_TRUE(referring.output_dir.ends_with("/${model.name}/$HONE_TEST_ABSENT")) << referring.output_dir;
  EXPECT_FALSE(referring.output_dir.starts_with("~"));
  EXPECT_TRUE(has_note(referring, "output_dir: model.name refers to another value"));
}

// The worker of rewards looks them up; here they would become secrets that plans leave out.
TEST_F(EnvironmentText, AddressesOfRewardsKeepThem) {
  const std::string file = yaml_file(
      "reward_funcs: [\"https://me:${HONE_TEST_NAME}@host/s?token=${HONE_TEST_ABSENT}\", "
      "\"" +
      path("${HONE_TEST_NAME}/r.py:f") + "\"]\n");
  write("v7/r.py", "def f(completions, **kwargs): return [0.0] * len(completions)\n");
  const Plan plan = parse_run(Method::kGrpo, {"--config", file});
  EXPECT_EQ(plan.policy.reward_funcs,
            (Names{"https://me:${HONE_TEST_NAME}@host/s?token=${HONE_TEST_ABSENT}", path("v7/r.py:f")}));
}

TEST_F(EnvironmentText, TextsOfTheUserHaveNone) {
  const std::string prompted = yaml_file("system_prompt: pay ${HONE_TEST_NAME} or $HONE_TEST_ABSENT\n");
  EXPECT_EQ(
      parse_run(Method::kGrpo, {"--config", prompted, "--reward_funcs", "accuracy_reward"}).system_prompt,
      "pay ${HONE_TEST_NAME} or $HONE_TEST_ABSENT");
  EXPECT_EQ(run_yaml("lora_target_modules: .*(q|v)_proj$HONE_TEST_ABSENT\n").lora_target_modules,
            Names{".*(q|v)_proj$HONE_TEST_ABSENT"});
}

TEST_F(EnvironmentText, InListsAndMappings) {
  const std::string file =
      write("mix.yaml", "model_name_or_path: " + path("model") + "\nuse_peft: true\ndataset_mixer:\n  " +
                            path("${HONE_TEST_NAME}") + ": 1.0\n");
  write("v7/train.jsonl", "{\"text\": \"a\"}\n");
  EXPECT_TRUE(parse_run(Method::kSft, {"--config", file}).dataset_name.starts_with(path("v7")));
}

}  // namespace environment_text_test
}  // namespace hone::config
