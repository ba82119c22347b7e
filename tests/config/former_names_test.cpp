// Former names of TRL, transformers and PEFT, and names of dialects: what each becomes.
#include <algorithm>

#include "config/helpers.h"
#include "config/method_of.h"
#include "config/write_plan.h"

namespace hone::config {
namespace former_names_test {

using base::Json;

bool has_note(const Plan& plan, const std::string& text) {
  return std::any_of(plan.notes.begin(), plan.notes.end(),
                     [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

class FormerNames : public ConfigTest {};

// A row of the table that named no option, or that another row hides, would fail only when a user writes it.
TEST(FormerNamesTable, EveryNameHasAMeaningInSomeMethod) {
  for (const FormerName& former : former_names()) {
    EXPECT_FALSE(former.whose.empty()) << former.name;
    if (former.fate == Fate::kNote || former.fate == Fate::kRefused) {
      EXPECT_FALSE(former.why.empty()) << former.name;
    }
    if (former.fate == Fate::kRefused) {
      EXPECT_FALSE(former.fix.empty()) << former.name;
    }
    if (former.fate != Fate::kOption && former.fate != Fate::kKey) continue;
    bool found = false;
    for (const std::string& method : method_names()) {
      const Schema& schema = method_schema(*find_method(method));
      found = found || schema.find(former.option) != nullptr;
    }
    EXPECT_TRUE(found) << former.name << " becomes " << former.option << ", which is no option";
  }
}

TEST_F(FormerNames, AreReadAsTheOptionOfToday) {
  const Plan plan = run_yaml(
      "torch_dtype: bfloat16\nwarmup_ratio: 0.1\nmax_seq_length: 256\nevaluation_strategy: \"no\"\n"
      "batch_size: 4\n");
  EXPECT_EQ(plan.precision, Precision::kBFloat16);
  EXPECT_EQ(plan.warmup_steps, 0.1);
  EXPECT_EQ(plan.max_length, 256);
  EXPECT_EQ(plan.per_device_train_batch_size, 4);
  EXPECT_TRUE(has_note(plan, "warmup_ratio: read as warmup_steps, its name in transformers"));
  EXPECT_TRUE(has_note(plan, "torch_dtype: read as dtype"));
}

TEST_F(FormerNames, ThePlanIsTheSameUnderBothNames) {
  Plan one = run_yaml("max_seq_length: 256\nwarmup_ratio: 0.1\n");
  Plan other = run_yaml("max_length: 256\nwarmup_steps: 0.1\n");
  EXPECT_NE(one.notes, other.notes);
  one.notes = other.notes = {};
  EXPECT_EQ(one, other);
}

TEST_F(FormerNames, WorkOnTheCommandLine) {
  EXPECT_EQ(run({"--warmup_ratio", "0.05", "--max_seq_length", "128"}).warmup_steps, 0.05);
  EXPECT_EQ(run({"--no_cuda"}).device, "cpu");
  // A later source overrides an earlier one, by whatever name.
  EXPECT_EQ(run_yaml("warmup_ratio: 0.1\n", {"--warmup_steps", "7"}).warmup_steps, 7);
  EXPECT_EQ(run_yaml("warmup_steps: 7\n", {"--warmup_ratio", "0.2"}).warmup_steps, 0.2);
}

TEST_F(FormerNames, TwoNamesWithDifferentValuesAreAMistake) {
  EXPECT_EQ(yaml_error("evaluation_strategy: epoch\neval_strategy: steps\n"),
            "[run.yaml:5] expected one value of eval_strategy\n"
            "  found:  eval_strategy: \"steps\", and evaluation_strategy: \"epoch\" at run.yaml:4\n"
            "  likely: evaluation_strategy is another name of eval_strategy\n"
            "  do:     remove one of the two");
  EXPECT_NE(yaml_error("max_length: 64\nmax_seq_length: 128\n").find("one value of max_length"),
            std::string::npos);
  EXPECT_EQ(run_yaml("max_length: 64\nmax_seq_length: 64\n").max_length, 64);
}

TEST_F(FormerNames, AZeroRatioLeavesTheStepsAsTransformersDid) {
  EXPECT_EQ(run_yaml("warmup_steps: 100\nwarmup_ratio: 0.0\n").warmup_steps, 100);
  EXPECT_EQ(run_yaml("warmup_ratio: 0\nwarmup_steps: 100\n").warmup_steps, 100);
  EXPECT_EQ(run_yaml("warmup_ratio: 0.1\nwarmup_steps: 0\n").warmup_steps, 0.1);
}

TEST_F(FormerNames, ThoseThatSayHowAreNoted) {
  const Plan plan = run_yaml(
      "use_flash_attention_2: true\nlogging_dir: logs\nsave_safetensors: true\nno_cuda: false\n"
      "callbacks: [push_to_hub_revision]\ntoken_entropy: true\nnum_processes: 8\n");
  for (const char* name : {"use_flash_attention_2", "logging_dir", "save_safetensors", "no_cuda", "callbacks",
                           "token_entropy", "num_processes"}) {
    EXPECT_TRUE(has_note(plan, name)) << name;
  }
}

TEST_F(FormerNames, ThoseThatChangeTheRunAreRefusedUnlessOff) {
  EXPECT_TRUE(has_note(run_yaml("mxfp4: false\n"), "mxfp4"));
}

TEST_F(FormerNames, NamesOfScriptsAreNotes) {
  const Plan plan = run_yaml(
      "mxfp4: true\nmodel_download_location: /opt/model\ndataset_local_location: /opt/data\n"
      "dataset_configs:\n- train\npacking: true\npacking_strategy: ffd\n");
  for (const char* name : {"mxfp4", "model_download_location", "dataset_local_location", "dataset_configs"}) {
    EXPECT_TRUE(has_note(plan, name)) << name;
  }
  EXPECT_EQ(plan.packing_strategy, PackingStrategy::kBfd);
}

TEST_F(FormerNames, NamesOfForks) {
  for (const char* name : {"--packing", "--padding_free", "--use_reentrant"}) {
    EXPECT_TRUE(has_note(grpo({name, "false"}), std::string(name).substr(2))) << name;
  }
  const Plan plan =
      run_yaml("eval_dataset_name: " + path("rows") + "\neval_dataset_split: train\neval_strategy: epoch\n");
  EXPECT_EQ(plan.dataset_test, path("rows/train.jsonl"));
  EXPECT_TRUE(has_note(run_yaml("dataset_prompt_column: problem\n"), "dataset_prompt_column"));
  write("prefs/train.jsonl", "{\"text\": \"a\"}\n");
  write("prefs/validation.jsonl", "{\"text\": \"b\"}\n");
  const std::string file =
      write("splits.yaml", "model_name_or_path: " + path("model") + "\nuse_peft: true\ndataset_mixer:\n  " +
                               path("prefs") +
                               ": 1.0\ndataset_splits: [train, validation]\neval_strategy: epoch\n");
  EXPECT_EQ(parse_run(Method::kSft, {"--config", file}).dataset_test, path("prefs/validation.jsonl"));
}

TEST_F(FormerNames, AnEmptySystemTurnIsAskedFor) {
  EXPECT_TRUE(run_yaml("auto_insert_empty_system_msg: true\n").auto_insert_empty_system_msg);
  EXPECT_FALSE(run_yaml("").auto_insert_empty_system_msg);
  EXPECT_TRUE(has_note(grpo({"--auto_insert_empty_system_msg", "true"}), "system_prompt sets"));
}

TEST_F(FormerNames, ValuesAreTranslated) {
  EXPECT_EQ(dpo({"--truncation_side", "left"}).truncation_mode, "keep_end");
  EXPECT_EQ(dpo({"--truncation_side", "right"}).truncation_mode, "keep_start");
  EXPECT_EQ(run({"--group_by_length", "false"}).train_sampling_strategy, RowOrder::kRandom);
  EXPECT_EQ(run({"--group_by_length", "true"}).train_sampling_strategy, RowOrder::kByLength);
  EXPECT_NE(dpo_error({"--group_by_length", "true"}).find("input_ids"), std::string::npos);
}

TEST_F(FormerNames, SamplingNamesBecomeKeys) {
  const Plan plan =
      grpo({"--num_generations", "4", "--per_device_train_batch_size", "4", "--min_new_tokens", "3"});
  EXPECT_EQ(plan.policy.min_new_tokens, 3);
  EXPECT_NE(grpo_error({"--min_new_tokens", "3", "--generation_kwargs", "{\"min_new_tokens\": 4}"})
                .find("one value of min_new_tokens"),
            std::string::npos);
}

TEST_F(FormerNames, PythonsNoneAndNumbersAsText) {
  const Plan plan = run_yaml(
      "learning_rate: \"1e-4\"\nwarmup_ratio: '0.05'\nsave_total_limit: None\nresume_from_checkpoint: None\n"
      "packing: True\nhub_token: None\n");
  EXPECT_EQ(plan.learning_rate, 1e-4);
  EXPECT_EQ(plan.warmup_steps, 0.05);
  EXPECT_EQ(plan.save_total_limit, 0);
  EXPECT_TRUE(plan.packing);
  EXPECT_TRUE(plan.resume_from_checkpoint.empty());
}

TEST_F(FormerNames, OpenR1sRewardOptionsAreParameters) {
  const Plan plan = grpo({"--reward_funcs", "cosine", "repetition_penalty", "format", "--cosine_max_len",
                          "500", "--cosine_min_value_wrong", "-1.0", "--repetition_n_grams", "4"});
  EXPECT_EQ(plan.policy.reward_funcs,
            (std::vector<std::string>{"cosine(min_value_wrong=-1.0, max_len=500)",
                                      "repetition_penalty(ngram_size=4)", "format"}));
  EXPECT_EQ(parse_run_text(Method::kGrpo, write_plan(plan), "plan.yaml").policy.reward_funcs,
            plan.policy.reward_funcs);
  EXPECT_TRUE(has_note(grpo({"--code_language", "cpp"}), "code_language: not used, no code_format"));
}

TEST_F(FormerNames, RecipesOptionsReachThePlan) {
  const Plan plan = grpo(
      {"--system_prompt", "Be brief.", "--dataset_prompt_column", "problem", "--max_prompt_length", "64"});
  EXPECT_EQ(plan.system_prompt, "Be brief.");
  EXPECT_EQ(plan.dataset_prompt_column, "problem");
  EXPECT_EQ(plan.max_prompt_length, 64);
  EXPECT_EQ(grpo({"--max_prompt_length", "null"}).max_prompt_length, 0);
  EXPECT_EQ(run({"--chat_template", "{{ messages }}"}).chat_template, "{{ messages }}");
  EXPECT_EQ(run({"--chat_template", path("template.jinja")}).chat_template_path, path("template.jinja"));
  EXPECT_NE(run_error({"--chat_template", "chatml"}).find("Jinja text or a .jinja file"), std::string::npos);
  EXPECT_NE(run_error({"--tokenizer_name_or_path", path("rows")}).find("tokenizer.json"), std::string::npos);
  EXPECT_TRUE(run({"--tokenizer_name_or_path", path("model")}).tokenizer_name_or_path.empty());
  const Plan resumes = run({"--overwrite_output_dir", "--resume_from_checkpoint", "true"});
  EXPECT_FALSE(resumes.overwrite_output_dir);
  EXPECT_TRUE(has_note(resumes, "overwrite_output_dir: not used with resume_from_checkpoint"));
}

// ---- unknown names

TEST_F(FormerNames, IgnoreUnknownLetsNamedOnesPass) {
  const Plan plan = run_yaml("my_field: 3\nother: [1]\nignore_unknown: [my_field, other]\n");
  EXPECT_TRUE(has_note(plan, "my_field, other: passed over, as ignore_unknown says"));
  EXPECT_TRUE(has_note(run_yaml("my_field: 3\n", {"--ignore_unknown", "my_field"}), "my_field"));
  EXPECT_NE(yaml_error("my_field: 3\nignore_unknown: [other]\n").find("unknown option my_field"),
            std::string::npos);
}

// ---- mixtures

TEST_F(FormerNames, AMixerOfOneWholeSetIsADataset) {
  write("prefs/train_prefs.jsonl", "{\"text\": \"a\"}\n");
  write("prefs/test_prefs.jsonl", "{\"text\": \"b\"}\n");
  const std::string file =
      write("mixer.yaml", "model_name_or_path: " + path("model") + "\nuse_peft: true\ndataset_mixer:\n  " +
                              path("prefs") +
                              ": 1.0\ndataset_splits: [train_prefs, test_prefs]\neval_strategy: epoch\n");
  const Plan plan = parse_run(Method::kSft, {"--config", file});
  EXPECT_EQ(plan.dataset_name, path("prefs/train_prefs.jsonl"));
  EXPECT_EQ(plan.dataset_test, path("prefs/test_prefs.jsonl"));
  EXPECT_TRUE(plan.shuffle_dataset);
  EXPECT_TRUE(has_note(plan, "dataset_mixer: read as dataset_name"));
}

TEST_F(FormerNames, AMixerOfSharesIsAMixture) {
  write("a/train_sft.jsonl", "{\"text\": \"a\"}\n");
  write("b/train_sft.jsonl", "{\"text\": \"b\"}\n");
  write("a/test_sft.jsonl", "{\"text\": \"c\"}\n");
  write("b/test_sft.jsonl", "{\"text\": \"d\"}\n");
  const std::string file =
      write("mixer.yaml", "model_name_or_path: " + path("model") + "\nuse_peft: true\ndataset_mixer:\n  " +
                              path("a") + ": 0.5\n  " + path("b") +
                              ": 1.0\ndataset_splits: [train_sft, test_sft]\neval_strategy: epoch\n");
  const Plan plan = parse_run(Method::kSft, {"--config", file});
  ASSERT_EQ(plan.train_rows.sets.size(), 2U);
  EXPECT_EQ(plan.train_rows.sets[0].first, 0.5);
  EXPECT_EQ(plan.train_rows.files(),
            (std::vector<base::fs::path>{path("a/train_sft.jsonl"), path("b/train_sft.jsonl")}));
  EXPECT_EQ(plan.eval_rows.files(),
            (std::vector<base::fs::path>{path("a/test_sft.jsonl"), path("b/test_sft.jsonl")}));
  EXPECT_FALSE(plan.eval_rows.sets[0].first.has_value());
}

TEST_F(FormerNames, AMixtureOfOpenR1IsDatasets) {
  const std::string file = write(
      "mixture.yaml",
      "model_name_or_path: " + path("model") +
          "\nuse_peft: true\ndataset_mixture:\n  datasets:\n  - id: " + path("rows") +
          "\n    split: train\n    columns: [text]\n    weight: 0.5\n  seed: 7\n  test_split_size: 1\neval_strategy: epoch\n");
  const Plan plan = parse_run(Method::kSft, {"--config", file});
  ASSERT_EQ(plan.train_rows.sets.size(), 1U);
  EXPECT_EQ(plan.train_rows.sets[0].columns, std::vector<std::string>{"text"});
  EXPECT_EQ(plan.train_rows.sets[0].first, 0.5);
  EXPECT_TRUE(plan.train_rows.sets[0].drawn);
  EXPECT_EQ(plan.train_rows.shuffle_seed, 7U);
  EXPECT_EQ(plan.train_rows.test_split, (base::TestSplit{.size = 1, .seed = 7, .test = false}));
  EXPECT_EQ(plan.eval_rows.shuffle_seed, 7U);
  EXPECT_FALSE(plan.shuffle_dataset);
}

TEST_F(FormerNames, WeightsOfAMixtureAreSharesWithOneSeed) {
  const auto wrong = [&](const std::string& entries, const std::string& says) {
    const std::string error = yaml_error("datasets: [" + entries + "]\n");
    EXPECT_NE(error.find(says), std::string::npos) << error;
  };
  const std::string rows = "path: " + path("rows");
  wrong("{" + rows + ", weight: 1.5, seed: 0}", "`weight` as a share from 0 to 1");
  wrong("{" + rows + ", weight: 0.5}", "`seed`, the order in which `weight` draws rows");
  wrong("{" + rows + ", seed: 0}, {" + rows + ", seed: 1}", "the same `seed` in every entry");
  wrong("{" + rows + ", seed: -1}", "`seed` as a whole number from 0");
}

}  // namespace former_names_test
}  // namespace hone::config
