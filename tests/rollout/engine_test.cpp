// The engine: what a request gives depends on its tokens, options and key alone; memory keeps to its bound.
#include "rollout/engine.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <stdexcept>

#include "base/error.h"
#include "base/process/instruction_level.h"
#include "base/where.h"
#include "model/files/weight_source.h"
#include "model/tiny_model.h"
#include "rollout/generate.h"
#include "rollout/random_requests.h"

namespace hone::rollout {
namespace engine_test {

using namespace hone::test_tools;

model::CausalLm wide(const std::string& family, at::ScalarType dtype) {
  const TempFolder folder;
  base::Json config = wide_config(family);
  config["max_position_embeddings"] = 1024;
  write_model(folder.path(), config);
  return model::CausalLm(*model::open_weights(folder.path()), {dtype, dtype}, model::Storage::kPacked);
}

model::CausalLm tiny(const std::string& family = "llama") {
  const TempFolder folder;
  write_model(folder.path(), tiny_config(family));
  return model::CausalLm(*model::open_weights(folder.path()), {});
}

RequestOptions sampling(std::int64_t max_new_tokens) {
  RequestOptions options;
  options.max_new_tokens = max_new_tokens;
  options.sampler.temperature = 1;
  return options;
}

void run(Engine& engine) {
  while (engine.advance()) {
  }
}

Ids some_ids(std::int32_t count, std::int32_t salt) {
  Ids out;
  for (std::int32_t i = 0; i < count; ++i) out.push_back(3 + (i * i + i * salt + salt) % 45);
  return out;
}

// ---- bits

using Case = std::tuple<base::InstructionLevel, at::ScalarType>;

class EngineAt : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const auto [level, dtype] = GetParam();
    if (!base::machine_has(level)) GTEST_SKIP() << "this machine has no " << base::name_of(level);
    force_.emplace(level);
    if (level >= base::InstructionLevel::kAvx2) return;
    // libtorch's GEMM promises no bits.
    if (dtype == at::kBFloat16) GTEST_SKIP();
    tolerance_ = 1e-3;
  }
  // `count` requests with drawn lengths, options and turns, in two engines whose memory for keys is too small for all.
  void expect_as_alone_of(int count) const;

  double tolerance_ = 0;

 private:
  std::optional<base::ForceInstructionLevel> force_;
};
INSTANTIATE_TEST_SUITE_P(Levels, EngineAt,
                         testing::Combine(testing::ValuesIn(base::kInstructionLevels),
                                          testing::Values(at::kBFloat16, at::kFloat)),
                         [](const auto& one) {
                           return std::string(base::name_of(std::get<0>(one.param))) + "_" +
                                  (std::get<1>(one.param) == at::kFloat ? "fp32" : "bf16");
                         });

void EngineAt::expect_as_alone_of(int count) const {
  const model::CausalLm model = wide("qwen2", std::get<1>(GetParam()));
  const std::vector<Play> plays = drawn_plays(tolerance_ == 0 ? count : 40, 1, 2500);
  const auto wanted = all_alone(model, plays);
  std::int64_t lost = 0;
  int waited = 0;
  for (const std::uint32_t seed : {1U, 2U}) {
    const EngineOptions options = {.batch_size = seed == 1 ? 7 : 16,
                                   .prefill_tokens = seed == 1 ? 100 : 2048,
                                   .kv_memory = memory_for(model, plays, seed == 1 ? 1.5 : 3)};
    const Together found = played_together(model, plays, options, seed);
    expect_as_alone(plays, wanted, found.turns, tolerance_);
    EXPECT_EQ(found.facts.waiting + found.facts.decoding + found.facts.ended, 0U);
    EXPECT_LE(found.most_held, options.kv_memory);
    EXPECT_GT(found.most_held, options.kv_memory / 2) << "the memory was not full";
    lost += found.facts.lost;
    waited += found.waited;
  }
  EXPECT_GT(lost, 10);
  EXPECT_GT(waited, 10);
}

TEST_P(EngineAt, RequestsAreAsAlone) {
  expect_as_alone_of(60);
}

TEST_P(EngineAt, SlowTwoHundredRequestsAreAsAlone) {
  expect_as_alone_of(200);
}

