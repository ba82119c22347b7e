#include <ATen/record_function.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/stopwatch.h"
#include "model/causal_lm.h"
#include "model/files/weight_source.h"
#include "paper/drive/card.h"
#include "paper/drive/modes.h"
#include "rollout/engine.h"

namespace hone::paper {
namespace {

// Processor time of this thread: what others do on the same processor does not count. It costs a call of the kernel, where base::Clock
// costs none.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  constexpr double kNano = 1e-9;
  return static_cast<double>(now.tv_sec) + kNano * static_cast<double>(now.tv_nsec);
}

// Seconds that this thread spent in libtorch's operators, those inside of others counted once.
struct InOperators {
  int depth = 0;
  base::Clock::time_point begin = {};
  double seconds = 0;
};
thread_local InOperators in_operators;

std::unique_ptr<at::ObserverContext> operator_begun(const at::RecordFunction& /*call*/) {
  if (in_operators.depth++ == 0) in_operators.begin = base::Clock::now();
  return nullptr;
}

void operator_ended(const at::RecordFunction& /*call*/, at::ObserverContext* /*context*/) {
  if (--in_operators.depth == 0) in_operators.seconds += base::seconds_since(in_operators.begin);
}

// The least and the middle one of some times, in microseconds.
Json told(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  constexpr double kMicro = 1e6;
  return {{"least", kMicro * seconds.front()}, {"median", kMicro * seconds[seconds.size() / 2]}};
}

}  // namespace

int host_on_card(const std::vector<std::string>& words, at::Device card) {
  base::require(words.size() == 2, "paper_drive host", "a model's folder and a batch");
  const auto source = model::open_weights(words[0]);
  model::CausalLm model(*source, {.linear = at::kBFloat16, .residual = at::kFloat}, model::Storage::kPacked,
                        {}, card);
  model.join_linears();
  const std::int64_t batch = std::stoll(words[1]);
  rollout::Engine engine(model, {.batch_size = batch});
  rollout::RequestOptions options;
  constexpr std::int64_t kLongTokens = 200;
  options.max_new_tokens = kLongTokens;
  options.sampler.temperature = 1;
  for (std::int64_t i = 0; i < batch; ++i)
    engine.add({.ids = std::vector<std::int32_t>(9, static_cast<std::int32_t>(3 + i)), .options = options});
  const auto handle = at::addGlobalCallback(
      at::RecordFunctionCallback(operator_begun, operator_ended).scopes({at::RecordScope::FUNCTION}));
  // Observers cost time themselves: every other step is without them, and says how long a step takes.
  std::vector<double> all, inside, beside;
  for (std::int64_t i = 0; i < kLongTokens - 20; ++i) {
    const bool is_observed = i % 2 == 1;
    is_observed ? at::reenableCallback(handle) : at::disableCallback(handle);
    in_operators.seconds = 0;
    const double begin = processor_seconds();
    const base::Clock::time_point observed = base::Clock::now();
    engine.advance();
    const std::vector<rollout::Event> events = engine.poll();
    const double total = base::seconds_since(observed), seconds = processor_seconds() - begin;
    if (i < kLongTokens / 4) continue;  // prompts are read in pieces
    base::require(std::ssize(events) == batch, "paper_drive host", "a token of each sequence in a step");
    if (is_observed) {
      inside.push_back(in_operators.seconds);
      beside.push_back(total - in_operators.seconds);
    } else {
      all.push_back(seconds);
    }
  }
  at::removeCallback(handle);
  std::cout << Json{{"event", "host"},
                    {"batch", batch},
                    {"steps", all.size()},
                    {"step_us", told(all)},
                    {"operators_us", told(inside)},
                    {"host_us", told(beside)}}
                   .dump()
            << std::endl;
  return 0;
}

}  // namespace hone::paper
