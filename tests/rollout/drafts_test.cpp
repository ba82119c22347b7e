// Drafts: whatever is guessed, a request's tokens and numbers are those that it has without guesses, bit for bit.
#include "rollout/drafts.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "base/error.h"
#include "base/process/instruction_level.h"
#include "base/where.h"
#include "model/files/weight_source.h"
#include "model/tiny_model.h"
#include "rollout/engine.h"
#include "rollout/former_texts.h"
#include "rollout/random_requests.h"

namespace hone::rollout {
namespace drafts_test {

using namespace hone::test_tools;
using Guess = GuessFunction;

model::CausalLm wide(const std::string& family, at::ScalarType dtype) {
  const TempFolder folder;
  base::Json config = wide_config(family);
  config["max_position_embeddings"] = 1024;
  write_model(folder.path(), config);
  return model::CausalLm(*model::open_weights(folder.path()), {dtype, dtype}, model::Storage::kPacked);
}

// All that each sample of each play comes to, the prompt and each turn with what was appended to it.
std::vector<Ids> whole_texts(const std::vector<Play>& plays, const std::vector<std::vector<Turns>>& turns) {
  std::vector<Ids> out;
  for (std::size_t p = 0; p < plays.size(); ++p) {
    for (const Turns& its : turns[p]) {
      Ids ids = plays[p].request.ids;
      for (std::size_t t = 0; t < its.size(); ++t) {
        ids.insert(ids.end(), its[t].ids.begin(), its[t].ids.end());
        out.push_back(ids);
        if (t == plays[p].later.size()) break;
        const Continuation& next = plays[p].later[t];
        if (next.keep >= 0) ids.resize(static_cast<std::size_t>(next.keep));
        ids.insert(ids.end(), next.ids.begin(), next.ids.end());
      }
    }
  }
  return out;
}

// What one of the texts goes on with.
Guess of(const std::vector<Ids>& texts) {
  return [texts](std::span<const std::int32_t> ids, std::int64_t most) {
    for (const Ids& text : texts) {
      if (text.size() <= ids.size() || !std::equal(ids.begin(), ids.end(), text.begin())) continue;
      const auto from = text.begin() + std::ssize(ids);
      return Ids(from, from + std::min(most, std::ssize(text) - std::ssize(ids)));
    }
    return Ids();
  };
}

// The same, of which a token in each guess is another one, at a place that changes.
Guess nearly(const Guess& right, std::int32_t vocabulary) {
  return [right, vocabulary, count = 0](std::span<const std::int32_t> ids, std::int64_t most) mutable {
    Ids out = right(ids, most);
    if (out.empty()) return out;
    std::int32_t& one = out[static_cast<std::size_t>(count++) % out.size()];
    one = (one + 1) % vocabulary;
    return out;
  };
}

// Never what comes next, and as long as may be.
Guess wrong(const Guess& right, std::int32_t vocabulary) {
  return [right, vocabulary](std::span<const std::int32_t> ids, std::int64_t most) {
    const Ids next = right(ids, 1);
    return Ids(static_cast<std::size_t>(most), next.empty() ? 0 : (next.front() + 1) % vocabulary);
  };
}

using Case = std::tuple<base::InstructionLevel, at::ScalarType>;

class DraftsAt : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const base::InstructionLevel level = std::get<0>(GetParam());
    if (level < base::InstructionLevel::kAvx2 || !base::machine_has(level)) GTEST_SKIP();
    force_.emplace(level);
  }

 private:
  std::optional<base::ForceInstructionLevel> force_;
};
INSTANTIATE_TEST_SUITE_P(Levels, DraftsAt,
                         testing::Combine(testing::ValuesIn(base::kInstructionLevels),
                                          testing::Values(at::kBFloat16, at::kFloat)),
                         [](const auto& one) {
                           return std::string(base::name_of(std::get<0>(one.param))) + "_" +
                                  (std::get<1>(one.param) == at::kFloat ? "fp32" : "bf16");
                         });

