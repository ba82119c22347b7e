// Reading: what each spelling of a value becomes, and what each wrong one is told.
#include "config/settings.h"

#include "config/helpers.h"
#include "config/write_plan.h"

namespace hone::config {
namespace settings_test {

using base::Json;

// With these, the options of adapters and of evaluations have an effect, so that a wrong value is a mistake.
const std::string kAdapter = "use_peft: true\n";
const std::string kEvaluations = "eval_strategy: steps\n";

Settings yaml(const std::string& text) {
  Settings settings(method_schema(Method::kSft));
  settings.read_yaml_text(text, "run.yaml");
  return settings;
}

Settings words(const std::vector<std::string>& arguments) {
  Settings settings(method_schema(Method::kSft));
  settings.read_arguments(arguments);
  return settings;
}

std::string yaml_fault(const std::string& text) {
  return error_of([&] { yaml(text).check(); });
}

std::string words_fault(const std::vector<std::string>& arguments) {
  return error_of([&] { words(arguments).check(); });
}

TEST(ReadYaml, ReadsEachKind) {
  const Settings s = yaml(
      "packing: yes\nlora_r: 8\nlearning_rate: 1e-5\nweight_decay: .1\nadam_epsilon: 1.E-8\nmax_length: "
      "null\n"
      "eos_token: '<|im_end|>'\nlora_target_modules: [q_proj, v_proj]\nlora_exclude_modules: lm_head\n"
      "lr_scheduler_kwargs:\n  num_cycles: 1\nsave_strategy: no\nrun_name: 7\nseed: "
      "\"3\"\ninit_lora_weights: True\n");
  EXPECT_TRUE(s.flag("packing"));
  EXPECT_EQ(s.integer("lora_r"), 8);
  EXPECT_EQ(s.number("learning_rate"), 1e-5);
  EXPECT_EQ(s.number("weight_decay"), 0.1);
  EXPECT_EQ(s.number("adam_epsilon"), 1e-8);
  EXPECT_FALSE(s.maybe_integer("max_length").has_value());
  EXPECT_EQ(s.text("eos_token"), "<|im_end|>");
  EXPECT_EQ(s.list("lora_target_modules"), (std::vector<std::string>{"q_proj", "v_proj"}));
  EXPECT_EQ(s.list("lora_exclude_modules"), (std::vector<std::string>{"lm_head"}));
  EXPECT_EQ(s.value("lr_scheduler_kwargs"), Json({{"num_cycles", 1}}));
  EXPECT_EQ(s.text("save_strategy"), "no");
  EXPECT_EQ(s.text("run_name"), "7");
  EXPECT_EQ(s.integer("seed"), 3);
  EXPECT_EQ(s.text("init_lora_weights"), "true");
  EXPECT_EQ(s.where("learning_rate"), "run.yaml:3");
  EXPECT_EQ(s.where("max_steps"), "max_steps (default)");
}

TEST(ReadYaml, EmptyFileIsNoSettings) {
  EXPECT_FALSE(yaml("").is_set("lora_r"));
  EXPECT_FALSE(yaml("# nothing\n").is_set("lora_r"));
}

TEST(ReadYaml, DashesAreUnderscores) {
  EXPECT_EQ(yaml("lora-r: 4\n").integer("lora_r"), 4);
}

TEST(ReadYaml, QuotedNullIsText) {
  EXPECT_EQ(yaml("eos_token: \"null\"\n").text("eos_token"), "null");
}

TEST(ReadYaml, MergeKeysFillWhatIsNotSet) {
  const Settings s = yaml("<<: {lora_r: 4, seed: 1}\nlora_r: 8\n");
  EXPECT_EQ(s.integer("lora_r"), 8);
  EXPECT_EQ(s.integer("seed"), 1);
  const Settings two = yaml("<<: [{seed: 1}, {seed: 2, lora_r: 2}]\n");
  EXPECT_EQ(two.integer("seed"), 1);
  EXPECT_EQ(two.integer("lora_r"), 2);
  EXPECT_EQ(yaml_fault("seed: 1\n<<: 5\n"),
            "[run.yaml:2] expected a mapping, or a list of mappings, after '<<:'\n  found:  '5'");
}

TEST(ReadYaml, SyntaxErrorsNameLineAndColumn) {
  const std::string text = yaml_fault("lora_r: 8\nseed: [1\n");
  EXPECT_TRUE(text.starts_with("[run.yaml:")) << text;
  EXPECT_NE(text.find("] expected YAML\n  found:  "), std::string::npos) << text;
  EXPECT_NE(text.find("an unclosed quote"), std::string::npos) << text;
}

TEST(ReadYaml, NotAMapping) {
  EXPECT_EQ(yaml_fault("lora_r 8\n"),
            "[run.yaml:1] expected a mapping of options to values\n"
            "  found:  'lora_r 8'\n"
            "  likely: a missing space after ':'\n"
            "  do:     write one `option: value` per line");
  EXPECT_EQ(yaml_fault("seed: 1\n---\nseed: 2\n"),
            "[run.yaml] expected one YAML document\n  found:  more than one\n"
            "  likely: a line '---', or one that begins with , ] or }\n  do:     keep one run per file");
}

TEST(ReadYaml, DuplicateKey) {
  EXPECT_EQ(yaml_fault("lora_r: 8\nseed: 1\nlora-r: 16\n"),
            "[run.yaml:3] expected each option once\n"
            "  found:  lora_r again; it is set at run.yaml:1 already\n"
            "  likely: a line was copied\n"
            "  do:     remove one of the two");
}

TEST(ReadYaml, UnknownKeyHasANeighbor) {
  EXPECT_EQ(yaml_fault("seed: 1\npackng: true\n"),
            "[run.yaml:2] expected an option of hone sft\n  found:  unknown option packng. Did you mean "
            "'packing'?\n  likely: it would be ignored silently (RL-16)\n  do: "
            "    `hone options --method sft` lists every option");
}

TEST(ReadYaml, AnotherMethodsOption) {
  EXPECT_EQ(yaml_fault("num_generations: 8\n"),
            "[run.yaml:1] expected an option of hone sft\n"
            "  found:  num_generations, an option of grpo, rloo\n"
            "  likely: the file belongs to another method (RL-16)\n"
            "  do:     remove num_generations");
}

TEST(ReadYaml, WrongTypes) {
  EXPECT_EQ(yaml_fault("lora_r: many\n" + kAdapter),
            "[run.yaml:1] expected a whole number for option lora_r\n"
            "  found:  'many'\n"
            "  do:     correct it, or remove it for the default 16");
  EXPECT_EQ(yaml_fault("lora_r: 8.5\n" + kAdapter),
            "[run.yaml:1] expected a whole number for option lora_r\n"
            "  found:  '8.5'\n"
            "  do:     correct it, or remove it for the default 16");
  EXPECT_NE(yaml_fault("seed: 99999999999999999999\n").find("expected a 64-bit whole number for option seed"),
            std::string::npos);
  EXPECT_EQ(yaml_fault("learning_rate: 1,5e-4\n"),
            "[run.yaml:1] expected a number for option learning_rate\n"
            "  found:  '1,5e-4'\n"
            "  likely: the decimal separator is a point\n"
            "  do:     correct it, or remove it for the default 2e-5");
  EXPECT_NE(yaml_fault("learning_rate: nan\n").find("expected a finite number for option learning_rate"),
            std::string::npos);
  EXPECT_NE(yaml_fault("learning_rate: 1e999\n").find("expected a finite number"), std::string::npos);
  EXPECT_NE(
      yaml_fault("packing: maybe\n").find("expected true or false for option packing\n  found:  'maybe'"),
      std::string::npos);
  EXPECT_NE(
      yaml_fault("packing: [true]\n").find("expected a single value for option packing\n  found:  a list"),
      std::string::npos);
  EXPECT_NE(yaml_fault("output_dir: {a: 1}\n")
                .find("expected a single value for option output_dir\n  found:  a mapping"),
            std::string::npos);
  EXPECT_NE(yaml_fault("lora_target_modules: {a: 1}\n" + kAdapter).find("found:  a mapping"),
            std::string::npos);
  EXPECT_NE(yaml_fault("lora_target_modules: [[a]]\n" + kAdapter).find("expected a list of names"),
            std::string::npos);
  EXPECT_NE(yaml_fault("lr_scheduler_kwargs: 5\n").find("expected a mapping for option lr_scheduler_kwargs"),
            std::string::npos);
}

TEST(ReadYaml, NullOnlyWhereItMeansSomething) {
  EXPECT_EQ(yaml_fault("lora_r:\n" + kAdapter),
            "[run.yaml:1] expected a whole number for option lora_r\n"
            "  found:  nothing\n"
            "  likely: this option cannot be null\n"
            "  do:     correct it, or remove it for the default 16");
  EXPECT_NE(yaml_fault("lora_r: null\n" + kAdapter).find("this option cannot be null"), std::string::npos);
  EXPECT_TRUE(yaml("data_seed: ~\n").value("data_seed").is_null());
}

TEST(ReadYaml, MissingFile) {
  const std::string text = words_fault({"--config", "/nowhere/run.yaml"});
  EXPECT_NE(text.find("/nowhere/run.yaml"), std::string::npos) << text;
}

TEST(ReadArguments, EverySpelling) {
  const Settings s =
      words({"--lora_r", "8", "--learning-rate=1e-4", "--packing", "--no_bf16", "--assistant_only_loss",
             "true", "--lora_target_modules", "q_proj", "v_proj", "--max_steps", "-1", "--no-shuffle-dataset",
             "--lr_scheduler_kwargs", "{\"num_cycles\": 0.25}", "--max_length", "none", "--eos_token", ""});
  EXPECT_EQ(s.integer("lora_r"), 8);
  EXPECT_EQ(s.number("learning_rate"), 1e-4);
  EXPECT_TRUE(s.flag("packing"));
  EXPECT_EQ(s.maybe_flag("bf16"), std::optional(false));
  EXPECT_TRUE(s.flag("assistant_only_loss"));
  EXPECT_EQ(s.list("lora_target_modules"), (std::vector<std::string>{"q_proj", "v_proj"}));
  EXPECT_EQ(s.integer("max_steps"), -1);
  EXPECT_FALSE(s.flag("shuffle_dataset"));
  EXPECT_EQ(s.value("lr_scheduler_kwargs"), Json({{"num_cycles", 0.25}}));
  EXPECT_TRUE(s.value("max_length").is_null());
  EXPECT_EQ(s.text("eos_token"), "");
  EXPECT_EQ(s.where("lora_r"), "--lora_r");
}

TEST(ReadArguments, TheLastOfASingleValueWins) {
  EXPECT_EQ(words({"--lora_r", "8", "--lora_r", "4"}).integer("lora_r"), 4);
}

TEST(ReadArguments, Mistakes) {
  EXPECT_EQ(words_fault({"--packng"}),
            "[command line] expected an option of hone sft\n  found:  unknown option --packng. Did you mean "
            "'packing'?\n  likely: it would be ignored silently (RL-16)\n  do: "
            "    `hone options --method sft` lists every option");
  EXPECT_EQ(
      words_fault({"run.yaml"}),
      "[run.yaml] expected a file\n  found:  no such file.\n  likely: a misspelled path, or another working "
      "folder\n  do:     correct the path");
  EXPECT_EQ(words_fault({"-r", "8"}),
            "[command line] expected an option such as --output_dir\n"
            "  found:  '-r'\n"
            "  do:     `hone sft --help` shows the form");
  EXPECT_EQ(words_fault({"--lora_r"}),
            "[--lora_r] expected one value\n  found:  none\n  do:     write --lora_r VALUE");
  EXPECT_EQ(words_fault({"--output_dir", "my", "run"}),
            "[--output_dir] expected one value\n"
            "  found:  2: my run\n"
            "  likely: a value with spaces needs quotes\n"
            "  do:     write --output_dir VALUE");
  EXPECT_NE(words_fault({"--lora_target_modules"}).find("expected one or more values"), std::string::npos);
  EXPECT_NE(words_fault({"--lora_target_modules", "a", "--lora_target_modules", "b"})
                .find("expected the option once"),
            std::string::npos);
  EXPECT_NE(words_fault({"--no_packing", "true"}).find("[--no_packing] expected no value"),
            std::string::npos);
  EXPECT_NE(words_fault({"--packing", "perhaps"}).find("[--packing] expected true or false"),
            std::string::npos);
  EXPECT_NE(words_fault({"--no_lora_r"}).find("unknown option --no_lora_r"), std::string::npos);
  EXPECT_NE(words_fault({"--config"}).find("[--config] expected one YAML file"), std::string::npos);
  EXPECT_NE(words_fault({"--lr_scheduler_kwargs", "{'num_cycles': 1}"})
                .find("on the command line a mapping is JSON"),
            std::string::npos);
}

TEST(Check, Ranges) {
  EXPECT_EQ(yaml_fault("lora_r: 0\n" + kAdapter),
            "[run.yaml:1] expected lora_r at least 1\n  found:  0\n  do:     the default is 16");
  for (const char* line : {"per_device_train_batch_size: 0",
                           "gradient_accumulation_steps: 0",
                           "num_train_epochs: 0",
                           "max_steps: -2",
                           "learning_rate: -1",
                           "lora_dropout: 1",
                           "lora_dropout: -0.1",
                           "lora_alpha: 0",
                           "max_length: 1",
                           "warmup_steps: -1",
                           "weight_decay: -1",
                           "adam_beta1: 1",
                           "adam_beta2: 1.5",
                           "adam_epsilon: -1",
                           "max_grad_norm: -1",
                           "per_device_eval_batch_size: 0",
                           "threads: -1",
                           "logging_steps: -1",
                           "eval_steps: -1",
                           "save_steps: -1"}) {
    const std::string name = std::string(line).substr(0, std::string(line).find(':'));
    EXPECT_EQ(yaml_fault(std::string(line) + "\n" + kAdapter + kEvaluations)
                  .find("[run.yaml:1] expected " + name + " "),
              0U)
        << line;
  }
}

TEST(Check, Choices) {
  EXPECT_EQ(
      yaml_fault("lr_scheduler_type: cosin\n"),
      "[run.yaml:1] expected a value of lr_scheduler_type\n"
      "  found:  'cosin'. Did you mean 'cosine', 'cosine_with_restarts' or 'cosine_with_min_lr'?\n"
      "  do:     choose linear, cosine, cosine_with_restarts, polynomial, constant, constant_with_warmup, "
      "inverse_sqrt, reduce_lr_on_plateau, cosine_with_min_lr, cosine_warmup_with_min_lr, "
      "warmup_stable_decay, greedy");
  for (const char* line :
       {"optim: ademamix", "optim: adamw_torch_8bit", "train_sampling_strategy: batch_rebalance",
        "init_lora_weights: olora", "lora_task_type: SEQ_CLS"}) {
    EXPECT_NE(yaml_fault(std::string(line) + "\n" + kAdapter + kEvaluations).find("that hone has\n"),
              std::string::npos)
        << line;
  }
}

TEST(Check, RefusedUnlessTheDefault) {
  EXPECT_EQ(
      yaml_fault("fp16: true\n"),
      "[run.yaml:1] expected fp16 at its default false\n  found:  true\n  likely: NUM-03: float16 overflows in training "
      "and needs loss scaling; use bf16\n  do:     remove fp16");
  for (const Option& row : method_schema(Method::kSft).options) {
    if (row.option_class != OptionClass::kRefused) continue;
    Settings at_default(method_schema(Method::kSft));
    at_default.read_yaml_text(std::string(row.name) + ": " + yaml_text(row.default_value()) + "\n",
                              "run.yaml");
    EXPECT_TRUE(at_default.check().empty()) << row.name;
    std::string other = "text";
    if (row.kind == Kind::kBool) other = "true";
    if (row.kind == Kind::kInt || row.kind == Kind::kFloat) other = "3";
    if (row.kind == Kind::kMap) other = "{a: 1}";
    const std::string text = yaml_fault(std::string(row.name) + ": " + other + "\n");
    EXPECT_NE(text.find("at its default"), std::string::npos) << row.name;
    EXPECT_NE(text.find(std::string(row.reason)), std::string::npos) << row.name;
  }
  EXPECT_NE(yaml_fault("fp16: true\n").find("NUM-03"), std::string::npos);
}

TEST(Check, OffMeansOff) {
  EXPECT_TRUE(
      yaml("lora_target_parameters: []\nmodel_init_kwargs: {}\nlora_modules_to_save: []\n").check().empty());
}

TEST(Check, AnsweredOptionsGetOneNoteEach) {
  EXPECT_EQ(yaml("gradient_checkpointing_kwargs: {use_reentrant: false}\n").check(),
            (std::vector<std::string>{"gradient_checkpointing_kwargs: gradient_checkpointing and recompute "
                                      "decide; the results do not depend on it"}));
  std::size_t count = 0;
  for (const Option& row : method_schema(Method::kSft).options) {
    if (row.option_class != OptionClass::kIgnored) continue;
    ++count;
    const std::string line = std::string(row.name) + ": " + yaml_text(row.default_value()) + "\n";
    EXPECT_EQ(yaml(line).check(),
              std::vector<std::string>{std::string(row.name) + ": " + std::string(row.reason)});
  }
  EXPECT_GE(count, 70U);
  EXPECT_EQ(yaml("optim: adamw_torch\nloss_type: chunked_nll\n").check(),
            (std::vector<std::string>{"loss_type: chunked_nll means the same here as nll",
                                      "optim: adamw_torch means the same here as adamw_torch_fused"}));
  EXPECT_EQ(yaml("env:\n  VAR: 1\n").check(),
            std::vector<std::string>{"env: hone reads no environment variables"});
}

TEST(YamlText, IsReadBackAsItself) {
  for (const char* text : {"plain",
                           "a/b.c",
                           "<|im_end|>",
                           "null",
                           "no",
                           "1e-5",
                           "7",
                           "",
                           "two words",
                           "- x",
                           "it's",
                           "true",
                           "#hash",
                           "a: b",
                           "0x1F",
                           "\"q\"",
                           "\xC3\xA9t\xC3\xA9",
                           "line\nbreak",
                           ".5",
                           "~"}) {
    const Settings s = yaml("run_name: " + yaml_text(Json(text)) + "\n");
    EXPECT_EQ(s.value("run_name"), Json(text)) << yaml_text(Json(text));
  }
  EXPECT_EQ(yaml_text(Json(2e-5)), "2e-05");
  EXPECT_EQ(yaml_text(Json({"a", "b c"})), "[a, \"b c\"]");
}

}  // namespace settings_test
}  // namespace hone::config
