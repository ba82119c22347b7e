// The step that runs ahead of the host: a token that was drawn on the device is what the next forward reads there, before the host has
// seen it. What an engine gives is, bit for bit, what the synchronous form gives, which a function that looks for stop strings asks for.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/files/weight_source.h"
#include "ops/backend/operators.h"
#include "ops/backend/reference/reference.h"
#include "ops/gemm.h"
#include "ops/machine/step_graphs.h"
#include "rollout/engine.h"
#include "standin/emulated_kernels.h"
#include "standin/fake_graphs.h"
#include "standin/families.h"
#include "standin/standin.h"

namespace hone::standin {
namespace ahead_test {

using rollout::Completion;
using rollout::Engine;
using rollout::RequestId;
using Ids = std::vector<std::int32_t>;

// What happens to a product: calls are counted, and the one before which `left` is 0 fails, or gives no number in its first row.
struct Trouble {
  std::int64_t calls = 0, left = -1;
  bool fails = false;
};
Trouble trouble;

// Each row of a product by itself: those of libtorch may have other bits for another number of rows, and a step that
// reads a token for nothing has one row more.
bool multiply_row_by_row(std::span<const ops::Gemm* const> products) {
  ++trouble.calls;
  const bool now = trouble.left-- == 0;
  if (now && trouble.fails) throw std::runtime_error("a product that fails");
  for (const ops::Gemm* const one : products) {
    for (std::int64_t row = 0; row < one->out.size(0); ++row) {
      const auto of = [row](const at::Tensor& x) { return x.defined() ? x.narrow(0, row, 1) : x; };
      ops::Gemm alone = *one;
      alone.out = of(one->out);
      for (ops::GemmTerm& term : alone.terms) term.a = of(term.a);
      alone.epilogue.residual = of(one->epilogue.residual);
      const ops::Gemm* const pointer = &alone;
      ops::reference::gemms({&pointer, 1});
    }
    if (now) one->out.select(0, 0).fill_(NAN);
  }
  return true;
}

class RowByRow {
 public:
  RowByRow() : before_(ops::backend::operators_of(device())), table_(before_) {
    table_.gemms = multiply_row_by_row;
    ops::backend::register_operators(device().type(), &table_);
  }
  ~RowByRow() { ops::backend::register_operators(device().type(), &before_); }
  RowByRow(const RowByRow&) = delete;
  RowByRow& operator=(const RowByRow&) = delete;

