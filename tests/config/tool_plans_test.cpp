#include "config/commands/tool_plans.h"
#include "config/datasets/trained_on.h"

#include "config/helpers.h"

namespace hone::config {
namespace tool_plans_test {

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

TEST_F(ToolsTest, GenerateTakesTransformersSampling) {
  const GeneratePlan plan = generate({"--prompt",
                                      "Hi",
                                      "--temperature",
                                      "1",
                                      "--min_p",
                                      "0.1",
                                      "--repetition_penalty",
                                      "1.2",
                                      "--stop_strings",
                                      "\n\n",
                                      "END",
                                      "--min-new-tokens",
                                      "3",
                                      "--num_return_sequences",
                                      "4",
                                      "--max_batch_size",
                                      "8",
                                      "--kv_memory",
                                      "2MiB",
                                      "--logprobs",
                                      "--output",
                                      "out.jsonl"});
  EXPECT_EQ(plan.min_p, 0.1);
  EXPECT_EQ(plan.repetition_penalty, 1.2);
  EXPECT_EQ(plan.stop_strings, (std::vector<std::string>{"\n\n", "END"}));
  EXPECT_EQ(plan.min_new_tokens, 3);
  EXPECT_EQ(plan.num_return_sequences, 4);
  EXPECT_EQ(plan.max_batch_size, 8);
  EXPECT_EQ(plan.kv_memory, 2 << 20);
  EXPECT_TRUE(plan.logprobs);
  EXPECT_TRUE(plan.notes.empty());
}

TEST_F(ToolsTest, SamplingMistakes) {
  const auto error = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"--prompt", "Hi"});
    return error_of([&] { generate(words); });
  };
  EXPECT_EQ(error({"--min_p", "1.5"}),
            "[--min_p] expected min_p from 0 to 1\n  found:  1.5\n  do:     the default is 0.0");
  EXPECT_EQ(error({"--repetition_penalty", "0"}),
            "[--repetition_penalty] expected repetition_penalty above 0\n  found:  0.0\n  do:     the "
            "default is 1.0");
  EXPECT_EQ(error({"--min_new_tokens", "65"}),
            "[--min_new_tokens] expected min_new_tokens of at most max_new_tokens, 64\n"
            "  found:  65\n"
            "  do:     raise max_new_tokens, or lower min_new_tokens");
  EXPECT_EQ(error({"--stop_strings", "a", ""}),
            "[--stop_strings] expected texts that end a completion\n"
            "  found:  an empty text\n"
            "  likely: it is part of every completion\n"
            "  do:     leave it out");
  EXPECT_EQ(error({"--num_return_sequences", "2"}),
            "[--num_return_sequences] expected a temperature above 0 for several completions of a prompt\n"
            "  found:  temperature 0\n"
            "  likely: greedy completions of a prompt are all the same\n"
            "  do:     set temperature, or leave num_return_sequences at 1");
  EXPECT_NE(error({"--kv_memory", "much"}).find("[--kv_memory] expected a size such as"), std::string::npos);
  EXPECT_NE(error({"--stop_string", "a"}).find("Did you mean 'stop_strings'?"), std::string::npos);
}

TEST_F(ToolsTest, ChatTakesItsModelFirst) {
  ChatPlan expected;
  expected.model_name_or_path = path("model");
  expected.max_new_tokens = 512;
  expected.temperature = 0.7;
  EXPECT_EQ(parse_chat({path("model")}), expected);
  EXPECT_EQ(parse_chat({"--model_name_or_path", path("model")}), expected);
  const ChatPlan plan =
      parse_chat({path("model"), "--system_prompt", "Be brief.", "--adapter_name_or_path", path("adapter"),
                  "--temperature", "0", "--stop_strings", "END", "--threads", "1"});
  EXPECT_EQ(plan.system_prompt, "Be brief.");
  EXPECT_EQ(plan.adapter_name_or_path, path("adapter"));
  EXPECT_EQ(plan.temperature, 0);
  EXPECT_EQ(plan.stop_strings, std::vector<std::string>{"END"});
  EXPECT_EQ(plan.threads, 1);
}

