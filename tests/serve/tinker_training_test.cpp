// Models that clients train: the losses' updates against autograd, bits of chunks, and of sampler and
// trainer.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/process/instruction_level.h"
#include "base/where.h"
#include "learn/adamw.h"
#include "model/causal_lm.h"
#include "model/files/weight_source.h"
#include "model/tiny_model.h"
#include "rollout/engine.h"
#include "serve/training/trained_model.h"
#include "serve/weights.h"

namespace hone::serve {
namespace tinker_training_test {

using namespace hone::test_tools;

class Base {
 public:
  explicit Base(model::DtypePolicy dtypes, const std::string& family = "qwen2", bool tied = false) {
    base::Json config = wide_config(family);
    config["max_position_embeddings"] = 512;
    config["tie_word_embeddings"] = tied;
    write_model(folder_.path() / "model", config);
    model_ = std::make_unique<model::CausalLm>(*model::open_weights(folder_.path() / "model"), dtypes,
                                               model::Storage::kPacked);
  }
  model::CausalLm& model() { return *model_; }
  fs::path folder(const char* name) const {
    fs::create_directories(folder_.path() / name);
    return folder_.path() / name;
  }

 private:
  TempFolder folder_;
  std::unique_ptr<model::CausalLm> model_;
};

constexpr model::DtypePolicy kFloat = {.linear = at::kFloat, .residual = at::kFloat};
constexpr model::DtypePolicy kBfloat16 = {.linear = at::kBFloat16, .residual = at::kBFloat16};

Datum datum_of(const LossSpec& spec, int length, int salt, std::int64_t columns = 1) {
  Datum out;
  out.columns = columns;
  out.is_flat = columns == 1;
  for (int i = 0; i < length; ++i) {
    out.tokens.push_back(3 + (i * i + i * salt + salt) % 2000);
    for (std::int64_t k = 0; k < columns; ++k) {
      out.targets.push_back(static_cast<std::int32_t>(3 + (i * 7 + salt + 31 * k) % 2400));
      const bool prompt = i < length / 2;
      if (spec.kind == LossKind::kCrossEntropy) {
        out.weights.push_back(prompt ? 0.0F : 0.25F + 0.1F * static_cast<float>(k));
      } else {
        out.advantages.push_back(prompt ? 0.0F : (i % 3 == 0 ? -1.0F : 0.75F));
        out.logprobs.push_back(-7.5F - 0.05F * static_cast<float>(i));
      }
    }
  }
  return out;
}

// B of a new LoRA is zero: a step makes it something.
void warm(TrainedModel& trained) {
  trained.forward_backward(datum_of({}, 12, 5), {}, true);
  trained.optim_step({.learning_rate = 0.02});
}

at::Tensor values(const TrainedModel& trained) {
  std::vector<at::Tensor> all;
  const Version sides = trained.snapshot();
  std::map<std::string, at::Tensor> by_name;
  for (const auto& [linear, side] : *sides) {
    by_name[linear->name + ".a"] = side.a.flatten();
    by_name[linear->name + ".b"] = side.b.flatten();
  }
  for (const auto& [name, value] : by_name) all.push_back(value);
  return at::cat(all);
}

// The same step by libtorch's autograd over the model's own autograd form.
at::Tensor step_of_autograd(model::CausalLm& model, const Version& start, const Datum& datum,
                            const LossSpec& spec, const AdamParams& params) {
  std::map<std::string, at::Tensor> leaves;
  for (ops::Linear* linear : model.linears_and_head()) {
    const auto found = start->find(linear);
    if (found == start->end()) continue;
    ops::LoraWeights side;
    side.scale = found->second.scale;
    side.a = found->second.a.clone().requires_grad_(true);
    side.b = found->second.b.clone().requires_grad_(true);
    leaves[linear->name + ".a"] = side.a;
    leaves[linear->name + ".b"] = side.b;
    linear->lora = std::move(side);
  }
  const at::AutoGradMode with_grad(true);
  const data::Batch batch = make_batch({std::vector<std::int64_t>(datum.tokens.begin(), datum.tokens.end())});
  const ops::PassContext context;
  const at::Tensor logits = model.autograd_logits(model.hidden(batch, context), context);
  const auto tokens = static_cast<std::int64_t>(datum.tokens.size());
  const at::Tensor target =
      at::tensor(std::vector<std::int64_t>(datum.targets.begin(), datum.targets.end()), at::kLong)
          .view({tokens, datum.columns});
  const at::Tensor l = at::log_softmax(logits.to(at::kDouble), -1).gather(1, target).flatten();
  const at::Tensor detached = l.detach().to(at::kFloat).contiguous();
  const LossOfDatum loss =
      loss_of(spec, datum, {detached.const_data_ptr<float>(), static_cast<std::size_t>(l.numel())});
  (l * at::tensor(loss.d_logprob, at::kFloat).to(at::kDouble)).sum().backward();
  std::vector<at::Tensor> values, gradients;
  for (const auto& [name, leaf] : leaves) {
    values.push_back(leaf.detach().flatten());
    gradients.push_back(leaf.grad().flatten());
  }
  for (ops::Linear* linear : model.linears_and_head()) linear->lora.reset();
  const at::NoGradGuard no_grad;
  const at::Tensor flat = at::cat(values).contiguous(), gradient = at::cat(gradients).contiguous();
  auto state = learn::AdamWState::zeros_like(flat);
  learn::clip_gradient(gradient, params.grad_clip_norm);
  learn::adamw_step(flat, gradient, state,
                    {.beta1 = params.beta1,
                     .beta2 = params.beta2,
                     .epsilon = params.epsilon,
                     .weight_decay = params.weight_decay},
                    params.learning_rate);
  return flat;
}

struct Case {
  const char* name;
  bool unembed;
  std::int64_t columns;
};

class TinkerUpdateOf : public ::testing::TestWithParam<Case> {};

// epsilon is large, so that the update shows the gradient's size and not only its sign.
TEST_P(TinkerUpdateOf, OneStepIsThatOfAutograd) {
  const Case& one = GetParam();
  Base base(kFloat);
  const LossSpec spec =
      read_loss(one.name, std::string(one.name) == "dro"
                              ? std::map<std::string, std::variant<double, std::string>>{{"beta", 0.05}}
                              : std::map<std::string, std::variant<double, std::string>>{});
  auto trained = TrainedModel::create(base.model(), {.rank = 4, .seed = 7, .unembed = one.unembed});
  warm(*trained);
  const fs::path folder = base.folder("start");
  trained->save(folder, /*moments=*/false);
  trained = TrainedModel::load(base.model(), folder, trained->choice(), /*moments=*/false);
  const AdamParams params = {.learning_rate = 0.01, .epsilon = 0.1, .weight_decay = 0.01};
  const Datum datum = datum_of(spec, 24, 3, one.columns);
  const Version start = trained->snapshot();
  const at::Tensor before = values(*trained);
  trained->forward_backward(datum, spec, true);
  trained->optim_step(params);
  const at::Tensor expected = step_of_autograd(base.model(), start, datum, spec, params);
  EXPECT_LT(largest_difference(values(*trained), expected), 1e-5);
  EXPECT_GT(largest_difference(before, expected), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(All, TinkerUpdateOf,
                         ::testing::Values(Case{"cross_entropy", false, 1}, Case{"cross_entropy", true, 1},
                                           Case{"cross_entropy", false, 3}, Case{"cross_entropy", true, 3},
                                           Case{"importance_sampling", true, 1}, Case{"ppo", true, 1},
                                           Case{"cispo", false, 1}, Case{"dro", true, 1}));

// Also where requests between them failed, and were taken back.
TEST(TinkerTraining, ChunksAreOneInBits) {
  Base base(kBfloat16);
  at::Tensor of_order[2];
  for (const bool in_bins : {false, true}) {
    at::Tensor results[2];
    for (const bool chunks : {false, true}) {
      auto trained = TrainedModel::create(base.model(), {.rank = 4, .seed = 1});
      if (in_bins) trained->add_in_bins(std::make_shared<DatumRoom>());
      warm(*trained);
      for (int i = 0; i < 5; ++i) {
        if (chunks && i % 2 == 0) {
          trained->begin();
          trained->forward_backward(datum_of({}, 15, 2), {}, true);
          trained->undo();
          EXPECT_EQ(trained->has_gradient(), i > 0);
        }
        if (chunks || i == 0) trained->begin();
        trained->forward_backward(datum_of({}, 10 + 7 * (i % 3), i), {}, true);
        if (chunks || i == 4) trained->done();
      }
      while (chunks && trained->add_gradient()) {
      }
      trained->optim_step({});
      results[chunks ? 1 : 0] = values(*trained);
    }
    EXPECT_TRUE(at::equal(results[0], results[1]));
    of_order[in_bins ? 1 : 0] = results[0];
  }
  EXPECT_FALSE(at::equal(of_order[0], of_order[1])) << "the order of sums shows in no bit";
}

// Two models on one base do not see each other, and the base between calls is the base.
TEST(TinkerTraining, SeveralModelsAtOnce) {
  Base base(kBfloat16);
  const auto train = [&](TrainedModel& one, int salt) {
    one.forward_backward(datum_of({}, 20, salt), {}, true);
    one.optim_step({.learning_rate = 0.01});
  };
  auto alone = TrainedModel::create(base.model(), {.rank = 4, .seed = 1});
  for (int i = 0; i < 3; ++i) train(*alone, i);
  auto first = TrainedModel::create(base.model(), {.rank = 4, .seed = 1});
  auto second = TrainedModel::create(base.model(), {.rank = 7, .seed = 2, .mlp = false, .unembed = false});
  for (int i = 0; i < 3; ++i) {
    train(*first, i);
    train(*second, 10 + i);
  }
  EXPECT_TRUE(at::equal(values(*alone), values(*first)));
  for (const ops::Linear* linear : base.model().linears_and_head()) EXPECT_FALSE(linear->lora.has_value());
}

TEST(TinkerTraining, WhatFailsIsTakenBack) {
  Base base(kBfloat16);
  auto trained = TrainedModel::create(base.model(), {.rank = 4, .seed = 1});
  auto other = TrainedModel::create(base.model(), {.rank = 4, .seed = 1});
  const LossSpec spec = read_loss("importance_sampling", {});
  trained->forward_backward(datum_of({}, 9, 1), {}, true);
  other->forward_backward(datum_of({}, 9, 1), {}, true);
  trained->begin();
  trained->forward_backward(datum_of({}, 15, 2), {}, true);
  Datum bad = datum_of(spec, 12, 4);
  bad.logprobs.back() = -3000;
  EXPECT_SAYS(user_error([&] { trained->forward_backward(bad, spec, true); }), "finite");
  trained->undo();
  trained->optim_step({});
  other->optim_step({});
  EXPECT_TRUE(at::equal(values(*trained), values(*other)));
  EXPECT_SAYS(user_error([&] { trained->optim_step({}); }), "forward_backward");
}

// The second pass of the first datum fails. Its number is that of the step's datums, with those that have no gradient.
TEST(TinkerTraining, ADatumIsNamedByItsPlaceInTheStep) {
  Base base(kBfloat16);
  auto trained = TrainedModel::create(base.model(), {.rank = 4, .seed = 1});
  trained->add_in_bins(std::make_shared<DatumRoom>());
  Datum idle = datum_of({}, 12, 3);
  for (float& weight : idle.weights) weight = 0;
  const auto failure = [&] {
    base::where.on_enter = [](const char* op) {
      if (std::string(op) == "attention") throw base::UserError({.where = "planted"});
    };
    const std::string said = user_error([&] { trained->add_gradient(); });
    base::where.on_enter = nullptr;
    return said;
  };
  for (int i = 0; i < 3; ++i) trained->forward_backward(idle, {}, true);
  trained->forward_backward(datum_of({}, 9, 1), {}, false);  // trains nothing
  trained->begin();
  for (int i = 0; i < 2; ++i) trained->forward_backward(datum_of({}, 15, 2), {}, true);
  trained->undo();
  trained->forward_backward(datum_of({}, 9, 1), {}, true);
  EXPECT_SAYS(failure(), "datum 3 of the step, planted");
  trained->optim_step({});
  trained->forward_backward(idle, {}, true);
  trained->forward_backward(datum_of({}, 9, 1), {}, true);
  EXPECT_SAYS(failure(), "datum 1 of the step, planted");
  trained->optim_step({});
}

TEST(TinkerTraining, ResumedIsUninterruptedInBits) {
  Base base(kBfloat16);
  const auto train = [&](TrainedModel& one, int salt) {
    one.forward_backward(datum_of({}, 20, salt), {}, true);
    return one.optim_step({.learning_rate = 0.01, .weight_decay = 0.1, .grad_clip_norm = 0.5});
  };
  auto trained = TrainedModel::create(base.model(), {.rank = 4, .seed = 1});
  for (int i = 0; i < 2; ++i) train(*trained, i);
  const fs::path folder = base.folder("saved");
  trained->save(folder, /*moments=*/true);
  auto resumed = TrainedModel::load(base.model(), folder, trained->choice(), /*moments=*/true);
  auto anew = TrainedModel::load(base.model(), folder, trained->choice(), /*moments=*/false);
  EXPECT_EQ(resumed->steps(), 2);
  EXPECT_EQ(anew->steps(), 0);
  EXPECT_EQ(train(*trained, 2).step, 3);
  train(*resumed, 2);
  train(*anew, 2);
  EXPECT_TRUE(at::equal(values(*trained), values(*resumed)));
  EXPECT_FALSE(at::equal(values(*trained), values(*anew)));
}

struct BitsCase {
  const char* family;
  bool unembed, tied;
};

class TinkerBitsOf : public ::testing::TestWithParam<BitsCase> {};

// What an engine records for its tokens is what forward gives for them, also after the weights moved.
TEST_P(TinkerBitsOf, SampledLogprobsAreTheTrainers) {
  if (!base::machine_has(base::InstructionLevel::kAvx2)) GTEST_SKIP() << "no kernels of hone's own";
  Base base(kBfloat16, GetParam().family, GetParam().tied);
  auto trained = TrainedModel::create(base.model(), {.rank = 4, .seed = 1, .unembed = GetParam().unembed});
  warm(*trained);
  const Version version = trained->snapshot();
  warm(*trained);
  const Version newer = trained->snapshot();
  rollout::Engine engine(base.model(), {.batch_size = 8, .prefill_tokens = 32});
  std::vector<rollout::RequestId> ids;
  std::vector<std::vector<std::int32_t>> prompts;
  for (const int length : {1, 5, 63, 64, 65, 130}) {
    std::vector<std::int32_t> prompt;
    for (int i = 0; i < length; ++i) prompt.push_back(3 + (i * i + i * length) % 2000);
    prompts.push_back(prompt);
    rollout::RequestOptions options;
    options.max_new_tokens = 20;
    options.sampler.temperature = 1;
    options.share_prefixes = true;
    ids.push_back(engine.add({.ids = prompt, .options = options, .adapter = newer}));
    engine.add({.ids = prompt, .options = options, .adapter = version});
  }
  while (engine.advance()) {
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const rollout::Completion& sampled = engine.completion(ids[i]);
    std::vector<std::int32_t> all = prompts[i];
    all.insert(all.end(), sampled.ids.begin(), sampled.ids.end());
    Datum datum;
    datum.tokens.assign(all.begin(), all.end() - 1);
    datum.targets.assign(all.begin() + 1, all.end());
    datum.weights.assign(datum.targets.size(), 1);
    const ScoredDatum scored = trained->forward_backward(datum, {}, false);
    const std::vector<float> tail(scored.logprobs.end() - static_cast<std::ptrdiff_t>(sampled.ids.size()),
                                  scored.logprobs.end());
    EXPECT_EQ(tail, sampled.logprobs) << "prompt of " << prompts[i].size();
    // and with a gradient for some of them
    for (std::size_t t = 0; t < datum.weights.size(); t += 2) datum.weights[t] = 0;
    EXPECT_EQ(trained->forward_backward(datum, {}, true).logprobs, scored.logprobs);
  }
}

INSTANTIATE_TEST_SUITE_P(All, TinkerBitsOf,
                         ::testing::Values(BitsCase{"qwen2", true, false}, BitsCase{"qwen2", false, true},
                                           BitsCase{"llama", true, true}, BitsCase{"gemma2", true, true},
                                           BitsCase{"qwen3_5_text", true, false}));

TEST(TinkerTraining, FlagsSayWhatIsTrained) {
  Base base(kBfloat16);
  const auto names = [&](const LoraChoice& choice) {
    std::set<std::string> out;
    const Version sides = TrainedModel::create(base.model(), choice)->snapshot();
    for (const auto& [linear, side] : *sides) out.insert(linear->name.substr(linear->name.rfind('.') + 1));
    return out;
  };
  using Names = std::set<std::string>;
  EXPECT_EQ(names({.rank = 2, .mlp = false, .unembed = false}),
            (Names{"q_proj", "k_proj", "v_proj", "o_proj"}));
  EXPECT_EQ(names({.rank = 2, .attention = false, .unembed = false}),
            (Names{"gate_proj", "up_proj", "down_proj"}));
  EXPECT_EQ(names({.rank = 2, .attention = false, .mlp = false}), (Names{"lm_head"}));
  const auto refusal = [&](const LoraChoice& choice) {
    return user_error([&] { TrainedModel::create(base.model(), choice); });
  };
  EXPECT_SAYS(refusal({.attention = false, .mlp = false, .unembed = false}), "something to train");
  EXPECT_SAYS(refusal({.rank = 0}), "from 1 to 1024");
  Base experts(kBfloat16, "qwen3_moe");
  EXPECT_SAYS(user_error([&] { TrainedModel::create(experts.model(), {}); }), "train_mlp=False");
  // The head alone: nothing goes back through the layers.
  auto head = TrainedModel::create(base.model(), {.rank = 2, .attention = false, .mlp = false});
  head->forward_backward(datum_of({}, 9, 1), {}, true);
  EXPECT_GT(head->optim_step({}).gradient_l2, 0);
}

TEST(TinkerTraining, WhatIsRefused) {
  Base base(kBfloat16);
  auto trained = TrainedModel::create(base.model(), {.rank = 2});
  Datum datum = datum_of({}, 9, 1);
  datum.targets[3] = 2500;
  EXPECT_SAYS(user_error([&] { trained->forward_backward(datum, {}, true); }), "2499");
  EXPECT_SAYS(user_error([&] { trained->forward_backward(datum_of({}, 600, 1), {}, true); }),
              "maximum context length");
  EXPECT_SAYS(user_error([] { check({.learning_rate = std::nan("")}); }), "learning_rate");
  EXPECT_SAYS(user_error([] { check({.beta2 = 1}); }), "beta2");
}

}  // namespace tinker_training_test
}  // namespace hone::serve