TEST_P(EngineAt, APromptIsWhatItWasMadeOf) {
  const model::CausalLm model = wide("qwen2", std::get<1>(GetParam()));
  const Ids a = some_ids(77, 1), b = some_ids(9, 2);
  Ids both = a;
  both.insert(both.end(), b.begin(), b.end());
  Engine engine(model, {});
  const RequestId whole = engine.add({.ids = both, .options = sampling(40)}),
                  first = engine.add({.ids = a, .options = sampling(1)});
  run(engine);
  engine.append(first, {.ids = b, .options = sampling(40), .keep = 77});
  run(engine);
  if (tolerance_ == 0) {
    EXPECT_EQ(engine.completion(first).ids, engine.completion(whole).ids);
    EXPECT_EQ(engine.completion(first).logprobs, engine.completion(whole).logprobs);
  }
  EXPECT_EQ(engine.tokens(first).size(), 86U + 40U);
  EXPECT_EQ(engine.reused(first), 77);
}

// What was read once is not read again, however deep, and the tokens are the same.
TEST_P(EngineAt, PrefixesAreReadOnce) {
  const model::CausalLm model = wide("qwen2", std::get<1>(GetParam()));
  const auto joined = [](Ids first, const Ids& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  };
  const Ids system = some_ids(128, 1), user = joined(system, some_ids(64, 2)),
            more = joined(user, some_ids(30, 3));
  for (const bool share_prompt : {false, true}) {
    RequestOptions options = sampling(3);
    options.share_prompt = share_prompt;
    const auto computed = [&](bool share_prefixes, std::vector<Ids>& tokens) {
      options.share_prefixes = share_prefixes;
      Engine engine(model, {});
      const auto add = [&](const Ids& ids) { return engine.add({.ids = ids, .options = options}); };
      std::vector<RequestId> ids = {add(joined(system, {7, 8, 9}))};
      run(engine);
      ids.push_back(add(more));
      ids.push_back(add(joined(user, {5})));  // beside the first that has these tokens
      run(engine);
      ids.push_back(add(joined(more, {4, 4})));
      run(engine);
      for (const RequestId id : ids) tokens.emplace_back(engine.tokens(id).begin(), engine.tokens(id).end());
      EXPECT_EQ(engine.reused(ids[3]), share_prefixes ? 192 : 0);
      return engine.facts().computed;
    };
    std::vector<Ids> alone, shared;
    const std::int64_t each = computed(false, alone), once = computed(true, shared);
    EXPECT_EQ(each - once, 128 + (128 + 64) + (128 + 64));
    if (tolerance_ == 0) {
      EXPECT_EQ(shared, alone);
    }
  }
}

// Families whose layers keep something else than keys, or read those of another layer.
TEST(Engine, RequestsOfEveryKindOfLayerAreAsAlone) {
  if (base::instruction_level() < base::InstructionLevel::kAvx2) GTEST_SKIP();
  for (const std::string family : {"lfm2", "qwen3_5_text", "gemma3_text", "gemma4_text", "qwen3_moe"}) {
    SCOPED_TRACE(family);
    const model::CausalLm model = wide(family, at::kBFloat16);
    const std::vector<Play> plays = drawn_plays(30, 3, 2500);
    const EngineOptions options = {
        .batch_size = 5, .prefill_tokens = 100, .kv_memory = memory_for(model, plays, 2)};
    expect_as_alone(plays, all_alone(model, plays), played_together(model, plays, options, 5).turns, 0);
  }
}

// ---- calls