TEST_F(ToolsTest, ServeTakesItsModelFirst) {
  ServePlan expected;
  expected.model_name_or_path = path("model");
  EXPECT_EQ(parse_serve({path("model")}), expected);
  const ServePlan plan = parse_serve({path("model"), "--port", "0", "--host", "0.0.0.0", "--api_key_env",
                                      "KEY", "--kv_memory", "2GB", "--logprobs_mode", "sampled"});
  EXPECT_EQ(plan.port, 0);
  EXPECT_EQ(plan.api_key_env, "KEY");
  EXPECT_EQ(plan.kv_memory, 2'000'000'000);
  EXPECT_EQ(plan.logprobs_mode, "sampled");
  const auto error = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {path("model")};
    words.insert(words.end(), more.begin(), more.end());
    return error_of([&] { parse_serve(words); });
  };
  EXPECT_NE(error({"--host", "0.0.0.0"}).find("api_key_env"), std::string::npos);
  EXPECT_NE(error({"--port", "70000"}).find("[--port]"), std::string::npos);
  EXPECT_NE(error({"--logprobs_mode", "rew"}).find("Did you mean 'raw'?"), std::string::npos);
  EXPECT_NE(error_of([] { parse_serve({}); }).find("expected a model to serve"), std::string::npos);
}

TEST_F(ToolsTest, ChatTakesTools) {
  write("tools.py", "def add(): pass\ndef look(): pass\n");
  const ChatPlan plan =
      parse_chat({path("model"), "--tools", path("tools.py") + ":add,look", "hone.tools.calculator"});
  EXPECT_EQ(plan.tools, (std::vector<std::string>{path("tools.py") + ":add,look", "hone.tools.calculator"}));
  const std::string said =
      error_of([&] { parse_chat({path("model"), "--tools", path("tool.py") + ":add"}); });
  EXPECT_NE(said.find("tool.py"), std::string::npos) << said;
  EXPECT_NE(
      error_of([&] {
        parse_generate({"--model_name_or_path", path("model"), "--prompt", "Hi", "--tools", "t.py:add"});
      }).find("tools"),
      std::string::npos);
}

// hone chat --adapter_name_or_path X, and hone chat X: the base that adapter_config.json names.
TEST_F(ToolsTest, AnAdapterNamesItsBase) {
  write("own/adapter_config.json", "{\"base_model_name_or_path\": \"" + path("model") + "\"}");
  write("own/adapter_model.safetensors", "");
  for (const std::vector<std::string>& words :
       {std::vector{std::string("--adapter_name_or_path"), path("own")}, std::vector{path("own")}}) {
    const ChatPlan plan = parse_chat(words);
    EXPECT_EQ(plan.model_name_or_path, path("model"));
    EXPECT_EQ(plan.adapter_name_or_path, path("own"));
    ASSERT_FALSE(plan.notes.empty());
    EXPECT_EQ(plan.notes.back(), "model_name_or_path: " + path("model") + ", the base of " + path("own"));
  }
  write("lost/adapter_config.json", "{\"base_model_name_or_path\": \"/nowhere/base\"}");
  write("lost/adapter_model.safetensors", "");
  EXPECT_NE(
      error_of([&] { parse_chat({path("lost")}); }).find("adapter_config.json, base_model_name_or_path]"),
      std::string::npos);
}

TEST_F(ToolsTest, ChatMistakes) {
  EXPECT_EQ(
      error_of([] { parse_chat({}); }),
      "[hone chat] expected a model to talk with\n"
      "  found:  none\n"
      "  do:     write hone chat MODEL, a folder in Hugging Face format, a .gguf file, or the folder of an "
      "adapter");
  EXPECT_NE(error_of([&] {
              parse_chat({path("model"), path("model")});
            }).find("[--model_name_or_path] expected one value"),
            std::string::npos);
  EXPECT_NE(error_of([&] { parse_chat({path("none")}); }).find("[--model_name_or_path]"), std::string::npos);
  EXPECT_NE(error_of([&] {
              parse_chat({path("model"), "--chat_template_path", path("none")});
            }).find("expected a file as chat_template_path"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              parse_chat({path("model"), "--sytem_prompt", "x"});
            }).find("Did you mean 'system_prompt'?"),
            std::string::npos);
}

