// The compute thread: requests of any moment, works in turns, stops.
#include "serve/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <map>

#include "base/error.h"
#include "base/process/instruction_level.h"
#include "serve/prompt_scores.h"
#include "serve/tiny_served.h"

namespace hone::serve {
namespace scheduler_test {

using Ids = std::vector<std::int32_t>;

Ids prompt_of(std::int32_t count) {
  Ids out;
  for (std::int32_t i = 0; i < count; ++i) out.push_back(10 + (i * 7 + count) % 300);
  return out;
}

rollout::Request request_of(std::int32_t count, std::int64_t tokens = 5) {
  rollout::Request out;
  out.ids = prompt_of(count);
  out.options.max_new_tokens = tokens;
  out.options.sampler.temperature = 1;
  out.options.seed = 3;
  out.options.share_prefixes = true;
  return out;
}

struct Ended {
  rollout::Completion completion;
  std::exception_ptr error;
};

std::future<Ended> submit(Scheduler& scheduler, rollout::Request request, JobId* id = nullptr) {
  auto promise = std::make_shared<std::promise<Ended>>();
  std::future<Ended> out = promise->get_future();
  const JobId given = scheduler.submit(
      {.request = std::move(request),
       .on_token =
           [promise](const rollout::Completion& completion, const SampleFacts&, bool ended) {
             if (ended) promise->set_value({completion, nullptr});
           },
       .on_error = [promise](const std::exception_ptr& error) { promise->set_value({{}, error}); }});
  if (id != nullptr) *id = given;
  return out;
}

TEST(Scheduler, TokensDoNotDependOnWhatRunsBeside) {
  TinyServed tiny;
  std::map<std::int32_t, rollout::Completion> alone;
  for (const std::int32_t count : {1, 5, 63, 64, 65, 130}) {
    alone[count] = submit(tiny.scheduler, request_of(count)).get().completion;
    ASSERT_EQ(alone[count].ids.size(), 5U);
  }
  std::map<std::int32_t, std::future<Ended>> together;
  for (const auto& [count, ignored] : alone) together[count] = submit(tiny.scheduler, request_of(count));
  for (auto& [count, one] : together) {
    const rollout::Completion found = one.get().completion;
    EXPECT_EQ(found.ids, alone[count].ids) << count;
    EXPECT_EQ(found.logprobs, alone[count].logprobs) << count;
  }
}

TEST(Scheduler, ScoresOfAPromptAreTheSamplers) {
  TinyServed tiny;
  const rollout::Completion sampled = submit(tiny.scheduler, request_of(70, 8)).get().completion;
  Ids whole = prompt_of(70);
  whole.insert(whole.end(), sampled.ids.begin(), sampled.ids.end());
  std::promise<PromptScores> scores;
  tiny.scheduler.submit(
      score_prompt(tiny.model, {.ids = whole,
                                .from = 70,
                                .top = 3,
                                .version = nullptr,
                                .on_done = [&](const PromptScores& done) { scores.set_value(done); },
                                .on_error = [](const std::exception_ptr&) {}}),
      0);
  const PromptScores found = scores.get_future().get();
  ASSERT_EQ(found.logprobs.size(), sampled.ids.size());
  for (std::size_t i = 0; i < found.logprobs.size(); ++i)
    EXPECT_NEAR(found.logprobs[i], sampled.logprobs[i], 1e-4) << i;  // fp32 products are libtorch's
  for (const TopTokens& top : found.top) {
    ASSERT_EQ(top.size(), 3U);
    EXPECT_GE(top[0].second, top[1].second);
    EXPECT_GE(top[1].second, top[2].second);
  }
}

TEST(Scheduler, AMistakeIsToldAndOthersGoOn) {
  TinyServed tiny;
  const Ended wrong = submit(tiny.scheduler, request_of(5, 100'000)).get();
  ASSERT_TRUE(wrong.error);
  EXPECT_THROW(std::rethrow_exception(wrong.error), base::UserError);
  EXPECT_EQ(submit(tiny.scheduler, request_of(5)).get().completion.ids.size(), 5U);
}

TEST(Scheduler, ACancelledRequestEndsOnce) {
  TinyServed tiny;
  JobId id = 0;
  std::future<Ended> long_one = submit(tiny.scheduler, request_of(5, 400), &id);
  tiny.scheduler.cancel(id);
  EXPECT_EQ(long_one.get().completion.finish_reason, rollout::FinishReason::kCancelled);
  tiny.scheduler.cancel(id);
  EXPECT_EQ(submit(tiny.scheduler, request_of(5)).get().completion.ids.size(), 5U);
  EXPECT_EQ(tiny.scheduler.facts().jobs, 0U);
}

// Requests of all kinds at once: seeds, greedy, stops, an end, no log-probabilities, another prompt.
std::vector<rollout::Request> mixed_requests() {
  std::vector<rollout::Request> out;
  for (std::uint64_t i = 0; i < 8; ++i) {
    rollout::Request one = request_of(static_cast<std::int32_t>(60 + 5 * i), 40);
    one.options.seed = i;
    one.options.sampler.temperature = i % 2 == 0 ? 0 : 0.5;
    one.options.logprobs = i != 3;
    if (i == 4) one.options.stops = [](std::span<const std::int32_t> ids) { return ids.size() >= 7; };
    if (i == 5) one.options.sampler.repetition_penalty = 1.2;
    if (i == 6) one.options.max_new_tokens = 3;
    out.push_back(std::move(one));
  }
  return out;
}

std::vector<rollout::Completion> completions_of(TinyServed& tiny) {
  std::vector<std::future<Ended>> asked;
  for (rollout::Request& one : mixed_requests()) asked.push_back(submit(tiny.scheduler, std::move(one)));
  std::vector<rollout::Completion> out;
  for (auto& one : asked) out.push_back(one.get().completion);
  return out;
}

// What the requests go on with is guessed, every third token wrong.
TEST(Scheduler, DraftsChangeNoBitAndAllTheirTokensCount) {
  TinyServed plain;
  const std::vector<rollout::Completion> wanted = completions_of(plain);
  const std::vector<rollout::Request> requests = mixed_requests();
  int guesses = 0;
  const rollout::GuessFunction guess = [&](std::span<const std::int32_t> ids, std::int64_t most) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      Ids whole = requests[i].ids;
      whole.insert(whole.end(), wanted[i].ids.begin(), wanted[i].ids.end());
      if (whole.size() <= ids.size() || !std::equal(ids.begin(), ids.end(), whole.begin())) continue;
      const auto from = whole.begin() + std::ssize(ids);
      Ids out(from, from + std::min<std::int64_t>({most, 5, whole.end() - from}));
      if (++guesses % 3 == 0) out.back() = (out.back() + 1) % 300;
      return out;
    }
    return Ids();
  };
  TinyServed drafting(rollout::Drafts::kAlways, &guess);
  const std::vector<rollout::Completion> found = completions_of(drafting);
  std::uint64_t tokens = 0, read = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(found[i].ids, wanted[i].ids) << i;
    EXPECT_EQ(found[i].logprobs, wanted[i].logprobs) << i;
    EXPECT_EQ(found[i].sampled_logprobs, wanted[i].sampled_logprobs) << i;
    EXPECT_EQ(found[i].finish_reason, wanted[i].finish_reason) << i;
    tokens += wanted[i].ids.size();
    read += requests[i].ids.size();
  }
  for (TinyServed* const tiny : {&plain, &drafting}) {
    tiny->scheduler.stop();
    const SchedulerFacts facts = tiny->scheduler.facts();
    EXPECT_EQ(facts.sampled, tokens);
    EXPECT_EQ(facts.read, read);
  }
  if (base::instruction_level() < base::InstructionLevel::kAvx2) return;  // nothing is guessed there
  EXPECT_GT(drafting.scheduler.facts().drafts.accepted, 20);
  EXPECT_LT(drafting.scheduler.facts().drafts.accepted, drafting.scheduler.facts().drafts.drafted);
  EXPECT_LT(drafting.scheduler.facts().decode_steps, plain.scheduler.facts().decode_steps);
  EXPECT_EQ(plain.scheduler.facts().drafts.drafted, 0);
}

class Noted : public Work {
 public:
  Noted(std::string& order, char name, int steps, std::promise<void>* end)
      : order_(order), name_(name), left_(steps), end_(end) {}
  bool step() override {
    order_ += name_;
    if (--left_ > 0) return true;
    if (end_ != nullptr) end_->set_value();
    return false;
  }

