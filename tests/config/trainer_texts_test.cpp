// The texts that trainers write around turns, and what of them is trained. Expected texts are written out by hand.
#include "config/others/trainer_texts.h"

#include <gtest/gtest.h>

#include <ranges>

#include "base/files/file.h"
#include "config/others_helpers.h"

namespace hone::config {
namespace trainer_texts_test {

using base::Json;

Json talk(const std::vector<std::string>& turns, const std::string& system = "") {
  Json out = Json::array();
  if (!system.empty()) out.push_back({{"role", "system"}, {"content", system}});
  for (std::size_t i = 0; i < turns.size(); ++i)
    out.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", turns[i]}});
  return out;
}

// The text with its trained parts in [[ ]]; "none": it cannot be spelled.
std::string spelled(Trainer trainer, const std::string& name, const Json& messages,
                    const std::string& eos = "</s>") {
  const TrainerText* const text = trainer_text(trainer, name);
  if (text == nullptr) return "no such text";
  const auto found = spell_turns(*text, messages, "<s>", eos);
  if (!found) return "none";
  std::string out = found->text;
  for (const auto& [begin, end] : std::views::reverse(found->trained)) {
    out.insert(end, "]]");
    out.insert(begin, "[[");
  }
  return out;
}

TEST(TrainerTexts, LlamaFactorys) {
  const auto of = [](const std::string& name, const Json& messages) {
    return spelled(Trainer::kFactory, name, messages);
  };
  EXPECT_EQ(of("chatml", talk({"Hi", "Yes"})),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[[Yes<|im_end|>\n]]");
  EXPECT_EQ(
      of("qwen", talk({"Hi", "Yes"})),
      "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
      "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[[Yes<|im_end|>\n]]");
  EXPECT_EQ(of("qwen", talk({"Hi", "Yes"}, "Be brief.")),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
            "[[Yes<|im_end|>\n]]");
  EXPECT_EQ(
      of("qwen3", talk({"Hi", "Yes"})),
      "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[[<think>\n\n</think>\n\nYes<|im_end|>\n]]");
  EXPECT_EQ(of("qwen3_nothink", talk({"Hi", "Yes"})), of("chatml", talk({"Hi", "Yes"})));
  EXPECT_EQ(of("mistral", talk({"Hi", "Yes", "And?", "No"}, "Be brief.")),
            "<s>[INST] Be brief.\n\nHi[/INST][[ Yes</s>]][INST] And?[/INST][[ No</s>]]");
  EXPECT_EQ(
      of("llama3", talk({" Hi ", "Yes"})),
      "<s><|start_header_id|>user<|end_header_id|>\n\n Hi <|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
      "[[Yes<|eot_id|>]]");
}

// Recorded from the trainer's own code: its tokens decoded, and its labels.
TEST(TrainerTexts, AreThoseOfLlamaFactorysOwnCode) {
  const std::string path = std::string(HONE_FIXTURES) + "/config/trainer_texts.json";
  const Json recorded = base::parse_json(base::read_text(path), path);
  int compared = 0;
  for (const auto& [name, rows] : recorded["llamafactory"].items()) {
    for (const auto& [talk, text] : rows.items()) {
      EXPECT_EQ(spelled(Trainer::kFactory, name, recorded["talks"][talk]), text.get<std::string>())
          << name << ", " << talk;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 27);
}

TEST(TrainerTexts, OthersTrainOtherCharacters) {
  EXPECT_EQ(spelled(Trainer::kAxolotl, "chatml", talk({"Hi", "Yes"}), "<|im_end|>"),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[[Yes<|im_end|>]]\n");
  EXPECT_EQ(spelled(Trainer::kAxolotl, "chatml", talk({"Hi", "Yes"})),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[[Yes]]<|im_end|>\n");
  EXPECT_EQ(
      spelled(Trainer::kAxolotl, "llama3", talk({" Hi ", "Yes"}), "<|eot_id|>"),
      "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
      "[[Yes<|eot_id|>]]");
  EXPECT_EQ(spelled(Trainer::kUnsloth, "chatml", talk({"Hi", "Yes"})),
            "[[<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYes<|im_end|>\n]]");
}

TEST(TrainerTexts, WhatCannotBeSpelledIsNotCompared) {
  EXPECT_EQ(spelled(Trainer::kFactory, "no_such", talk({"Hi", "Yes"})), "no such text");
  EXPECT_EQ(spelled(Trainer::kAxolotl, "gemma", talk({"Hi", "Yes"}, "Be brief.")), "none");
  for (const Json& odd :
       {talk({"Hi"}), Json::array(), Json("text"), Json({{{"role", "user"}}}),
        Json({{{"role", "assistant"}, {"content", "a"}}, {{"role", "user"}, {"content", "b"}}}),
        Json({{{"role", "user"}, {"content", 7}}, {{"role", "assistant"}, {"content", "b"}}})})
    EXPECT_EQ(spelled(Trainer::kFactory, "chatml", odd), "none") << odd.dump();
}

TEST(TrainerTexts, FilesNameThem) {
  EXPECT_EQ(
      other_run("model_name_or_path: m\nstage: sft\nfinetuning_type: lora\ndataset: d\ntemplate: qwen\n")
          .text_name,
      "qwen");
  EXPECT_EQ(other_run("model_name_or_path: m\nstage: sft\nfinetuning_type: lora\ndataset: d\n").text_name,
            "");
  const std::string axolotl =
      "base_model: m\nmicro_batch_size: 2\nsequence_len: 64\ndatasets:\n  - path: d.jsonl\n    type: chat_template\n";
  EXPECT_EQ(other_run(axolotl + "chat_template: llama3\n").text_name, "llama3");
  EXPECT_EQ(other_run(axolotl + "chat_template: tokenizer_default\n").text_name, "");
}

}  // namespace trainer_texts_test
}  // namespace hone::config
