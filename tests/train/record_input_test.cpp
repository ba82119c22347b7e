// Rows of every method on given pairs or marked completions: streamed ones are those of a run that holds all
// in their order, and kept ones those of a run that makes them. SFT's are in sft_equivalence_test.cpp.
#include "train/opening/record_input.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>
#include <vector>

#include "config/parse.h"
#include "data/forms/token_cache.h"
#include "train/opening/open_run.h"
#include "train/saves/run_folder.h"

namespace hone::train {
namespace record_input_test {

namespace fs = base::fs;

const fs::path kFixtures = fs::path(HONE_FIXTURES) / "parity";

struct Case {
  const char* name;
  config::Method method;
  const char* rows;
  std::vector<std::string> more = {};
};

void PrintTo(const Case& one, std::ostream* out) {  // NOLINT(readability-identifier-naming): GoogleTest asks
  *out << one.name;
}

class RecordInputs : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  std::vector<std::string> words(const std::string& rows, const std::string& name,
                                 const std::vector<std::string>& more) const {
    std::vector<std::string> out = {"--model_name_or_path",
                                    (kFixtures / "tiny_llama").string(),
                                    "--dataset_name",
                                    rows,
                                    "--output_dir",
                                    (folder_ / name).string(),
                                    "--use_peft",
                                    "--bf16",
                                    "false",
                                    "--threads",
                                    "1",
                                    "--learning_rate",
                                    "0.01",
                                    "--save_strategy",
                                    "no",
                                    "--max_length",
                                    "64"};
    out.insert(out.end(), GetParam().more.begin(), GetParam().more.end());
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  std::string rows() const { return (kFixtures / GetParam().rows).string(); }

  // The adapter's file after the run, or after `stop_after` steps.
  std::string trained(const std::string& name, const std::vector<std::string>& more,
                      std::int64_t stop_after = 0) const {
    struct Stopper final : RunListener {
      void on_step(const StepFacts& facts, std::int64_t) override { stop = facts.step == after; }
      std::int64_t after = 0;
      std::atomic<bool> stop = false;
    } stopper;
    stopper.after = stop_after;
    const auto run = open_run(config::parse_run(GetParam().method, words(rows(), name, more)), stopper);
    begin_run(*run, stopper, stopper.stop);
    if (stop_after > 0) return {};
    return base::read_text(folder_ / name / kAdapterWeightsFile);
  }

  RunListener silent_;
  fs::path folder_ = fs::temp_directory_path() / ("hone_record_input_" + std::to_string(getpid()));
};

// 13 rows or fewer: the second pass begins within these steps, with a short micro-batch and without.
TEST_P(RecordInputs, StreamedRowsAreTheRowsInOrder) {
  const std::vector<std::vector<std::string>> cases = {
      {"--max_steps", "5", "--per_device_train_batch_size", "3", "--gradient_accumulation_steps", "2"},
      {"--max_steps", "8", "--per_device_train_batch_size", "2", "--gradient_accumulation_steps", "1",
       "--dataloader_drop_last", "true"}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::vector<std::string> streamed = cases[i], sequential = cases[i], random = cases[i];
    streamed.insert(streamed.end(), {"--dataset_streaming", "true"});
    sequential.insert(sequential.end(), {"--train_sampling_strategy", "sequential"});
    const std::string in_order = trained("sequential" + std::to_string(i), sequential);
    EXPECT_EQ(trained("streamed" + std::to_string(i), streamed), in_order) << i;
    if (GetParam().method == config::Method::kKto) continue;  // its rows are sequential
    random.insert(random.end(), {"--train_sampling_strategy", "random"});
    EXPECT_NE(trained("random" + std::to_string(i), random), in_order)
        << "the comparison would miss the order";
  }
}

TEST_P(RecordInputs, StreamedStoppedAndResumedIsBitEqual) {
  const std::vector<std::string> streams = {"--max_steps",
                                            "6",
                                            "--per_device_train_batch_size",
                                            "3",
                                            "--gradient_accumulation_steps",
                                            "1",
                                            "--dataset_streaming",
                                            "true"};
  const std::string straight = trained("straight", streams);
  trained("stopped", streams, 4);
  std::vector<std::string> again = streams;
  again.insert(again.end(), {"--resume_from_checkpoint", "true"});
  EXPECT_EQ(trained("stopped", again), straight);
}

// Rows of more tokens than TokenCache::kLeastTokens take a while: every layout of a record once, the other methods with --slow.
class LargeRecordInputs : public RecordInputs {};

TEST_P(LargeRecordInputs, KeptTokensAreThoseThatWereMade) {
  std::ifstream small(rows());
  std::vector<base::Json> all;
  for (std::string line; std::getline(small, line);) all.push_back(base::parse_json(line, "rows"));
  std::string long_text;
  for (int i = 0; i < 190; ++i) long_text += " and more of it";
  std::ofstream large(folder_ / "large.jsonl");
  for (int i = 0; i < 300; ++i) {
    base::Json row = all[static_cast<std::size_t>(i) % all.size()];
    for (const char* column : {"chosen", "rejected", "completion"}) {
      if (row.contains(column)) row[column] = row[column].get<std::string>() + long_text + std::to_string(i);
    }
    large << row.dump() << "\n";
  }
  large.close();
  const auto opened = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> asked = {
        "--max_steps", "1", "--max_length", "2048", "--per_device_train_batch_size", "2"};
    asked.insert(asked.end(), more.begin(), more.end());
    config::Plan plan =
        config::parse_run(GetParam().method, words((folder_ / "large.jsonl").string(), name, asked));
    plan.token_cache = (folder_ / "tokens").string();
    return open_run(plan, silent_);
  };
  const auto says_kept = [](const OpenedRun& run) {
    const auto& notes = run.start.notes;
    return std::any_of(notes.begin(), notes.end(), [](const std::string& note) {
      return note.find("(cache_tokens)") != std::string::npos;
    });
  };
  const auto made = opened("made", {});
  EXPECT_FALSE(says_kept(*made));
  const auto kept = opened("kept", {});
  ASSERT_TRUE(says_kept(*kept));
  EXPECT_FALSE(says_kept(*opened("shorter", {"--max_length", "2000"})));
  const auto& ours = std::get<RecordData>(kept->data).records;
  const auto& theirs = std::get<RecordData>(made->data).records;
  ASSERT_EQ(ours.size(), theirs.size());
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    tokens += ours.tokens(i);
    const data::RecordView one = ours[i], other = theirs[i];
    ASSERT_EQ(one.row, other.row);
    ASSERT_TRUE(std::ranges::equal(one.ids, other.ids));
    ASSERT_TRUE(std::ranges::equal(one.supervised, other.supervised));
    ASSERT_EQ(one.sequences.size(), 2U);
    for (std::size_t s = 0; s < 2; ++s) {
      EXPECT_EQ(one.sequences[s].part, other.sequences[s].part);
      EXPECT_EQ(one.sequences[s].completion, other.sequences[s].completion);
    }
    EXPECT_EQ(one.margin, other.margin);
    EXPECT_EQ(one.desirable, other.desirable);
  }
  EXPECT_GT(tokens, data::TokenCache::kLeastTokens);
  EXPECT_EQ(kept->method->backward(0).loss, made->method->backward(0).loss);
}

