#include "doctor/tools/rank_probe.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/stopwatch.h"
#include "parallel/gloo/c10d_ranks.h"

namespace hone::doctor {

namespace {

constexpr std::int64_t kElements = 1 << 20;  // of a probed sum
constexpr int kExchanges = 40, kSums = 6;
constexpr double kLeastSeconds = 1e-7;

struct Probed {
  double exchange = 0, sum = 0;  // seconds: of an exchange, and of a sum of kElements
};

// The lower quartile: of moments that others disturb less.
double quartile(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 4];
}

std::vector<double> times(int count, const std::function<void()>& call) {
  std::vector<double> out;
  call();
  for (int i = 0; i < count; ++i) {
    const auto start = base::Clock::now();
    call();
    out.push_back(base::seconds_since(start));
  }
  return out;
}

// Errors of one rank end all: the others see the connection break.
Probed probe(int size) {
  const parallel::HostedStore store(0);
  Probed out;
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  const auto body = [&](int rank) {
    const parallel::RankPlace place{.launcher = "hone plan",
                                    .rank = rank,
                                    .size = size,
                                    .local_rank = rank,
                                    .local_size = size,
                                    .master_addr = "127.0.0.1",
                                    .master_port = store.port(),
                                    .launcher_hosts_store = true};
    const std::unique_ptr<parallel::Ranks> ranks = parallel::open_ranks(place, {});
    const at::Tensor values = at::zeros({kElements});
    const std::vector<double> exchanges = times(kExchanges, [&] { ranks->barrier("probe"); });
    const std::vector<double> sums = times(kSums, [&] { ranks->sum(values, "probe"); });
    if (rank == 0) out = {.exchange = quartile(exchanges), .sum = quartile(sums)};
    ranks->finish();
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& one : threads) one.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return out;
}

// Seconds of a token by `threads` threads: passes until `seconds` are over, of which the shortest counts.
double token_seconds(const train::RunView& run, int threads, double seconds) {
  const int before = at::get_num_threads();
  at::set_num_threads(threads);
  train::RehearsalRequest request = {.max_tokens = 64};
  const auto begin = base::Clock::now();
  double best = 0;
  for (int tries = 0; tries == 0 || base::seconds_since(begin) < seconds; ++tries) {
    const auto start = base::Clock::now();
    const train::Rehearsal done = run.method->rehearse(request);
    const std::int64_t cost = done.cost > 0 ? done.cost : done.tokens;
    const double token = base::seconds_since(start) / static_cast<double>(std::max<std::int64_t>(1, cost));
    // The first pass warms up, and says how long a longer one may be.
    if (tries == 0) {
      const auto affordable = static_cast<std::int64_t>(seconds / 4 / token);
      request.max_tokens = std::clamp<std::int64_t>(affordable, 64, 1024);
    }
    best = tries <= 1 ? token : std::min(best, token);
  }
  at::set_num_threads(before);
  return best;
}

}  // namespace

LinkSpeed probe_links() {
  const Probed two = probe(2), four = probe(4);
  LinkSpeed out;
  out.message = std::max(kLeastSeconds, (four.exchange - two.exchange) / 2);
  out.latency = std::max(kLeastSeconds, two.exchange - out.message);
  // A sum of two ranks sends all of its bytes once, beside three exchanges.
  const double moving = std::max(kLeastSeconds, two.sum - 3 * two.exchange);
  out.bandwidth = static_cast<double>(kElements * 4) / moving;
  return out;
}

void probe_passes(const train::RunView& run, double seconds, train::RankSpeed& speed) {
  run.adapter->hold_gradient();
  const int all = at::get_num_threads();
  const double together = token_seconds(run, all, seconds);
  speed.serial = 0;
  speed.divided = together * all;
  if (all > 1) {
    const double alone = token_seconds(run, 1, seconds);
    // alone = serial + divided, together = serial + divided / all
    speed.divided = std::max(0.0, (alone - together) * all / (all - 1));
    speed.serial = std::max(0.0, alone - speed.divided);
  }
  // Zeroing, the norm, clipping and AdamW: read and write each number several times.
  const at::Tensor gradient = run.adapter->flat_gradient();
  run.adapter->zero_gradient();
  const at::Tensor scratch = at::zeros_like(gradient);
  constexpr double kPasses = 4;  // of AdamW's seven streams; add_ has three of them, and the norm one
  speed.optimizer = kPasses * quartile(times(3, [&] { scratch.add_(gradient); }));
}

}  // namespace hone::doctor
