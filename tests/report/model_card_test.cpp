#include "report/model_card.h"

#include <gtest/gtest.h>

namespace hone::report {
namespace model_card_test {

using base::Json;

TEST(ModelCard, HoldsWhatTheHubAndAReaderWant) {
  const std::string text = model_card(
      {.name = "o/first",
       .base_model = "Qwen/Qwen2.5-0.5B-Instruct",
       .dataset = "trl-lib/tldr",
       .method = "dpo",
       .chat = true,
       .options = {{"learning_rate", 1e-4}, {"max_steps", -1}, {"seed", 42}, {"dataset_name", "x"}},
       .logged = {{"loss", 0.123456789}, {"step", 12}}});
  EXPECT_TRUE(text.starts_with(
      "---\nbase_model: \"Qwen/Qwen2.5-0.5B-Instruct\"\ndatasets:\n- \"trl-lib/tldr\"\n"
      "library_name: peft\nmodel_name: \"first\"\npipeline_tag: text-generation\ntags:\n- hone\n- lora\n"
      "- transformers\n- dpo\n- \"base_model:adapter:Qwen/Qwen2.5-0.5B-Instruct\"\n---\n\n# first\n"))
      << text;
  for (const char* part : {"[Qwen/Qwen2.5-0.5B-Instruct](https://huggingface.co/Qwen/Qwen2.5-0.5B-Instruct)",
                           "[trl-lib/tldr](https://huggingface.co/datasets/trl-lib/tldr)",
                           "It was trained with hone.", "pipeline(\"text-generation\", model=\"o/first\")",
                           "{\"role\": \"user\"", "papers/2305.18290", "| `learning_rate` | 0.0001 |",
                           "| `seed` | 42 |", "| `loss` | 0.12346 |", "@misc{dpo2305,", "Rafael Rafailov"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find("max_steps"), std::string::npos);
  EXPECT_EQ(text.find("dataset_name"), std::string::npos) << "a path of the user's disk";
}

TEST(ModelCard, SaysNothingThatItDoesNotKnow) {
  const std::string text = model_card({.name = "first", .options = Json::object(), .logged = Json::object()});
  for (const char* part : {"base_model", "datasets", "##  ", "Citation", "| option |", "Method"}) {
    EXPECT_EQ(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_NE(text.find("\"The capital of France is\""), std::string::npos);
  const std::string reward =
      model_card({.name = "o/r", .method = "reward", .options = Json::object(), .logged = Json::object()});
  EXPECT_NE(reward.find("AutoPeftModelForSequenceClassification"), std::string::npos);
  EXPECT_NE(reward.find("pipeline_tag: text-classification"), std::string::npos);
}

TEST(ModelCard, TakesTheLastValueOfEachMetric) {
  const Json last = last_metrics(
      "{\"step\":1,\"epoch\":0.5,\"loss\":3.0,\"learning_rate\":0.1}\n{\"step\":2,\"epoch\":1.0,\"eval_loss\":2.0,\"eval_runtime\":9.0}\n"
      "{\"step\":2,\"loss\":1.5,\"rewards/f/mean\":null}\nnot JSON\n{\"step\":2,\"train_runtime\":3.0,\"train_loss\":2.25}\n{\"step\":");
  EXPECT_EQ(last,
            Json({{"step", 2}, {"epoch", 1.0}, {"loss", 1.5}, {"eval_loss", 2.0}, {"train_loss", 2.25}}));
}

}  // namespace model_card_test
}  // namespace hone::report