TEST_F(ToolsTest, GenerateMistakes) {
  EXPECT_EQ(error_of([&] { generate({}); }),
            "[hone generate] expected a prompt to complete\n"
            "  found:  neither --prompt nor --prompts\n"
            "  do:     write --prompt 'TEXT', or --prompts FILE.jsonl with a prompt column");
  EXPECT_EQ(error_of([&] { parse_generate({"--prompt", "Hi"}); }),
            "[hone generate] expected option --model_name_or_path\n"
            "  found:  it is not set\n"
            "  do:     `hone generate --help` lists the options");
  EXPECT_EQ(error_of([&] { generate({"--prompt", "Hi", "--temprature", "1"}); }),
            "[command line] expected an option of hone generate\n"
            "  found:  unknown option --temprature. Did you mean 'temperature'?\n"
            "  likely: it would be ignored silently (RL-16)\n"
            "  do:     `hone options --method generate` lists every option");
  EXPECT_NE(
      error_of([&] { generate({"--prompt", "Hi", "--top_p", "0"}); }).find("expected top_p above 0 to 1"),
      std::string::npos);
  EXPECT_NE(error_of([&] { generate({"--prompts", path("none.jsonl")}); }).find("expected a file as prompts"),
            std::string::npos);
  EXPECT_NE(error_of([&] { generate({"--prompt", "Hi", "--dtype", "float16"}); }).find("NUM-03"),
            std::string::npos);
}

TEST_F(ToolsTest, GenerateHoldsTheBaseAsItsAdapterWasTrained) {
  EXPECT_EQ(generate({"--prompt", "Hi"}).quantized_base, QuantizedBase::kNone);
  const GeneratePlan plan = generate({"--prompt", "Hi", "--load_in_4bit", "--use_bnb_nested_quant"});
  EXPECT_EQ(plan.quantized_base, QuantizedBase::kNf4);
  EXPECT_TRUE(plan.use_bnb_nested_quant);
  EXPECT_EQ(parse_chat({path("model"), "--load_in_8bit"}).quantized_base, QuantizedBase::kInt8);
}

TEST_F(ToolsTest, GenerateNotesIdleSettings) {
  EXPECT_EQ(generate({"--prompt", "Hi", "--top_k", "5"}).notes,
            std::vector<std::string>{
                "top_k: has no effect at temperature 0, which always takes the most likely token"});
}

TEST_F(ToolsTest, Convert) {
  const ConvertPlan plan = parse_convert({"--input", path("model"), "--output", path("new")});
  EXPECT_EQ(plan.dtype, StorageType::kBFloat16);
  EXPECT_EQ(plan.output, path("new"));
  EXPECT_EQ(parse_convert({"--input", path("model"), "--output", path("new"), "--dtype", "float32"}).dtype,
            StorageType::kFloat32);
  EXPECT_EQ(plan.quantize, QuantizedBase::kNone);
  const ConvertPlan nested = parse_convert(
      {"--input", path("model"), "--output", path("new"), "--load_in_4bit", "--use_bnb_nested_quant"});
  EXPECT_EQ(nested.quantize, QuantizedBase::kNf4);
  EXPECT_TRUE(nested.use_bnb_nested_quant);
  EXPECT_NE(error_of([&] { parse_convert({"--input", path("model")}); }).find("expected option --output"),
            std::string::npos);
  EXPECT_EQ(
      short_paths(error_of([&] { parse_convert({"--input", path("model"), "--output", path("rows")}); })),
      "[--output] expected a new folder as output\n"
      "  found:  'rows' exists\n"
      "  do:     name another folder, or remove this one");
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
  EXPECT_EQ(plan.trained_on, QuantizedBase::kNone);
  EXPECT_EQ(
      parse_merge({"--adapter_name_or_path", path("adapter"), "--output", path("new"), "--load_in_8bit"})
          .trained_on,
      QuantizedBase::kInt8);
  EXPECT_NE(error_of([&] {
              parse_merge({"--output", path("new")});
            }).find("expected option --adapter_name_or_path"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              parse_merge({"--adapter_name_or_path", path("model"), "--output", path("new")});
            }).find("expected adapter_config.json"),
            std::string::npos);
}

