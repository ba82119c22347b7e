// A prompt that several completions share, run once, beside the same prompt repeated before each: the
// log-probabilities and the gradient of every LoRA tensor.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>

#include "adapters/lora.h"
#include "base/error.h"
#include "base/process/instruction_level.h"
#include "model/files/weight_source.h"
#include "model/fused_pass.h"
#include "model/tiny_model.h"
#include "ops/head/linear_logprob.h"

namespace hone::train {
namespace shared_prompt_test {

using namespace hone::test_tools;
using model::RecomputeLevel;

constexpr model::DtypePolicy kFp32 = {at::kFloat, at::kFloat};
constexpr model::DtypePolicy kAutocast = {at::kBFloat16, at::kFloat};
constexpr model::DtypePolicy kBf16 = {at::kBFloat16, at::kBFloat16};

using Shapes = base::Json (*)(const std::string& model_type);

struct Group {
  std::int64_t prompt;
  std::vector<std::int64_t> completions;
};

// The completions' tokens are the targets, in the order of groups and completions in either form.
struct Scored {
  data::Batch batch;
  std::vector<std::int64_t> rows, targets;
};

std::vector<std::int64_t> some_ids(std::int64_t length, std::int64_t salt) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < length; ++i) ids.push_back(3 + (i * i * 7 + i * salt + salt) % 45);
  return ids;
}

void add_segment(data::Batch& batch, const std::vector<std::int64_t>& ids, std::int64_t first_position,
                 std::int64_t prefix = data::kNoPrefix) {
  const auto begin = static_cast<std::int64_t>(batch.ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    batch.positions.push_back(first_position + static_cast<std::int64_t>(i));
  }
  batch.ids.insert(batch.ids.end(), ids.begin(), ids.end());
  batch.labels.resize(batch.ids.size(), data::kIgnore);
  batch.segments.push_back({begin, begin + static_cast<std::int64_t>(ids.size()), 0, prefix});
}

// Completion `place` of all: tokens of its own.
std::vector<std::int64_t> completion_ids(std::int64_t length, std::int64_t place) {
  return some_ids(length, 2 * place + 5);
}

Scored shared(const std::vector<Group>& groups) {
  Scored out;
  std::int64_t place = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto prompt = static_cast<std::int64_t>(out.batch.segments.size());
    add_segment(out.batch, some_ids(groups[g].prompt, 31 + static_cast<std::int64_t>(g)), 0);
    const std::int64_t last = out.batch.segments.back().end - 1;
    for (const std::int64_t length : groups[g].completions) {
      const std::vector<std::int64_t> ids = completion_ids(length, place++);
      add_segment(out.batch, ids, groups[g].prompt, prompt);
      for (std::int64_t i = 0; i < length; ++i) {
        out.rows.push_back(i == 0 ? last : out.batch.segments.back().begin + i - 1);
        out.targets.push_back(ids[static_cast<std::size_t>(i)]);
      }
    }
  }
  return out;
}

Scored repeated(const std::vector<Group>& groups) {
  Scored out;
  std::int64_t place = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const std::int64_t length : groups[g].completions) {
      std::vector<std::int64_t> ids = some_ids(groups[g].prompt, 31 + static_cast<std::int64_t>(g));
      const std::vector<std::int64_t> own = completion_ids(length, place++);
      ids.insert(ids.end(), own.begin(), own.end());
      add_segment(out.batch, ids, 0);
      for (std::int64_t i = 0; i < length; ++i) {
        out.rows.push_back(out.batch.segments.back().end - length - 1 + i);
        out.targets.push_back(own[static_cast<std::size_t>(i)]);
      }
    }
  }
  return out;
}

struct Result {
  at::Tensor logprob;
  std::vector<at::Tensor> gradients;
};

class Setting {
 public:
  Setting(const std::string& family, model::DtypePolicy dtypes, Shapes shapes = &tiny_config) {
    write_model(folder_.path(), shapes(family));
    model_ = std::make_unique<model::CausalLm>(*model::open_weights(folder_.path()), dtypes);
    adapters::LoraConfig config;
    config.r = 4;
    config.alpha = 8;
    config.target_modules = {"all-linear"};
    config.target_is_regex = true;
    config.init = adapters::LoraInit::kFalse;
    for (std::int64_t id = 3; id < 20; ++id) config.token_indices.push_back(id);  // get gradients from below
    adapter_ = adapters::Adapter::attach(*model_, config, 7);
  }

