#include "text/turn_end.h"

#include <gtest/gtest.h>

#include "helpers.h"
#include "text/tokenizer_files.h"

namespace hone::text {
namespace turn_end_test {

const base::fs::path kRoot = HONE_SOURCE_DIR;

ChatTemplate chat(const std::string& source) {
  SpecialTokens special;
  special.named = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  return ChatTemplate(source, special, "template");
}

TEST(TurnEnd, TheFirstSpecialTokenBehindTheAnswer) {
  const Tokenizer tiny = Tokenizer::from_folder(base::fs::path(HONE_FIXTURES) / "text" / "tiny");
  const auto end_of = [&](const std::string& source) -> std::string {
    const auto id = turn_end(tiny, chat(source));
    return id ? tiny.id_to_token(*id).value_or("?") : "";
  };
  EXPECT_EQ(
      end_of("{% for m in messages %}<|im_start|>{{ m.role + '\n' + m.content }}<|im_end|>\n{% endfor %}"),
      "<|im_end|>");
  EXPECT_EQ(end_of("{% for m in messages %}{{ m.content }}  \n<|im_end|>{% endfor %}<|im_start|>"),
            "<|im_end|>");
  EXPECT_EQ(end_of("{% for m in messages %}{{ m.content }}\n{% endfor %}<|im_end|>"), "<|im_end|>");
  EXPECT_EQ(end_of("{% for m in messages %}{{ m.content }} END{% endfor %}<|im_end|>"), "");
  EXPECT_EQ(end_of("{% for m in messages %}{{ m.content }}{% endfor %}"), "");
  EXPECT_EQ(end_of("{{ messages[0].content }}<|im_end|>"), "");  // the answer is not there
  EXPECT_TRUE(contains(user_error([&] { end_of("{{ raise_exception('no') }}"); }), "the template says: no"));
}

// The text begins with the token at which generation_config.json of each model stops.
TEST(TurnEnd, OfRealTemplates) {
  const std::vector<std::pair<std::string, std::string>> ends = {
      {"trl-templates/qwen2_5", "<|im_end|>"},
      {"trl-templates/qwen3", "<|im_end|>"},
      {"trl-templates/qwen3_5_think", "<|im_end|>"},
      {"trl-templates/llama3", "<|eot_id|>"},
      {"trl-templates/llama3_2", "<|eot_id|>"},
      {"trl-templates/gemma", "<end_of_turn>"},
      {"trl-templates/gemma3", "<end_of_turn>"},
      {"trl-templates/gemma4", "<turn|>"},
      {"trl-templates/gemma4_v5", "<turn|>"},
      {"trl-templates/phi3", "<|end|>"},
      {"trl-templates/phi3_5", "<|end|>"},
      {"trl-templates/lfm2", "<|im_end|>"},
      {"trl-templates/lfm2_v2", "<|im_end|>"},
      {"llama-cpp/templates/google-gemma-2-2b-it", "<end_of_turn>"},
      {"llama-cpp/templates/HuggingFaceTB-SmolLM3-3B", "<|im_end|>"},
      {"llama-cpp/templates/ibm-granite-granite-3.3-2B-Instruct", "<|end_of_text|>"},
      {"llama-cpp/templates/ibm-granite-granite-4.0", "<|end_of_text|>"},
      {"llama-cpp/templates/mistralai-Ministral-3-14B-Reasoning-2512", "</s>"},
      {"llama-cpp/templates/mistralai-Mistral-Nemo-Instruct-2407", "</s>"}};
  for (const auto& [name, end] : ends) {
    const base::fs::path path = kRoot / "third_party" / (name + ".jinja");
    if (!base::fs::exists(path))
      GTEST_SKIP() << path << " is absent; tests/parity/fetch_tokenizers fetches it";
    EXPECT_TRUE(text_after_answer(chat(base::read_text(path))).starts_with(end))
        << name << ": " << text_after_answer(chat(base::read_text(path)));
  }
}

}  // namespace turn_end_test
}  // namespace hone::text
