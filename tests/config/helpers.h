// Shared by the tests of config: a folder with a model and data that look right, and the text of an error.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/parse.h"

namespace hone::config {

// The message of the UserError that `action` throws; a test failure when it throws none.
template <typename Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const base::UserError& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected a UserError";
  return {};
}

// In a folder of its own, removed at the end: model/config.json, train.jsonl, rows/{train,test}.jsonl,
// adapter/adapter_config.json, template.jinja.
class ConfigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = std::filesystem::temp_directory_path() /
            ("hone_config_" + std::to_string(::getpid()) + "_" + test->name());
    std::filesystem::remove_all(root_);
    write("model/config.json", "{}");
    write("train.jsonl", "{\"text\": \"a\"}\n");
    write("rows/train.jsonl", "{\"text\": \"a\"}\n");
    write("rows/test.jsonl", "{\"text\": \"b\"}\n");
    write("adapter/adapter_config.json", "{}");
    write("template.jinja", "{{ messages }}");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string path(const std::string& name) const { return (root_ / name).string(); }

  std::string write(const std::string& name, const std::string& contents) const {
    const std::filesystem::path file = root_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << contents;
    return file.string();
  }

  // The least that a run needs, and `more`.
  std::vector<std::string> arguments(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"--model_name_or_path", path("model"), "--dataset_name",
                                    path("train.jsonl"), "--use_peft"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Plan run(const std::vector<std::string>& more = {}) const {
    return parse_run(Method::kSft, arguments(more));
  }
  std::string run_error(const std::vector<std::string>& more) const {
    return error_of([&] { run(more); });
  }

  // What arguments() gives, where everything else is plan.h's, which states TRL's defaults of SFT; the frozen table
  // holds the option table to them.
  Plan expected_plan(Method method) const {
    Plan expected;
    expected.method = method;
    expected.use_peft = true;
    expected.model_name_or_path = path("model");
    expected.dataset_name = path("train.jsonl");
    expected.train_rows = base::RowFiles(path("train.jsonl"));
    expected.output_dir = "trainer_output";
    return expected;
  }

  // The same of another method; grpo and rloo need a reward as well.
  Plan policy(Method method, std::vector<std::string> more = {}) const {
    more = arguments(more);
    if (std::find(more.begin(), more.end(), "--reward_funcs") == more.end()) {
      more.insert(more.end(), {"--reward_funcs", "accuracy_reward"});
    }
    return parse_run(method, more);
  }
  Plan grpo(const std::vector<std::string>& more = {}) const { return policy(Method::kGrpo, more); }
  std::string grpo_error(const std::vector<std::string>& more) const {
    return short_paths(error_of([&] { grpo(more); }));
  }

  Plan dpo(const std::vector<std::string>& more = {}) const {
    return parse_run(Method::kDpo, arguments(more));
  }
  std::string dpo_error(const std::vector<std::string>& more) const {
    return short_paths(error_of([&] { dpo(more); }));
  }

  Plan online_dpo(const std::vector<std::string>& more = {}) const {
    const bool scored = std::find(more.begin(), more.end(), "--judge") != more.end();
    return scored ? parse_run(Method::kOnlineDpo, arguments(more)) : policy(Method::kOnlineDpo, more);
  }
  std::string online_dpo_error(const std::vector<std::string>& more) const {
    return short_paths(error_of([&] { online_dpo(more); }));
  }
  Plan reward(const std::vector<std::string>& more = {}) const {
    return parse_run(Method::kReward, arguments(more));
  }
  std::string reward_error(const std::vector<std::string>& more) const {
    return short_paths(error_of([&] { reward(more); }));
  }
  Plan kto(const std::vector<std::string>& more = {}) const {
    return parse_run(Method::kKto, arguments(more));
  }
  std::string kto_error(const std::vector<std::string>& more) const {
    return short_paths(error_of([&] { kto(more); }));
  }

  // A YAML file of the same, and `more` lines; the first of them is line 4.
  std::string yaml_file(const std::string& more) const {
    return write("run.yaml", "model_name_or_path: " + path("model") +
                                 "\ndataset_name: " + path("train.jsonl") + "\nuse_peft: true\n" + more);
  }
  Plan run_yaml(const std::string& more, std::vector<std::string> arguments = {}) const {
    arguments.insert(arguments.begin(), {"--config", yaml_file(more)});
    return parse_run(Method::kSft, arguments);
  }
  // The message with the temporary folder cut away: "[run.yaml:4] ...".
  std::string yaml_error(const std::string& more, const std::vector<std::string>& arguments = {}) const {
    return short_paths(error_of([&] { run_yaml(more, arguments); }));
  }
  std::string short_paths(std::string text) const {
    const std::string prefix = root_.string() + "/";
    for (std::size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix)) {
      text.erase(at, prefix.size());
    }
    return text;
  }

  std::filesystem::path root_;
};

}  // namespace hone::config
