#include "rollout/generate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "model/files/weight_source.h"
#include "model/tiny_model.h"
#include "rollout/kv_memory.h"

namespace hone::rollout {
namespace generate_test {

using namespace hone::test_tools;
using Ids = std::vector<std::int32_t>;

// Of 128 positions and 48 tokens.
model::CausalLm tiny() {
  const TempFolder folder;
  write_model(folder.path(), tiny_config("llama"));
  return model::CausalLm(*model::open_weights(folder.path()), {});
}

const std::vector<Ids> kPrompts = {{3, 4, 5, 6}, {7, 8}, {9}, {10, 11, 12, 13, 14}, {15}};

GenerateOptions sampling(double temperature = 1) {
  GenerateOptions options;
  options.max_new_tokens = 12;
  options.sampler.temperature = temperature;
  return options;
}

std::vector<Ids> ids_of(const std::vector<Completion>& completions) {
  std::vector<Ids> out;
  for (const Completion& one : completions) out.push_back(one.ids);
  return out;
}

// Log-probabilities [n, V] of every position that gave a token, by the plain form.
at::Tensor recomputed(const model::CausalLm& model, const Ids& prompt, const Ids& completion,
                      double temperature) {
  const at::NoGradGuard no_grad;
  std::vector<std::int64_t> all(prompt.begin(), prompt.end());
  all.insert(all.end(), completion.begin(), completion.end());
  const at::Tensor hidden = model.hidden(make_batch({all}), {});
  const auto first = static_cast<std::int64_t>(prompt.size()) - 1;
  const at::Tensor logits =
      model.logits(hidden.narrow(0, first, static_cast<std::int64_t>(completion.size())));
  return (logits.to(at::kDouble) / temperature).log_softmax(1);
}

TEST(Generate, AnswersTheSameHoweverManyPromptTokensJoinAForward) {
  const model::CausalLm model = tiny();
  GenerateOptions options = sampling();
  const auto together = ids_of(generate(model, kPrompts, options));
  ASSERT_EQ(together.size(), 5U);
  EXPECT_EQ(together[3].size(), 12U);
  for (const std::int64_t tokens : {1, 2, 3, 6}) {
    options.prefill_tokens = tokens;
    EXPECT_EQ(ids_of(generate(model, kPrompts, options)), together) << tokens;
  }
}

TEST(Generate, AnswersTheSameInEveryBatchAndWithLittleMemory) {
  const model::CausalLm model = tiny();
  GenerateOptions options = sampling();
  options.samples = 3;
  const auto together = ids_of(generate(model, kPrompts, options));
  for (const std::int64_t batch : {1, 2, 7}) {
    options.batch_size = batch;
    EXPECT_EQ(ids_of(generate(model, kPrompts, options)), together) << batch;
  }
  options.batch_size = 16;
  options.kv_memory = 2 * kv_bytes(model.config(), model.dtypes().linear, 5, options).sample;
  EXPECT_EQ(ids_of(generate(model, kPrompts, options)), together);
}

// The first of them may be done, and gone, with its first token.
TEST(Generate, SamplesThatShareAPromptAreThoseOfUnsharedOnes) {
  const model::CausalLm model = tiny();
  const std::vector<Ids> prompts = {Ids(70, 5), {6}, {7, 8, 9}};
  for (const std::int64_t max_new_tokens : {1, 9}) {
    GenerateOptions options = sampling();
    options.max_new_tokens = max_new_tokens;
    options.samples = 5;
    options.batch_size = 1;
    const auto alone = generate(model, prompts, options);
    for (const std::int64_t batch : {2, 4, 16}) {
      for (const std::int64_t piece : {16, 2048}) {
        options.batch_size = batch;
        options.prefill_tokens = piece;
        const auto together = generate(model, prompts, options);
        EXPECT_EQ(ids_of(together), ids_of(alone)) << batch << " " << piece;
      }
    }
  }
}

TEST(Generate, TheRandomnessOfASampleIsItsOwn) {
  const model::CausalLm model = tiny();
  GenerateOptions options = sampling();
  options.samples = 4;
  const auto all = ids_of(generate(model, kPrompts, options));
  ASSERT_EQ(all.size(), 20U);
  EXPECT_EQ(std::set<Ids>(all.begin(), all.end()).size(), 20U);
  EXPECT_EQ(ids_of(generate(model, kPrompts, options)), all);
  // Fewer samples are the first of more.
  options.samples = 1;
  const auto first = ids_of(generate(model, kPrompts, options));
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i], all[i * 4]);
  options.seed = 43;
  EXPECT_NE(ids_of(generate(model, kPrompts, options)), first);
  options.seed = 42;
  options.step = 1;
  EXPECT_NE(ids_of(generate(model, kPrompts, options)), first);
}

