// Requests of an engine drawn at random, each asked alone and all together: what tests of the engine compare.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "rollout/engine.h"
#include "rollout/kv_memory.h"

namespace hone::test_tools {

using Ids = std::vector<std::int32_t>;

// A request, and what it is told after each of its ends.
struct Play {
  rollout::Request request;
  std::vector<rollout::Continuation> later;
  std::size_t cancelled_at = 0;  // tokens of the first turn; 0: it is not cancelled
};

struct Drawn {
  std::mt19937 random;
  std::int32_t vocabulary = 0;
  std::int64_t longest = 80;

  std::int64_t number(std::int64_t from, std::int64_t to) {
    return from + static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(to - from + 1));
  }
  bool chance(int percent) { return number(1, 100) <= percent; }
  Ids ids(std::int64_t count) {
    Ids out;
    for (std::int64_t i = 0; i < count; ++i)
      out.push_back(static_cast<std::int32_t>(number(3, vocabulary - 1)));
    return out;
  }

  rollout::RequestOptions options() {
    rollout::RequestOptions out;
    out.max_new_tokens = chance(20) ? number(longest / 2, longest) : number(1, longest / 4);
    const double temperatures[] = {0, 0.7, 1, 1.3};
    out.sampler.temperature = temperatures[number(0, 3)];
    if (chance(30)) out.sampler.top_k = number(1, 50);
    if (chance(30)) out.sampler.top_p = 0.8;
    if (chance(20)) out.sampler.repetition_penalty = 1.2;
    out.seed = static_cast<std::uint64_t>(number(1, 5));
    out.step = static_cast<std::uint64_t>(number(0, 2));
    for (std::int64_t i = number(0, 40); i > 0; --i) out.stop_ids.push_back(number(0, vocabulary - 1));
    out.min_new_tokens = number(0, 3);
    out.share_prompt = chance(40);
    out.share_prefixes = chance(60);
    out.entropies = chance(50);
    out.logprobs = chance(90);
    const auto length = static_cast<std::size_t>(number(2, 30));
    if (chance(10)) out.stops = [length](std::span<const std::int32_t> ids) { return ids.size() == length; };
    if (chance(10)) {
      out.constrain = [](std::span<const std::int32_t> ids, std::span<float> scores) {
        for (std::size_t i = ids.size() % 3; i < scores.size(); i += 3) scores[i] = -INFINITY;
      };
    }
    return out;
  }

  rollout::DrawKey key() {
    return {.prompt = random(), .sample = static_cast<std::uint64_t>(number(0, 9)), .position = 0};
  }
};

// `count` requests, of which some begin as others do, at two depths; some have samples; some go on after their end, with or
// without all that they have; some are cancelled.
// `longest`: tokens of a completion.
inline std::vector<Play> drawn_plays(std::size_t count, std::uint32_t seed, std::int32_t vocabulary,
                                     std::int64_t longest = 80) {
  Drawn draw{.random = std::mt19937(seed), .vocabulary = vocabulary, .longest = longest};
  const std::vector<Ids> systems = {draw.ids(130), draw.ids(64), draw.ids(20)};
  std::vector<Ids> users;
  for (int i = 0; i < 6; ++i) users.push_back(draw.ids(draw.number(1, 100)));
  std::vector<Play> out;
  for (std::size_t i = 0; i < count; ++i) {
    Play play;
    Ids& ids = play.request.ids;
    const auto add = [&ids](const Ids& more) { ids.insert(ids.end(), more.begin(), more.end()); };
    if (draw.chance(60)) {
      add(systems[static_cast<std::size_t>(draw.number(0, 2))]);
      if (draw.chance(60)) add(users[static_cast<std::size_t>(draw.number(0, 5))]);
    }
    if (ids.empty() || draw.chance(60)) add(draw.ids(draw.number(1, 60)));
    play.request.options = draw.options();
    play.request.key = draw.key();
    play.request.samples = draw.chance(20) ? draw.number(2, 4) : 1;
    if (draw.chance(15)) play.cancelled_at = static_cast<std::size_t>(draw.number(1, 6));
    auto there = static_cast<std::int64_t>(ids.size());  // tokens that it has for certain
    while (draw.chance(35) && play.later.size() < 3) {
      rollout::Continuation next{
          .ids = draw.ids(draw.number(0, 40)), .options = draw.options(), .key = draw.key()};
      // Where the first turn ends is not known when it is cancelled.
      if (play.cancelled_at > 0 || draw.chance(25)) there = next.keep = draw.number(1, there);
      next.key.position = static_cast<std::uint64_t>(draw.number(0, 50));
      play.later.push_back(next);
    }
    out.push_back(play);
  }
  return out;
}

