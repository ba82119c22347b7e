#include "config/tool_plans.h"

#include "config/helpers.h"

namespace hone::config {
namespace {

class ToolsTest : public ConfigTest {
 protected:
  GeneratePlan generate(std::vector<std::string> more) const {
    more.insert(more.begin(), {"--model_name_or_path", path("model")});
    return parse_generate(more);
  }
};

TEST_F(ToolsTest, GenerateDefaults) {
  GeneratePlan expected;
  expected.model_name_or_path = path("model");
  expected.prompts = {"Hi"};
  EXPECT_EQ(generate({"--prompt", "Hi"}), expected);
}

TEST_F(ToolsTest, GenerateTakesEverything) {
  write("prompts.jsonl", "{\"prompt\": \"a\"}\n");
  const GeneratePlan plan = generate({"--prompt",
                                      "a b",
                                      "c",
                                      "--prompt",
                                      "- d",
                                      "--prompts",
                                      path("prompts.jsonl"),
                                      "--no_chat",
                                      "--max-new-tokens",
                                      "5",
                                      "--temperature",
                                      "0.7",
                                      "--top_k",
                                      "40",
                                      "--top_p",
                                      "0.9",
                                      "--seed",
                                      "1",
                                      "--no_bf16",
                                      "--threads",
                                      "2",
                                      "--output",
                                      "out.jsonl",
                                      "--adapter_name_or_path",
                                      path("adapter")});
  EXPECT_EQ(plan.prompts, (std::vector<std::string>{"a b", "c", "- d"}));
  EXPECT_EQ(plan.prompts_file, path("prompts.jsonl"));
  EXPECT_EQ(plan.chat, std::optional(false));
  EXPECT_EQ(plan.max_new_tokens, 5);
  EXPECT_EQ(plan.temperature, 0.7);
  EXPECT_EQ(plan.top_k, 40);
  EXPECT_EQ(plan.top_p, 0.9);
  EXPECT_EQ(plan.seed, 1);
  EXPECT_EQ(plan.precision, Precision::kFloat32);
  EXPECT_EQ(plan.threads, 2);
  EXPECT_EQ(plan.output, "out.jsonl");
  EXPECT_EQ(plan.adapter_name_or_path, path("adapter"));
  EXPECT_TRUE(plan.notes.empty());
}

TEST_F(ToolsTest, GenerateMistakes) {
  EXPECT_EQ(error_of([&] { generate({}); }),
            "[hone generate] expected something to complete\n  found:  neither --prompt nor --prompts\n  do: "
            "    write "
            "--prompt 'TEXT', or --prompts FILE.jsonl with a prompt column");
  EXPECT_EQ(error_of([&] { parse_generate({"--prompt", "Hi"}); }),
            "[hone generate] expected option --model_name_or_path\n  found:  it is not set\n  do:     `hone "
            "generate --help` "
            "lists the options");
  EXPECT_EQ(error_of([&] { generate({"--prompt", "Hi", "--temprature", "1"}); }),
            "[command line] expected an option of hone generate\n  found:  unknown option --temprature. Did "
            "you mean "
            "'temperature'?\n  do:     `hone options --method generate` lists every option");
  EXPECT_NE(
      error_of([&] { generate({"--prompt", "Hi", "--top_p", "0"}); }).find("expected top_p above 0 to 1"),
      std::string::npos);
  EXPECT_NE(error_of([&] { generate({"--prompts", path("none.jsonl")}); }).find("expected a file as prompts"),
            std::string::npos);
  EXPECT_NE(error_of([&] { generate({"--prompt", "Hi", "--dtype", "float16"}); }).find("NUM-03"),
            std::string::npos);
}

TEST_F(ToolsTest, GenerateNotesIdleSettings) {
  EXPECT_EQ(generate({"--prompt", "Hi", "--top_k", "5"}).notes,
            std::vector<std::string>{
                "top_k: has no effect at temperature 0, which always takes the likeliest token"});
}

TEST_F(ToolsTest, Convert) {
  const ConvertPlan plan = parse_convert({"--input", path("model"), "--output", path("new")});
  EXPECT_EQ(plan.dtype, StorageType::kBFloat16);
  EXPECT_EQ(plan.output, path("new"));
  EXPECT_EQ(parse_convert({"--input", path("model"), "--output", path("new"), "--dtype", "float32"}).dtype,
            StorageType::kFloat32);
  EXPECT_NE(error_of([&] { parse_convert({"--input", path("model")}); }).find("expected option --output"),
            std::string::npos);
  EXPECT_EQ(
      short_paths(error_of([&] { parse_convert({"--input", path("model"), "--output", path("rows")}); })),
      "[--output] expected a new folder as output\n  found:  'rows' exists\n  do:     name another folder, "
      "or remove "
      "this one");
  EXPECT_NE(
      error_of([&] { parse_convert({"--input", path("none"), "--output", path("new")}); }).find("as input"),
      std::string::npos);
}

TEST_F(ToolsTest, Merge) {
  const MergePlan plan = parse_merge({"--adapter_name_or_path", path("adapter"), "--output", path("new")});
  EXPECT_EQ(plan.model_name_or_path, "");
  EXPECT_EQ(plan.adapter_name_or_path, path("adapter"));
  EXPECT_EQ(parse_merge({"--adapter_name_or_path", path("adapter"), "--output", path("new"),
                         "--model_name_or_path", path("model")})
                .model_name_or_path,
            path("model"));
  EXPECT_NE(error_of([&] {
              parse_merge({"--output", path("new")});
            }).find("expected option --adapter_name_or_path"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              parse_merge({"--adapter_name_or_path", path("model"), "--output", path("new")});
            }).find("expected adapter_config.json"),
            std::string::npos);
}

}  // namespace
}  // namespace hone::config
