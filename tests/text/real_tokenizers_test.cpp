// Real tokenizers against Hugging Face's, for 4,111 strings and 45 conversations each. The files are
// fetched by tests/parity/fetch_tokenizers; without them a test is skipped, and so not run.
#include <gtest/gtest.h>

#include "helpers.h"
#include "strings.h"
#include "text/chat_template.h"
#include "text/training_template.h"

namespace hone::text {
namespace real_tokenizers_test {

using base::Json;

const base::fs::path kRoot = HONE_SOURCE_DIR;
const base::fs::path kText = base::fs::path(HONE_FIXTURES) / "text";

base::fs::path source_of(const std::string& name) {
  if (name == "smollm2") return kRoot / "models/smollm2-gguf/SmolLM2-135M-Instruct.Q4_1.gguf";
  return kRoot / "third_party/tokenizers" / name;
}

Json read_json(const base::fs::path& path) {
  return base::parse_json(base::read_text(path), path.string());
}

// The tokenizer of tokenizer.json by itself, which is what the goldens hold: the classes that some of these
// folders name have a pipeline or special tokens of their own (tokenizer_forms_test.cpp).
Tokenizer load(const std::string& name) {
  const base::fs::path source = source_of(name);
  if (source.extension() == ".gguf") return Tokenizer::from_gguf(base::GgufFile::open(source));
  Json config = read_json(source / "tokenizer_config.json");
  config["tokenizer_class"] = "TokenizersBackend";
  return Tokenizer::from_json(base::read_text(source / "tokenizer.json"), base::dump_json(config),
                              source.string());
}

class RealTokenizer : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const base::fs::path templates = kRoot / "third_party/trl-templates";
    for (const base::fs::path& needed : {source_of(GetParam()), templates}) {
      if (!base::fs::exists(needed)) {
        GTEST_SKIP() << needed << " is absent; tests/parity/fetch_tokenizers fetches it";
      }
    }
  }
};

// What record_text.py hashes for one string.
std::string summary(const Tokenizer& tokenizer, const std::string& text) {
  const Encoding plain = tokenizer.encode(text, false, true);
  const std::vector<std::int32_t> special = tokenizer.encode(text, true).ids;
  return numbers(plain.ids) + "|" + numbers(special) + "|" + numbers(plain.byte_offsets) + "|" +
         tokenizer.decode(special, false) + "|" + tokenizer.decode(special, true);
}

TEST_P(RealTokenizer, IdsOffsetsAndTextsAreHuggingFaces) {
  const Json golden = read_json(kText / "real" / (GetParam() + ".json"));
  const auto hashes = golden["hashes"].get<std::string>();
  const Tokenizer tokenizer = load(GetParam());
  const std::vector<std::string> strings = golden_strings();
  ASSERT_EQ(hashes.size(), 8 * strings.size());
  int wrong = 0;
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const auto ids = golden["ids"].find(std::to_string(i));
    if (ids != golden["ids"].end()) {
      EXPECT_EQ(Json(tokenizer.encode(strings[i], true).ids), *ids) << "string " << i << ": " << strings[i];
    }
    const std::string ours = summary(tokenizer, strings[i]);
    if (hash32(ours) == hashes.substr(8 * i, 8)) continue;
    if (++wrong <= 5) ADD_FAILURE() << "string " << i << ": " << strings[i] << "\nours: " << ours;
  }
  EXPECT_EQ(wrong, 0) << "of " << strings.size() << " strings";
}

TEST_P(RealTokenizer, MasksAreTransformers) {
  const Json golden = read_json(kText / "real" / (GetParam() + ".json"));
  const auto hashes = golden["masks"].get<std::string>();
  const Tokenizer tokenizer = load(GetParam());
  const std::string name = golden["mask_template"].get<std::string>() + ".jinja";
  const base::fs::path folder = kRoot / "third_party/trl-templates";
  const ChatTemplate chat_template(base::read_text(folder / name), tokenizer.special(), name);
  // The template that TRL exchanges for that one, as hone changes it.
  const std::string before = name.substr(0, name.find("_training")) + ".jinja";
  const auto training = training_template(base::read_text(folder / before));
  ASSERT_TRUE(training.has_value()) << before;
  const ChatTemplate ours(training->source, tokenizer.special(), before);
  std::size_t i = 0;
  int compared = 0;
  const Json conversations = read_json(kText / "conversations.json");
  for (const auto& [which, conversation] : conversations.items()) {
    const std::string hash = hashes.substr(8 * i++, 8);
    if (hash == "........") continue;  // transformers refuses it
    ChatRequest request;
    request.messages = conversation["messages"];
    request.tools = conversation.value("tools", Json());
    request.template_kwargs = conversation.value("kwargs", Json::object());
    request.template_kwargs["documents"] = conversation.value("documents", Json());
    request.add_generation_prompt = conversation.value("add_generation_prompt", false);
    const TokenizedChat chat = tokenize_chat(tokenizer, chat_template, request);
    EXPECT_EQ(hash32(numbers(chat.ids) + "|" + numbers(chat.assistant)), hash) << which;
    const TokenizedChat changed = tokenize_chat(tokenizer, ours, request);
    EXPECT_EQ(hash32(numbers(changed.ids) + "|" + numbers(changed.assistant)), hash) << which;
    ++compared;
  }
  EXPECT_EQ(8 * i, hashes.size());
  EXPECT_GE(compared, 20);
}

TEST_P(RealTokenizer, SavedAndLoadedAgainIsTheSame) {
  const TempFolder temp;
  const Tokenizer tokenizer = load(GetParam());
  tokenizer.save(temp.path());
  const Tokenizer again = Tokenizer::from_folder(temp.path());
  EXPECT_EQ(again.vocab_size(), tokenizer.vocab_size());
  EXPECT_EQ(again.eos_id(), tokenizer.eos_id());
  EXPECT_EQ(again.pad_id(), tokenizer.pad_id());
  EXPECT_EQ(again.special().named, tokenizer.special().named);
  EXPECT_EQ(again.chat_template(), tokenizer.chat_template());
  const std::vector<std::string> strings = golden_strings();
  for (std::size_t i = 0; i < strings.size(); i += 20)
    EXPECT_EQ(summary(again, strings[i]), summary(tokenizer, strings[i]));
}

INSTANTIATE_TEST_SUITE_P(Six, RealTokenizer,
                         testing::Values("qwen2_5", "qwen3", "llama3", "gemma3", "smollm2", "llama2"),
                         [](const auto& each) { return each.param; });

}  // namespace real_tokenizers_test
}  // namespace hone::text
