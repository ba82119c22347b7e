#include "config/commands/doctor_plan.h"

#include "config/helpers.h"
#include "config/method_of.h"
#include "config/reading/edit_yaml.h"
#include "config/write_plan.h"

namespace hone::config {
namespace doctor_plan_test {

using DoctorPlanTest = ConfigTest;

TEST_F(DoctorPlanTest, AFileAndItsFlagsInAnyOrder) {
  const std::string file = write("run.yaml", "lora_r: 8\n");
  const DoctorPlan expected = {
      .config = file, .arguments = {"--config", file}, .deep = true, .verbose = true};
  EXPECT_EQ(parse_doctor({file, "--deep", "-v"}), expected);
  EXPECT_EQ(parse_doctor({"--deep", "-v", file}), expected);
  EXPECT_EQ(parse_doctor({"sft", "--config", file, "--deep", "--verbose", "true"}), expected);
  EXPECT_EQ(parse_doctor({"-v", "--deep", "--config=" + file}), expected);
}

TEST_F(DoctorPlanTest, OptionsOfTheRunStayWords) {
  const std::string file = write("run.yaml", "lora_r: 8\n");
  const DoctorPlan plan =
      parse_doctor({file, "--lora_target_modules", "q_proj", "v_proj", "--strict", "--seed", "-1"});
  EXPECT_EQ(plan.arguments, (std::vector<std::string>{"--config", file, "--lora_target_modules", "q_proj",
                                                      "v_proj", "--seed", "-1"}));
  EXPECT_TRUE(plan.strict);
}

TEST_F(DoctorPlanTest, AScriptThatIsExecutedHasItsOwnArguments) {
  const std::string script = write("train.py", "reward_funcs: [\n");  // no YAML, and not read as such
  const DoctorPlan plan = parse_doctor(
      {script, "--run", "--run_limit", "3", "--seed", "1", "--", "--run_limit", "9", "--", "run.yaml"});
  EXPECT_TRUE(plan.run);
  EXPECT_FALSE(plan.online);
  EXPECT_EQ(plan.run_limit, 3);
  EXPECT_EQ(plan.arguments, (std::vector<std::string>{"--config", script, "--seed", "1"}));
  EXPECT_EQ(plan.script_arguments, (std::vector<std::string>{"--run_limit", "9", "--", "run.yaml"}));
  EXPECT_EQ(parse_check({script, "--run", "--online"}).run_limit, DoctorPlan().run_limit);
  EXPECT_EQ(parse_ranks_plan({script, "--run", "--keep", "made"}).keep, "made");
}

TEST_F(DoctorPlanTest, WhatIsOfAScriptNeedsRun) {
  const std::string file = write("run.yaml", "lora_r: 8\n");
  for (const std::vector<std::string>& words : {std::vector<std::string>{file, "--online"},
                                                {file, "--run_limit", "5"},
                                                {file, "--keep", "made"},
                                                {file, "--", "--rate", "1"}}) {
    const std::string said = error_of([&] { parse_doctor(words); });
    EXPECT_NE(said.find("--run beside what is of a script"), std::string::npos) << said;
    EXPECT_NE(said.find(words[1]), std::string::npos) << said;
  }
  EXPECT_NE(error_of([&] { parse_doctor({file, "--run", "--run_limit", "0"}); }).find("run_limit"),
            std::string::npos);
}

TEST_F(DoctorPlanTest, TheMethodIsTheWordOrWhoseOptionsThereAre) {
  const std::string sft = write("sft.yaml", "packing: true\n");
  const std::string grpo = write("grpo.yaml", "reward_funcs: accuracy_reward\nnum-generations: 4\n");
  const std::string rloo = write("rloo.yaml", "reward_funcs: accuracy_reward\nnormalize_advantages: true\n");
  EXPECT_EQ(parse_doctor({sft}).method, Method::kSft);
  EXPECT_EQ(parse_doctor({grpo}).method, Method::kGrpo);
  EXPECT_EQ(parse_doctor({"rloo", grpo}).method, Method::kRloo);
  EXPECT_EQ(parse_doctor({rloo}).method, Method::kRloo);
  EXPECT_EQ(parse_doctor({"--model_name_or_path", "x", "--reward-funcs", "y"}).method, Method::kGrpo);
}

TEST_F(DoctorPlanTest, APlanThatARunWroteSaysItsMethod) {
  for (const Method method : {Method::kGrpo, Method::kRloo}) {
    EXPECT_EQ(method_of(write_plan(policy(method))), method);
  }
  EXPECT_EQ(method_of(write_plan(run())), Method::kSft);
}

TEST_F(DoctorPlanTest, WhatIsWrongIsSaid) {
  const std::string file = write("run.yaml", "lora_r: 8\n");
  EXPECT_NE(error_of([] { parse_doctor({}); }).find("write hone doctor run.yaml"), std::string::npos);
  EXPECT_NE(error_of([] { parse_doctor({"grop", "--seed", "1"}); }).find("Did you mean 'grpo'?"),
            std::string::npos);
  EXPECT_NE(error_of([&] { parse_doctor({file, file}); }).find("one YAML file"), std::string::npos);
  EXPECT_NE(error_of([] { parse_doctor({"--seed", "1", "--fix"}); }).find("a YAML file to change"),
            std::string::npos);
  EXPECT_NE(error_of([] { parse_doctor({"absent.yaml"}); }).find("absent.yaml"), std::string::npos);
}

TEST_F(DoctorPlanTest, Faults) {
  EXPECT_EQ(parse_faults({"GRAD-01"}).code, "GRAD-01");
  EXPECT_TRUE(parse_faults({"--json"}).json);
  EXPECT_NE(error_of([] { parse_faults({"--jsn"}); }).find("json"), std::string::npos);
}

TEST(EditYaml, ChangesInPlaceAndAddsAtTheEnd) {
  const EditedYaml edited = edit_yaml(
      "# mine\nmax-length: 256  # short\nlora_target_modules:\n- q_proj\n- v_proj\nseed: 1\n",
      {{"max_length", "1024"}, {"lora_target_modules", "all-linear"}, {"bf16", "true"}}, "run.yaml");
  EXPECT_EQ(edited.text,
            "# mine\nmax_length: 1024  # short\nlora_target_modules: all-linear\nseed: 1\nbf16: true\n");
  EXPECT_EQ(edited.diff, (std::vector<std::string>{"-max-length: 256  # short", "+max_length: 1024  # short",
                                                   "-lora_target_modules:", "-- q_proj", "-- v_proj",
                                                   "+lora_target_modules: all-linear", "+bf16: true"}));
}

TEST(EditYaml, AFormThatIsNotLineByLineIsRefused) {
  EXPECT_NE(error_of([] {
              edit_yaml("{seed: 1}\n", {{"seed", "2"}}, "run.yaml");
            }).find("write seed: 2 into it yourself"),
            std::string::npos);
}

}  // namespace doctor_plan_test
}  // namespace hone::config