TEST(Generate, TellsTheTrainersLogProbabilities) {
  const model::CausalLm model = tiny();
  for (const double temperature : {0.0, 0.7, 1.0}) {
    GenerateOptions options = sampling(temperature);
    options.sampler.top_k = 5;
    options.sampler.repetition_penalty = 1.2;  // neither is seen in these
    const auto completions = generate(model, kPrompts, options);
    for (std::size_t i = 0; i < completions.size(); ++i) {
      const at::Tensor wanted =
          recomputed(model, kPrompts[i], completions[i].ids, temperature > 0 ? temperature : 1);
      ASSERT_EQ(completions[i].logprobs.size(), completions[i].ids.size());
      for (std::size_t j = 0; j < completions[i].ids.size(); ++j) {
        const double value = wanted[static_cast<std::int64_t>(j)][completions[i].ids[j]].item<double>();
        EXPECT_NEAR(completions[i].logprobs[j], value, 1e-4);
        if (temperature == 0) {
          EXPECT_EQ(completions[i].sampled_logprobs[j], 0);
        }
      }
    }
  }
}

TEST(Generate, TellsTheLogProbabilitiesOfTheDistributionItDrewFrom) {
  const model::CausalLm model = tiny();
  GenerateOptions options = sampling(0.8);
  options.sampler.top_k = 5;
  options.sampler.repetition_penalty = 1.3;
  const auto completions = generate(model, kPrompts, options);
  for (std::size_t i = 0; i < completions.size(); ++i) {
    // Logits up to a constant are not enough for the penalty, so they are computed as recomputed() does.
    std::vector<std::int64_t> all(kPrompts[i].begin(), kPrompts[i].end());
    for (std::size_t j = 0; j < completions[i].ids.size(); ++j) {
      const at::NoGradGuard no_grad;
      const at::Tensor hidden = model.hidden(make_batch({all}), {});
      at::Tensor scores = model.logits(hidden.narrow(0, static_cast<std::int64_t>(all.size()) - 1, 1))[0];
      const std::set<std::int64_t> seen(all.begin(), all.end());
      for (const std::int64_t id : seen) {
        const double score = scores[id].item<double>();
        scores[id] = score < 0 ? score * 1.3 : score / 1.3;
      }
      const auto [best, index] = (scores.to(at::kDouble) / 0.8).topk(5);
      const std::int64_t id = completions[i].ids[j];
      const at::Tensor place = (index == id).nonzero();
      ASSERT_EQ(place.numel(), 1) << "token " << id << " was not among the 5 best";
      EXPECT_NEAR(completions[i].sampled_logprobs[j],
                  best.log_softmax(0)[place.item<std::int64_t>()].item<double>(), 1e-4);
      all.push_back(id);
    }
  }
}

TEST(Generate, WithoutLogProbabilitiesTheTokensAreTheSame) {
  const model::CausalLm model = tiny();
  GenerateOptions options = sampling();
  const auto with = ids_of(generate(model, kPrompts, options));
  options.logprobs = false;
  const auto without = generate(model, kPrompts, options);
  EXPECT_EQ(ids_of(without), with);
  EXPECT_TRUE(without[0].logprobs.empty());
  EXPECT_EQ(without[0].sampled_logprobs.size(), without[0].ids.size());
}