// The same requests, of whose prompts something was said before: what they say too, or with every fifth token another one.
std::vector<Play> with_former(std::vector<Play> plays, const std::vector<std::vector<Turns>>& said,
                              bool is_right, std::int32_t vocabulary) {
  FormerTexts former;
  for (std::size_t p = 0; p < plays.size(); ++p) {
    std::vector<Ids> whole;
    for (const Turns& sample : said[p]) {
      Ids& ids = whole.emplace_back();
      for (const Completion& turn : sample) ids.insert(ids.end(), turn.ids.begin(), turn.ids.end());
      for (std::size_t i = 0; !is_right && i < ids.size(); i += 5) ids[i] = (ids[i] + 1) % vocabulary;
    }
    const auto key = static_cast<std::int64_t>(p);
    former.keep(key, plays[p].request.ids, {whole.begin(), whole.end()});
    plays[p].request.former = former.find(key);
  }
  return plays;
}

// Every source, in memory that is too small for all requests, with samples, turns, stops, penalties and `constrain`.
void expect_no_bit_changes(const model::CausalLm& model, std::size_t count) {
  constexpr std::int32_t kVocabulary = 2500;
  const std::vector<Play> plays = drawn_plays(count, 7, kVocabulary);
  const auto wanted = all_alone(model, plays);
  const Guess right = of(whole_texts(plays, wanted));
  const std::vector<std::pair<std::string, Guess>> sources = {{"own", {}},
                                                              {"right", right},
                                                              {"nearly", nearly(right, kVocabulary)},
                                                              {"wrong", wrong(right, kVocabulary)},
                                                              {"former", {}},
                                                              {"nearly former", {}}};
  const std::vector<Play> same = with_former(plays, wanted, true, kVocabulary),
                          other = with_former(plays, wanted, false, kVocabulary);
  std::uint32_t seed = 0;
  for (const auto& [name, guess] : sources) {
    SCOPED_TRACE(name);
    DraftFacts facts;
    const EngineOptions options = {.batch_size = ++seed % 2 == 0 ? 7 : 3,
                                   .prefill_tokens = seed % 2 == 0 ? 100 : 2048,
                                   .kv_memory = memory_for(model, plays, 1.3),
                                   .drafts = Drafts::kAlways,
                                   .draft_facts = &facts,
                                   .guess = guess ? &guess : nullptr};
    const bool is_former = name == "former", is_nearly = name == "nearly former";
    const Together found = played_together(model,
                                           is_former   ? same
                                           : is_nearly ? other
                                                       : plays,
                                           options, seed);
    expect_as_alone(plays, wanted, found.turns, 0);
    if (count > 100) {
      EXPECT_GT(found.facts.lost, 0);
    }
    if (name != "own") {
      EXPECT_GT(facts.drafted, 20);  // a random text need not repeat itself
    }
    if (name == "right") {
      EXPECT_GT(facts.accepted * 100, facts.drafted * 90);  // but what is cancelled
    }
    if (name == "nearly") {
      EXPECT_GT(facts.accepted * 100, facts.drafted * 25);
      EXPECT_LT(facts.accepted * 100, facts.drafted * 75);
    }
    if (name == "wrong") {
      EXPECT_EQ(facts.accepted, 0);
    }
    if (is_former) {
      EXPECT_GT(facts.accepted * 100, facts.drafted * 50);
    }
    if (is_nearly) {
      EXPECT_LT(facts.accepted * 100, facts.drafted * 50);
    }
  }
}

TEST_P(DraftsAt, NoGuessChangesABit) {
  expect_no_bit_changes(wide("qwen2", std::get<1>(GetParam())), 6);
}

TEST_P(DraftsAt, SlowNoGuessOfManyChangesABit) {
  expect_no_bit_changes(wide("qwen2", std::get<1>(GetParam())), 300);
}

