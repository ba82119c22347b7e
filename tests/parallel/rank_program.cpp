#include "parallel/rank_program.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <iostream>
#include <thread>

#include "base/hash.h"
#include "parallel/bins.h"
#include "parallel/gloo/c10d_ranks.h"
#include "parallel/tree_sum.h"
#include "parallel/turns.h"

namespace hone::parallel::rank_program {

namespace {

using std::chrono::milliseconds;

Environment environment() {
  Environment out;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string text = *one;
    const std::size_t equals = text.find('=');
    out[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return out;
}

std::uint64_t hash_of(const at::Tensor& values) {
  return base::hash64(std::span(static_cast<const std::byte*>(values.data_ptr()), values.nbytes()));
}

// One step of 13 items of different cost, and each collective once. Prints a hash of the step's sum, which does not depend on the
// number of ranks, and "well".
void work(Ranks& ranks) {
  std::vector<std::int64_t> costs;
  for (std::int64_t i = 0; i < 13; ++i) costs.push_back(1 + (i * 37) % 11);
  const BinnedWork work(costs, ranks.size());
  BinSums sums(at::empty({10'007}));
  const BinRange bins = bins_of(ranks.rank(), ranks.size());
  const at::Tensor index = at::arange(10'007, at::kDouble);
  for (std::int64_t step = 1; step <= 2; ++step) {
    ranks.at_step(step);
    for (int bin = bins.begin; bin < bins.end; ++bin) {
      if (work.items_of(bin).empty()) continue;
      sums.begin_bin(bin);
      for (const std::int64_t item : work.items_of(bin)) {
        sums.buffer().add_(
            (index * static_cast<double>(131 + item)).sin().mul(std::pow(10, item % 5)).to(at::kFloat));
      }
    }
    sums.finish(ranks, "gradients");
  }
  std::cout << "sum " << hash_of(sums.buffer()) << "\n";
  const auto facts = in_turns(
      ranks, work,
      [](std::int64_t item) {
        return std::string(100 * static_cast<std::size_t>(item), 'x') + std::to_string(item);
      },
      "rewards");
  bool well = facts.size() == 13 && facts[12].ends_with("x12") && facts[0] == "0";
  const auto all = ranks.gather(std::to_string(ranks.rank()), "ranks");
  for (std::size_t r = 0; r < all.size(); ++r) well = well && all[r] == std::to_string(r);
  const at::Tensor weights = at::full({3001}, ranks.rank() + 5);
  ranks.broadcast(weights, "weights");
  well = well && weights.eq(5).all().item<bool>();
  const std::vector<std::int64_t> values = {ranks.rank()};
  well = well && ranks.agree(values, "stop").max[0] == ranks.size() - 1;
  well = well && ranks.local_size() == ranks.size() && ranks.local_rank() == ranks.rank();
  ranks.finish();
  std::cout << (well ? "well" : "wrong") << "\n";
}

// Barriers for some seconds, in which a test of the network cuts a link (processes_test.cpp).
void loop(Ranks& ranks) {
  for (std::int64_t step = 1; step <= 400; ++step) {
    ranks.at_step(step);
    ranks.barrier("gradients");
    std::this_thread::sleep_for(milliseconds(20));
  }
  std::cout << "no fault\n";
}

// Step 3: the gradients, with what happens to rank 1 of its name.
void fail(Ranks& ranks, const std::string& name) {
  ranks.at_step(3);
  ranks.barrier("rollouts");
  if (name == "stops-zero" && ranks.rank() == 0) raise(SIGSTOP);
  if (ranks.rank() == 1) {
    if (name == "killed") raise(SIGKILL);
    if (name == "stopped") raise(SIGSTOP);
    if (name == "hangs") std::this_thread::sleep_for(std::chrono::seconds(60));
    if (name == "diverges") ranks.barrier("evaluation");
    if (name == "errs") {
      ranks.last_words("[train.jsonl:7] expected a string");
      return;
    }
  }
  const at::Tensor values = at::zeros({100'000});
  ranks.sum(values, "gradients");
  std::cout << "no fault\n";
}

}  // namespace

int run(const std::string& name) {
  std::signal(SIGPIPE, SIG_IGN);  // as hone does: a peer that is gone is an error, not the end
  try {
    RankOptions options;
    options.timeout = milliseconds(name == "work" ? 30'000 : 1'000);
    options.start_timeout = milliseconds(name == "alone" ? 700 : name == "pair" ? 1'500 : 20'000);
    options.grace = milliseconds(name == "hangs" || name == "loops" ? 1'500 : 300);
    options.linger = milliseconds(2'000);
    const auto ranks = open_ranks(read_place(environment()), options);
    if (name == "work") {
      work(*ranks);
    } else if (name == "loops") {
      loop(*ranks);
    } else {
      fail(*ranks, name);
    }
    return 0;
  } catch (const RankFault& error) {
    std::cout << error.what() << "\nkind " << static_cast<int>(error.kind()) << "\n";
    return error.restart_may_help() ? 3 : 2;
  } catch (const base::UserError& error) {
    std::cout << error.what() << "\n";
    return 2;
  }
}

}  // namespace hone::parallel::rank_program
