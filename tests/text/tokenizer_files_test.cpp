#include "text/tokenizer_files.h"

#include <gtest/gtest.h>

#include "base/json.h"
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
  EXPECT_EQ(read_tokenizer_folder(temp.path()).templates.main, "from config");
  temp.write("chat_template.jinja", "from file");
  EXPECT_EQ(read_tokenizer_folder(temp.path()).templates.main, "from file");
}

TokenizerFiles files_of(const char* config) {
  TokenizerFiles files;
  files.where = "x";
  files.files[kTokenizerConfig] = config;
  return files;
}

TEST(TokenizerFiles, OfSeveralTemplatesTheDefaultIsTaken) {
  TokenizerFiles files = files_of(
      R"({"chat_template": [{"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}]})");
  read_tokenizer_config(files);
  EXPECT_EQ(files.templates.main, "b");
  EXPECT_EQ(files.templates.named.size(), 2U);
  files = files_of(R"({"chat_template": [{"name": "tool_use", "template": "a"}]})");
  read_tokenizer_config(files);
  EXPECT_EQ(files.templates.main, std::nullopt);
  EXPECT_EQ(files.templates.named.at("tool_use"), "a");
  files = files_of(R"({"chat_template": 7})");
  std::string message = user_error([&] { read_tokenizer_config(files); });
  EXPECT_TRUE(contains(message, "[x/tokenizer_config.json, chat_template] expected a string, or a list"))
      << message;
  EXPECT_TRUE(contains(message, "found:  number")) << message;
  files = files_of(R"({"chat_template": [{"name": "default"}]})");
  message = user_error([&] { read_tokenizer_config(files); });
  EXPECT_TRUE(contains(message, "expected objects with name and template")) << message;
}

TEST(TokenizerFiles, TheMapReplacesTheConfigWhereThereIsNoDecoder) {
  TokenizerFiles files = files_of(R"({"eos_token": "</s>", "pad_token": null})");
  files.files[kSpecialTokensMap] =
      R"({"eos_token": "other", "pad_token": "<pad>", "sep_token": {"content": "<sep>"}})";
  read_tokenizer_config(files);
  EXPECT_EQ(files.special.eos, "other");
  EXPECT_EQ(files.special.pad, "<pad>");
  files.files[kTokenizerConfig] = R"({"eos_token": "</s>", "added_tokens_decoder": {}})";
  files.special = {};
  read_tokenizer_config(files);
  EXPECT_EQ(files.special.named, (std::map<std::string, std::string>{{"eos_token", "</s>"}}));
}

TEST(TokenizerFiles, KeysThatNoTableMarksAreNamed) {
  TokenizerFiles files = files_of(
      R"({"no_such_key": 1, "another": null, "empty": [], "image_token": "<i>", "model_max_length": 8,
          "added_tokens_decoder": {"0": {"content": "a", "colour": "red"}}})");
  files.files[kTokenizerJson] = R"({"version": "1.0", "shape": {"a": 1}, "model": {"type": "BPE"}})";
  read_tokenizer_config(files);
  EXPECT_EQ(files.notes,
            (std::vector<std::string>{
                "tokenizer_config.json: hone does not know no_such_key, and takes no notice of it",
                "tokenizer.json: hone does not know shape, and takes no notice of it",
                "an added token: hone does not know colour, and takes no notice of it"}));
}

TEST(TokenizerFiles, BosAndEosThatThePostProcessorDoesNotAddAreNamed) {
  const TempFolder temp;
  base::fs::copy_file(kTiny / "tokenizer.json", temp.path() / "tokenizer.json");
  temp.write("tokenizer_config.json", R"({"add_bos_token": true, "add_eos_token": true})");
  const std::vector<std::string> notes = Tokenizer::from_folder(temp.path()).notes();
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0],
            "add_eos_token: true has no effect beside tokenizer.json, as in transformers 5: its "
            "post_processor does not add a token behind a text");
}

