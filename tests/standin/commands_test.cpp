// What generate, chat, compare and merge do with a model, on the stand-in: the CPU's answers.
#include <gtest/gtest.h>
#include <unistd.h>

#include <regex>

#include "adapters/merge.h"
#include "commands/compare.h"
#include "commands/decoding.h"
#include "rollout/generate.h"
#include "standin/run_cases.h"
#include "standin/standin.h"

namespace hone::standin {
namespace commands_test {

namespace fs = base::fs;

struct Row {
  std::string name;
  config::DecodingPlan plan;
};

std::ostream& operator<<(std::ostream& out, const Row& one) {
  return out << one.name;
}

std::vector<Row> rows() {
  const std::string llama = parity("tiny_llama").string(), adapter = parity("tiny_llama/adapter").string(),
                    second = parity("tiny_llama/adapter_second").string();
  const auto plan = [&](auto&& change) {
    config::DecodingPlan out;
    out.model_name_or_path = llama;
    out.precision = config::Precision::kFloat32;
    out.max_new_tokens = 6;
    out.temperature = 0.9;
    change(out);
    return out;
  };
  return {
      {"model", plan([](auto&) {})},
      {"adapter", plan([&](auto& p) { p.adapter_name_or_path = adapter; })},
      {"above_a_frozen_one", plan([&](auto& p) {
         p.adapter_name_or_path = second;
         p.base_adapters = {adapter};
       })},
      {"a_set", plan([&](auto& p) {
         p.adapters = {{.name = "one", .folder = adapter}, {.name = "two", .folder = second}};
       })},
      {"in_4_bits", plan([](auto& p) { p.quantized_base = config::QuantizedBase::kNf4; })},
      {"in_8_bits", plan([](auto& p) { p.quantized_base = config::QuantizedBase::kInt8; })},
      {"a_gguf", plan([](auto& p) {
         p.model_name_or_path = "";  // tiny_gguf()
       })},
  };
}

class Decoding : public testing::TestWithParam<Row> {};

std::vector<std::vector<rollout::Completion>> answers(config::DecodingPlan plan, const std::string& device) {
  plan.device = device;
  if (plan.model_name_or_path.empty()) plan.model_name_or_path = tiny_gguf();
  commands::OpenedModel opened = commands::open_model(plan, /*tells_of_embedding=*/false);
  EXPECT_EQ(opened.model->device().type(), at::Device(device).type());
  rollout::GenerateOptions options;
  options.max_new_tokens = plan.max_new_tokens;
  options.samples = 2;
  options.seed = 3;
  options.sampler.temperature = plan.temperature;
  const std::vector<std::vector<std::int32_t>> prompts = {{3, 17, 5, 9, 40}, {8}};
  std::vector<std::vector<rollout::Completion>> out = {rollout::generate(*opened.model, prompts, options)};
  for (std::size_t i = 1; i < plan.adapters.size(); ++i) {
    opened.adapters->activate(plan.adapters[i].name);
    out.push_back(rollout::generate(*opened.model, prompts, options));
  }
  return out;
}

TEST_P(Decoding, GivesTheCpusTokens) {
  const auto cpu = answers(GetParam().plan, "cpu"), here = answers(GetParam().plan, kName);
  ASSERT_EQ(here.size(), cpu.size());
  for (std::size_t a = 0; a < cpu.size(); ++a) {
    ASSERT_EQ(here[a].size(), cpu[a].size());
    for (std::size_t i = 0; i < cpu[a].size(); ++i) {
      EXPECT_EQ(here[a][i].ids, cpu[a][i].ids) << a << ", " << i;
      for (std::size_t t = 0; t < cpu[a][i].logprobs.size(); ++t)
        EXPECT_NEAR(here[a][i].logprobs.at(t), cpu[a][i].logprobs[t], 1e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Decoding, testing::ValuesIn(rows()),
                         [](const auto& one) { return one.param.name; });

class Compare : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(root_); }

  template <typename Call>
  std::string said(const Call& call) {
    testing::internal::CaptureStdout();
    code_ = call();
    static const std::regex rounding("KL [0-9.]+e-1[0-9]");
    return std::regex_replace(testing::internal::GetCapturedStdout(), rounding, "KL of rounding");
  }
  config::ComparePlan plan(const std::string& device) const {
    config::ComparePlan out;
    out.count = 3;
    out.max_new_tokens = 6;
    out.threads = 1;
    out.device = device;
    return out;
  }

  int code_ = -1;
  fs::path root_ = fs::temp_directory_path() / ("hone_standin_compare_" + std::to_string(getpid()));
};

TEST_F(Compare, AMergedModelIsTheAdapterOnItsBase) {
  const std::string base = parity("tiny_llama").string(), adapter = parity("tiny_llama/adapter").string();
  adapters::merge_to_folder(base, {adapter}, root_);
  const auto compare = [&](const std::string& device, const std::string& written) {
    return said([&] {
      return commands::compare_with_adapter(plan(device), commands::prompts_to_compare(plan(device)),
                                            {.base = base, .base_adapters = {}, .adapter = adapter},
                                            {written, "the merged model", ""});
    });
  };
  const std::string cpu = compare("cpu", root_.string());
  EXPECT_NE(cpu.find("CKPT-02"), std::string::npos) << cpu;
  EXPECT_EQ(compare(kName, root_.string()), cpu);
  EXPECT_EQ(code_, 0);
  EXPECT_EQ(compare(kName, base), compare("cpu", base)) << "a model without the adapter";
  EXPECT_EQ(code_, 2);
}

TEST_F(Compare, ScoresOfARewardModelAreTheSame) {
  const std::string reward = parity("rewards/tiny_reward").string();
  const auto compare = [&](const std::string& device) {
    return said([&] {
      return commands::compare_scores(plan(device), commands::prompts_to_compare(plan(device)),
                                      {.base = reward, .base_adapters = {}, .adapter = reward}, reward);
    });
  };
  EXPECT_EQ(compare(kName), compare("cpu"));
}

}  // namespace commands_test
}  // namespace hone::standin