  // Of sum over targets of weight * log p, as the loss of a policy has it: weights of both signs.
  Result run(const Scored& scored, RecomputeLevel recompute = RecomputeLevel::kCheap) {
    adapter_->zero_gradient();
    const ops::PassContext context = {.training = true};
    model::FusedPass pass(*model_, scored.batch, context);
    ops::TokenLogprobs found = ops::linear_logprob(
        pass.forward(at::tensor(scored.rows), recompute), model_->head(), at::tensor(scored.targets),
        {.gradient = true, .soft_cap = model_->config().logits_soft_cap});
    const at::Tensor weight = at::arange(found.logprob.size(0), at::kFloat).mul_(0.7).cos_().add_(0.3);
    pass.backward(found.gradient.mul_(weight.unsqueeze(1)));
    Result out{found.logprob, {}};
    for (const auto& tensor : adapter_->tensors()) out.gradients.push_back(tensor.value.grad().clone());
    return out;
  }
  const std::string& name(std::size_t i) const { return adapter_->tensors()[i].name; }
  model::CausalLm& model() { return *model_; }

 private:
  TempFolder folder_;
  std::unique_ptr<model::CausalLm> model_;
  std::optional<adapters::Adapter> adapter_;
};

double relative(const at::Tensor& ours, const at::Tensor& theirs) {
  return largest_difference(ours, theirs) / std::max(theirs.abs().max().item<double>(), 1e-12);
}

const std::vector<std::vector<Group>> kGroups = {
    {{1, {3, 1, 20}}},
    {{63, {1}}},
    {{64, {7, 64, 1, 65}}},
    {{65, {1, 1, 1, 9}}},
    {{130, {70, 5, 33, 1, 130}}},
    {{130, {5, 3}}, {7, {}}, {1, {1, 9}}, {63, {66, 1, 2}}, {64, {13}}},
};

struct Case {
  const char* family;
  model::DtypePolicy dtypes;
  Shapes shapes;
  double bound, logprob_bound;
};

// The bounds of tests/train/fused_form_test.cpp.
constexpr double kExact = 1e-5, kRounded = 0.15;

class SharedPrompt : public ::testing::TestWithParam<Case> {};

TEST_P(SharedPrompt, GivesTheRepeatedPromptsGradients) {
  const auto& [family, dtypes, shapes, bound, logprob_bound] = GetParam();
  Setting s(family, dtypes, shapes);
  double worst = 0, worst_logprob = 0;
  for (const std::vector<Group>& groups : kGroups) {
    const Result ours = s.run(shared(groups)), theirs = s.run(repeated(groups));
    worst_logprob = std::max(worst_logprob, largest_difference(ours.logprob, theirs.logprob));
    for (std::size_t i = 0; i < ours.gradients.size(); ++i) {
      const double error = relative(ours.gradients[i], theirs.gradients[i]);
      worst = std::max(worst, error);
      EXPECT_LT(error, bound) << s.name(i) << ", prompt of " << groups.front().prompt;
      EXPECT_GT(ours.gradients[i].abs().max().item<double>(), 0) << s.name(i);
    }
  }
  EXPECT_LT(worst_logprob, logprob_bound);
  std::cout << "[margin] " << family << ": worst gradient " << worst << ", " << 100 * worst / bound
            << " % of " << bound << "; log-probability " << worst_logprob << '\n';
}

INSTANTIATE_TEST_SUITE_P(Cases, SharedPrompt,
                         ::testing::Values(Case{"llama", kFp32, &tiny_config, kExact, 1e-5},
                                           Case{"qwen2", kFp32, &odd_config, kExact, 1e-5},
                                           Case{"qwen3", kFp32, &tiny_config, kExact, 1e-5},
                                           Case{"qwen3", kFp32, &wide_config, kExact, 1e-5},
                                           Case{"mistral", kFp32, &tiny_config, kExact, 1e-5},
                                           Case{"gemma3_text", kFp32, &wide_config, kExact, 2e-5},
                                           Case{"lfm2", kFp32, &tiny_config, kExact, 1e-5},
                                           Case{"lfm2", kFp32, &odd_config, kExact, 1e-5},
                                           Case{"lfm2", kBf16, &wide_config, kRounded, 0.1},
                                           Case{"qwen3_5_text", kFp32, &tiny_config, kExact, 1e-5},
                                           Case{"qwen3_5_text", kFp32, &odd_config, kExact, 1e-5},
                                           Case{"qwen3_5_text", kBf16, &wide_config, kRounded, 0.1},
                                           Case{"gemma4_text", kFp32, &tiny_config, kExact, 2e-5},
                                           Case{"gemma4_text", kFp32, &odd_config, kExact, 2e-5},
                                           Case{"gemma4_text", kBf16, &wide_config, kRounded, 0.1},
                                           Case{"mistral", kBf16, &wide_config, kRounded, 0.1},
                                           Case{"qwen2", kAutocast, &tiny_config, kRounded, 0.1},
                                           Case{"llama", kBf16, &wide_config, kRounded, 0.1},
                                           Case{"qwen3", kBf16, &wide_config, kRounded, 0.1},
                                           Case{"qwen3", kAutocast, &odd_config, kRounded, 0.1}));