TEST(Drafts, NoGuessChangesABitOfOtherFamilies) {
  if (base::instruction_level() < base::InstructionLevel::kAvx2) GTEST_SKIP();
  for (const std::string family : {"gemma3_text", "gemma4_text", "qwen3_moe"}) {
    SCOPED_TRACE(family);
    expect_no_bit_changes(wide(family, at::kBFloat16), 5);
  }
}

RequestOptions sampling(std::int64_t max_new_tokens, double temperature) {
  RequestOptions options;
  options.max_new_tokens = max_new_tokens;
  options.sampler.temperature = temperature;
  options.entropies = true;
  return options;
}

model::CausalLm tiny(const std::string& family = "llama") {
  const TempFolder folder;
  write_model(folder.path(), tiny_config(family));
  return model::CausalLm(*model::open_weights(folder.path()), {});
}

// A text that repeats itself takes fewer passes, whatever the mode and the threads.
TEST(Drafts, ATextThatRepeatsItselfTakesFewerPasses) {
  if (base::instruction_level() < base::InstructionLevel::kAvx2) GTEST_SKIP();
  const model::CausalLm model = tiny();
  const auto run = [&](Drafts drafts, std::int64_t samples, Completion& last) {
    Engine engine(model, {.drafts = drafts});
    RequestOptions options = sampling(100, 0);
    options.share_prompt = samples > 1;
    const RequestId id = engine.add({.ids = {3, 4, 5}, .options = options, .samples = samples});
    int passes = 0;
    while (engine.advance()) ++passes;
    last = engine.completion(id + static_cast<RequestId>(samples) - 1);
    return passes;
  };
  const int threads = at::get_num_threads();
  for (const int count : {1, 2}) {
    at::set_num_threads(count);
    for (const std::int64_t samples : {1, 3}) {
      Completion plain, drafted, paid;
      const int all = run(Drafts::kOff, samples, plain), fewer = run(Drafts::kAlways, samples, drafted);
      run(Drafts::kAuto, samples, paid);
      EXPECT_LT(fewer * 2, all);
      for (const Completion& one : {drafted, paid}) {
        EXPECT_EQ(one.ids, plain.ids);
        EXPECT_EQ(one.logprobs, plain.logprobs);
        EXPECT_EQ(one.entropies, plain.entropies);
      }
    }
  }
  at::set_num_threads(threads);
}

// What was said after a prompt is said again with the same random numbers. With others it is another completion.
TEST(Drafts, WhatWasSaidBeforeTakesFewerPasses) {
  if (base::instruction_level() < base::InstructionLevel::kAvx2) GTEST_SKIP();
  const model::CausalLm model = tiny();
  const Ids prompt = {3, 4, 5, 6, 7};
  FormerTexts former;
  const auto run = [&](Drafts drafts, std::int64_t samples, std::uint64_t step,
                       std::vector<Completion>& out) {
    Engine engine(model, {.drafts = drafts});
    RequestOptions options = sampling(100, 1);
    options.share_prompt = samples > 1;
    options.step = step;
    engine.add({.ids = prompt, .options = options, .samples = samples, .former = former.find(7)});
    int passes = 0;
    while (engine.advance()) ++passes;
    out.clear();
    for (std::int64_t i = 1; i <= samples; ++i) out.push_back(engine.completion(static_cast<RequestId>(i)));
    return passes;
  };
  for (const std::int64_t samples : {1, 3}) {
    former.keep(7, prompt, {});
    std::vector<Completion> plain, drafted, later, later_plain;
    const int all = run(Drafts::kOff, samples, 0, plain);
    const int unknown = run(Drafts::kAlways, samples, 0, drafted);
    run(Drafts::kOff, samples, 1, later_plain);
    std::vector<std::span<const std::int32_t>> said;
    for (const Completion& one : plain) said.emplace_back(one.ids);
    former.keep(7, prompt, said);
    const int fewer = run(Drafts::kAlways, samples, 0, drafted);
    run(Drafts::kAlways, samples, 1, later);
    EXPECT_LT(fewer * 3, all) << samples;
    EXPECT_LT(fewer * 2, unknown) << samples;
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_EQ(drafted[i].ids, plain[i].ids);
      EXPECT_EQ(drafted[i].logprobs, plain[i].logprobs);
      EXPECT_EQ(drafted[i].entropies, plain[i].entropies);
      EXPECT_EQ(later[i].ids, later_plain[i].ids);
      EXPECT_EQ(later[i].logprobs, later_plain[i].logprobs);
      EXPECT_NE(later[i].ids, plain[i].ids);
    }
  }
}

