#include "text/tokenizer_files.h"

#include <gtest/gtest.h>

#include "helpers.h"

namespace hone::text {
namespace tokenizer_files_test {

const base::fs::path kTiny = base::fs::path(HONE_FIXTURES) / "text" / "tiny";

std::string refusal(const base::fs::path& folder) {
  return user_error([&] { Tokenizer::from_folder(folder); });
}

TEST(TokenizerFiles, TheTemplateFileComesBeforeTheConfig) {
  const TempFolder temp;
  temp.write("tokenizer.json", "{}");
  temp.write("tokenizer_config.json", R"({"chat_template": "from config"})");
  EXPECT_EQ(read_tokenizer_folder(temp.path()).chat_template, "from config");
  temp.write("chat_template.jinja", "from file");
  EXPECT_EQ(read_tokenizer_folder(temp.path()).chat_template, "from file");
}

TEST(TokenizerFiles, OfSeveralTemplatesTheDefaultIsTaken) {
  TokenizerFiles files{.where = "x", .files = {}, .special = {}, .chat_template = {}};
  files.files[kTokenizerConfig] =
      R"({"chat_template": [{"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}]})";
  read_tokenizer_config(files);
  EXPECT_EQ(files.chat_template, "b");
  files.files[kTokenizerConfig] = R"({"chat_template": [{"name": "tool_use", "template": "a"}]})";
  read_tokenizer_config(files);
  EXPECT_EQ(files.chat_template, std::nullopt);
  files.files[kTokenizerConfig] = R"({"chat_template": 7})";
  const std::string message = user_error([&] { read_tokenizer_config(files); });
  EXPECT_TRUE(contains(message, "[x/tokenizer_config.json, chat_template] expected a string, or a list"))
      << message;
  EXPECT_TRUE(contains(message, "found:  number")) << message;
}

TEST(TokenizerFiles, SpecialTokensMapFillsWhatTheConfigDoesNotName) {
  TokenizerFiles files{.where = "x", .files = {}, .special = {}, .chat_template = {}};
  files.files[kTokenizerConfig] = R"({"eos_token": "</s>", "pad_token": null})";
  files.files[kSpecialTokensMap] =
      R"({"eos_token": "other", "pad_token": "<pad>", "sep_token": {"content": "<sep>"}})";
  read_tokenizer_config(files);
  EXPECT_EQ(files.special.eos, "</s>");
  EXPECT_EQ(files.special.pad, std::nullopt);  // the config says: none
  EXPECT_EQ(files.special.named,
            (std::map<std::string, std::string>{{"eos_token", "</s>"}, {"sep_token", "<sep>"}}));
}

TEST(TokenizerFiles, AFolderWithoutTokenizerSaysWhatIsThere) {
  const TempFolder temp;
  std::string message = refusal(temp.path());
  EXPECT_TRUE(contains(message, "expected a folder with tokenizer.json")) << message;
  EXPECT_TRUE(contains(message, "found:  an empty folder")) << message;

  for (int i = 10; i < 24; ++i) temp.write("shard-" + std::to_string(i), "");
  message = refusal(temp.path());
  EXPECT_TRUE(contains(message, "found:  shard-10, shard-11,")) << message;
  EXPECT_TRUE(contains(message, "shard-21 and 2 more")) << message;
  EXPECT_TRUE(contains(message, "do:     download tokenizer.json and tokenizer_config.json")) << message;
}

TEST(TokenizerFiles, AFolderWithoutTokenizerSaysWhatToDo) {
  const TempFolder temp;
  temp.write("tokenizer.model", "");
  std::string message = refusal(temp.path());
  EXPECT_TRUE(contains(message, "older format")) << message;
  EXPECT_TRUE(contains(message, "AutoTokenizer.from_pretrained(\"" + temp.path().string() + "\")"))
      << message;

  temp.write("adapter_config.json", "{}");
  message = refusal(temp.path());
  EXPECT_TRUE(contains(message, "this is an adapter")) << message;
  EXPECT_TRUE(contains(message, "name the folder of the base model")) << message;

  temp.write("model.gguf", "");
  message = refusal(temp.path());
  EXPECT_TRUE(contains(message, "name the file itself: " + (temp.path() / "model.gguf").string())) << message;
}

TEST(TokenizerFiles, APathThatIsNoFolder) {
  const TempFolder temp;
  EXPECT_TRUE(contains(refusal(temp.path() / "nowhere"), "found:  nothing there"));
  EXPECT_TRUE(contains(refusal(temp.write("file", "")), "found:  a file"));
}

TEST(TokenizerFiles, BrokenJsonNamesTheFile) {
  const TempFolder temp;
  const auto json = temp.write("tokenizer.json", "{\"version\": ");
  std::string message = refusal(temp.path());
  EXPECT_TRUE(contains(message, "[" + json.string() + "] expected a tokenizer")) << message;
  EXPECT_TRUE(contains(message, "EOF while parsing")) << message;

  base::fs::copy_file(kTiny / "tokenizer.json", json, base::fs::copy_options::overwrite_existing);
  const auto config = temp.write("tokenizer_config.json", "{\n  \"eos_token\": \n}");
  message = refusal(temp.path());
  EXPECT_TRUE(contains(message, config.string() + ":3:")) << message;

  temp.write("tokenizer_config.json", "[]");
  message = refusal(temp.path());
  EXPECT_TRUE(contains(message, "[" + config.string() + "] expected a JSON object\n  found:  array"))
      << message;
}

TEST(TokenizerFiles, ASpecialTokenThatTheTokenizerLacks) {
  const TempFolder temp;
  base::fs::copy_file(kTiny / "tokenizer.json", temp.path() / "tokenizer.json");
  temp.write("tokenizer_config.json", R"({"eos_token": "<|eot_id|>"})");
  const std::string message = refusal(temp.path());
  EXPECT_TRUE(contains(message, "expected eos_token to be a token of tokenizer.json")) << message;
  EXPECT_TRUE(contains(message, "found:  '<|eot_id|>', which it does not have")) << message;
  EXPECT_TRUE(contains(message, "come from different models")) << message;
}

}  // namespace tokenizer_files_test
}  // namespace hone::text
