// All mistakes of a configuration are told at once, and none that only follows from another.
#include "config/reading/checked_lines.h"

#include <algorithm>
#include "config/helpers.h"

namespace hone::config {
namespace mistakes_test {

class Mistakes : public ConfigTest {
 protected:
  ReadRun read(const std::string& more, Method method = Method::kSft) const {
    return read_run(method, {"--config", yaml_file(more)});
  }
};

TEST_F(Mistakes, AreToldTogetherInOrder) {
  const std::string text = yaml_error("lora_r: many\npackng: true\nlora_r: 3\nseed: -1\nfp16: true\n");
  const char* const parts[] = {"5 mistakes",
                               "expected each option once",
                               "expected a whole number for option lora_r",
                               "unknown option packng",
                               "NUM-03",
                               "expected seed at least 0"};
  std::size_t at = 0;
  for (const char* part : parts) {
    const std::size_t found = text.find(part);
    ASSERT_NE(found, std::string::npos) << part << "\n" << text;
    EXPECT_GE(found, at) << part;
    at = found;
  }
}

TEST_F(Mistakes, OneIsToldAsBefore) {
  EXPECT_TRUE(yaml_error("packng: true\n").starts_with("[run.yaml:4] expected an option of hone sft"));
}

TEST_F(Mistakes, WhatFollowsFromAnotherIsNotTold) {
  // num_generations has a mistake: that the batch has no whole groups of its default would mislead.
  const std::string text = grpo_error({"--num_generations", "two", "--per_device_train_batch_size", "3"});
  EXPECT_NE(text.find("expected a whole number for option num_generations"), std::string::npos);
  EXPECT_EQ(text.find("whole groups"), std::string::npos) << text;
}

TEST_F(Mistakes, MissingFilesAndOptionsAreAmongThem) {
  const std::string text = short_paths(error_of([&] {
    parse_run(Method::kSft, {"--model_name_or_path", path("modle"), "--use_peft", "--lora_r", "0"});
  }));
  EXPECT_NE(text.find("3 mistakes"), std::string::npos) << text;
  for (const char* part : {"lora_r at least 1", "option dataset_name", "'modle' does not exist"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
}

TEST_F(Mistakes, EveryMistakeHasItsOwnText) {
  const ReadRun run = read("lora_r: 0\nlora_alpha: -1\n");
  ASSERT_EQ(run.settings.mistakes().size(), 2U);
  EXPECT_EQ(run.settings.mistakes()[1].text().expected, "lora_alpha above 0");
}

// ---- the table of hone check

TEST_F(Mistakes, EachLineIsKeptRenamedIgnoredOrRefused) {
  const ReadRun run = read("torch_dtype: bfloat16\nuse_cpu: true\nlogging_dir: x\nlora_r: 0\npackng: true\n");
  const CheckedRun checked = checked_lines(run);
  ASSERT_EQ(checked.lines.size(), 8U);
  using As = CheckedLine::As;
  const As expected[] = {As::kKept, As::kKept,    As::kKept,    As::kRenamed,
                         As::kKept, As::kIgnored, As::kRefused, As::kRefused};
  for (std::size_t i = 0; i < checked.lines.size(); ++i)
    EXPECT_EQ(checked.lines[i].as, expected[i]) << checked.lines[i].name << ": " << checked.lines[i].what;
  EXPECT_EQ(checked.lines[3].what, "dtype: bfloat16");
  EXPECT_NE(checked.lines[6].what.find("lora_r at least 1"), std::string::npos);
  EXPECT_NE(checked.lines[7].fix.find("hone options"), std::string::npos);
  EXPECT_TRUE(checked.elsewhere.empty());
}

TEST_F(Mistakes, KeysOfDeepSpeedThatSetOptionsAreShown) {
  const ReadRun run = read("deepspeed: {gradient_clipping: 0.5, steps_per_print: 10}\n");
  const CheckedRun checked = checked_lines(run);
  const auto line = std::find_if(checked.lines.begin(), checked.lines.end(),
                                 [](const CheckedLine& one) { return one.name == "deepspeed"; });
  ASSERT_NE(line, checked.lines.end());
  EXPECT_EQ(line->as, CheckedLine::As::kKept);
  EXPECT_EQ(line->what, "read gradient_clipping as max_grad_norm: 0.5");
  const ReadRun quiet = read("deepspeed: {steps_per_print: 10}\n");
  for (const CheckedLine& one : checked_lines(quiet).lines) {
    EXPECT_EQ(one.as == CheckedLine::As::kIgnored, one.name == "deepspeed") << one.name;
  }
}

TEST_F(Mistakes, OfNoLineAreElsewhere) {
  const ReadRun run = read_run(Method::kSft, {"--config", write("a.yaml", "use_peft: true\n")});
  EXPECT_EQ(checked_lines(run).elsewhere.size(), 2U);
}

TEST_F(Mistakes, NamesOfTodayAreWrittenIntoTheFile) {
  const std::string file =
      yaml_file("# mine\ntorch_dtype: bfloat16  # kept\nmax-seq-length: 64\nlora_r: 4\n");
  const ReadRun run = read_run(Method::kSft, {"--config", file});
  const RenamedYaml fixed =
      renamed_yaml("model_name_or_path: " + path("model") + "\ndataset_name: " + path("train.jsonl") +
                       "\nuse_peft: true\n# mine\ntorch_dtype: bfloat16  # kept\n"
                       "max-seq-length: 64\nlora_r: 4\n",
                   run, file);
  EXPECT_EQ(fixed.diff,
            (std::vector<std::string>{"-torch_dtype: bfloat16  # kept", "+dtype: bfloat16  # kept",
                                      "-max-seq-length: 64", "+max_length: 64"}));
  EXPECT_NE(fixed.text.find("# mine\ndtype: bfloat16  # kept\nmax_length: 64\nlora_r: 4\n"),
            std::string::npos);
  Plan again = parse_run_text(Method::kSft, fixed.text, "run.yaml"), before = run.plan;
  again.notes = before.notes = {};
  EXPECT_EQ(again, before);
}

}  // namespace mistakes_test
}  // namespace hone::config