// An adapter whose run's plan.yaml says 4 bits lies on that base, unless the user says otherwise.
TEST_F(ToolsTest, TheBaseThatAnAdapterWasTrainedOn) {
  write("adapter/plan.yaml",
        "# hone sft\nload_in_4bit: true\nload_in_8bit: false\nbnb_4bit_quant_type: fp4\n"
        "use_bnb_nested_quant: true\ndtype: bfloat16\n");
  write("adapter/checkpoint-3/adapter_config.json", "{}");
  write("adapter/first/adapter_config.json", "{}");
  const auto merged = [this](const std::string& adapter, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"--adapter_name_or_path", path(adapter), "--output", path("new")};
    words.insert(words.end(), more.begin(), more.end());
    return parse_merge(words);
  };
  for (const char* adapter : {"adapter", "adapter/checkpoint-3", "adapter/checkpoint-3/"}) {
    const MergePlan plan = merged(adapter);
    EXPECT_EQ(plan.trained_on, QuantizedBase::kFp4) << adapter;
    EXPECT_TRUE(plan.use_bnb_nested_quant);
    EXPECT_EQ(plan.compare.precision, Precision::kBFloat16);
    ASSERT_EQ(plan.notes.size(), 1U);
    EXPECT_EQ(plan.notes[0].find("load_in_4bit: true, bnb_4bit_quant_type: fp4, use_bnb_nested_quant: true"),
              0U);
  }
  EXPECT_EQ(merged("adapter/first").trained_on, QuantizedBase::kNone);  // another folder within it
  EXPECT_EQ(merged("adapter", {"--load_in_4bit", "false"}).trained_on, QuantizedBase::kNone);
  EXPECT_EQ(merged("adapter", {"--load_in_8bit"}).trained_on, QuantizedBase::kInt8);
  EXPECT_EQ(parse_generate({"--model_name_or_path", path("model"), "--adapter_name_or_path", path("adapter"),
                            "--prompt", "a"})
                .quantized_base,
            QuantizedBase::kFp4);
  EXPECT_EQ(trained_on(path("adapter")), (TrainedOn{.base = QuantizedBase::kFp4, .nested = true}));
  EXPECT_EQ(trained_on(path("adapter/first")), TrainedOn());
  EXPECT_FALSE(merged("adapter").quantize_moe_experts);
  write("adapter/plan.yaml", "load_in_4bit: false\nload_in_8bit: true\nquantize_moe_experts: true\n");
  EXPECT_TRUE(merged("adapter").quantize_moe_experts);
  EXPECT_FALSE(merged("adapter", {"--load_in_8bit"}).quantize_moe_experts);
  EXPECT_EQ(trained_on(path("adapter")), (TrainedOn{.base = QuantizedBase::kInt8, .experts = true}));
  EXPECT_TRUE(parse_export({"--adapter_name_or_path", path("adapter"), "--model_name_or_path", path("model"),
                            "--output", path("new.gguf")})
                  .quantize_moe_experts);
  EXPECT_TRUE(parse_generate({"--model_name_or_path", path("model"), "--adapter_name_or_path",
                              path("adapter"), "--prompt", "a"})
                  .quantize_moe_experts);
  write("adapter/plan.yaml", "load_in_4bit: [");
  EXPECT_EQ(merged("adapter").notes.size(), 1U);
  write("adapter/plan.yaml", "load_in_4bit: false\nload_in_8bit: false\n");
  EXPECT_TRUE(merged("adapter").notes.empty());
}

