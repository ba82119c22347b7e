// Runs of the tiny Llama, opened and not begun, with a fault planted in data, options, template or model.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "config/parse.h"
#include "doctor/examination.h"
#include "model/tiny_model.h"
#include "train/opening/open_run.h"

namespace hone::test_tools {

inline const fs::path kParity = fs::path(HONE_FIXTURES) / "parity";

// Two words a setting; a later one wins over an earlier one of the same name.
using Words = std::vector<std::string>;

class CheckRuns : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    const fs::path path = folder_.path() / name;
    base::write_file_atomic(path, text);
    return path.string();
  }

  // The same line `count` times.
  std::string rows(const std::string& line, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += line + "\n";
    return file("rows.jsonl", text);
  }

  std::unique_ptr<train::OpenedRun> open_sft(const Words& more = {}) {
    return open(config::Method::kSft,
                {"--model_name_or_path", (kParity / "tiny_llama").string(), "--dataset_name",
                 (kParity / "sft" / "text.jsonl").string(), "--use_peft", "true", "--lora_target_modules",
                 "all-linear", "--learning_rate", "2e-4", "--max_steps", "40", "--output_dir",
                 (folder_.path() / "out").string()},
                more);
  }

  std::unique_ptr<train::OpenedRun> open_grpo(const Words& more = {}) {
    return open(config::Method::kGrpo,
                {"--model_name_or_path",
                 (kParity / "tiny_llama").string(),
                 "--dataset_name",
                 (kParity / "trl_grpo" / "prompts.jsonl").string(),
                 "--use_peft",
                 "true",
                 "--lora_target_modules",
                 "all-linear",
                 "--learning_rate",
                 "2e-4",
                 "--max_steps",
                 "40",
                 "--lora_dropout",
                 "0",
                 "--reward_funcs",
                 "length(target=6)",
                 "--num_generations",
                 "4",
                 "--per_device_train_batch_size",
                 "4",
                 "--max_completion_length",
                 "8",
                 "--output_dir",
                 (folder_.path() / "out").string()},
                more);
  }

  std::unique_ptr<train::OpenedRun> open_dpo(const Words& more = {}) {
    return open(config::Method::kDpo,
                {"--model_name_or_path", (kParity / "tiny_llama").string(), "--dataset_name",
                 (kParity / "trl_dpo" / "explicit.jsonl").string(), "--use_peft", "true",
                 "--lora_target_modules", "all-linear", "--learning_rate", "2e-5", "--max_steps", "40",
                 "--output_dir", (folder_.path() / "out").string()},
                more);
  }

  // A copy of the tiny Llama whose config and tensors `change` has been at.
  template <typename Change>
  std::string changed_model(const Change& change) {
    const fs::path from = kParity / "tiny_llama", to = folder_.path() / "model";
    fs::create_directories(to);
    for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"})
      fs::copy_file(from / name, to / name, fs::copy_options::overwrite_existing);
    base::Json config = base::parse_json(base::read_text(from / "config.json"), "config.json");
    change(config, nullptr);
    auto tensors = random_tensors(config);
    change(config, &tensors);
    write_json(to / "config.json", config);
    write_tensors(to / "model.safetensors", tensors);
    return to.string();
  }

  const fs::path& folder() const { return folder_.path(); }

 private:
  std::unique_ptr<train::OpenedRun> open(config::Method method, Words words, const Words& more) {
    for (std::size_t i = 0; i + 1 < more.size(); i += 2) {
      const auto old = std::find(words.begin(), words.end(), more[i]);
      if (old != words.end()) {
        *(old + 1) = more[i + 1];
      } else {
        words.insert(words.end(), {more[i], more[i + 1]});
      }
    }
    return train::open_run(config::parse_run(method, words), silent_);
  }

  TempFolder folder_;
  train::RunListener silent_;
};

// The worst of a code; an empty one when it is not there.
inline base::Verdict verdict_of(const doctor::Verdicts& all, const std::string& code) {
  base::Verdict out;
  for (const base::Verdict& one : all) {
    if (one.code == code && (out.code.empty() || one.level > out.level)) out = one;
  }
  return out;
}

inline std::string failures(const doctor::Verdicts& all) {
  std::string out;
  for (const base::Verdict& one : all) {
    if (one.level == base::Level::kFail) out += one.code + " " + one.what + " (" + one.evidence + ")\n";
  }
  return out;
}

// Expects what every warning and failure says, by the contract of base/verdict.h.
inline void expect_complete(const doctor::Verdicts& all) {
  for (const base::Verdict& one : all) {
    EXPECT_FALSE(one.code.empty()) << one.what;
    EXPECT_FALSE(one.what.empty()) << one.code;
    if (one.level < base::Level::kWarn) continue;
    EXPECT_FALSE(one.evidence.empty()) << one.code << " " << one.what;
    EXPECT_FALSE(one.fix.empty()) << one.code << " " << one.what;
  }
}

}  // namespace hone::test_tools
