// Full fine-tuning divided among ranks (train/loop/shards.h), pass by pass between threads: sums, steps, and what is sent.
#include "train/loop/shards.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "adapters/lora.h"
#include "config/plan.h"
#include "model/files/weight_source.h"
#include "parallel/thread_ranks.h"
#include "train/facts/rank_plan.h"
#include "train/loop/optimizer.h"
#include "train/loop/task_thread.h"

namespace hone::train {
namespace shards_test {

// The tiny Llama, whose weights are all trained.
struct Trained {
  explicit Trained(const DividedState& divided)
      : source(model::open_weights(HONE_FIXTURES "/parity/tiny_llama")),
        lm(*source, {}),
        adapter(adapters::Adapter::attach_full(lm, {.full = adapters::FullTraining{}}, *source)),
        optimizer(make_optimizer(config::OptimizerPlan{}, adapter, divided)) {}
  std::unique_ptr<model::WeightSource> source;
  model::CausalLm lm;
  adapters::Adapter adapter;
  learn::Optimizer optimizer;
};

// What pass `pass` of rank `rank` adds to the gradient's element i, of no pattern that shares could hide.
float gradient_of(int rank, int pass, std::int64_t i) {
  return static_cast<float>((i * 31 + rank * 7 + pass * 3) % 17 - 8) / 64;
}

void add_to(const Trained& run, int rank, int pass, std::int64_t layer) {
  const at::NoGradGuard no_grad;
  const learn::FlatLayout& layout = run.optimizer.layout();
  for (std::size_t t = 0; t < layout.size(); ++t) {
    if (layout[t].part != layer) continue;
    at::Tensor flat = run.adapter.tensors()[t].value.grad().view({-1});
    auto* const g = flat.data_ptr<float>();
    for (std::int64_t i = 0; i < layout[t].size; ++i) g[i] += gradient_of(rank, pass, layout[t].offset + i);
  }
}

// A pass as FusedPass tells of it.
void pass_of(const Trained& run, int rank, int pass) {
  model::PassObserver* const observer = run.lm.pass_observer();
  const auto layers = static_cast<std::size_t>(run.lm.config().num_hidden_layers);
  for (std::size_t i = 0; observer != nullptr && i < layers; ++i) {
    observer->before_forward(i);
    observer->after_forward(i);
  }
  for (std::size_t i = layers; i-- > 0;) {
    if (observer != nullptr) observer->before_backward(i);
    add_to(run, rank, pass, static_cast<std::int64_t>(i));
    if (observer != nullptr) observer->after_backward(i);
  }
  add_to(run, rank, pass, learn::kNoPart);
  if (observer != nullptr) observer->after_pass();
}

constexpr double kMaxNorm = 0.5, kRate = 1e-2;

// Rank r makes passes(r) passes in each of `steps` steps; all parameters afterwards, as rank 0 reads them, and the norm.
struct Result {
  at::Tensor parameters;
  double norm = 0;
  double sent = 0;  // by a rank, on average
};

Result run_divided(int ranks, int stage, int steps, const std::function<int(int)>& passes) {
  Result out;
  std::vector<std::int64_t> sent;
  const auto said = parallel::thread_ranks::run(
      ranks,
      [&](parallel::Ranks& all) {
        Trained run({.stage = stage, .rank = all.rank(), .ranks = ranks});
        Shards shards(all, run.lm, run.adapter, run.optimizer, stage, kMaxNorm);
        const auto backward = [&]() -> StepLoss {
          for (int pass = 0; pass < passes(all.rank()); ++pass) pass_of(run, all.rank(), pass);
          shards.accompany();
          return {};
        };
        for (int step = 0; step < steps; ++step) {
          const StepResult done = shards.step({.backward = backward}, kRate);
          if (all.leads()) out.norm = done.grad_norm;
        }
        if (steps > 1) {  // the sent bytes are those of one step
          shards.reading(all, [&] {
            shards.read_all_parameters();
            out.parameters = run.adapter.flat().clone();
          });
        }
      },
      std::chrono::seconds(20), &sent);
  for (const std::string& error : said) EXPECT_EQ(error, "");
  out.sent = static_cast<double>(std::accumulate(sent.begin(), sent.end(), std::int64_t{0})) / ranks;
  return out;
}

Result run_whole(int ranks, int steps, const std::function<int(int)>& passes) {
  const at::NoGradGuard no_grad;
  Trained run({});
  run.adapter.hold_gradient();
  Result out;
  WholeStep whole(run.adapter, kMaxNorm, run.optimizer);
  const auto backward = [&]() -> StepLoss {
    for (int rank = 0; rank < ranks; ++rank)
      for (int pass = 0; pass < passes(rank); ++pass) pass_of(run, rank, pass);
    return {};
  };
  for (int step = 0; step < steps; ++step) out.norm = whole.step({.backward = backward}, kRate).grad_norm;
  out.parameters = run.adapter.flat().clone();
  return out;
}

TEST(TaskThread, TasksRunInOrderAndAnErrorIsTheWaiters) {
  TaskThread thread;
  std::vector<int> done;
  TaskThread::Ticket last = 0;
  for (int i = 0; i < 100; ++i) last = thread.post([&done, i] { done.push_back(i); });
  thread.wait(last);
  ASSERT_EQ(done.size(), 100U);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  thread.wait(last - 50);  // done long ago
  thread.post([] { throw std::runtime_error("broken"); });
  const TaskThread::Ticket after = thread.post([&done] { done.clear(); });
  EXPECT_THROW(thread.wait(after), std::runtime_error);
  EXPECT_THROW(thread.wait(after), std::runtime_error);
  EXPECT_EQ(done.size(), 100U) << "nothing runs after an error";
}

TEST(TaskThread, ATaskMayWaitForItsOwnerToWait) {
  TaskThread thread;
  std::atomic<bool> computes = true, disturbed = false;
  TaskThread::Ticket last = 0;
  for (int i = 0; i < 50; ++i) {
    last = thread.post([&] {
      if (thread.until_owner_waits() && computes) disturbed = true;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (TaskThread::Ticket ticket = last - 49; ticket <= last; ++ticket) {
    computes = false;
    thread.wait(ticket);
    computes = true;
  }
  EXPECT_FALSE(disturbed);
}

TEST(Shards, TakeTheStepsOfOneProcess) {
  for (const int ranks : {2, 3}) {
    // uneven: rank 1 has none, the last one has three
    const auto uneven = [&](int rank) { return rank == 1 ? 0 : rank == 0 ? 2 : 3; };
    const Result whole = run_whole(ranks, 3, uneven);
    for (const int stage : {1, 2, 3}) {
      const Result divided = run_divided(ranks, stage, 3, uneven);
      EXPECT_NEAR(divided.norm, whole.norm, 1e-9 * whole.norm) << ranks << " ranks, stage " << stage;
      // gradients are exact sums here; the norm's last bit may turn the clipping factor's
      const double worst = (divided.parameters - whole.parameters).abs().max().item<double>();
      EXPECT_LE(worst, 1e-7) << ranks << " ranks, stage " << stage;
    }
  }
}

TEST(Shards, SendWhatThePlanSays) {
  const Trained whole({});
  std::int64_t outside = 0;
  for (const learn::FlatTensor& tensor : whole.optimizer.layout())
    outside += tensor.part == learn::kNoPart ? tensor.size : 0;
  for (const int ranks : {2, 4}) {
    for (const std::int64_t passes : {1, 3}) {
      for (const int stage : {1, 2, 3}) {
        const RankWork work = {
            .micro_batches = std::vector<std::int64_t>(static_cast<std::size_t>(passes * ranks), 10),
            .accumulation = passes,
            .parameters = whole.adapter.flat().numel(),
            .tree_sums = false,
            .zero_stage = stage,
            .layers = whole.lm.config().num_hidden_layers,
            .outside = outside};
        RankWork plain = work;
        plain.zero_stage = 0;
        const RankSetting setting = {.per_host = ranks, .cores = 8};
        // what is beside the sum is the same for every stage
        double sum = 0;
        for (int rank = 0; rank < ranks; ++rank)
          sum += static_cast<double>(sum_bytes(work.parameters, ranks, rank)) / ranks;
        const double beside = forecast(plain, setting, {}).bytes_of_rank - sum;
        const Result found = run_divided(ranks, stage, 1, [&](int) { return static_cast<int>(passes); });
        const double planned = forecast(work, setting, {}).bytes_of_rank - beside;
        EXPECT_NEAR(found.sent, planned, 1e-3 * planned)
            << ranks << " ranks, stage " << stage << ", " << passes;
      }
    }
  }
}

}  // namespace shards_test
}  // namespace hone::train