TEST(TokenizerFiles, SavedFilesKeepTheirBytesAndLoseTruncation) {
  const TempFolder temp;
  const std::string json = slurp(kTiny / "tokenizer.json");
  temp.write("tokenizer.json", json);
  const std::string config = R"({"tokenizer_class":"PreTrainedTokenizerFast",
    "chat_template": [{"name": "rag", "template": "a"}]})";
  temp.write("tokenizer_config.json", config);
  Tokenizer::from_folder(temp.path()).save(temp.path() / "saved");
  EXPECT_EQ(slurp(temp.path() / "saved" / "tokenizer.json"), json);
  EXPECT_EQ(slurp(temp.path() / "saved" / "tokenizer_config.json"), config);

  base::Json cut = base::parse_json(json, "tiny");
  cut["truncation"] = {
      {"direction", "Right"}, {"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}};
  temp.write("tokenizer.json", base::dump_json(cut));
  const Tokenizer tokenizer = Tokenizer::from_folder(temp.path());
  EXPECT_GT(tokenizer.encode("words words words words", false).ids.size(), 4U);
  tokenizer.save(temp.path() / "saved");
  const base::Json saved = base::parse_json(slurp(temp.path() / "saved" / "tokenizer.json"), "saved");
  EXPECT_TRUE(saved["truncation"].is_null());
  EXPECT_EQ(saved["added_tokens"], cut["added_tokens"]);
}

// The type of the model may decide about the class, and a saved tokenizer is read without config.json.
TEST(TokenizerFiles, WhatTheModelsTypeAllowsIsSaved) {
  for (const char* settings :
       {R"({"tokenizer_class": "MyTokenizer", "auto_map": {"AutoTokenizer": ["my.MyTokenizer", null]}})",
        R"({"tokenizer_class": "T5Tokenizer"})",
        R"({"auto_map": {"AutoTokenizer": ["my.MyTokenizer", null]}})",
        R"({"tokenizer_class": "BertTokenizerFast", "eos_token": "<|im_end|>"})"}) {
    SCOPED_TRACE(settings);
    const TempFolder temp;
    temp.write("tokenizer.json", base::read_text(kTiny / "tokenizer.json"));
    temp.write("tokenizer_config.json", settings);
    temp.write("config.json", R"({"model_type": "mistral"})");
    const Tokenizer tokenizer = Tokenizer::from_folder(temp.path());
    tokenizer.save(temp.path() / "saved");
    const TokenizerFiles again = read_tokenizer_folder(temp.path() / "saved");
    EXPECT_EQ(again.class_name, "TokenizersBackend");
    EXPECT_FALSE(contains(again.files.at(kTokenizerConfig), "auto_map"));
    EXPECT_EQ(again.special.eos, tokenizer.special().eos);
  }
}

TEST(TokenizerFiles, AByteLevelClassPutsItsPipelineIntoEffect) {
  const base::Json own = base::parse_json(base::read_text(kTiny / "tokenizer.json"), "f");
  base::Json json = own;
  const base::Json digits = {{"type", "Digits"}, {"individual_digits", true}};
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {digits, own["pre_tokenizer"]}}};
  const TempFolder temp;
  temp.write("tokenizer.json", base::dump_json(json));
  for (const bool own_pipeline : {true, false}) {
    temp.write("tokenizer_config.json", own_pipeline ? R"({"tokenizer_class": "GPT2Tokenizer"})"
                                                     : R"({"tokenizer_class": "TokenizersBackend"})");
    const base::Json used =
        base::parse_json(tokenizer_json_in_effect(read_tokenizer_folder(temp.path())), "f");
    EXPECT_EQ(used["pre_tokenizer"], own_pipeline ? own["pre_tokenizer"] : json["pre_tokenizer"]);
    EXPECT_EQ(used["model"]["merges"].size(), own["model"]["merges"].size());
  }
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

TEST(TokenizerFiles, ASpecialTokenThatTheTokenizerLacksGetsTheNextId) {
  const TempFolder temp;
  base::fs::copy_file(kTiny / "tokenizer.json", temp.path() / "tokenizer.json");
  const std::int64_t before = Tokenizer::from_folder(temp.path()).vocab_size();
  temp.write("tokenizer_config.json", R"({"eos_token": "<|eot_id|>"})");
  const Tokenizer tokenizer = Tokenizer::from_folder(temp.path());
  EXPECT_EQ(tokenizer.eos_id(), before);
  EXPECT_EQ(tokenizer.vocab_size(), before + 1);
}

}  // namespace tokenizer_files_test
}  // namespace hone::text