TEST(Engine, TellsWhatHappensInOrder) {
  const model::CausalLm model = tiny();
  Engine engine(model, {.batch_size = 2});
  EXPECT_FALSE(engine.advance());
  const RequestId a = engine.add({.ids = {3, 4}, .options = sampling(1)}),
                  b = engine.add({.ids = {5}, .options = sampling(2), .samples = 2});
  EXPECT_EQ(engine.requests_before(a), 0U);
  EXPECT_EQ(engine.requests_before(b + 1), 2U);
  EXPECT_TRUE(engine.poll().empty());
  EXPECT_TRUE(engine.advance());
  EXPECT_EQ(engine.requests_before(b + 1), 0U);
  EXPECT_FALSE(engine.requests_before(a));
  auto events = engine.poll();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_TRUE(events[0].id == a && events[0].has_token && events[0].has_ended);
  EXPECT_TRUE(events[1].id == b && events[1].has_token && !events[1].has_ended);
  engine.cancel(b);
  engine.cancel(b + 1);  // it waits
  EXPECT_FALSE(engine.advance());
  events = engine.poll();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_TRUE(events[0].has_ended && events[1].has_ended && !events[1].has_token);
  EXPECT_EQ(engine.completion(b).finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(engine.completion(b).ids.size(), 1U);
  EXPECT_TRUE(engine.take(b + 1).ids.empty());
  EXPECT_EQ(engine.facts().ended, 2U);
  EXPECT_THROW((void)engine.completion(b + 1), base::InternalError);
  engine.append(b, {.ids = {9}, .options = sampling(3)});  // goes on where it was cut
  run(engine);
  EXPECT_EQ(engine.tokens(b).size(), 1U + 1 + 1 + 3);
  EXPECT_EQ(engine.reused(b), 1);
}

TEST(Engine, ARefusedCallChangesNothing) {
  const model::CausalLm model = tiny();  // 128 positions, 48 tokens
  Engine engine(model, {.kv_memory = 20000});
  const auto add = [&](Ids ids, RequestOptions options) {
    return user_error([&] { engine.add({.ids = ids, .options = options, .where = "the 4th"}); });
  };
  EXPECT_SAYS(add({}, sampling(1)), "[the 4th] expected at least one token");
  EXPECT_SAYS(add({48}, sampling(1)), "ids from 0 to 47");
  EXPECT_SAYS(add({1, 2}, sampling(127)), "a prompt of 2 tokens and max_new_tokens 127");
  RequestOptions stops = sampling(1);
  stops.stop_ids = {48};
  EXPECT_SAYS(add({1}, stops), "[the stop token 48]");
  EXPECT_SAYS(add(Ids(65, 3), sampling(60)), "[the 4th] expected kv_memory to hold");
  EXPECT_EQ(engine.facts().waiting, 0U);
  const RequestId id = engine.add({.ids = {1, 2}, .options = sampling(3)});
  run(engine);
  const Completion before = engine.completion(id);
  EXPECT_SAYS(user_error([&] { engine.append(id, {.ids = {99}, .options = sampling(1)}); }),
              "ids from 0 to 47");
  EXPECT_SAYS(user_error([&] { engine.append(id, {.ids = Ids(90, 3), .options = sampling(30)}); }),
              "kv_memory to hold");
  EXPECT_TRUE(engine.has_ended(id));
  EXPECT_EQ(engine.completion(id).ids, before.ids);
  engine.append(id, {.ids = {}, .options = sampling(2)});
  run(engine);
  EXPECT_EQ(engine.tokens(id).size(), 7U);
  EXPECT_EQ(engine.reused(id), 4);
}

// The one that was used the longest ago loses its keys, and computes them again when it goes on.
TEST(Engine, WhatIsIdleLetsGoOfItsKeysOldestFirst) {
  const model::CausalLm model = tiny();
  const std::int64_t one = memory_for(model, {{.request = {.ids = {1}, .options = sampling(1)}}}, 1);
  Engine engine(model, {.kv_memory = 3 * one});
  std::vector<RequestId> ids;
  for (std::int32_t i = 0; i < 3; ++i) {
    ids.push_back(engine.add({.ids = {i + 1, 7}, .options = sampling(4)}));
    run(engine);
  }
  engine.append(ids[0], {.ids = {9}, .options = sampling(4)});
  run(engine);
  EXPECT_EQ(engine.facts().booked, 3 * one);
  EXPECT_EQ(engine.facts().lost, 0);
  engine.add({.ids = {30}, .options = sampling(4)});
  run(engine);
  EXPECT_EQ(engine.facts().lost, 1);
  const auto reused = [&](RequestId id) {
    engine.append(id, {.ids = {8}, .options = sampling(1)});
    run(engine);
    return engine.reused(id);
  };
  EXPECT_EQ(reused(ids[2]), 5);
  EXPECT_EQ(reused(ids[0]), 10);
  EXPECT_EQ(reused(ids[1]), 0);
  for (const RequestId id : ids) engine.forget(id);
  EXPECT_LE(engine.facts().booked, one);
}

TEST(Engine, OtherWeightsForgetWhatWasComputed) {
  model::CausalLm model = tiny();
  RequestOptions options = sampling(20);
  options.share_prefixes = options.share_prompt = true;
  const auto all = [&](bool change) {
    Engine engine(model, {});
    const RequestId id = engine.add({.ids = some_ids(70, 3), .options = options, .samples = 2});
    for (int i = 0; i < 5; ++i) engine.advance();
    if (change) engine.lose_keys();
    run(engine);
    EXPECT_EQ(engine.facts().computed, change ? 2 * 70 + 2 * 19 + 2 * 4 : 70 + 2 * 19);
    return std::pair(engine.take(id).ids, engine.take(id + 1).ids);
  };
  const auto wanted = all(false);
  EXPECT_EQ(all(true), wanted);
}

// ---- exceptions

int fails_in = 0;  // so many attentions later

void fail_at_attention(const char* op) {
  if (std::string(op) == "attention" && --fails_in == 0) throw std::runtime_error("no memory");
}

TEST(Engine, GoesOnAfterAForwardThatFailed) {
  for (const std::string family : {"llama", "lfm2", "qwen3_5_text"}) {
    const model::CausalLm model = tiny(family);
    for (const bool share : {false, true}) {
      RequestOptions options = sampling(6);
      options.share_prompt = options.share_prefixes = share;
      const auto all = [&](int fails_at) {
        Engine engine(model, {.batch_size = 5, .prefill_tokens = 40});
        engine.add({.ids = some_ids(70, 1), .options = options, .samples = 2});
        engine.add({.ids = {7, 8}, .options = options, .samples = 2});
        fails_in = fails_at;
        base::where.on_enter = fails_at > 0 ? &fail_at_attention : nullptr;
        int failures = 0;
        for (bool busy = true; busy;) {
          try {
            busy = engine.advance();
          } catch (const std::runtime_error&) {
            ++failures;
          }
        }
        base::where.on_enter = nullptr;
        EXPECT_EQ(failures, fails_at > 0 ? 1 : 0);
        EXPECT_LE(engine.facts().held, engine.facts().booked);
        std::vector<Ids> out;
        for (RequestId id = 1; id <= 4; ++id) out.push_back(engine.completion(id).ids);
        return out;
      };
      const auto wanted = all(0);
      for (int at = 1; at < 7; ++at) EXPECT_EQ(all(at), wanted) << family << " " << share << " " << at;
    }
  }
}

TEST(Engine, GoesOnAfterAFunctionThatFailed) {
  for (const std::string family : {"llama", "qwen3_5_text"}) {
    const model::CausalLm model = tiny(family);
    for (const bool of_stops : {false, true}) {
      int left = 0;
      RequestOptions options = sampling(5);
      options.share_prompt = true;
      const auto all = [&](int fails) {
        left = fails;
        const auto fail = [&] {
          if (--left == 0) throw std::runtime_error("gone");
        };
        options.stops = [&](std::span<const std::int32_t>) {
          if (of_stops) fail();
          return false;
        };
        options.constrain = [&](std::span<const std::int32_t>, std::span<float>) {
          if (!of_stops) fail();
        };
        Engine engine(model, {});
        engine.add({.ids = {3, 4, 5}, .options = options, .samples = 3});
        for (bool busy = true; busy;) {
          try {
            busy = engine.advance();
          } catch (const std::runtime_error&) {
          }
        }
        if (fails < 100) {
          EXPECT_LE(left, 0) << "nothing failed";
        }
        std::vector<Ids> out;
        for (RequestId id = 1; id <= 3; ++id) out.push_back(engine.completion(id).ids);
        return out;
      };
      const auto wanted = all(1000000);
      for (int at = 1; at < 12; ++at) EXPECT_EQ(all(at), wanted) << of_stops << " " << at;
    }
  }
}

// Only the one whose numbers are not finite ends.
TEST(Engine, OthersHaveTheirTokensWhereLogitsAreNotFinite) {
  const TempFolder folder;
  const base::Json config = tiny_config("llama");
  write_json(folder.path() / "config.json", config);
  auto tensors = random_tensors(config);
  tensors.at("model.embed_tokens.weight")[7].fill_(std::numeric_limits<float>::quiet_NaN());
  write_tensors(folder.path() / "model.safetensors", tensors);
  const model::CausalLm model(*model::open_weights(folder.path()), {});
  Engine engine(model, {});
  RequestOptions options = sampling(3);
  options.constrain = [](std::span<const std::int32_t>, std::span<float> scores) { scores[7] = -INFINITY; };
  const RequestId bad = engine.add({.ids = {5, 7}, .options = options, .where = "the bad one"}),
                  good = engine.add({.ids = {3, 4}, .options = options});
  EXPECT_SAYS(user_error([&] { engine.advance(); }), "[the bad one, after token 2]");
  run(engine);
  EXPECT_EQ(engine.completion(bad).finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(engine.completion(good).ids.size(), 3U);
}

// ---- any calls in any order

TEST(Engine, AnyCallsInAnyOrderLoseNoRequest) {
  const model::CausalLm model = tiny();
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    Drawn draw{.random = std::mt19937(seed), .vocabulary = 48};
    const std::int64_t one = memory_for(model, {{.request = {.ids = {1}, .options = sampling(1)}}}, 1);
    const EngineOptions options = {.batch_size = draw.number(1, 6),
                                   .prefill_tokens = draw.number(1, 80),
                                   .kv_memory = one * draw.number(3, 9)};
    Engine engine(model, options);
    std::set<RequestId> known;
    std::int64_t ended = 0, forgotten = 0, started = 0;
    const auto any = [&] {
      return *std::next(known.begin(), draw.number(0, static_cast<std::int64_t>(known.size()) - 1));
    };
    const auto tell = [&] {
      for (const Event& event : engine.poll()) {
        ASSERT_TRUE(known.contains(event.id));
        if (event.has_ended) ++ended;
      }
    };
    for (int call = 0; call < 1000; ++call) {
      const std::int64_t what = draw.number(0, 9);
      try {
        if (what < 2) {
          RequestOptions its = draw.options();
          its.max_new_tokens = draw.number(1, 70);
          const std::int64_t samples = draw.number(1, 3);
          const Ids begin = some_ids(static_cast<std::int32_t>(draw.number(1, 90)),
                                     static_cast<std::int32_t>(draw.number(1, 2)));
          const RequestId id =
              engine.add({.ids = begin, .options = its, .key = draw.key(), .samples = samples});
          for (std::int64_t i = 0; i < samples; ++i) known.insert(id + static_cast<RequestId>(i));
          started += samples;
        } else if (what < 3 && !known.empty()) {
          const RequestId id = any();
          if (engine.has_ended(id)) {
            const auto length = static_cast<std::int64_t>(engine.tokens(id).size());
            engine.append(id, {.ids = draw.ids(draw.number(0, 20)),
                               .options = draw.options(),
                               .key = draw.key(),
                               .keep = draw.chance(50) ? -1 : draw.number(1, length)});
            ++started;
          }
        } else if (what < 4 && !known.empty()) {
          engine.cancel(any());
        } else if (what == 4 && draw.chance(20) && !known.empty()) {
          const RequestId id = any();
          tell();
          if (!engine.has_ended(id)) ++forgotten;
          engine.forget(id);
          known.erase(id);
        } else if (what == 5 && draw.chance(3)) {
          engine.lose_keys();
        } else {
          engine.advance();
        }
      } catch (const base::UserError&) {  // too long for the memory or the model
      }
      const EngineFacts facts = engine.facts();
      ASSERT_LE(facts.held, facts.booked) << "seed " << seed << " call " << call;
      ASSERT_LE(facts.booked, options.kv_memory) << "seed " << seed << " call " << call;
      ASSERT_EQ(facts.waiting + facts.decoding + facts.ended, known.size());
      tell();
    }
    run(engine);
    tell();
    EXPECT_EQ(ended + forgotten, started);
    for (const RequestId id : known) {
      ASSERT_TRUE(engine.has_ended(id));
      engine.forget(id);
    }
    EXPECT_GT(started, 150);
  }
}

// ---- adapters

// Sides of some linears of a model: no two adapters have the same rank or the same linears.
std::shared_ptr<const ops::AdapterSides> some_adapter(const model::CausalLm& model, std::int64_t rank,
                                                      bool with_head) {
  at::manual_seed(static_cast<std::uint64_t>(rank));
  auto out = std::make_shared<ops::AdapterSides>();
  std::int64_t number = 0;
  for (const ops::Linear* linear : model.linears_and_head()) {
    if (linear == &model.head_linear() ? !with_head : number++ % rank == 1) continue;
    const std::int64_t in = linear->weight.in(), width = linear->weight.out();
    ops::LoraWeights& side = (*out)[linear];
    side.a = at::randn({rank, in}) * 0.1;
    side.b = at::randn({width, rank}) * 0.1;
    side.scale = 0.5;
    if (rank == 8 && linear != &model.head_linear()) side.magnitude = at::rand({width}) + 0.5;
  }
  return out;
}

// The adapter as the model's own.
void attach(model::CausalLm& model, const ops::AdapterSides* sides) {
  for (ops::Linear* linear : model.linears_and_head()) {
    linear->lora.reset();
    if (sides != nullptr && sides->contains(linear)) linear->lora = sides->at(linear);
  }
}

TEST_P(EngineAt, AdaptersTogetherAreAsAlone) {
  model::CausalLm model = wide("qwen2", std::get<1>(GetParam()));
  std::vector<Play> plays = drawn_plays(tolerance_ == 0 ? 120 : 24, 7, 2500, 40);
  const std::vector<std::shared_ptr<const ops::AdapterSides>> adapters = {
      nullptr, some_adapter(model, 3, false), some_adapter(model, 8, false), some_adapter(model, 16, true)};
  std::vector<std::vector<Turns>> wanted(plays.size());
  for (std::size_t a = 0; a < adapters.size(); ++a) {
    attach(model, adapters[a].get());
    std::vector<Play> own;
    for (std::size_t i = a; i < plays.size(); i += adapters.size()) own.push_back(plays[i]);
    const auto found = all_alone(model, own);
    for (std::size_t i = 0; i < found.size(); ++i) wanted[a + i * adapters.size()] = found[i];
  }
  attach(model, nullptr);
  const auto as_base = all_alone(model, {plays[1]});
  EXPECT_NE(as_base[0][0][0].ids, wanted[1][0][0].ids) << "adapters that change nothing";
  for (std::size_t i = 0; i < plays.size(); ++i) plays[i].request.adapter = adapters[i % adapters.size()];
  const EngineOptions options = {
      .batch_size = 13, .prefill_tokens = 300, .kv_memory = memory_for(model, plays, 4)};
  const Together found = played_together(model, plays, options, 5);
  expect_as_alone(plays, wanted, found.turns, tolerance_);
}

TEST(Engine, KeysOfAnAdapterAreItsOwn) {
  model::CausalLm model = tiny();
  RequestOptions options = sampling(2);
  options.share_prefixes = true;
  Engine engine(model, {});
  const Ids ids = some_ids(100, 3);
  auto adapter = some_adapter(model, 3, false);
  const RequestId first = engine.add({.ids = ids, .options = options}),
                  other = engine.add({.ids = ids, .options = options, .adapter = adapter});
  run(engine);
  const RequestId again = engine.add({.ids = ids, .options = options, .adapter = adapter});
  run(engine);
  EXPECT_EQ(engine.reused(first), 0);
  EXPECT_EQ(engine.reused(other), 0);
  EXPECT_EQ(engine.reused(again), 64);
  EXPECT_EQ(engine.completion(again).ids, engine.completion(other).ids);
  // Its tiles hold it, so that no other adapter is taken for it.
  const std::weak_ptr<const ops::AdapterSides> watched = adapter;
  adapter.reset();
  engine.forget(other);
  engine.forget(again);
  EXPECT_FALSE(watched.expired());
  engine.lose_keys();
  EXPECT_TRUE(watched.expired());
}

TEST(Engine, RefusesAnAdapterBesideOneThatIsMore) {
  model::CausalLm model = tiny();
  const auto adapter = some_adapter(model, 3, false);
  model.set_token_rows({{5}, at::zeros({1, model.config().hidden_size})});
  Engine engine(model, {});
  const RequestId own = engine.add({.ids = {5, 6}, .options = sampling(2)});
  EXPECT_THROW(engine.add({.ids = {5, 6}, .options = sampling(2), .adapter = adapter}), base::UserError);
  run(engine);
  EXPECT_TRUE(engine.has_ended(own));
}

}  // namespace engine_test
}  // namespace hone::rollout
