// The command line of hone eval.
#include "config/commands/eval_plan.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/helpers.h"

namespace hone::config {
namespace eval_plan_test {

const std::string kModel = std::string(HONE_FIXTURES) + "/parity/tiny_llama";

std::string refused(const std::vector<std::string>& words) {
  try {
    parse_eval(words);
  } catch (const base::UserError& error) {
    return error.what();
  }
  return "";
}

TEST(EvalPlan, TasksAndAServerOfNobodyElse) {
  const EvalPlan plan =
      parse_eval({kModel, "--tasks", "arc_easy,gsm8k", "--limit", "5", "--num_fewshot", "0"});
  EXPECT_EQ(plan.tasks, (std::vector<std::string>{"arc_easy", "gsm8k"}));
  EXPECT_EQ(plan.serve.model_name_or_path, kModel);
  EXPECT_EQ(plan.serve.port, 0);
  EXPECT_EQ(plan.serve.root, "");
  EXPECT_EQ(plan.limit, 5);
  EXPECT_EQ(plan.num_fewshot, 0);
  EXPECT_EQ(parse_eval({kModel, "--tasks", "a"}).num_fewshot, -1);
}

TEST(EvalPlan, WhatItDoesNotTake) {
  const base::TempFolder folder;
  const std::string adapter = folder.path().string();
  std::ofstream(folder.path() / "adapter_config.json") << "{}";
  std::ofstream(folder.path() / "adapter_model.safetensors") << "";
  EXPECT_NE(refused({kModel}).find("tasks of lm-eval"), std::string::npos);
  EXPECT_NE(refused({kModel, "--tasks", ","}).find("tasks of lm-eval"), std::string::npos);
  EXPECT_NE(refused({kModel, "--tasks", "a", "--port", "8000"}).find("port"), std::string::npos);
  EXPECT_NE(refused({kModel, "--tasks", "a", "--adapters", "one=" + adapter}).find("adapter_name_or_path"),
            std::string::npos);
  EXPECT_NE(refused({"--tasks", "a"}).find("a model to evaluate"), std::string::npos);
}

}  // namespace eval_plan_test
}  // namespace hone::config