TEST(Drafts, NothingIsGuessedWhereBitsCouldChange) {
  const auto drafted = [&](const model::CausalLm& model, RequestOptions options) {
    DraftFacts facts;
    Engine engine(model, {.drafts = Drafts::kAlways, .draft_facts = &facts});
    engine.add({.ids = {3, 4, 5, 3, 4, 5, 3, 4}, .options = std::move(options)});
    while (engine.advance()) {
    }
    return facts.drafted;
  };
  RequestOptions penalized = sampling(60, 0), constrained = penalized;
  penalized.sampler.repetition_penalty = 1.1;
  constrained.constrain = [](std::span<const std::int32_t>, std::span<float>) {};
  const model::CausalLm model = tiny();
  if (base::instruction_level() >= base::InstructionLevel::kAvx2) {
    EXPECT_GT(drafted(model, sampling(60, 0)), 0);
  }
  EXPECT_EQ(drafted(model, penalized), 0);
  EXPECT_EQ(drafted(model, constrained), 0);
  EXPECT_EQ(drafted(tiny("lfm2"), sampling(60, 0)), 0);
  EXPECT_EQ(drafted(tiny("qwen3_5_text"), sampling(60, 0)), 0);
  const base::ForceInstructionLevel force(base::InstructionLevel::kPlain);
  EXPECT_EQ(drafted(model, sampling(60, 0)), 0);
}

// A turn that takes no guesses reads none that were found for the turn before.
TEST(Drafts, ATurnWithAPenaltyReadsNoGuess) {
  if (base::instruction_level() < base::InstructionLevel::kAvx2) GTEST_SKIP();
  const model::CausalLm model = tiny();
  DraftFacts facts;
  Engine engine(model, {.drafts = Drafts::kAlways, .draft_facts = &facts});
  RequestOptions options = sampling(60, 0);
  const RequestId id = engine.add({.ids = {3, 4, 5}, .options = options});
  while (engine.advance()) {
  }
  const std::int64_t drafted = facts.drafted;
  EXPECT_GT(drafted, 0);
  options.sampler.repetition_penalty = 1.1;
  engine.append(id, {.ids = {6}, .options = options});
  while (engine.advance()) {
  }
  EXPECT_EQ(facts.drafted, drafted);
}

int fails_in = 0;  // so many attentions later

void fail_at_attention(const char* op) {
  if (std::string(op) == "attention" && --fails_in == 0) throw std::runtime_error("no memory");
}

// Of a forward with guesses, and of a function that is asked between tokens of one.
TEST(Drafts, AnEngineGoesOnAfterSomethingFailed) {
  if (base::instruction_level() < base::InstructionLevel::kAvx2) GTEST_SKIP();
  const model::CausalLm model = tiny();
  int calls = 0;
  RequestOptions options = sampling(40, 0);
  options.share_prompt = true;
  const auto all = [&](Drafts drafts, int attention, int stop) {
    calls = 0;
    options.stops = [&, stop](std::span<const std::int32_t>) {
      if (++calls == stop) throw std::runtime_error("gone");
      return false;
    };
    Engine engine(model, {.drafts = drafts});
    engine.add({.ids = {3, 4, 5}, .options = options, .samples = 2});
    fails_in = attention;
    base::where.on_enter = attention > 0 ? &fail_at_attention : nullptr;
    int failures = 0;
    for (bool busy = true; busy;) {
      try {
        busy = engine.advance();
      } catch (const std::runtime_error&) {
        ++failures;
      }
    }
    base::where.on_enter = nullptr;
    EXPECT_EQ(failures, attention + stop > 0 ? 1 : 0);
    std::vector<Ids> out;
    for (const RequestId id : {1, 2}) out.push_back(engine.completion(id).ids);
    return out;
  };
  const auto wanted = all(Drafts::kOff, 0, 0);
  for (int at = 1; at < 10; ++at) {
    EXPECT_EQ(all(Drafts::kAlways, at, 0), wanted) << at;
    EXPECT_EQ(all(Drafts::kAlways, 0, 3 * at), wanted) << at;
  }
}