TEST(Generate, EndsAtAStopTokenButNotTooEarly) {
  const model::CausalLm model = tiny();
  GenerateOptions options = sampling();
  const auto free = generate(model, kPrompts, options);
  options.stop_ids = {free[0].ids[4], 47};
  const auto stopped = generate(model, kPrompts, options);
  const auto first = std::find(free[0].ids.begin(), free[0].ids.end(), free[0].ids[4]) + 1;
  EXPECT_EQ(stopped[0].ids, Ids(free[0].ids.begin(), first));
  EXPECT_EQ(stopped[0].finish_reason, FinishReason::kStopToken);
  EXPECT_EQ(free[0].finish_reason, FinishReason::kLength);
  options.min_new_tokens = 9;
  for (const Completion& one : generate(model, kPrompts, options)) {
    EXPECT_GE(one.ids.size(), 9U);
    const auto at_nine = one.ids.begin() + 9;
    EXPECT_EQ(std::count(one.ids.begin(), at_nine, options.stop_ids[0]), 0);
  }
  options.min_new_tokens = 12;
  options.stop_ids.clear();
  for (std::int64_t id = 1; id < 48; ++id) options.stop_ids.push_back(id);
  for (const Completion& one : generate(model, kPrompts, options)) EXPECT_EQ(one.ids, Ids(12, 0));
}

TEST(Generate, DrawsOnlyWhatMayFollow) {
  const model::CausalLm model = tiny();
  for (const double temperature : {0.0, 1.0}) {
    GenerateOptions options = sampling(temperature);
    options.stop_ids = {47};
    const auto free = generate(model, kPrompts, options);
    options.constrain = [](std::span<const std::int32_t> ids, std::span<float> scores) {
      for (std::size_t id = 0; id < scores.size(); ++id) {
        const bool may = ids.size() < 4 ? id == 20 || id == 21 : id == 47;
        if (!may) scores[id] = -std::numeric_limits<float>::infinity();
      }
    };
    for (const Completion& one : generate(model, kPrompts, options)) {
      ASSERT_EQ(one.ids.size(), 5U);
      EXPECT_EQ(one.finish_reason, FinishReason::kStopToken);
      for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(one.ids[i] == 20 || one.ids[i] == 21);
      EXPECT_LT(one.logprobs.back(), -0.5F) << "of the model's own distribution";
    }
    EXPECT_NE(ids_of(free), ids_of(generate(model, kPrompts, options)));
  }
}

TEST(Generate, EndsWhereTheCallerSeesAStopString) {
  const model::CausalLm model = tiny();
  GenerateOptions options = sampling();
  const auto free = generate(model, kPrompts, options);
  options.stops = [](std::span<const std::int32_t> ids) { return ids.size() == 5; };
  const auto stopped = generate(model, kPrompts, options);
  for (std::size_t i = 0; i < free.size(); ++i) {
    EXPECT_EQ(stopped[i].ids, Ids(free[i].ids.begin(), free[i].ids.begin() + 5));
    EXPECT_EQ(stopped[i].finish_reason, FinishReason::kStopString);
  }
}

TEST(Generate, ThePenaltyAvoidsTokensOfPromptAndCompletion) {
  const model::CausalLm model = tiny();
  GenerateOptions options = sampling(0);
  options.max_new_tokens = 30;
  const auto repeats = [&] {
    int out = 0;
    const auto completions = generate(model, kPrompts, options);
    for (std::size_t i = 0; i < kPrompts.size(); ++i) {
      std::set<std::int32_t> seen(kPrompts[i].begin(), kPrompts[i].end());
      for (const std::int32_t id : completions[i].ids) out += seen.insert(id).second ? 0 : 1;
    }
    return out;
  };
  const int free = repeats();
  EXPECT_GT(free, 20);
  options.sampler.repetition_penalty = 1e4;  // of 48 tokens about half have a positive score
  EXPECT_LT(repeats(), free / 2);
}