TEST_F(ToolsTest, WhatAnAdapterWasTrainedAbove) {
  write("below/adapter_config.json", "{}");
  write("adapter/base_adapters.json", R"({"base_adapters": [")" + path("below") + R"("], "crc32c": [1]})");
  const std::vector<std::string> words = {"--adapter_name_or_path", path("adapter"), "--output", path("new")};
  const MergePlan plan = parse_merge(words);
  EXPECT_EQ(plan.base_adapters, std::vector<std::string>{path("below")});
  EXPECT_EQ(plan.notes.size(), 1U);
  std::vector<std::string> none = words;
  none.insert(none.end(), {"--base_adapters", "null"});
  EXPECT_TRUE(parse_merge(none).base_adapters.empty());
}

TEST_F(ToolsTest, MergeOfSeveral) {
  const MergePlan plan = parse_merge({"--adapters", path("adapter"), path("adapter"), "--weights", "0.5",
                                      "-1", "--combination", "cat", "--output", path("new")});
  EXPECT_EQ(plan.adapters.size(), 2U);
  EXPECT_EQ(plan.weights, (std::vector<double>{0.5, -1}));
  EXPECT_EQ(plan.combination, "cat");
  EXPECT_EQ(parse_merge({"--adapters", path("adapter"), path("adapter"), "--output", path("new")}).weights,
            (std::vector<double>{1, 1}));
  for (const char* weight : {"x", "1e999", ""}) {
    EXPECT_NE(error_of([&] {
                parse_merge({"--adapters", path("adapter"), "--weights", weight, "--output", path("new")});
              }).find("1 number, one an adapter"),
              std::string::npos);
  }
  EXPECT_EQ(parse_merge(
                {"--adapter_name_or_path", path("adapter"), "--combination", "cat", "--output", path("new")})
                .notes.size(),
            1U);
}

TEST_F(ToolsTest, MergeOfSeveralByPeftsOtherKinds) {
  const auto merge = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"--adapters", path("adapter"), path("adapter"), "--output", path("new"), "--combination"});
    return parse_merge(more);
  };
  const MergePlan ties = merge({"ties", "--density", "0.2", "--majority_sign_method", "frequency"});
  EXPECT_EQ(ties.density, 0.2);
  EXPECT_TRUE(ties.elects_by_frequency);
  EXPECT_TRUE(ties.notes.empty());
  EXPECT_EQ(merge({"svd", "--svd_rank", "3"}).svd_rank, 3);
  EXPECT_EQ(merge({"svd", "--density", "0.2"}).notes.size(), 1U);
  EXPECT_EQ(merge({"linear", "--svd_rank", "3", "--majority_sign_method", "total"}).notes.size(), 2U);
  EXPECT_NE(error_of([&] { merge({"magnitude_prune_svd"}); }).find("expected density"), std::string::npos);
  EXPECT_NE(error_of([&] { merge({"ties", "--density", "0"}); }).find("density"), std::string::npos);
  EXPECT_NE(error_of([&] { merge({"dare_ties"}); }).find("drops values at random"), std::string::npos);
}

TEST_F(ToolsTest, VariablesOfTheTemplate) {
  EXPECT_EQ(generate({"--prompt", "Hi"}).chat_template_kwargs, "");
  EXPECT_EQ(generate({"--prompt", "Hi", "--chat_template_kwargs", "{\"enable_thinking\": false}"})
                .chat_template_kwargs,
            "{\"enable_thinking\":false}");
  EXPECT_EQ(parse_chat({path("model"), "--enable_thinking", "false"}).chat_template_kwargs,
            "{\"enable_thinking\":false}");
}