// ---- the parts

TEST(DraftTexts, AGuessIsWhatFollowedLast) {
  DraftTexts texts;
  const std::size_t a = texts.add_text(), b = texts.add_text();
  texts.add(a, Ids{1, 2, 3, 4, 5, 6, 7});
  EXPECT_TRUE(texts.find(a, 4).ids.empty());
  texts.add(b, Ids{2, 3, 4, 5});  // as the other sample
  EXPECT_EQ(texts.find(b, 4).ids, (Ids{6, 7}));
  EXPECT_EQ(texts.find(b, 4).matched, 4);
  texts.add(b, Ids{9, 3, 4});  // two tokens: its own, which were the last
  EXPECT_EQ(texts.find(b, 3).ids, (Ids{5, 9, 3}));
  EXPECT_EQ(texts.find(b, 3).matched, 2);
  texts.add(b, Ids{10, 9});  // one token
  EXPECT_EQ(texts.find(b, 2).ids, (Ids{3, 4}));
  EXPECT_EQ(texts.find(b, 2).matched, 1);
  texts.add(a, Ids{8, 7, 8, 7, 8});  // on and on
  EXPECT_EQ(texts.find(a, 5).ids, (Ids{7, 8, 7, 8, 7}));
}

TEST(DraftTexts, WhatWasSaidInThisBatchIsNewer) {
  DraftTexts texts;
  texts.add_former({{1, 2, 3, 4, 5}, {1, 2, 3, 4, 6, 7}});
  EXPECT_FALSE(texts.has_samples());
  const std::size_t a = texts.add_text(), b = texts.add_text();
  EXPECT_TRUE(texts.has_samples());
  texts.add(a, Ids{1, 2, 3, 4});
  EXPECT_EQ(texts.find(a, 3).ids, (Ids{6, 7}));
  texts.add(a, Ids{8, 9});
  texts.add(b, Ids{1, 2, 3, 4});
  EXPECT_EQ(texts.find(b, 3).ids, (Ids{8, 9}));
}

TEST(DraftTexts, KnowsWhetherTheLastTwoFollowersWereTheSame) {
  DraftTexts texts;
  const std::size_t a = texts.add_text(), b = texts.add_text();
  const auto followers = [&](std::size_t text, const Ids& next) {
    texts.add(text, next);
    return texts.find(text, 1).followers;
  };
  EXPECT_EQ(followers(a, {1, 5, 2, 1}), Followers::kOne);
  EXPECT_EQ(followers(a, {5, 3, 1}), Followers::kSame) << "one token, which 5 followed twice";
  EXPECT_EQ(followers(b, {4, 1}), Followers::kSame) << "the other sample knows it too";
  EXPECT_EQ(followers(b, {6, 8, 1}), Followers::kOthers);
  EXPECT_EQ(followers(a, {6, 3, 1}), Followers::kOne) << "two tokens, which 6 followed once";
  EXPECT_EQ(followers(a, {6, 9, 3, 1}), Followers::kSame);
  EXPECT_EQ(followers(a, {7, 10, 3, 1}), Followers::kOthers);
}