class SharedPromptOf : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Families, SharedPromptOf, ::testing::ValuesIn(families_unlike_others()));
INSTANTIATE_TEST_SUITE_P(SlowFamilies, SharedPromptOf, ::testing::ValuesIn(families_like_others()));

TEST_P(SharedPromptOf, GivesTheSameBitsAtEveryLevelOfRecompute) {
  for (const model::DtypePolicy dtypes : {kFp32, kAutocast, kBf16}) {
    Setting s(GetParam(), dtypes, &wide_config);
    const Scored scored = shared(kGroups.back());
    const Result none = s.run(scored, RecomputeLevel::kNone);
    for (const RecomputeLevel level : {RecomputeLevel::kCheap, RecomputeLevel::kLayer}) {
      const Result other = s.run(scored, level);
      EXPECT_TRUE(at::equal(other.logprob, none.logprob));
      for (std::size_t i = 0; i < none.gradients.size(); ++i) {
        EXPECT_TRUE(at::equal(other.gradients[i], none.gradients[i])) << s.name(i);
      }
    }
  }
}

// bf16 rounds both forms away from fp32, about as far, at every level of instructions.
TEST_P(SharedPromptOf, IsNoWorseThanTheRepeatedPromptInBf16) {
  const std::vector<Group>& groups = kGroups.back();
  const Result exact = Setting(GetParam(), kFp32, &wide_config).run(repeated(groups));
  for (const model::DtypePolicy dtypes : {kAutocast, kBf16}) {
    Setting s(GetParam(), dtypes, &wide_config);
    for (const auto level : base::kInstructionLevels) {
      if (!base::machine_has(level)) continue;
      const base::ForceInstructionLevel force(level);
      const Result once = s.run(shared(groups)), again = s.run(repeated(groups));
      double of_once = 0, of_again = 0;
      for (std::size_t i = 0; i < exact.gradients.size(); ++i) {
        of_once += relative(once.gradients[i], exact.gradients[i]);
        of_again += relative(again.gradients[i], exact.gradients[i]);
      }
      EXPECT_LT(of_once, 1.5 * of_again) << base::name_of(level);
      EXPECT_GT(of_once, 0);
    }
  }
}

TEST(SharedPrompt, IsExactAtEveryLevelOfInstructions) {
  Setting s("qwen3", kFp32, &wide_config);
  for (const auto level : base::kInstructionLevels) {
    if (!base::machine_has(level)) continue;
    const base::ForceInstructionLevel force(level);
    const Result ours = s.run(shared(kGroups.back())), theirs = s.run(repeated(kGroups.back()));
    EXPECT_LT(largest_difference(ours.logprob, theirs.logprob), 1e-5);
    for (std::size_t i = 0; i < ours.gradients.size(); ++i) {
      EXPECT_LT(relative(ours.gradients[i], theirs.gradients[i]), kExact) << s.name(i);
    }
  }
}

TEST(SharedPrompt, NeedsTheFusedPassAndPromptsThatComeFirst) {
  Setting s("llama", kFp32);
  const ops::PassContext context;
  Scored scored = shared({{3, {2, 2}}, {3, {2}}});
  EXPECT_THROW(s.model().hidden(scored.batch, context), base::InternalError);
  for (const std::int64_t wrong : {1, 2, 5, -2}) {
    scored.batch.segments[2].prefix = wrong;
    EXPECT_THROW(model::FusedPass(s.model(), scored.batch, context), base::InternalError) << wrong;
  }
}

}  // namespace shared_prompt_test
}  // namespace hone::train