const Case kDpo = {"dpo", config::Method::kDpo, "trl_dpo/explicit.jsonl"},
           kKto = {"kto", config::Method::kKto, "trl_kto/rows.jsonl"},
           kKtoOfPairs = {"kto_of_pairs", config::Method::kKto, "trl_kto/pairs.jsonl"},
           kReward = {"reward", config::Method::kReward, "trl_reward/margin.jsonl"},
           kCpo = {"cpo", config::Method::kCpo, "trl_cpo/explicit.jsonl"},
           kOrpo = {"orpo", config::Method::kOrpo, "trl_cpo/explicit.jsonl"};

std::string name_of(const testing::TestParamInfo<Case>& one) {
  return one.param.name;
}

INSTANTIATE_TEST_SUITE_P(Methods, RecordInputs,
                         testing::Values(kDpo, kKto, kKtoOfPairs, kReward, kCpo, kOrpo), name_of);
INSTANTIATE_TEST_SUITE_P(Methods, LargeRecordInputs, testing::Values(kKto, kReward), name_of);
INSTANTIATE_TEST_SUITE_P(SlowMethods, LargeRecordInputs, testing::Values(kDpo, kKtoOfPairs, kCpo, kOrpo),
                         name_of);

}  // namespace record_input_test
}  // namespace hone::train