TEST_F(ToolsTest, AdaptersToSwitchBetween) {
  write("second/adapter_config.json", "{}");
  write("lr=1/adapter_config.json", "{}");
  const auto named = [&](const std::string& word) {
    return generate({"--prompt", "Hi", "--adapters", word}).adapters.at(0);
  };
  EXPECT_EQ(named("one=" + path("second")), (NamedAdapter{"one", path("second")}));
  EXPECT_EQ(named(path("second")), (NamedAdapter{"second", path("second")}));
  EXPECT_EQ(named(path("second") + "/").name, "second");
  EXPECT_EQ(named(path("lr=1")), (NamedAdapter{"lr=1", path("lr=1")}));
  EXPECT_EQ(parse_chat({path("model"), "--adapters", path("adapter"), "b=" + path("second")}).adapters.size(),
            2U);
  const auto refusal = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"--prompt", "Hi", "--adapters"};
    words.insert(words.end(), more.begin(), more.end());
    return error_of([&] { generate(words); });
  };
  EXPECT_NE(refusal({"none=" + path("second")}).find("the model without an adapter"), std::string::npos);
  EXPECT_NE(refusal({"a=" + path("absent")}).find("as adapters"), std::string::npos);
  EXPECT_NE(refusal({path("second"), "--adapter_name_or_path", path("adapter")}).find("both"),
            std::string::npos);
  EXPECT_NE(refusal({path("second"), "--base_adapters", path("second")}).find("each adapter once"),
            std::string::npos);
}

TEST_F(ToolsTest, BaseAdapters) {
  write("second/adapter_config.json", "{}");
  const std::vector<std::string> both = {"--adapter_name_or_path", path("second"), "--base_adapters",
                                         path("adapter")};
  const std::vector<std::string> below = {path("adapter")};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), both.begin(), both.end());
    return words;
  };
  EXPECT_EQ(generate(with({"--prompt", "Hi"})).base_adapters, below);
  EXPECT_EQ(parse_chat(with({path("model")})).base_adapters, below);
  EXPECT_EQ(parse_merge(with({"--output", path("new")})).base_adapters, below);
  EXPECT_EQ(parse_export(with({"--output", path("m.gguf")})).base_adapters, below);
  EXPECT_NE(error_of([&] {
              parse_merge({"--adapters", path("adapter"), path("second"), "--base_adapters", path("adapter"),
                           "--output", path("new")});
            }).find("write all of them after adapters"),
            std::string::npos);
}

TEST_F(ToolsTest, Export) {
  const ExportPlan plan = parse_export({"--model_name_or_path", path("model"), "--output", path("m.gguf")});
  EXPECT_EQ(plan.outtype, GgufOutType::kF16);
  EXPECT_EQ(plan.adapter_name_or_path, "");
  const auto typed = [this](const char* name) {
    return parse_export({"--adapter_name_or_path", path("adapter"), "--output", path("m.gguf"), "--to",
                         "gguf", "--outtype", name})
        .outtype;
  };
  EXPECT_EQ(typed("q4_k_m"), GgufOutType::kQ4_K_M);
  EXPECT_EQ(typed("q8_0"), GgufOutType::kQ8_0);
  EXPECT_EQ(typed("bf16"), GgufOutType::kBF16);
  EXPECT_EQ(typed("f32"), GgufOutType::kF32);
  EXPECT_NE(error_of([&] {
              parse_export({"--output", path("m.gguf")});
            }).find("expected option --model_name_or_path"),
            std::string::npos);
  const auto alone = [this](std::vector<std::string> words) {
    words.insert(words.end(), {"--adapter_only", "--output", path("m.gguf")});
    return parse_export(words);
  };
  const std::vector<std::string> adapter = {"--adapter_name_or_path", path("adapter")};
  EXPECT_EQ(alone(adapter).outtype, GgufOutType::kF32);
  EXPECT_EQ(alone({adapter[0], adapter[1], "--outtype", "f16"}).outtype, GgufOutType::kF16);
  EXPECT_NE(error_of([&] { alone({adapter[0], adapter[1], "--outtype", "q8_0"}); }).find("f32, f16 or bf16"),
            std::string::npos);
  EXPECT_NE(error_of([&] { alone({"--model_name_or_path", path("model")}); }).find("--adapter_name_or_path"),
            std::string::npos);
  write("below/adapter_config.json", "{}");
  EXPECT_NE(error_of([&] {
              alone({adapter[0], adapter[1], "--base_adapters", path("below")});
            }).find("--combination cat"),
            std::string::npos);
  for (const char* output : {"new", "rows"}) {
    EXPECT_NE(error_of([&] {
                parse_export({"--model_name_or_path", path("model"), "--output", path(output)});
              }).find("a new file whose name ends with .gguf"),
              std::string::npos);
  }
}