// The completions of each turn of each sample.
using Turns = std::vector<rollout::Completion>;

inline Turns played_alone(const model::CausalLm& model, const Play& play, std::uint64_t sample) {
  rollout::Engine engine(model, {.batch_size = 1});
  rollout::Request request = play.request;
  request.samples = 1;
  request.key.sample += sample;
  request.options.share_prefixes = false;
  const rollout::RequestId id = engine.add(request);
  Turns out;
  while (engine.advance()) {
  }
  out.push_back(engine.completion(id));
  for (const rollout::Continuation& next : play.later) {
    engine.append(id, next);
    while (engine.advance()) {
    }
    out.push_back(engine.completion(id));
  }
  return out;
}

struct Together {
  std::vector<std::vector<Turns>> turns;  // of each play, of each sample
  rollout::EngineFacts facts;
  std::int64_t most_held = 0;
  int waited = 0;  // requests that were asked for their place
};

// All in one engine, in random order, some at a time.
inline Together played_together(const model::CausalLm& model, const std::vector<Play>& plays,
                                const rollout::EngineOptions& options, std::uint32_t seed) {
  struct Place {
    std::size_t play = 0, sample = 0;
  };
  std::mt19937 random(seed);
  std::vector<std::size_t> order(plays.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  Together out;
  for (const Play& play : plays) out.turns.emplace_back(static_cast<std::size_t>(play.request.samples));
  rollout::Engine engine(model, options);
  std::map<rollout::RequestId, Place> places;
  std::vector<rollout::RequestId> resting;  // ended, to be told more
  std::size_t added = 0;
  for (bool busy = true; busy || added < order.size() || !resting.empty();) {
    for (auto more = random() % 4; more > 0 && added < order.size(); --more, ++added) {
      const Play& play = plays[order[added]];
      const rollout::RequestId first = engine.add(play.request);
      for (std::size_t s = 0; s < static_cast<std::size_t>(play.request.samples); ++s)
        places[first + s] = {order[added], s};
      if (const auto before = engine.requests_before(first)) out.waited += *before > 0 ? 1 : 0;
    }
    while (!resting.empty() && (added == order.size() || random() % 3 == 0)) {
      const std::size_t i = random() % resting.size();
      const auto [play, sample] = places.at(resting[i]);
      engine.append(resting[i], plays[play].later.at(out.turns[play][sample].size() - 1));
      resting.erase(resting.begin() + static_cast<std::ptrdiff_t>(i));
    }
    busy = engine.advance();
    for (int round = 0; round < 2;
         ++round) {  // the second one tells of those that were cancelled in the first
      for (const rollout::Event& event : engine.poll()) {
        const auto [p, s] = places.at(event.id);
        const Play& play = plays[p];
        const std::size_t turn = out.turns[p][s].size();
        if (!event.has_ended) {
          const std::size_t tokens = engine.completion(event.id).ids.size();
          if (turn == 0 && play.cancelled_at > 0 && tokens >= play.cancelled_at) engine.cancel(event.id);
          continue;
        }
        out.turns[p][s].push_back(engine.completion(event.id));
        if (turn == play.later.size()) {
          engine.take(event.id);
        } else {
          resting.push_back(event.id);
        }
      }
    }
    out.facts = engine.facts();
    out.most_held = std::max(out.most_held, out.facts.held);
    EXPECT_LE(out.facts.held, out.facts.booked);
    if (options.kv_memory > 0) {
      EXPECT_LE(out.facts.booked, options.kv_memory);
    }
  }
  return out;
}

// A bound of memory that the largest request just fits, times `factor`.
inline std::int64_t memory_for(const model::CausalLm& model, const std::vector<Play>& plays, double factor) {
  std::int64_t most = 0;
  for (const Play& play : plays) {
    std::int64_t tokens =
        static_cast<std::int64_t>(play.request.ids.size()) + play.request.options.max_new_tokens;
    for (const rollout::Continuation& next : play.later)
      tokens += static_cast<std::int64_t>(next.ids.size()) + next.options.max_new_tokens;
    rollout::GenerateOptions options;
    options.max_new_tokens = 1;
    options.prefill_tokens = 1;
    most = std::max(
        most,
        rollout::kv_bytes(model.config(), model.dtypes().linear, tokens, options, model.device()).sample);
  }
  return static_cast<std::int64_t>(static_cast<double>(most) * factor);
}

// `tolerance` 0: every bit. Else numbers may differ by it, and a few completions take another token: a draw so near the
// border of two that rounding decides it. A cancelled completion is the beginning of the whole one.
inline void expect_as_alone(const std::vector<Play>& plays, const std::vector<std::vector<Turns>>& wanted,
                            const std::vector<std::vector<Turns>>& found, double tolerance) {
  std::size_t turned = 0, compared = 0;
  for (std::size_t p = 0; p < plays.size(); ++p) {
    for (std::size_t s = 0; s < wanted[p].size(); ++s) {
      const Turns &a = wanted[p][s], &b = found[p][s];
      ASSERT_EQ(a.size(), b.size()) << "request " << p << " sample " << s;
      for (std::size_t t = 0; t < a.size(); ++t) {
        const bool cut = b[t].finish_reason == rollout::FinishReason::kCancelled;
        ASSERT_TRUE(!cut || (t == 0 && plays[p].cancelled_at > 0));
        const std::size_t count = b[t].ids.size();
        ASSERT_LE(count, a[t].ids.size() + (tolerance > 0 ? count : 0));
        ++compared;
        const Ids whole(a[t].ids.begin(),
                        a[t].ids.begin() + static_cast<std::ptrdiff_t>(std::min(count, a[t].ids.size())));
        if (tolerance > 0 && (whole != b[t].ids || (!cut && a[t].ids.size() != count))) {
          ++turned;
          break;  // later turns follow from it
        }
        ASSERT_EQ(b[t].ids, whole) << "request " << p << " sample " << s << " turn " << t;
        if (!cut) {
          ASSERT_EQ(a[t].ids.size(), count);
          ASSERT_EQ(a[t].finish_reason, b[t].finish_reason);
        }
        const auto expect_numbers = [&](const std::vector<float>& x, const std::vector<float>& y) {
          ASSERT_EQ(x.empty(), y.empty());
          for (std::size_t i = 0; i < y.size(); ++i)
            ASSERT_LE(std::abs(x[i] - y[i]), tolerance) << "request " << p << " turn " << t << " token " << i;
        };
        expect_numbers(a[t].logprobs, b[t].logprobs);
        expect_numbers(a[t].entropies, b[t].entropies);
        expect_numbers(a[t].sampled_logprobs, b[t].sampled_logprobs);
      }
    }
  }
  EXPECT_LE(turned * 20, compared) << "of " << compared << " completions other tokens";
}

inline std::vector<std::vector<Turns>> all_alone(const model::CausalLm& model,
                                                 const std::vector<Play>& plays) {
  std::vector<std::vector<Turns>> out;
  for (const Play& play : plays) {
    out.emplace_back();
    for (std::int64_t s = 0; s < play.request.samples; ++s)
      out.back().push_back(played_alone(model, play, static_cast<std::uint64_t>(s)));
  }
  return out;
}

}  // namespace hone::test_tools
