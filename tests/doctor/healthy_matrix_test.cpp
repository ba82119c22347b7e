// Every family's tiny model, with a tied head and with one of its own, under every method: healthy, so that
// no check may say otherwise, and no probe may end in an error of its own. A check that reads what another
// part of hone has changed shows here.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "config/parse.h"
#include "doctor/attempt.h"
#include "doctor/examination.h"
#include "model/tiny_model.h"
#include "train/opening/open_run.h"

namespace hone::test_tools {
namespace healthy_matrix_test {

using base::Json;
using config::Method;

const fs::path kFixtures = fs::path(HONE_FIXTURES) / "parity";

constexpr std::array kModels = {"tiny_llama",      "tiny_llama3",     "tiny_qwen2",    "tiny_qwen3",
                                "tiny_mistral",    "tiny_smollm3",    "tiny_granite",  "tiny_olmo2",
                                "tiny_gemma",      "tiny_gemma2",     "tiny_gemma3",   "tiny_gemma4",
                                "tiny_phi3",       "tiny_phi3_long",  "tiny_olmo3",    "tiny_exaone4",
                                "tiny_ministral3", "tiny_lfm2",       "tiny_qwen3_5",  "tiny_qwen3_moe",
                                "tiny_mixtral",    "tiny_granitemoe", "tiny_granite4", "tiny_qwen3_yarn"};

struct MethodCase {
  Method method;
  const char* name;
  const char* data;
  std::vector<std::string> more;
};

const std::vector<std::string> kSampling = {"--reward_funcs", "length(target=6)", "--num_generations", "4"};

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

const std::vector<MethodCase>& method_cases() {
  static const std::vector<MethodCase> all = {
      {Method::kReward, "reward", "trl_reward/explicit.jsonl", {}},
      {Method::kSft, "sft", "sft/text.jsonl", {}},
      {Method::kDpo, "dpo", "trl_dpo/explicit.jsonl", {}},
      {Method::kGrpo, "grpo", "trl_grpo/prompts.jsonl", with(kSampling, {"--max_completion_length", "6"})},
      {Method::kKto, "kto", "trl_kto/rows.jsonl", {}},
      {Method::kCpo, "cpo", "trl_cpo/explicit.jsonl", {}},
      {Method::kOrpo, "orpo", "trl_orpo/explicit.jsonl", {}},
      {Method::kRloo, "rloo", "trl_grpo/prompts.jsonl", with(kSampling, {"--max_completion_length", "6"})},
      {Method::kOnlineDpo,
       "online-dpo",
       "trl_online_dpo/prompts.jsonl",
       {"--reward_funcs", "length(target=6)", "--max_new_tokens", "6"}}};
  return all;
}

// How the weights are trained.
enum class Trained { kLora, kFull, kFourBits };

class HealthyMatrix : public ::testing::Test {
 protected:
  // The model of the fixture with random weights whose head is tied, or is not, as its config says; empty:
  // the family has no other.
  fs::path model(const std::string& name, bool tied) {
    const fs::path from = kFixtures / name;
    fs::path to = folder_.path() / (name + (tied ? "_tied" : "_untied"));
    if (fs::exists(to)) return to;
    Json config = base::parse_json(base::read_text(from / "config.json"), "config.json");
    config["tie_word_embeddings"] = tied;
    // A longrope fixture changes its factors after a few positions, where the rows' prompts leave no room to
    // sample.
    const char* original = "original_max_position_embeddings";
    if (config.contains(original)) {
      config["max_position_embeddings"] = 512;
      config[original] = 256;
      for (const char* rope : {"rope_scaling", "rope_parameters"})
        if (config.contains(rope) && config[rope].contains(original)) config[rope][original] = 256;
    }
    // Some fixtures have no tokenizer: these models get tiny_llama's, and its number of tokens.
    const bool speaks = fs::exists(from / "tokenizer.json");
    const fs::path words = speaks ? from : kFixtures / "tiny_llama";
    if (!speaks)
      config["vocab_size"] =
          base::parse_json(base::read_text(words / "config.json"), "config.json")["vocab_size"];
    std::map<std::string, at::Tensor> tensors;
    try {
      tensors = random_tensors(config);
    } catch (const base::UserError&) {
      return {};
    }
    fs::create_directories(to);
    for (const char* file : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"})
      if (fs::exists(words / file)) fs::copy_file(words / file, to / file);
    write_json(to / "config.json", config);
    write_tensors(to / "model.safetensors", tensors);
    return to;
  }

  void expect_quiet(const MethodCase& method, const std::string& name, bool tied,
                    Trained trained = Trained::kLora) {
    const fs::path folder = model(name, tied);
    if (folder.empty()) return;
    looked_ += 1;
    const std::string what = std::string(method.name) + " of " + name + (tied ? ", tied" : ", untied") +
                             (trained == Trained::kFull       ? ", full"
                              : trained == Trained::kFourBits ? ", 4 bits"
                                                              : "");
    std::vector<std::string> words = {"--model_name_or_path",
                                      folder.string(),
                                      "--dataset_name",
                                      (kFixtures / method.data).string(),
                                      "--max_steps",
                                      "20",
                                      "--per_device_train_batch_size",
                                      "4",
                                      "--threads",
                                      "1",
                                      "--output_dir",
                                      (folder_.path() / "out").string(),
                                      "--use_peft",
                                      trained == Trained::kFull ? "false" : "true"};
    if (trained != Trained::kFull)
      words = with(std::move(words), {"--lora_target_modules", "all-linear", "--lora_dropout", "0"});
    if (trained == Trained::kFourBits) words = with(std::move(words), {"--load_in_4bit", "true"});
    words = with(std::move(words), {"--learning_rate", trained == Trained::kFull ? "2e-6" : "2e-5"});
    words = with(std::move(words), method.more);
    const auto run = train::open_run(config::parse_run(method.method, words), silent_);
    for (const doctor::ExamPart& part : doctor::examine(*run, {}).parts) {
      for (const base::Verdict& one : part.verdicts) {
        const std::string told = what + ": " + part.name + " " + one.code + " " + one.what + " | " +
                                 one.evidence + " | " + one.cause;
        EXPECT_NE(one.level, base::Level::kFail) << told;
        EXPECT_FALSE(doctor::is_failed_attempt(one)) << told;
      }
    }
  }

  TempFolder folder_;
  train::RunListener silent_;
  int looked_ = 0;
};

// The methods in turn; each family tied and untied.
TEST_F(HealthyMatrix, EveryFamilyAndEveryMethodOnce) {
  std::size_t turn = 0;
  for (const char* name : kModels) {
    for (const bool tied : {false, true})
      expect_quiet(method_cases()[turn++ % method_cases().size()], name, tied);
  }
  EXPECT_GT(looked_, 40);
}

TEST_F(HealthyMatrix, RewardModelsAndFullTrainingAndFourBits) {
  for (const bool tied : {false, true}) {
    for (const Trained trained : {Trained::kLora, Trained::kFull, Trained::kFourBits})
      expect_quiet(method_cases().front(), "tiny_llama3", tied, trained);
    expect_quiet(method_cases()[1], "tiny_qwen2", tied, Trained::kFull);
    expect_quiet(method_cases()[2], "tiny_qwen3", tied, Trained::kFourBits);
  }
  EXPECT_EQ(looked_, 10);
}

TEST_F(HealthyMatrix, SlowEveryFamilyAndEveryMethod) {
  for (const char* name : kModels) {
    for (const MethodCase& method : method_cases()) {
      for (const bool tied : {false, true}) expect_quiet(method, name, tied);
    }
  }
}

}  // namespace healthy_matrix_test
}  // namespace hone::test_tools