TEST_F(ToolsTest, RewardTest) {
  const std::vector<std::string> least = {"--reward_funcs", "accuracy_reward", "think_format_reward",
                                          "--dataset_name", path("rows")};
  RewardTestPlan expected;
  expected.reward_funcs = {"accuracy_reward", "think_format_reward"};
  expected.dataset_name = path("rows");
  expected.rows = base::RowFiles(path("rows/train.jsonl"));
  expected.rows.sets[0].name = path("rows");
  EXPECT_EQ(parse_reward_test(least), expected);

  std::vector<std::string> all = least;
  all.insert(all.end(),
             {"--python", "python3.12", "--reward_workers", "2", "--reward_timeout", "1.5", "--limit", "4",
              "--max_completion_length", "64", "--reward_model_name_or_path", path("model")});
  expected.reward_funcs.insert(expected.reward_funcs.begin(), path("model"));
  expected.python = "python3.12";
  expected.reward_workers = 2;
  expected.reward_timeout = 1.5;
  expected.limit = 4;
  expected.max_completion_length = 64;
  EXPECT_EQ(parse_reward_test(all), expected);

  EXPECT_EQ(error_of([&] { parse_reward_test({"--dataset_name", path("rows")}); }),
            "[hone reward-test] expected option --reward_funcs\n  found:  it is not set\n  do:     write "
            "--reward_funcs accuracy_reward, or rewards.py:my_function");
  EXPECT_NE(error_of([&] { parse_reward_test({"--reward_funcs", "a"}); }).find("option --dataset_name"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              parse_reward_test({"--reward_funcs", path("r.py:f"), "--dataset_name", path("rows")});
            }).find("a Python file before the colon"),
            std::string::npos);
}

TEST_F(ToolsTest, BisectTakesTwoFilesAndFindsTheirMethod) {
  write("good.yaml", "learning_rate: 1e-4\n");
  write("bad.yaml", "num_generations: 4\n");
  const BisectPlan plan = parse_bisect({path("good.yaml"), path("bad.yaml"), "--steps", "5", "--json"});
  EXPECT_EQ(plan.good, path("good.yaml"));
  EXPECT_EQ(plan.bad, path("bad.yaml"));
  EXPECT_EQ(plan.method, Method::kGrpo);
  EXPECT_EQ(plan.steps, 5);
  EXPECT_TRUE(plan.json);
  EXPECT_EQ(parse_bisect({path("good.yaml"), path("good.yaml")}).method, Method::kSft);
  EXPECT_EQ(parse_bisect({path("good.yaml"), path("good.yaml"), "--method", "rloo"}).method, Method::kRloo);
  EXPECT_NE(error_of([&] { parse_bisect({path("good.yaml")}); }).find("--bad"), std::string::npos);
  EXPECT_NE(error_of([&] { parse_bisect({path("good.yaml"), path("none.yaml")}); }).find("none.yaml"),
            std::string::npos);
}

TEST_F(ToolsTest, LrFindTakesTheRunsFileWithOrWithoutItsName) {
  write("run.yaml", "learning_rate: 1e-4\n");
  LrFindPlan expected;
  expected.run = path("run.yaml");
  EXPECT_EQ(parse_lr_find({path("run.yaml")}), expected);
  EXPECT_EQ(parse_lr_find({"--config", path("run.yaml")}), expected);
  EXPECT_NE(error_of([&] {
              parse_lr_find({path("run.yaml"), "--lowest", "1", "--highest", "0.1"});
            }).find("highest above"),
            std::string::npos);
}

}  // namespace tool_plans_test
}  // namespace hone::config