 private:
  std::string& order_;
  const char name_;
  int left_;
  std::promise<void>* const end_;
};

TEST(Scheduler, QueuesTakeTurnsAndKeepTheirOrder) {
  TinyServed tiny;
  std::string order;  // of the compute thread, until the end
  std::promise<void> end;
  tiny.scheduler.run_soon([&] {
    tiny.scheduler.submit(std::make_unique<Noted>(order, 'a', 2, nullptr), 1);
    tiny.scheduler.submit(std::make_unique<Noted>(order, 'b', 1, nullptr), 1);
    tiny.scheduler.submit(std::make_unique<Noted>(order, 'c', 4, &end), 2);
  });
  end.get_future().get();
  EXPECT_EQ(order, "acacbcc");
}

TEST(Scheduler, DecodingAndWorksShareTheTime) {
  TinyServed tiny;
  std::string order;
  std::promise<void> end;
  std::future<Ended> sampled = submit(tiny.scheduler, request_of(5, 200));
  tiny.scheduler.submit(std::make_unique<Noted>(order, 'a', 50, &end), 1);
  end.get_future().get();
  EXPECT_EQ(sampled.get().completion.ids.size(), 200U);
}

TEST(Scheduler, StopEndsEverything) {
  TinyServed tiny;
  std::future<Ended> one = submit(tiny.scheduler, request_of(5, 400));
  tiny.scheduler.stop();
  const Ended ended = one.get();
  EXPECT_TRUE(ended.error || ended.completion.finish_reason == rollout::FinishReason::kCancelled);
  EXPECT_TRUE(submit(tiny.scheduler, request_of(5)).get().error);
}

}  // namespace scheduler_test
}  // namespace hone::serve