TEST(FormerTexts, TheNewestOfAPromptWithinABound) {
  const auto bytes = [](std::int64_t tokens) { return former_bytes(tokens); };
  const Ids prompt = {1, 2, 3, 4, 5, 6}, three = {10, 11, 12}, none, five = {20, 21, 22, 23, 24};
  FormerTexts former(2 * bytes(7) + bytes(9));
  EXPECT_EQ(former.find(1), nullptr);
  former.keep(1, prompt, {three, none, three});
  ASSERT_NE(former.find(1), nullptr);
  EXPECT_EQ(*former.find(1), (Texts{{3, 4, 5, 6, 10, 11, 12}, {3, 4, 5, 6, 10, 11, 12}}));
  EXPECT_EQ(former.bytes(), 2 * bytes(7));
  former.keep(2, prompt, {five, three});  // the second does not fit
  EXPECT_EQ(*former.find(2), (Texts{{3, 4, 5, 6, 20, 21, 22, 23, 24}}));
  former.keep(3, std::span(prompt).first(2), {three});
  EXPECT_EQ(former.find(3), nullptr) << "another prompt stays";
  const auto held = former.find(1);
  former.keep(1, std::span(prompt).first(2), {five});
  EXPECT_EQ(*former.find(1), (Texts{{1, 2, 20, 21, 22, 23, 24}}));
  EXPECT_EQ(held->size(), 2U) << "who has the older ones keeps them";
  EXPECT_EQ(former.bytes(), bytes(7) + bytes(9));
  former.keep(1, prompt, {});
  EXPECT_EQ(former.find(1), nullptr);
  EXPECT_EQ(former.bytes(), bytes(9));
}

// What a pass takes: `start` milliseconds and `row` for each, from `step` rows on also `more`.
PassCost cost_of(double start, double row, std::int64_t step = 1000, double more = 0) {
  PassCost cost;
  for (int i = 0; i < 4000; ++i) {
    const std::int64_t rows = 1 + i % 64;
    cost.see(rows, start + row * static_cast<double>(rows) + (rows >= step ? more : 0));
  }
  return cost;
}

using Chances = std::vector<std::vector<double>>;

Chances chances_of(std::size_t count, std::size_t length, double right) {
  std::vector<double> one;
  for (double all = right; one.size() < length; all *= right) one.push_back(all);
  return Chances(count, one);
}

