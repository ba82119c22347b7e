// The files of tests/others, twelve of each trainer, written after the field's habits. Beside each stands what it means:
// FILE.txt, one line of an option (those of kCompared), an unknown or a refusal.
#include <algorithm>
#include <sstream>
#include <string_view>

#include "base/files/file.h"
#include "config/others_helpers.h"

namespace hone::config {
namespace others_files_test {

namespace fs = base::fs;

// "run.yml:7" of this file -> "7"; a place of another file stays, and no place is "-".
std::string place_in(const std::string& where, const std::string& path) {
  if (where.starts_with(path + ":")) return where.substr(path.size() + 1);
  return where.empty() || where == path ? "-" : where;
}

// Method, model, lengths, batch, steps, rate, schedule, adapter, rows, template, and what is trained.
constexpr std::string_view kCompared[] = {"model_name_or_path",
                                          "tokenizer_name_or_path",
                                          "adapter_name_or_path",
                                          "teacher_model_name_or_path",
                                          "load_in_4bit",
                                          "load_in_8bit",
                                          "max_length",
                                          "max_completion_length",
                                          "per_device_train_batch_size",
                                          "gradient_accumulation_steps",
                                          "num_generations",
                                          "num_train_epochs",
                                          "max_steps",
                                          "learning_rate",
                                          "lr_scheduler_type",
                                          "lr_scheduler_kwargs",
                                          "warmup_steps",
                                          "optim",
                                          "weight_decay",
                                          "adam_beta2",
                                          "use_peft",
                                          "lora_r",
                                          "lora_alpha",
                                          "lora_dropout",
                                          "lora_target_modules",
                                          "lora_modules_to_save",
                                          "use_rslora",
                                          "use_dora",
                                          "dataset_name",
                                          "datasets",
                                          "test_split_size",
                                          "dataset_columns",
                                          "dataset_text_field",
                                          "dataset_system_prompt",
                                          "row_format",
                                          "make_conversation",
                                          "prompt_template",
                                          "chat_template",
                                          "packing",
                                          "completion_only_loss",
                                          "assistant_only_loss",
                                          "eos_token",
                                          "loss_type",
                                          "beta",
                                          "simpo_gamma",
                                          "cpo_alpha",
                                          "desirable_weight",
                                          "undesirable_weight",
                                          "reward_funcs",
                                          "reward_weights"};

bool is_compared(std::string_view option) {
  return std::find(std::begin(kCompared), std::end(kCompared), option) != std::end(kCompared);
}

std::string understanding(const OtherRun& run) {
  std::string out =
      std::string(trainer_word(run.trainer)) + " " + std::string(method_name(run.method)) + "\n";
  for (const bool defaults : {false, true}) {
    for (const OtherValue& one : run.options) {
      if (one.is_default() == defaults && is_compared(one.option))
        out +=
            (defaults ? "default " : "") + one.option + ": " +
            (one.option == "chat_template" && !run.text_name.empty() ? "the trainer's text " + run.text_name
                                                                     : base::dump_json(one.value)) +
            "\n";
    }
  }
  for (const OtherUnknown& one : run.unknown)
    out += "unknown " + place_in(one.where, run.file) + " " + one.name + ": " + one.why + "\n";
  for (const OtherRefusal& one : run.refused)
    out += "refused " + place_in(one.where, run.file) + " " + one.name + ": " + one.why + "\n";
  return out;
}

std::vector<std::string> lines_of(std::string text) {
  const std::string root = std::string(HONE_SOURCE_DIR) + "/tests/others/";
  for (std::size_t at = text.find(root); at != std::string::npos; at = text.find(root))
    text.erase(at, root.size());
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  std::sort(out.begin(), out.end());
  return out;
}

void compare(const fs::path& file) {
  const OtherRun run = other_run(base::read_text(file), file.string());
  const fs::path beside = fs::path(file).replace_extension(".txt");
  ASSERT_TRUE(fs::is_regular_file(beside)) << file << " has no understanding beside it:\n"
                                           << understanding(run);
  const std::vector<std::string> found = lines_of(understanding(run)),
                                 wanted = lines_of(base::read_text(beside));
  for (const std::string& line : wanted)
    EXPECT_TRUE(std::binary_search(found.begin(), found.end(), line)) << file << " lacks\n  " << line;
  for (const std::string& line : found)
    EXPECT_TRUE(std::binary_search(wanted.begin(), wanted.end(), line))
        << file << " says beside it\n  " << line;
}

class OthersFiles : public testing::TestWithParam<const char*> {};

TEST_P(OthersFiles, MeanWhatStandsBesideThem) {
  constexpr int kEach = 12;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(HONE_SOURCE_DIR) / "tests/others" / GetParam())) {
    if (entry.is_regular_file() && entry.path().extension() != ".txt") files.push_back(entry.path());
  }
  EXPECT_EQ(files.size(), kEach);
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) compare(file);
}

INSTANTIATE_TEST_SUITE_P(Each, OthersFiles,
                         testing::Values("axolotl", "llamafactory", "swift", "torchtune", "trl", "unsloth",
                                         "transformers"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace others_files_test
}  // namespace hone::config
