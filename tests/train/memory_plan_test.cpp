#include "train/facts/memory_plan.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files/file.h"

namespace hone::train {
namespace memory_plan_test {

using base::gigabytes;
using config::LayerForm;
using config::RecomputeMode;

// Qwen2.5-0.5B, LoRA r 16 on every linear, batch 4 x 256, everything scored, bf16.
MemoryInputs qwen() {
  MemoryInputs in;
  in.model.vocab_size = 151936;
  in.model.hidden_size = 896;
  in.model.intermediate_size = 4864;
  in.model.num_hidden_layers = 24;
  in.model.num_attention_heads = 14;
  in.model.num_key_value_heads = 2;
  in.model.head_dim = 64;
  in.linear_size = 2;
  in.residual_size = 2;
  in.program_bytes = 200'000'000;
  in.base_bytes = 988'000'000;
  for (std::int64_t layer = 0; layer < 24; ++layer) {
    const std::int64_t in_of[] = {896, 896, 896, 896, 896, 896, 4864};
    const std::int64_t out_of[] = {896, 128, 128, 896, 4864, 4864, 896};
    for (std::int64_t m = 0; m < 7; ++m) {
      const std::int64_t reads = m < 3 ? 0 : m == 3 ? 1 : m < 6 ? 2 : 3;
      in.adapted.push_back({.layer = layer,
                            .reads = reads,
                            .reads_norm = reads % 2 == 0,
                            .in = in_of[m],
                            .out = out_of[m],
                            .rank = 16});
      in.adapter_parameters += 16 * (in_of[m] + out_of[m]);
    }
  }
  in.train = {.tokens = 1024, .scored = 1020, .segment = 256};
  in.threads = 2;
  return in;
}

std::int64_t bytes_of(const MemoryPlan& plan, const std::string& name) {
  for (const MemorySegment& segment : plan.segments) {
    if (segment.name.starts_with(name)) return segment.bytes;
  }
  ADD_FAILURE() << "no segment " << name;
  return 0;
}

MemoryLimit limit_of(std::int64_t bytes) {
  return {.bytes = bytes, .is_set = true};
}

std::string error_of(const MemoryInputs& in, LayerForm form, RecomputeMode level, const MemoryLimit& limit) {
  try {
    plan_memory(in, form, level, limit);
  } catch (const base::UserError& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected a UserError";
  return {};
}

TEST(MemoryPlan, TheTotalIsTheSumOfTheSegments) {
  for (const bool fused_layer : {true, false}) {
    const MemoryPlan plan = memory_of(qwen(), fused_layer, RecomputeMode::kNone);
    std::int64_t sum = 0;
    for (const MemorySegment& segment : plan.segments) {
      EXPECT_GT(segment.bytes, 0) << segment.name;
      sum += segment.bytes;
    }
    EXPECT_EQ(plan.total, sum);
  }
}

// By hand from the list in model/layers/fused_layer.h: bytes of a token and layer, times 1024 x 24.
TEST(MemoryPlan, TheTapeIsWhatEachLevelKeeps) {
  const std::int64_t layer = 2 * 896 * 2 + 896 * 2 + 14 * 4 + 7 * 16 * 2;
  const std::int64_t cheap = layer + (896 + 2 * 128) * 2 + 2 * 4864 * 2;
  const std::int64_t none = cheap + 2 * 896 * 2 + 4864 * 2;
  EXPECT_EQ(bytes_of(memory_of(qwen(), true, RecomputeMode::kLayer), "tape"), 1024 * 24 * layer);
  EXPECT_EQ(bytes_of(memory_of(qwen(), true, RecomputeMode::kCheap), "tape"), 1024 * 24 * cheap);
  EXPECT_EQ(bytes_of(memory_of(qwen(), true, RecomputeMode::kNone), "tape"), 1024 * 24 * none);
}

TEST(MemoryPlan, Q_KNormKeepsTheirInputsAndAnFp32StreamTwiceTheBytes) {
  MemoryInputs in = qwen();
  const std::int64_t before = bytes_of(memory_of(in, true, RecomputeMode::kCheap), "tape");
  in.model.qk_norm = true;
  EXPECT_EQ(bytes_of(memory_of(in, true, RecomputeMode::kCheap), "tape") - before,
            1024 * 24 * (896 + 128) * 2);
  in.model.qk_norm = false;
  in.residual_size = 4;
  EXPECT_EQ(bytes_of(memory_of(in, true, RecomputeMode::kCheap), "tape") - before, 1024 * 24 * 2 * 896 * 2);
}

TEST(MemoryPlan, NormsAfterABranchKeepWhatTheyRead) {
  MemoryInputs in = qwen();
  for (const RecomputeMode level : {RecomputeMode::kNone, RecomputeMode::kCheap, RecomputeMode::kLayer}) {
    in.model.norms_after = false;
    const std::int64_t before = bytes_of(memory_of(in, true, level), "tape");
    in.model.norms_after = true;
    EXPECT_EQ(bytes_of(memory_of(in, true, level), "tape") - before, 1024 * 24 * 2 * 896 * 2);
  }
}

// b, c and x instead of q, k and v; an output as wide as attention's here; no log-sum-exp of heads.
TEST(MemoryPlan, LayersThatConvolveKeepTheirGatesAndTheirOutput) {
  MemoryInputs in = qwen();
  const MemoryInputs attends = in;
  in.model.kinds.assign(24, model::LayerKind::kShortConv);
  for (std::size_t i = 0; i < 24; i += 4) in.model.kinds[i] = model::LayerKind::kAttention;
  const auto more = [&](bool fused_layer, RecomputeMode level) {
    return bytes_of(memory_of(in, fused_layer, level), "tape") -
           bytes_of(memory_of(attends, fused_layer, level), "tape");
  };
  EXPECT_EQ(more(true, RecomputeMode::kLayer), 1024 * 18 * -4 * 14);
  EXPECT_EQ(more(true, RecomputeMode::kCheap), 1024 * 18 * (2 * (3 * 896 - (896 + 2 * 128)) - 4 * 14));
  EXPECT_GT(more(false, RecomputeMode::kNone), 0);
}

TEST(MemoryPlan, LayersBelowTheLowestAdapterKeepNothing) {
  MemoryInputs in = qwen();
  const std::int64_t all = bytes_of(memory_of(in, true, RecomputeMode::kLayer), "tape");
  std::erase_if(in.adapted, [](const AdaptedLinear& linear) { return linear.layer < 12; });
  EXPECT_EQ(bytes_of(memory_of(in, true, RecomputeMode::kLayer), "tape of 12 layers"), all / 2);
}

TEST(MemoryPlan, TheAdapterIsParametersGradientsMomentsAndAShadow) {
  const std::int64_t p = qwen().adapter_parameters;
  EXPECT_EQ(bytes_of(memory_of(qwen(), true, RecomputeMode::kNone), "adapter"), p * 18);
  EXPECT_EQ(bytes_of(memory_of(qwen(), false, RecomputeMode::kNone), "adapter"), p * 16);
  MemoryInputs in = qwen();
  in.linear_size = in.residual_size = 4;
  EXPECT_EQ(bytes_of(memory_of(in, true, RecomputeMode::kNone), "adapter"), p * 16);
}

TEST(MemoryPlan, FrozenAdaptersCountAsBaseWithTheirLowRankProducts) {
  MemoryInputs in = qwen();
  const MemoryPlan plain = memory_of(in, true, RecomputeMode::kCheap);
  in.frozen_rank = 3 * 16;
  const MemoryPlan found = memory_of(in, true, RecomputeMode::kCheap);
  EXPECT_EQ(found.segments[1].name, "base weights and adapters");
  EXPECT_EQ(found.total - plain.total, 1024 * 48 * 2);
}

TEST(MemoryPlan, TheHeadHoldsOneTileWhateverTheVocabulary) {
  MemoryInputs in = qwen();
  in.on_device = true;  // where it does not share the scratch
  const std::int64_t head = bytes_of(memory_of(in, true, RecomputeMode::kNone), "head");
  in.model.vocab_size *= 10;
  EXPECT_EQ(bytes_of(memory_of(in, true, RecomputeMode::kNone), "head"), head);
  in.train.scored = 10;
  EXPECT_LT(bytes_of(memory_of(in, true, RecomputeMode::kNone), "head"), head / 50);
}

// A model whose layers hold less than its head.
MemoryInputs narrow() {
  MemoryInputs in = qwen();
  in.model.intermediate_size = in.model.num_attention_heads = in.model.num_key_value_heads =
      in.model.head_dim = 8;
  in.threads = 0;
  return in;
}

std::int64_t segment_bytes(const MemoryInputs& in, const char* name) {
  return bytes_of(memory_of(in, true, RecomputeMode::kNone), name);
}

// The head and the layers take turns on the host, where all memory fits all; what threads keep stays beside
// both.
TEST(MemoryPlan, OnTheHostTheHeadOrALayerCounts) {
  MemoryInputs in = narrow();
  in.on_device = true;
  const std::int64_t head = segment_bytes(in, "head");
  ASSERT_GT(head, segment_bytes(in, "one layer's scratch"));
  in.on_device = false;
  EXPECT_EQ(segment_bytes(in, "one layer or the head"), head);
  in.threads = 64;
  EXPECT_EQ(segment_bytes(in, "one layer or the head"), head + 64 * (4LL << 20));
  in.attention_backward = 10 * head;
  EXPECT_GT(segment_bytes(in, "one layer or the head"), 5 * head);
}

// Under `ulimit -v` tensors are the heap's, whose holes stay.
TEST(MemoryPlan, WhereNoBlocksAreKeptTheHeapsHolesCount) {
  MemoryInputs in = narrow();
  const MemoryPlan kept = memory_of(in, true, RecomputeMode::kNone);
  in.keeps_blocks = false;
  const MemoryPlan plan = memory_of(in, true, RecomputeMode::kNone);
  const std::int64_t pass = bytes_of(plan, "tape") + bytes_of(plan, "one layer's scratch") +
                            bytes_of(plan, "head") + bytes_of(plan, "batch");
  EXPECT_EQ(bytes_of(plan, "holes of the heap"), pass / 10);
  EXPECT_GT(plan.total + (32LL << 20), kept.total + pass / 10);
  in.sampling = 3 * pass;
  EXPECT_EQ(bytes_of(memory_of(in, true, RecomputeMode::kNone), "holes of the heap"), 3 * pass / 10)
      << "of what came and went while it sampled";
}

// What threads keep is there while it samples too.
TEST(MemoryPlan, SamplingHasTheScratchOfThreadsBesideIt) {
  MemoryInputs in = qwen();
  in.threads = 64;
  const std::int64_t training = [&] {
    const MemoryPlan plan = memory_of(in, true, RecomputeMode::kNone);
    std::int64_t out = 0;
    for (std::size_t i = kFirstOfBatch; i < plan.segments.size(); ++i) out += plan.segments[i].bytes;
    return out;
  }();
  in.sampling = training;
  EXPECT_EQ(bytes_of(memory_of(in, true, RecomputeMode::kNone), "sampling"), 64 * (4LL << 20));
}

// Where few tokens are scored, the most below the head is when the gradient of the stream is made.
TEST(MemoryPlan, TheStreamsGradientLivesBesideThatOfTheScoredRows) {
  MemoryInputs in = qwen();
  in.model.intermediate_size = 8;
  in.model.num_attention_heads = 1;
  in.model.head_dim = 8;
  in.residual_size = 4;
  in.threads = 0;
  in.train = {.tokens = 65536, .scored = 40000, .segment = 256};
  const MemoryPlan plan = memory_of(in, true, RecomputeMode::kNone);
  EXPECT_EQ(bytes_of(plan, "one layer or the head"), 896 * (65536 * 4 + 40000 * (4 + 4 + 4)));
}

TEST(MemoryPlan, AnEvaluationBatchCountsWhereItIsLargerButKeepsNoTape) {
  MemoryInputs in = qwen();
  const MemoryPlan without = memory_of(in, true, RecomputeMode::kLayer);
  in.eval = {.tokens = 8192, .scored = 8000, .segment = 1024};
  const MemoryPlan with = memory_of(in, true, RecomputeMode::kLayer);
  EXPECT_EQ(bytes_of(with, "tape"), bytes_of(without, "tape"));
  EXPECT_GT(bytes_of(with, "one layer"), 2 * bytes_of(without, "one layer")) << "with the room of the tape";
  EXPECT_GT(with.total - without.total, (8192 - 1024) * 896 * 2);
}

TEST(MemoryPlan, AttentionsBackwardCountsWhereItIsTheMostThatALayerHolds) {
  MemoryInputs in = qwen();
  const std::int64_t before = bytes_of(memory_of(in, true, RecomputeMode::kNone), "one layer");
  in.attention_backward = 1000;
  EXPECT_EQ(bytes_of(memory_of(in, true, RecomputeMode::kNone), "one layer"), before) << "the MLP holds more";
  in.attention_backward = 500'000'000;
  const std::int64_t with = bytes_of(memory_of(in, true, RecomputeMode::kNone), "one layer");
  EXPECT_GT(with, 450'000'000);
  EXPECT_LT(with, 500'000'000) << "the tape of the last layer's MLP is gone by then";
  in.attention_backward += 7;
  EXPECT_EQ(bytes_of(memory_of(in, true, RecomputeMode::kNone), "one layer"), with + 7);
}

TEST(MemoryPlan, OnADeviceItAddsWhatTheAllocatorCannotFill) {
  MemoryInputs in = qwen();
  in.on_device = true;
  const MemoryPlan without = memory_of(in, true, RecomputeMode::kNone);
  std::int64_t of_batch = 0;
  for (const char* name : {"tape", "one layer's scratch", "head", "batch"})
    of_batch += bytes_of(without, name);
  EXPECT_EQ(without.host_total, bytes_of(without, "program and data"));
  in.unfilled_share = 0.25;
  in.unfilled_bytes = 7;
  const MemoryPlan with = memory_of(in, true, RecomputeMode::kNone);
  EXPECT_EQ(bytes_of(with, "what the allocator cannot fill"), 7 + of_batch / 4);
  EXPECT_EQ(with.total, without.total + 7 + of_batch / 4);
  EXPECT_EQ(with.host_total, without.host_total);
}

TEST(MemoryPlan, AutoTakesTheFirstLevelThatFits) {
  const std::int64_t none = memory_of(qwen(), true, RecomputeMode::kNone).total;
  const std::int64_t cheap = memory_of(qwen(), true, RecomputeMode::kCheap).total;
  const std::int64_t layer = memory_of(qwen(), true, RecomputeMode::kLayer).total;
  EXPECT_GT(none, cheap);
  EXPECT_GT(cheap, layer);
  const auto level = [](std::int64_t limit) {
    return plan_memory(qwen(), LayerForm::kAuto, RecomputeMode::kAuto, limit_of(limit)).recompute;
  };
  EXPECT_EQ(level(none), RecomputeMode::kNone);
  EXPECT_EQ(level(none - 1), RecomputeMode::kCheap);
  EXPECT_EQ(level(cheap), RecomputeMode::kCheap);
  EXPECT_EQ(level(cheap - 1), RecomputeMode::kLayer);
  EXPECT_EQ(level(layer), RecomputeMode::kLayer);
  EXPECT_EQ(level(0), RecomputeMode::kNone) << "an unknown limit refuses nothing";
}

TEST(MemoryPlan, SaysWhy) {
  const std::int64_t none = memory_of(qwen(), true, RecomputeMode::kNone).total;
  const std::int64_t cheap = memory_of(qwen(), true, RecomputeMode::kCheap).total;
  const std::int64_t layer = memory_of(qwen(), true, RecomputeMode::kLayer).total;
  const auto why = [](RecomputeMode level, const MemoryLimit& limit) {
    return plan_memory(qwen(), LayerForm::kAuto, level, limit).why_recompute;
  };
  EXPECT_EQ(why(RecomputeMode::kAuto, limit_of(none)), "recompute none: fits " + gigabytes(none));
  EXPECT_EQ(why(RecomputeMode::kAuto, limit_of(cheap)),
            "recompute cheap: fits " + gigabytes(cheap) + "; none would need " + gigabytes(none));
  EXPECT_EQ(why(RecomputeMode::kAuto, {.bytes = layer, .is_set = false}),
            "recompute layer: fits the free " + gigabytes(layer) + "; none would need " + gigabytes(none) +
                ", cheap " + gigabytes(cheap));
  EXPECT_EQ(why(RecomputeMode::kAuto, {}), "recompute none: the free memory is not known");
  EXPECT_EQ(why(RecomputeMode::kLayer, limit_of(none)), "recompute layer: as set");
  EXPECT_EQ(why(RecomputeMode::kNone, limit_of(layer)),
            "recompute none: as set, over " + gigabytes(layer) + " by " + gigabytes(none - layer));
  EXPECT_EQ(plan_memory(qwen(), LayerForm::kAuto, RecomputeMode::kAuto, {}).why_layer,
            "layer form explicit (fused): base frozen, adapters are LoRA on linears");
}

// Qwen2.5-0.5B, trained in full.
MemoryInputs whole_qwen() {
  MemoryInputs in = qwen();
  in.adapted.clear();
  in.full = in.trains_below = true;
  in.residual_size = 4;
  in.base_bytes = 0;
  in.adapter_parameters = 494'032'768;
  in.layer_step_parameters = 151'936 * 896 + 896 + 14'912'384;
  in.layer_copies = 24 * 14'909'440;
  in.layer_copies_of_one = 14'909'440;
  return in;
}

MemoryPlan whole_plan(const MemoryInputs& in, std::int64_t bytes) {
  return plan_memory(in, LayerForm::kAuto, RecomputeMode::kAuto, limit_of(bytes));
}

// In 9 GB: copies of one layer at a time and recompute, rather than a second backward.
TEST(MemoryPlan, FullTrainingSavesCopiesBeforeGradients) {
  const MemoryInputs in = whole_qwen();
  const MemoryPlan all = memory_of(in, true, RecomputeMode::kNone);
  const MemoryPlan one = memory_of(in, true, RecomputeMode::kNone, {.keeps_casts = false});
  EXPECT_EQ(all.total - one.total, 2 * 23 * 14'909'440);
  EXPECT_TRUE(whole_plan(in, all.total).keeps_casts);
  EXPECT_TRUE(whole_plan(in, all.total).why_savings.empty());
  EXPECT_FALSE(whole_plan(in, all.total - 1).keeps_casts);
  EXPECT_EQ(whole_plan(in, all.total - 1).recompute, RecomputeMode::kNone);
  const MemoryPlan nine = whole_plan(in, 9'000'000'000);
  EXPECT_FALSE(nine.layer_steps);
  EXPECT_EQ(nine.recompute, RecomputeMode::kLayer);
  EXPECT_EQ(nine.why_savings, "copies of weights: of one layer at a time");
  EXPECT_LT(nine.total, 9'000'000'000);
}

TEST(MemoryPlan, StepsLayerByLayerWhereTheGradientsOfAllDoNotFit) {
  MemoryInputs in = whole_qwen();
  const MemoryPlan at_once = memory_of(in, true, RecomputeMode::kLayer, {.keeps_casts = false});
  const MemoryPlan steps =
      memory_of(in, true, RecomputeMode::kLayer, {.keeps_casts = false, .layer_steps = true});
  EXPECT_EQ(bytes_of(at_once, "float32 weights, gradients") - bytes_of(steps, "float32 weights, a layer's"),
            4 * (in.adapter_parameters - in.layer_step_parameters));
  EXPECT_FALSE(whole_plan(in, at_once.total).layer_steps) << "recompute costs less than a second backward";
  const MemoryPlan chosen = whole_plan(in, at_once.total - 1);
  EXPECT_TRUE(chosen.layer_steps);
  EXPECT_EQ(chosen.recompute, RecomputeMode::kNone);
  EXPECT_EQ(
      chosen.why_savings,
      "copies of weights: of one layer at a time; optimizer step layer by layer in the backward: gradients of "
      "all layers would need " +
          gigabytes(at_once.total) + "; to clip them a step takes two backwards, with max_grad_norm: 0 one");
  in.optimizer_bytes = 1'805'000'000;
  EXPECT_LT(whole_plan(in, 6'000'000'000).total, 6'000'000'000) << "8-bit moments";
  in.layer_step_parameters = 0;  // gradient accumulation, say
  EXPECT_FALSE(whole_plan(in, 20'000'000'000).layer_steps);
  EXPECT_THROW(whole_plan(in, 5'000'000'000), base::UserError);
}

// Where nothing is clipped the step in the backward costs nothing, and comes before recompute.
TEST(MemoryPlan, WithoutClippingTheStepInTheBackwardComesFirst) {
  MemoryInputs in = whole_qwen();
  in.clips = false;
  const MemoryPlan nine = whole_plan(in, 9'000'000'000);
  EXPECT_TRUE(nine.layer_steps);
  EXPECT_TRUE(nine.keeps_casts);
  EXPECT_EQ(nine.recompute, RecomputeMode::kNone);
  EXPECT_EQ(nine.why_savings.find("clip"), std::string::npos);
}

TEST(MemoryPlan, ARunThatCannotFitIsStoppedWithItsSegments) {
  const std::int64_t layer = memory_of(qwen(), true, RecomputeMode::kLayer).total;
  const std::string set = error_of(qwen(), LayerForm::kAuto, RecomputeMode::kAuto, limit_of(layer - 1));
  EXPECT_NE(set.find("[memory plan] expected a run within " + gigabytes(layer - 1)), std::string::npos)
      << set;
  EXPECT_NE(set.find("the smallest plan (recompute layer) needs " + gigabytes(layer) + ": program and data "),
            std::string::npos)
      << set;
  EXPECT_NE(set.find(", base weights 0.99 GB, "), std::string::npos) << set;
  EXPECT_NE(set.find("the longest micro-batch has 1024 tokens, 1020 of them scored"), std::string::npos)
      << set;
  EXPECT_NE(set.find("lower per_device_train_batch_size or max_length, or raise memory_limit"),
            std::string::npos)
      << set;

  const std::string free =
      error_of(qwen(), LayerForm::kAuto, RecomputeMode::kAuto, {.bytes = 1'000'000'000, .is_set = false});
  EXPECT_NE(free.find("expected a run within the free 1.00 GB"), std::string::npos) << free;
  EXPECT_NE(free.find("take a smaller model"), std::string::npos) << "the base alone is too large: " << free;
  EXPECT_NE(free.find("memory_limit: "), std::string::npos) << free;

  const std::string plain = error_of(qwen(), LayerForm::kAutograd, RecomputeMode::kAuto, limit_of(layer));
  EXPECT_NE(plain.find("(layer form plain)"), std::string::npos) << plain;
  EXPECT_NE(plain.find("remove layer_form: plain"), std::string::npos) << plain;
}

// The fix that the message names for free memory is one that works.
TEST(MemoryPlan, TheNamedMemoryLimitRunsIt) {
  const std::string text =
      error_of(qwen(), LayerForm::kAuto, RecomputeMode::kAuto, {.bytes = 1, .is_set = false});
  const std::size_t at = text.find("memory_limit: ") + std::string("memory_limit: ").size();
  const double named = std::stod(text.substr(at)) * 1e9;
  EXPECT_EQ(
      plan_memory(qwen(), LayerForm::kAuto, RecomputeMode::kAuto, limit_of(static_cast<std::int64_t>(named)))
          .recompute,
      RecomputeMode::kLayer);
}

TEST(MemoryPlan, TheAutogradFormKeepsMoreAndNeverRecomputes) {
  const MemoryPlan plain = plan_memory(qwen(), LayerForm::kAutograd, RecomputeMode::kAuto, {});
  EXPECT_FALSE(plain.fused_layer);
  EXPECT_EQ(plain.recompute, RecomputeMode::kNone);
  EXPECT_EQ(plain.why_layer, "layer form plain: as set");
  EXPECT_EQ(plain.why_recompute, "recompute none: the autograd layer keeps all activations");
  EXPECT_GT(plain.total, memory_of(qwen(), true, RecomputeMode::kNone).total);
  MemoryInputs dropped = qwen();
  dropped.dropout = true;
  EXPECT_GT(bytes_of(memory_of(dropped, false, RecomputeMode::kNone), "tape"), bytes_of(plain, "tape"))
      << "after dropout every side has an input of its own";
}

TEST(MemoryPlan, MasksOfDropoutAreBitsThatTheHostSendsOrNothing) {
  const auto bytes = [](DropoutMasks masks, const std::string& segment) {
    MemoryInputs in = qwen();
    in.dropout = true;
    in.on_device = true;
    in.masks = masks;
    return bytes_of(memory_of(in, true, RecomputeMode::kNone), segment);
  };
  std::int64_t inputs = 0;
  for (const AdaptedLinear& linear : qwen().adapted) inputs += linear.in;
  ASSERT_GT(inputs, 0);
  const std::int64_t widened = bytes(DropoutMasks::kWidened, "tape");
  EXPECT_EQ(bytes(DropoutMasks::kSentAsBits, "tape") - widened, qwen().train.tokens * inputs / 8);
  EXPECT_EQ(bytes(DropoutMasks::kInKernel, "tape"), widened);
  const std::int64_t scratch = bytes(DropoutMasks::kWidened, "one layer's scratch");
  EXPECT_EQ(bytes(DropoutMasks::kSentAsBits, "one layer's scratch"), scratch);
  EXPECT_EQ(scratch - bytes(DropoutMasks::kInKernel, "one layer's scratch"),
            4 * qwen().train.tokens * qwen().model.intermediate_size)
      << "of the widest linear, in fp32";
}

TEST(MemoryPlan, WhatTheFusedLayerHasNoGradientForRunsInAutograd) {
  MemoryInputs in = qwen();
  in.fused_trains = false;
  const MemoryPlan plan = plan_memory(in, LayerForm::kAuto, RecomputeMode::kAuto, {});
  EXPECT_FALSE(plan.fused_layer);
  EXPECT_EQ(plan.why_layer, "layer form plain: the embedding or the head has a LoRA");
  EXPECT_NE(
      error_of(in, LayerForm::kFused, RecomputeMode::kAuto, {}).find("expected layer_form: auto or plain"),
      std::string::npos);
}

}  // namespace memory_plan_test
}  // namespace hone::train
