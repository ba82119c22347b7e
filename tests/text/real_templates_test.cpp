// The templates of five real tokenizers, TRL's 72 and 18 that llama.cpp keeps, each with 45 conversations,
// against transformers' apply_chat_template. Fetched by tests/parity/fetch_tokenizers; without them the test is
// skipped, and so not run.
#include <gtest/gtest.h>

#include <ctime>

#include "helpers.h"
#include "strings.h"
#include "text/chat_template.h"
#include "text/ffi.h"
#include "text/training_template.h"

namespace hone::text {
namespace real_templates_test {

using base::Json;

const base::fs::path kRoot = HONE_SOURCE_DIR;
const base::fs::path kReal = base::fs::path(HONE_FIXTURES) / "text" / "real";

// The template that a golden's name stands for; nullopt when its file is absent.
std::optional<std::string> source_of(const std::string& name) {
  if (name.starts_with("trl/")) {
    const base::fs::path path = kRoot / "third_party/trl-templates" / (name.substr(4) + ".jinja");
    return base::fs::exists(path) ? std::optional(base::read_text(path)) : std::nullopt;
  }
  if (name.starts_with("llama.cpp/")) {
    const base::fs::path path = kRoot / "third_party/llama-cpp/templates" / (name.substr(10) + ".jinja");
    return base::fs::exists(path) ? std::optional(base::read_text(path)) : std::nullopt;
  }
  if (name == "smollm2") {
    const base::fs::path path = kRoot / "models/smollm2-gguf/SmolLM2-135M-Instruct.Q4_1.gguf";
    if (!base::fs::exists(path)) return std::nullopt;
    return Tokenizer::from_gguf(base::GgufFile::open(path)).chat_template();
  }
  const base::fs::path path = kRoot / "third_party/tokenizers" / name / "tokenizer_config.json";
  if (!base::fs::exists(path)) return std::nullopt;
  return base::parse_json(base::read_text(path), path.string())["chat_template"].get<std::string>();
}

// What became of one conversation: its status and the text, or the message.
struct Outcome {
  int status;
  std::string text;
  std::string spans;
};

// `text` with the recorder's date where a template wrote today's. Granite's, with the month's name, is not as long
// as the recorder's: the spans of a template with generation tags would not fit.
std::string at_recorded_date(std::string text) {
  const std::time_t now = std::time(nullptr);
  std::tm today{};
  localtime_r(&now, &today);
  std::tm recorded{};
  recorded.tm_year = 101;  // 2001-02-03
  recorded.tm_mon = 1;
  recorded.tm_mday = 3;
  for (const char* format : {"%Y-%m-%d", "%d %b %Y", "%B %d, %Y"}) {
    char from[32];
    char to[32];
    const std::size_t length = std::strftime(from, sizeof from, format, &today);
    std::strftime(to, sizeof to, format, &recorded);
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
      text.replace(at, length, to);
    }
  }
  return text;
}

// Straight to the C ABI, which also knows continue_final_message.
Outcome apply(const hone_text_template* chat_template, const Json& special, const Json& conversation) {
  Json request = conversation;
  request["variables"] = special;
  if (conversation.contains("kwargs")) request["variables"].update(conversation["kwargs"]);
  request.erase("kwargs");
  const std::string json = base::dump_json(request);
  RustText text;
  RustText error;
  RustSpans spans;
  const int status =
      hone_text_template_apply(chat_template, json.data(), json.size(), text.out(), spans.out(), error.out());
  const std::vector<std::uint64_t> pairs(spans->pairs, spans->pairs + 2 * spans->size);
  return {status, status == HONE_TEXT_OK ? at_recorded_date(text.str()) : error.str(), numbers(pairs)};
}

// Compares with an entry of record_text.py; "" when they agree.
std::string disagreement(const std::string& golden, const Outcome& ours, bool continues) {
  if (golden == "E.......") {  // Python failed on a type
    if (ours.status == HONE_TEXT_PANIC) return "a panic: " + ours.text;
    return ours.status == HONE_TEXT_OK ? "transformers fails, ours says: " + ours.text : "";
  }
  if (golden[0] == 'R') {
    if (ours.status != HONE_TEXT_RAISED) return "transformers raised, ours says: " + ours.text;
    return "R" + hash32(ours.text).substr(1) == golden ? "" : "another message: " + ours.text;
  }
  if (ours.status != HONE_TEXT_OK) return "only ours fails: " + ours.text;
  if (hash32(ours.text) != golden.substr(0, 8)) return "another text: " + ours.text;
  if (golden.size() > 8 && !continues && hash32(ours.spans) != golden.substr(8))
    return "other spans: " + ours.spans;
  return "";
}

TEST(RealTemplates, TextsMessagesAndSpansAreTransformers) {
  const Json golden = base::parse_json(base::read_text(kReal / "templates.json"), "templates.json");
  const base::fs::path path = kReal.parent_path() / "conversations.json";
  const Json conversations = base::parse_json(base::read_text(path), path.string());
  ASSERT_EQ(golden["templates"].size(), 95U);
  int compared = 0;
  for (const auto& [name, expected] : golden["templates"].items()) {
    const auto source = source_of(name);
    if (!source)
      GTEST_SKIP() << "template " << name << " is absent; tests/parity/fetch_tokenizers fetches it";
    ASSERT_EQ(hash32(*source), expected["source"].get<std::string>())
        << name << " is not the version that was recorded";
    hone_text_template* raw = nullptr;
    RustText error;
    ASSERT_EQ(hone_text_template_new(source->data(), source->size(), &raw, error.out()), HONE_TEXT_OK)
        << name << ": " << error.view();
    const TemplateHandle chat_template(raw);
    ASSERT_EQ(expected["renders"].size(), conversations.size());
    std::size_t i = 0;
    for (const auto& [which, conversation] : conversations.items()) {
      const auto entry = expected["renders"][i++].get<std::string>();
      const Outcome ours = apply(chat_template.get(), expected["special"], conversation);
      EXPECT_EQ(disagreement(entry, ours, conversation.contains("continue_final_message")), "")
          << name << ", conversation " << which;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 95 * 45);
}

// A template that TRL knows, with the tags put in: TRL's own training template gives the same texts, messages and
// spans, for every conversation.
TEST(RealTemplates, TrainingFormsAreTrls) {
  const Json golden =
      base::parse_json(base::read_text(kReal / "templates.json"), "templates.json")["templates"];
  const base::fs::path path = kReal.parent_path() / "conversations.json";
  const Json conversations = base::parse_json(base::read_text(path), path.string());
  for (const std::string name :
       {"qwen2_5", "qwen3", "qwen3_instruct_2507", "qwen3_5_think", "qwen3_5_nothink", "qwen3_6", "qwen3_8",
        "llama3", "deepseek_r1_distill", "phi3", "phi3_5", "gemma", "gemma3", "lfm2", "lfm2_v2"}) {
    const auto source = source_of("trl/" + name);
    if (!source)
      GTEST_SKIP() << "template " << name << " is absent; tests/parity/fetch_tokenizers fetches it";
    const auto training = training_template(*source);
    ASSERT_TRUE(training.has_value()) << name;
    const Json& expected = golden["trl/" + name + "_training"];
    hone_text_template* raw = nullptr;
    RustText error;
    ASSERT_EQ(hone_text_template_new(training->source.data(), training->source.size(), &raw, error.out()),
              HONE_TEXT_OK)
        << name << ": " << error.view();
    const TemplateHandle chat_template(raw);
    std::size_t i = 0, rendered = 0;
    for (const auto& [which, conversation] : conversations.items()) {
      const auto entry = expected["renders"][i++].get<std::string>();
      // A conversation that is continued is found in the source's words, which are others here.
      if (conversation.contains("continue_final_message")) continue;
      const Outcome ours = apply(chat_template.get(), expected["special"], conversation);
      EXPECT_EQ(disagreement(entry, ours, false), "") << name << ", conversation " << which;
      rendered += ours.status == HONE_TEXT_OK ? 1 : 0;
    }
    EXPECT_GE(rendered, 15U) << name;
  }
}

}  // namespace real_templates_test
}  // namespace hone::text