 private:
  const ops::backend::Operators& before_;
  ops::backend::Operators table_;
};

model::CausalLm tiny(const std::string& name = "tiny_llama") {
  const base::fs::path folder = base::fs::path(HONE_FIXTURES) / "parity" / name;
  return model::CausalLm(*model::open_weights(folder), {.linear = at::kFloat, .residual = at::kFloat},
                         model::Storage::kPacked, {}, device());
}

rollout::RequestOptions sampling(bool ahead, std::int64_t max_new_tokens) {
  rollout::RequestOptions options;
  options.max_new_tokens = max_new_tokens;
  options.seed = 7;
  options.entropies = true;
  options.share_prompt = true;
  options.sampler = {.temperature = 0.9, .top_k = 40, .top_p = 0.9, .repetition_penalty = 1.1};
  if (!ahead) options.stops = [](std::span<const std::int32_t>) { return false; };
  return options;
}

void run(Engine& engine) {
  while (engine.advance()) {
  }
}

void expect_equal(const Completion& found, const Completion& expected, const std::string& what) {
  SCOPED_TRACE(what);
  EXPECT_EQ(found.ids, expected.ids);
  EXPECT_EQ(found.logprobs, expected.logprobs);
  EXPECT_EQ(found.sampled_logprobs, expected.sampled_logprobs);
  EXPECT_EQ(found.entropies, expected.entropies);
  EXPECT_EQ(found.finish_reason, expected.finish_reason);
}

struct Played {
  std::vector<Completion> completions;
  std::vector<std::vector<std::int32_t>> tokens;
  std::vector<std::size_t> told;  // tokens that events told of, after each step
  std::vector<std::string> errors;
  std::int64_t computed = 0, held = 0;
};

using Play = std::function<void(Engine&, bool ahead, std::vector<RequestId>&)>;

Played played(const model::CausalLm& model, bool ahead, const Play& play, std::int64_t batch = 4) {
  Engine engine(model, {.batch_size = batch, .prefill_tokens = 40});
  std::vector<RequestId> ids;
  play(engine, ahead, ids);
  Played out;
  const auto step = [&] {
    bool more = true;
    try {
      more = engine.advance();
    } catch (const std::exception& error) {
      out.errors.emplace_back(error.what());
    }
    std::size_t told = 0;
    for (const rollout::Event& event : engine.poll()) told += event.has_token ? 1 : 0;
    if (told > 0) out.told.push_back(told);
    return more;
  };
  while (step()) {
  }
  out.computed = engine.facts().computed;
  out.held = engine.facts().held;
  for (const RequestId id : ids) {
    out.tokens.emplace_back(engine.tokens(id).begin(), engine.tokens(id).end());
    out.completions.push_back(engine.take(id));
  }
  return out;
}

// Engines that are made while it lives do the step ahead by ops::StepGraphs: for all rows of the sampler, those that are nobody's too,
// with lists that stay in one place.
class ByGraphs {
 public:
  ByGraphs() { setenv("HONE_STEP_GRAPHS", "on", 1); }  // NOLINT(concurrency-mt-unsafe): one thread
  ~ByGraphs() { unsetenv("HONE_STEP_GRAPHS"); }        // NOLINT(concurrency-mt-unsafe)
  ByGraphs(const ByGraphs&) = delete;
  ByGraphs& operator=(const ByGraphs&) = delete;
};

// Both forms of a play; `surplus`: whether some token is read for nothing.
void expect_as_synchronous(const Play& play, bool surplus, std::int64_t batch = 4) {
  const UseEmulatedKernels kernels;
  const RowByRow products;
  const model::CausalLm model = tiny();
  const Played expected = played(model, false, play, batch), ahead = played(model, true, play, batch);
  const ByGraphs graphs;
  const Played kept = played(model, true, play, batch);
  std::vector<Played> all = {ahead, kept};
  {
    const FakeGraphs library;
    all.push_back(played(model, true, play, batch));
    EXPECT_GT(FakeGraphs::started(), 0);
  }
  for (const Played& found : all) {
    for (std::size_t i = 0; i < expected.completions.size(); ++i)
      expect_equal(found.completions[i], expected.completions[i], "completion " + std::to_string(i));
    EXPECT_EQ(found.tokens, expected.tokens);
    EXPECT_EQ(found.held, expected.held) << "what was read for nothing is let go";
    if (surplus) {
      EXPECT_GT(found.computed, expected.computed);
    } else {
      EXPECT_EQ(found.computed, expected.computed);
    }
  }
}

// Prompts of different lengths, each with `samples` of so many tokens at most.
void add_some(Engine& engine, bool ahead, std::vector<RequestId>& ids, const std::vector<std::int64_t>& stops,
              std::int64_t samples = 2) {
  for (const std::int64_t most : {5, 8}) {
    rollout::RequestOptions options = sampling(ahead, most);
    options.stop_ids = stops;
    options.min_new_tokens = 2;
    const RequestId first = engine.add({.ids = some_prompt(most == 5 ? 70 : 9, 1),
                                        .options = options,
                                        .key = {.prompt = static_cast<std::uint64_t>(most)},
                                        .samples = samples});
    for (std::int64_t i = 0; i < samples; ++i) ids.push_back(first + static_cast<RequestId>(i));
  }
}

// Sixty stop tokens: most completions end early, at different times.
std::vector<std::int64_t> many_stops() {
  std::vector<std::int64_t> out;
  for (std::int64_t id = 3; id < 123; id += 2) out.push_back(id);
  return out;
}

TEST(RunsAhead, CompletionsThatEndByLengthCostNoTokenMore) {
  expect_as_synchronous(
      [](Engine& engine, bool ahead, std::vector<RequestId>& ids) { add_some(engine, ahead, ids, {}); },
      /*surplus=*/false);
}

TEST(RunsAhead, CompletionsThatEndByStopTokensAreTheSame) {
  expect_as_synchronous([](Engine& engine, bool ahead,
                           std::vector<RequestId>& ids) { add_some(engine, ahead, ids, many_stops()); },
                        /*surplus=*/true);
}

// More sequences than the batch has places for: they join when others end.
TEST(RunsAhead, SequencesJoinWhileOthersAreAhead) {
  expect_as_synchronous(
      [](Engine& engine, bool ahead, std::vector<RequestId>& ids) {
        add_some(engine, ahead, ids, many_stops(), /*samples=*/3);
      },
      /*surplus=*/true, /*batch=*/3);
}

TEST(RunsAhead, WhatIsCancelledHasWhatItWasToldAndGoesOn) {
  expect_as_synchronous(
      [](Engine& engine, bool ahead, std::vector<RequestId>& ids) {
        add_some(engine, ahead, ids, {});
        for (int i = 0; i < 4; ++i) engine.advance();
        engine.cancel(ids[0]);
        const std::size_t had = engine.completion(ids[0]).ids.size();
        EXPECT_GT(had, 0U);
        engine.advance();
        EXPECT_EQ(engine.completion(ids[0]).ids.size(), had);
        engine.append(ids[0], {.ids = {9, 8, 7}, .options = sampling(ahead, 4)});
      },
      /*surplus=*/true);
}

TEST(RunsAhead, KeysThatAreLostAreComputedAgain) {
  expect_as_synchronous(
      [](Engine& engine, bool ahead, std::vector<RequestId>& ids) {
        add_some(engine, ahead, ids, {});
        for (int i = 0; i < 4; ++i) engine.advance();
        engine.lose_keys();
      },
      /*surplus=*/true);
}

TEST(RunsAhead, TheNextStepIsDrawnBeforeAdvanceReturnsButNotForStopStrings) {
  const UseEmulatedKernels kernels;
  const model::CausalLm model = tiny();
  const auto draws = [&](bool ahead, std::int64_t most) {
    const std::int64_t before = kernels.calls().at("sample_tokens");
    Engine engine(model, {.batch_size = 2});
    const RequestId id = engine.add({.ids = some_prompt(9, 1), .options = sampling(ahead, most)});
    while (engine.completion(id).ids.empty()) engine.advance();
    EXPECT_EQ(engine.completion(id).ids.size(), 1U) << "a token a step, as ever";
    return kernels.calls().at("sample_tokens") - before;
  };
  EXPECT_EQ(draws(true, 3), 2);
  EXPECT_EQ(draws(false, 3), 1);
  EXPECT_EQ(draws(true, 1), 1) << "its first token is its last";
}

const Play kSome = [](Engine& engine, bool ahead, std::vector<RequestId>& ids) {
  add_some(engine, ahead, ids, {});
};

// Both forms compute the same products in the same order.
const Play kOnePrompt = [](Engine& engine, bool ahead, std::vector<RequestId>& ids) {
  const RequestId first = engine.add({.ids = some_prompt(9, 1), .options = sampling(ahead, 6), .samples = 2});
  ids = {first, first + 1};
};

// A product of the step that is ahead, of its head too, or of the first step after a prompt: what was told stays, and the rest is
// computed again.
TEST(RunsAhead, AStepThatFailsIsDoneAgain) {
  const UseEmulatedKernels kernels;
  const RowByRow products;
  const model::CausalLm model = tiny();
  const Played expected = played(model, false, kSome);
  trouble = {};
  played(model, true, kSome);
  const std::int64_t calls = trouble.calls;
  for (std::int64_t at = 3; at < calls; at += 7) {
    std::optional<ByGraphs> graphs;
    if (at % 2 == 0) graphs.emplace();
    trouble = {.left = at, .fails = true};
    const Played found = played(model, true, kSome);
    EXPECT_EQ(found.errors, std::vector<std::string>{"a product that fails"});
    for (std::size_t i = 0; i < expected.completions.size(); ++i)
      expect_equal(found.completions[i], expected.completions[i], "product " + std::to_string(at) + " fails");
    EXPECT_EQ(found.held, expected.held);
  }
  trouble = {};
}

// The row of a sequence that has no finite logits is read once more before the host knows.
TEST(RunsAhead, ASequenceWithoutFiniteLogitsEndsAloneAsInTheSynchronousForm) {
  const UseEmulatedKernels kernels;
  const RowByRow products;
  const model::CausalLm model = tiny();
  trouble = {};
  played(model, false, kOnePrompt);
  const std::int64_t calls = trouble.calls;
  std::int64_t ended = 0;
  for (std::int64_t at = calls - 1; at > calls / 2; --at) {
    trouble = {.left = at};
    const Played expected = played(model, false, kOnePrompt);
    trouble = {.left = at};
    std::optional<ByGraphs> graphs;
    if (at % 2 == 0) graphs.emplace();
    const Played found = played(model, true, kOnePrompt);
    EXPECT_EQ(found.errors, expected.errors);
    ended += std::ssize(expected.errors);
    for (std::size_t i = 0; i < expected.completions.size(); ++i)
      expect_equal(found.completions[i], expected.completions[i],
                   "product " + std::to_string(at) + " has no number");
  }
  EXPECT_GT(ended, 3);
  trouble = {};
}

// Steps go on without graphs, the one that could not be recorded too, and it is told why.
TEST(RunsAhead, CompletionsAreTheSameWhereARecordingFails) {
  const UseEmulatedKernels kernels;
  const RowByRow products;
  const model::CausalLm model = tiny();
  const Played expected = played(model, false, kSome);
  const ByGraphs graphs;
  for (const Fails how : {Fails::kByWord, Fails::kByException}) {
    for (const std::int64_t at : {0, 1}) {
      const FakeGraphs library(how, at);
      const Played found = played(model, true, kSome);
      EXPECT_EQ(FakeGraphs::recorded(), at);
      EXPECT_EQ(FakeGraphs::alive(), 0);
      EXPECT_EQ(found.errors, std::vector<std::string>{});
      for (std::size_t i = 0; i < expected.completions.size(); ++i)
        expect_equal(found.completions[i], expected.completions[i], "completion " + std::to_string(i));
      EXPECT_EQ(found.held, expected.held);
      EXPECT_NE(ops::step_graphs_note(), "");
    }
  }
}

TEST(RunsAhead, AForgottenSequenceIsNotWaitedFor) {
  const UseEmulatedKernels kernels;
  const model::CausalLm model = tiny();
  Engine engine(model, {.batch_size = 2});
  const RequestId first = engine.add({.ids = some_prompt(9, 1), .options = sampling(true, 6)});
  while (engine.completion(first).ids.empty()) engine.advance();
  engine.forget(first);
  const RequestId second = engine.add({.ids = some_prompt(11, 2), .options = sampling(true, 6)});
  run(engine);
  Engine other(model, {.batch_size = 2});
  const RequestId alone = other.add({.ids = some_prompt(11, 2), .options = sampling(false, 6)});
  run(other);
  expect_equal(engine.completion(second), other.completion(alone), "the second request");
}

}  // namespace ahead_test
}  // namespace hone::standin