TEST(Generate, SaysWhichCompletionsAreDone) {
  const model::CausalLm model = tiny();
  GenerateOptions options = sampling();
  options.samples = 2;
  options.batch_size = 3;
  std::vector<std::size_t> told;
  std::vector<Ids> ids(10);
  const auto all = generate(model, kPrompts, options, [&](std::size_t index, const Completion& one) {
    told.push_back(index);
    ids[index] = one.ids;
  });
  EXPECT_EQ(ids, ids_of(all));
  std::sort(told.begin(), told.end());
  EXPECT_EQ(told, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(Generate, FinishesGroupsInOrder) {
  const model::CausalLm model = tiny();
  for (const bool share : {false, true}) {
    GenerateOptions options = sampling();
    options.samples = 3;
    options.batch_size = 4;
    options.share_prompt = share;
    std::vector<std::size_t> left(kPrompts.size(), 3), finished;
    generate(model, kPrompts, options, [&](std::size_t index, const Completion&) {
      if (--left[index / 3] == 0) finished.push_back(index / 3);
    });
    EXPECT_EQ(finished, (std::vector<std::size_t>{0, 1, 2, 3, 4})) << share;
  }
}

TEST(Generate, TellsTheEntropyWhereEachTokenWasDrawn) {
  const model::CausalLm model = tiny();
  for (const bool share : {false, true}) {
    GenerateOptions options = sampling(0.7);
    options.share_prompt = share;
    options.sampler.top_k = 5;  // not seen in it
    options.entropies = true;
    const auto completions = generate(model, kPrompts, options);
    for (std::size_t i = 0; i < completions.size(); ++i) {
      const at::Tensor logp = recomputed(model, kPrompts[i], completions[i].ids, 0.7);
      const at::Tensor wanted = -(logp.exp() * logp).sum(1);
      ASSERT_EQ(completions[i].entropies.size(), completions[i].ids.size());
      for (std::size_t j = 0; j < completions[i].ids.size(); ++j) {
        EXPECT_NEAR(completions[i].entropies[j], wanted[static_cast<std::int64_t>(j)].item<double>(), 1e-4);
      }
    }
    options.logprobs = false;
    const auto alone = generate(model, kPrompts, options);
    EXPECT_TRUE(alone[0].logprobs.empty());
    EXPECT_EQ(alone[0].entropies, completions[0].entropies);
  }
}

TEST(Generate, RefusesAStopTokenThatTheModelCannotProduce) {
  const model::CausalLm model = tiny();
  GenerateOptions options = sampling();
  options.stop_ids = {47};
  EXPECT_EQ(user_error([&] { generate(model, kPrompts, options); }), "");
  for (const std::int64_t id : {48, -1}) {
    options.stop_ids = {47, id};
    const std::string message = user_error([&] { generate(model, kPrompts, options); });
    EXPECT_SAYS(message, "[the stop token " + std::to_string(id) + "]");
    EXPECT_SAYS(message, "0 to 47");
  }
}

TEST(Generate, RefusesMoreThanTheModelsPositions) {
  const model::CausalLm model = tiny();
  const std::vector<Ids> prompts = {{3}, Ids(100, 4)};
  const auto error_with = [&](std::int64_t max_new_tokens) {
    GenerateOptions options;
    options.max_new_tokens = max_new_tokens;
    return user_error([&] { generate(model, prompts, options); });
  };
  EXPECT_EQ(error_with(28), "");
  const std::string message = error_with(29);
  EXPECT_SAYS(message, "[prompt 2]");
  EXPECT_SAYS(message, "the model's 128 positions");
  EXPECT_SAYS(message, "a prompt of 100 tokens and max_new_tokens 29");
  EXPECT_SAYS(error_with(std::numeric_limits<std::int64_t>::max()), "[prompt 1]");
}

// Beyond it longrope has other factors, also for the keys that were made before.
TEST(Generate, StaysWithinTheOriginalLengthOfLongrope) {
  const TempFolder folder;
  base::Json config = tiny_config("phi3");
  config["original_max_position_embeddings"] = 20;
  config["rope_scaling"] = {{"type", "longrope"}, {"short_factor", {1.0, 1.5}}, {"long_factor", {2.0, 4.0}}};
  write_model(folder.path(), config);
  const model::CausalLm model(*model::open_weights(folder.path()), {});
  GenerateOptions options = sampling();
  options.max_new_tokens = 15;
  EXPECT_EQ(generate(model, kPrompts, options).size(), kPrompts.size());
  options.max_new_tokens = 16;
  const std::string message = user_error([&] { generate(model, kPrompts, options); });
  EXPECT_SAYS(message, "[prompt 4]");
  EXPECT_SAYS(message, "the model's 20 positions (original_max_position_embeddings)");
}

TEST(Generate, RefusesAnEmptyPrompt) {
  const std::string message = user_error([] { generate(tiny(), {{3}, {}}, {}); });
  EXPECT_SAYS(message, "[prompt 2]");
  EXPECT_SAYS(message, "an empty prompt");
}

TEST(Generate, RefusesMemoryThatHoldsNoSequence) {
  const model::CausalLm model = tiny();
  GenerateOptions options = sampling();
  options.kv_memory = 1000;
  const std::string message = user_error([&] { generate(model, kPrompts, options); });
  EXPECT_SAYS(message,
              "[prompt 1] expected kv_memory to hold the keys and values of one sequence, 16384 bytes");
  EXPECT_SAYS(message, "found:  1000 bytes");
}

TEST(Generate, RefusesMemoryThatHoldsNoSampleBesideItsPrompt) {
  const model::CausalLm model = tiny();
  GenerateOptions options = sampling();
  options.share_prompt = true;
  options.kv_memory = 20000;
  const std::string message = user_error([&] { generate(model, kPrompts, options); });
  EXPECT_SAYS(message, "the keys and values of one sequence, 32768 bytes");
}

TEST(KvMemory, CountsASharedPromptOnce) {
  const model::CausalLm model = tiny();
  GenerateOptions options;
  options.share_prompt = true;
  constexpr std::int64_t kTile = 64 * 2 * 2 * 2 * 8 * 4;
  const auto tiles = [&](std::int64_t prompt, std::int64_t max_new_tokens) {
    options.max_new_tokens = max_new_tokens;
    const KvBytes bytes = kv_bytes(model.config(), at::kFloat, prompt, options);
    return std::pair(bytes.prompt / kTile, bytes.sample / kTile);
  };
  EXPECT_EQ(tiles(1, 64), std::pair(1L, 1L));
  EXPECT_EQ(tiles(64, 65), std::pair(1L, 2L));
  EXPECT_EQ(tiles(65, 130), std::pair(2L, 4L));
}

TEST(KvMemory, CountsWholeTilesGrownByDoubling) {
  const model::CausalLm model = tiny();  // 2 layers, 2 heads of keys and values, 8 numbers each
  GenerateOptions options;
  constexpr std::int64_t kTile = 64 * 2 * 2 * 2 * 8 * 4;
  const auto tiles = [&](std::int64_t prompt, std::int64_t max_new_tokens) {
    options.max_new_tokens = max_new_tokens;
    return kv_bytes(model.config(), at::kFloat, prompt, options).sample / kTile;
  };
  EXPECT_EQ(tiles(1, 63), 1);
  EXPECT_EQ(tiles(2, 63), 2);
  EXPECT_EQ(tiles(64, 1), 2);
  EXPECT_EQ(tiles(130, 100), 6);  // 3 hold the prompt, 4 are needed
  EXPECT_EQ(tiles(10, 1000), 16);
  options.max_new_tokens = 63;
  EXPECT_EQ(kv_bytes(model.config(), at::kBFloat16, 1, options).sample, kTile / 2);
}

TEST(Generate, NamesThePromptAndThePositionOfLogitsThatAreNotFinite) {
  const TempFolder folder;
  const base::Json config = tiny_config("llama");
  write_json(folder.path() / "config.json", config);
  auto tensors = random_tensors(config);
  tensors.at("model.embed_tokens.weight")[7].fill_(std::numeric_limits<float>::quiet_NaN());
  write_tensors(folder.path() / "model.safetensors", tensors);
  const model::CausalLm model(*model::open_weights(folder.path()), {});
  GenerateOptions options;
  options.max_new_tokens = 1;
  const std::string message = user_error([&] { generate(model, {{3, 4}, {5, 6, 7}}, options); });
  EXPECT_SAYS(message, "[prompt 2, after token 3]");
  EXPECT_SAYS(message, "NUM-02: the weights or the adapter hold non-finite values");
}

}  // namespace generate_test
}  // namespace hone::rollout
