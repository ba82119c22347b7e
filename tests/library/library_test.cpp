// The library's own promises: one log-probability in sampler and step, derivatives, adapters, runs and errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>

#include "base/version.h"
#include "hone/adapter.h"
#include "hone/data.h"
#include "hone/doctor.h"
#include "hone/engine.h"
#include "hone/error.h"
#include "hone/loss.h"
#include "hone/run.h"
#include "hone/step.h"
#include "hone/version.h"

namespace hone {
namespace library_test {

namespace fs = std::filesystem;

const std::string kTiny = std::string(HONE_FIXTURES) + "/parity/tiny_llama";
const std::string kTexts = std::string(HONE_FIXTURES) + "/data/rows/text.jsonl";

// A folder of one test, which is gone afterwards.
struct Folder {
  fs::path path =
      fs::temp_directory_path() /
      ("hone_library_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

// Its UserError says these words.
template <typename Call>
void expect_mistake(const Call& call, const std::string& words) {
  try {
    call();
    ADD_FAILURE() << "no error; expected one that says: " << words;
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

Example sampled_example(const Model& model, Completion* completion = nullptr) {
  const std::vector<std::int32_t> prompt = model.encode("one two three");
  const Completion drawn = sample(model, {{.prompt = prompt, .max_new_tokens = 6, .temperature = 1}}).at(0);
  if (completion != nullptr) *completion = drawn;
  return make_example(prompt, drawn.ids);
}

TEST(Library, HasTheProjectsVersion) {
  EXPECT_STREQ(version(), base::kHoneVersion);
}

TEST(Library, AStepComputesTheSamplersLogProbabilities) {
  Model model(kTiny);
  Completion drawn;
  Adapter adapter(model, {.r = 4});
  const Example example = sampled_example(model, &drawn);
  Step step(adapter);
  const std::vector<float> scored = step.score(example, cross_entropy()).logprobs;
  ASSERT_EQ(scored.size(), example.targets.size());
  const std::size_t before = scored.size() - drawn.logprobs.size();
  for (std::size_t i = 0; i < drawn.logprobs.size(); ++i)
    EXPECT_NEAR(scored[before + i], drawn.logprobs[i], 1e-5) << i;
}

TEST(Library, AnAdapterThatIsGoneLeavesTheModelAsItWas) {
  Model model(kTiny);
  const Request one = {.prompt = model.encode("one two"), .max_new_tokens = 8};
  const Completion before = sample(model, {one}).at(0);
  {
    Adapter adapter(model, {.r = 4});
    Step step(adapter);
    for (int i = 0; i < 3; ++i) {
      step.add(sampled_example(model), cross_entropy());
      step.take(0.5);
    }
    EXPECT_NE(sample(model, {one}).at(0).logprobs, before.logprobs);
  }
  EXPECT_EQ(sample(model, {one}).at(0).logprobs, before.logprobs);
}

TEST(Library, TheSameRequestsGiveTheSameTokens) {
  const Model model(kTiny);
  const Request one = {.prompt = model.encode("one"), .max_new_tokens = 8, .temperature = 1};
  Request other = one;
  other.sample = 1;
  const std::vector<Completion> both = sample(model, {one, other});
  EXPECT_EQ(sample(model, {one}).at(0).ids, both[0].ids) << "whatever is beside it";
  EXPECT_NE(both[0].ids, both[1].ids);
}

// What a step does to the loss of its example is what the derivatives say, to first order.
TEST(Library, AStepFollowsTheDerivativesOfAnOwnLoss) {
  const Loss squares = [](std::span<const float> logprobs, const Example& example) {
    LossValue out{.loss = 0, .d_logprob = std::vector<float>(logprobs.size())};
    for (std::size_t i = 0; i < logprobs.size(); ++i) {
      out.loss += 0.5 * example.weights[i] * logprobs[i] * logprobs[i];
      out.d_logprob[i] = example.weights[i] * logprobs[i];
    }
    return out;
  };
  Model model(kTiny);
  Adapter adapter(model, {.r = 4, .alpha = 8});
  const Example example = sampled_example(model);
  Step step(adapter, {.max_grad_norm = 0});
  const double before = step.add(example, squares).loss;
  const double norm = step.take(1e-5).grad_norm;
  ASSERT_GT(norm, 0);
  EXPECT_LT(step.score(example, squares).loss, before);
  // twice the derivatives, twice the gradient
  step.add(example, squares, 2);
  const double twice = step.take(0).grad_norm;
  step.add(example, squares);
  EXPECT_NEAR(twice / step.take(0).grad_norm, 2, 1e-4);
}

TEST(Library, AnOwnCrossEntropyIsTheReadyOne) {
  const Loss own = [](std::span<const float> logprobs, const Example& example) {
    LossValue out{.loss = 0, .d_logprob = {}};
    for (std::size_t i = 0; i < logprobs.size(); ++i) {
      out.loss -= static_cast<double>(example.weights[i]) * logprobs[i];
      out.d_logprob.push_back(-example.weights[i]);
    }
    return out;
  };
  Model model(kTiny);
  const std::vector<Example> rows = read_examples(model, kTexts);
  std::vector<double> norms;
  for (const Loss& loss : {own, cross_entropy()}) {
    Adapter adapter(model, {.r = 4});
    Step step(adapter);
    for (int i = 0; i < 3; ++i) {
      step.add(rows.at(0), loss);
      norms.push_back(step.take(1e-3).grad_norm);
    }
  }
  ASSERT_EQ(norms.size(), 6U);
  EXPECT_EQ(std::vector<double>(norms.begin(), norms.begin() + 3),
            std::vector<double>(norms.begin() + 3, norms.end()));
}

TEST(Library, AnAdapterIsSavedAndLoaded) {
  const Folder folder;
  Model model(kTiny);
  const Example row = read_examples(model, kTexts).at(0);
  double trained = 0;
  {
    Adapter adapter(model, {.r = 4});
    Step step(adapter);
    const double before = step.add(row, cross_entropy()).loss;
    step.take(1e-2);
    trained = step.score(row, cross_entropy()).loss;
    EXPECT_LT(trained, before);
    adapter.save((folder.path / "lora").string());
  }
  Adapter again = Adapter::load(model, (folder.path / "lora").string());
  Step step(again);
  EXPECT_EQ(step.score(row, cross_entropy()).loss, trained);
}

TEST(Library, RowsAreThoseOfSft) {
  const Model model(kTiny);
  const std::vector<Example> rows = read_examples(model, kTexts);
  ASSERT_FALSE(rows.empty());
  for (const Example& one : rows) {
    ASSERT_EQ(one.tokens.size(), one.targets.size());
    ASSERT_EQ(one.tokens.size(), one.weights.size());
    for (std::size_t i = 1; i < one.tokens.size(); ++i) EXPECT_EQ(one.targets[i - 1], one.tokens[i]);
    EXPECT_TRUE(std::all_of(one.weights.begin(), one.weights.end(), [](float w) { return w == 1; }));
  }
  const Example made = make_example({1, 2}, {3, 4});
  EXPECT_EQ(made.tokens, (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(made.targets, (std::vector<std::int32_t>{2, 3, 4}));
  EXPECT_EQ(made.weights, (std::vector<float>{0, 1, 1}));
}

TEST(Library, MistakesOfStepsSayWhatIsWrongAndChangeNothing) {
  Model model(kTiny);
  Adapter adapter(model, {.r = 2});
  Step step(adapter);
  const Example good = sampled_example(model);
  expect_mistake([&] { step.take(1e-3); }, "no example since the last step");
  step.add(good, cross_entropy());
  const auto wrong = [](float d) {
    return [d](std::span<const float> logprobs, const Example&) {
      return LossValue{.loss = 0, .d_logprob = std::vector<float>(logprobs.size(), d)};
    };
  };
  expect_mistake([&] { step.add(good, wrong(NAN)); }, "not a number");
  expect_mistake([&] { step.add(good, importance_sampling()); }, "Example::logprobs");
  Example longer = good;
  longer.targets.push_back(1);
  expect_mistake([&] { step.add(longer, cross_entropy()); }, "one after each token");
  Example outside = good;
  outside.targets.back() = static_cast<std::int32_t>(model.vocabulary());
  expect_mistake([&] { step.add(outside, cross_entropy()); }, std::to_string(model.vocabulary()));
  const double norm = step.take(0).grad_norm;
  step.add(good, cross_entropy());
  EXPECT_EQ(step.take(0).grad_norm, norm) << "what failed left no gradient";
}

TEST(Library, MistakesOfOthersSayWhatIsWrong) {
  Model model(kTiny);
  expect_mistake([] { const Model none("/no/such/model"); }, "/no/such/model");
  expect_mistake([&] { const Adapter none(model, {.target_modules = {"q_prj"}}); }, "q_prj");
  expect_mistake([&] { const Adapter none(model, {.target_modules = {"lm_head"}}); }, "linears of layers");
  expect_mistake([&] { const Adapter none(model, {.r = 0}); }, "LoraOptions::r");
  expect_mistake([] { ppo(1.2, 0.8); }, "0 <= low <= high");
  expect_mistake([] { make_example({}, {1}); }, "an empty prompt");
  Adapter first(model, {.r = 2});
  Step step(first);
  const Adapter second(model, {.r = 2});
  expect_mistake([&] { step.add(make_example({1}, {2}), cross_entropy()); }, "one adapter at a time");
  Engine engine(model);
  expect_mistake([&] { engine.take(7); }, "the id of a request");
  expect_mistake([&] { engine.add({.prompt = {}}); }, "prompt");
  expect_mistake([&] { engine.add({.prompt = {1}, .max_new_tokens = 0}); }, "max_new_tokens");
  expect_mistake([&] { engine.add({.prompt = {1}, .temperature = -1}); }, "temperature");
  expect_mistake([&] { engine.add({.prompt = {1}, .temperature = 1, .top_p = 0}); }, "top_p");
  expect_mistake([&] { engine.add({.prompt = {1}, .temperature = 1, .top_k = -1}); }, "top_k");
  const RequestId id = engine.add({.prompt = {1}, .max_new_tokens = 2});
  expect_mistake([&] { engine.take(id); }, "that has ended");
  engine.cancel(id);
  EXPECT_TRUE(engine.take(id).ids.empty());
}

TEST(Library, ARunTrainsAndCanBeStopped) {
  const Folder folder;
  const std::string out = (folder.path / "run").string();
  std::vector<std::string> arguments = {
      "--model_name_or_path", kTiny, "--dataset_name", kTexts, "--use_peft", "true",
      "--max_steps",          "3",   "--threads",      "1",    "--bf16",     "false",
      "--output_dir",         out};
  std::atomic<bool> stop = false;
  std::vector<std::int64_t> steps;
  RunEnd end = run(
      "sft", arguments,
      [&](const Progress& now) {
        steps.push_back(now.step);
        EXPECT_EQ(now.total_steps, 3);
        EXPECT_TRUE(std::isfinite(now.loss));
        stop = now.step == 2;
      },
      &stop);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 2}));
  EXPECT_TRUE(end.interrupted);
  arguments.insert(arguments.end(), {"--resume_from_checkpoint", "true"});
  end = run("sft", arguments);
  EXPECT_FALSE(end.interrupted);
  EXPECT_EQ(end.step, 3);
  EXPECT_TRUE(fs::exists(fs::path(out) / "adapter_model.safetensors"));
  expect_mistake([&] { run("stf", arguments); }, "Did you mean 'sft'?");
}

TEST(Library, AnExaminationGivesVerdicts) {
  const Folder folder;
  std::vector<std::string> arguments = {"--model_name_or_path",
                                        kTiny,
                                        "--dataset_name",
                                        kTexts,
                                        "--use_peft",
                                        "true",
                                        "--threads",
                                        "1",
                                        "--output_dir",
                                        (folder.path / "run").string()};
  const std::vector<Verdict> healthy = examine("sft", arguments);
  EXPECT_GT(healthy.size(), 3U);
  EXPECT_FALSE(fs::exists(folder.path / "run")) << "it writes nothing";
  arguments.insert(arguments.end(), {"--learning_rte", "1"});
  const std::vector<Verdict> wrong = examine("sft", arguments);
  ASSERT_EQ(wrong.size(), 1U);
  EXPECT_EQ(wrong[0].level, Level::kFail);
  EXPECT_NE((wrong[0].what + wrong[0].evidence).find("learning_rte"), std::string::npos) << wrong[0].what;
}

}  // namespace library_test
}  // namespace hone