std::int64_t read(const Chances& chances, std::int64_t sequences, const PassCost& cost) {
  const auto lengths = lengths_that_pay(chances, sequences, kMostGuesses, cost);
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

TEST(PassCost, LearnsAFigureForEachNumberOfRows) {
  PassCost cost;
  EXPECT_FALSE(cost.is_known());
  cost.see(8, 1);
  EXPECT_NEAR(cost.seconds(16), 48.0 / 40, 1e-9) << "not measured: 32 rows are its start";
  EXPECT_NEAR(cost.seconds(40), 72.0 / 40 * 1.25, 1e-9) << "not measured, and beyond few rows";
  EXPECT_LT(cost.seconds(4), 1);
  cost = cost_of(16, 0.4, 33, 14);
  for (const std::int64_t rows : {1, 8, 32, 33, 64})
    EXPECT_NEAR(cost.seconds(rows) / cost.seconds(8),
                (16 + 0.4 * static_cast<double>(rows) + (rows > 32 ? 14 : 0)) / 19.2, 0.05)
        << rows;
  const double before = cost.seconds(20) / cost.seconds(8);
  for (int i = 0; i < 200; ++i) cost.see(8 + i % 2, 40);  // another program runs beside it
  EXPECT_NEAR(cost.seconds(20) / cost.seconds(8), before, 0.25);
  EXPECT_NEAR(cost.seconds(8), 40, 1);
}

// A number of rows that was measured in a bad moment is tried again some day.
TEST(PassCost, ForgetsWhatIsOld) {
  PassCost cost;
  for (int i = 0; i < 10; ++i) cost.see(8, 1);
  const double wanted = cost.seconds(12);
  cost.see(12, 100);
  EXPECT_GT(cost.seconds(12), 2 * wanted);
  for (int i = 0; i < 3000; ++i) cost.see(8, 1);
  EXPECT_NEAR(cost.seconds(12), wanted, 1e-3);
}

TEST(LengthsThatPay, NothingWhereARowCostsMoreThanItBrings) {
  EXPECT_EQ(read(chances_of(8, 4, 0.9), 8, PassCost()), 0) << "no pass was seen";
  // GRPO of 32: a row is 0.44 of what a token costs, and the 33rd costs half a pass more.
  EXPECT_EQ(read(chances_of(32, 16, 0.4), 32, cost_of(16, 0.4)), 0);
  EXPECT_EQ(read(chances_of(32, 16, 0.9), 32, cost_of(16, 0.4, 33, 60)), 0);
  EXPECT_EQ(read(chances_of(16, 16, 0.9), 16, cost_of(0, 1)), 0) << "bound by computing";
  PassCost first;
  first.see(32, 0.03);
  EXPECT_EQ(read(chances_of(32, 16, 0.6), 32, first), 0) << "before anything else is measured";
  EXPECT_EQ(read(chances_of(32, 16, 0.95), 32, first), kMostGuesses) << "so probable that it is tried";
}

TEST(LengthsThatPay, AsManyAsBringTheMostTokensASecond) {
  const PassCost cost = cost_of(16, 0.4, 33, 14);
  EXPECT_EQ(read(chances_of(1, 16, 0.95), 1, cost), 16);
  EXPECT_GE(read(chances_of(1, 16, 0.4), 1, cost), 2);
  EXPECT_EQ(read(chances_of(8, 16, 0.9), 8, cost), 24) << "up to the row that costs more at once";
  EXPECT_EQ(read(chances_of(28, 16, 0.7), 28, cost), 4);
  EXPECT_EQ(read(chances_of(28, 16, 0.9), 28, cost), kMostGuesses) << "far beyond the step it pays again";
  EXPECT_EQ(lengths_that_pay(Chances{{0.9, 0.8}, {}, {0.1, 0.01}, {0.95}}, 4, 64, cost),
            (std::vector<std::int64_t>{2, 0, 0, 1}));
  EXPECT_EQ(lengths_that_pay(Chances{{0.9, 0.8}, {0.95}}, 4, 2, cost), (std::vector<std::int64_t>{1, 1}));
  EXPECT_GT(read(chances_of(32, 16, 0.9), 32, cost_of(16, 0.1)), 0) << "where memory is slow";
}

TEST(LengthsThatPay, ClassesOfMatches) {
  const std::vector<std::pair<std::int64_t, std::size_t>> cases = {{0, 0}, {1, 0}, {2, 1}, {3, 1},
                                                                   {4, 2}, {7, 2}, {8, 3}, {40, 3}};
  for (const auto& [matched, kind] : cases) {
    EXPECT_EQ(match_class(matched, Followers::kOne), kind) << matched;
    EXPECT_EQ(match_class(matched, Followers::kOthers), 4 + kind) << matched;
    EXPECT_EQ(match_class(matched, Followers::kSame), 8 + kind) << matched;
  }
}

// The shares that a run begins with, by costs as with AMX: a pass of 8 rows takes 19.6 ms, and each row 0.26.
TEST(LengthsThatPay, FollowersDecideBeforeAnythingIsCompared) {
  const PassCost cost = cost_of(17.5, 0.26, 33, 4);
  const Shares shares = DraftLearning().shares;
  const auto guesses_of = [&](std::int64_t matched, Followers followers) {
    const Share& one = shares[match_class(matched, followers)];
    return read(chances_of(8, 1, one.right / one.tried), 8, cost);
  };
  for (const std::int64_t matched : {1, 2, 4, 8}) EXPECT_EQ(guesses_of(matched, Followers::kSame), 8);
  for (const std::int64_t matched : {2, 4, 8}) EXPECT_EQ(guesses_of(matched, Followers::kOne), 8);
  EXPECT_EQ(guesses_of(1, Followers::kOthers), 0);
}

}  // namespace drafts_test
}  // namespace hone::rollout
