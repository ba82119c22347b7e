// Collectives and faults, with ranks that are threads. What processes and the network add is in processes_test.cpp.
#include "parallel/linked_ranks.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <numeric>
#include <thread>

#include "base/process/stop_request.h"
#include "parallel/fault_table.h"
#include "parallel/thread_ranks.h"
#include "parallel/turns.h"

namespace hone::parallel::linked_ranks_test {

using thread_ranks::run;

void expect_well(const std::vector<std::string>& thrown) {
  for (const std::string& error : thrown) EXPECT_EQ(error, "");
}

TEST(LinkedRanks, GatherHasEveryRanksBytesInOrder) {
  for (const int size : {2, 3, 5}) {
    expect_well(run(size, [](Ranks& ranks) {
      // Empty, small (in the header) and large ones.
      const auto bytes = [](int rank) {
        return std::string(static_cast<std::size_t>(rank * rank * 150), static_cast<char>('a' + rank));
      };
      const auto all = ranks.gather(bytes(ranks.rank()), "facts");
      ASSERT_EQ(all.size(), static_cast<std::size_t>(ranks.size()));
      for (int r = 0; r < ranks.size(); ++r) EXPECT_EQ(all[static_cast<std::size_t>(r)], bytes(r));
      ranks.finish();
    }));
  }
}

// A rank that comes late is named, once an interval, by those that wait for it.
TEST(LinkedRanks, ARankThatWaitsSaysSo) {
  const auto network = std::make_shared<thread_ranks::Network>();
  network->closed.resize(2);
  network->sent.resize(2);
  std::mutex mutex;
  std::vector<std::string> said;
  const auto open = [&](int rank) {
    return std::make_unique<LinkedRanks>(
        rank, std::vector<std::string>{"h0", "h1"}, std::make_unique<thread_ranks::ThreadLink>(network, rank),
        std::make_unique<LastWords>(std::make_shared<thread_ranks::MemoryBoard>(network), rank, 2,
                                    "h" + std::to_string(rank)),
        LinkedOptions{.grace = std::chrono::milliseconds(200),
                      .linger = std::chrono::milliseconds(200),
                      .wait_told = std::chrono::milliseconds(100),
                      .on_wait = [&](const std::string& words) {
                        const std::lock_guard lock(mutex);
                        said.push_back(words);
                      }});
  };
  auto first = open(0), second = open(1);
  std::thread late([&] {
    second->at_step(7);
    second->barrier("start");
    std::this_thread::sleep_for(std::chrono::milliseconds(450));
    second->barrier("checkpoint");
    second.reset();
  });
  first->at_step(7);
  first->barrier("start");
  first->barrier("checkpoint");
  first.reset();
  late.join();
  const std::lock_guard lock(mutex);
  ASSERT_GE(said.size(), 2U);
  EXPECT_LE(said.size(), 5U);
  for (const std::string& words : said) {
    EXPECT_NE(words.find("rank 0 of 2 has waited 0 s at step 7, checkpoint, for rank 1 on host h1"),
              std::string::npos)
        << words;
  }
}

TEST(LinkedRanks, BroadcastHasRankZeros) {
  expect_well(run(3, [](Ranks& ranks) {
    const bool leads = ranks.leads();
    EXPECT_EQ(ranks.broadcast(leads ? "small" : "other", "seed"), "small");
    EXPECT_EQ(ranks.broadcast(leads ? std::string(5000, 'x') : "", "text"), std::string(5000, 'x'));
    const at::Tensor values = leads ? at::arange(1001, at::kLong) : at::zeros({1001}, at::kLong);
    ranks.broadcast(values, "weights");
    EXPECT_TRUE(values.equal(at::arange(1001, at::kLong)));
    const at::Tensor none = at::zeros({0});
    ranks.broadcast(none, "nothing");
  }));
}

TEST(LinkedRanks, AgreeHasMinMaxAndAny) {
  expect_well(run(4, [](Ranks& ranks) {
    const std::vector<std::int64_t> values = {ranks.rank(), 7, std::int64_t{1} << ranks.rank()};
    const Agreed agreed = ranks.agree(values, "stop and finite");
    EXPECT_EQ(agreed.min, (std::vector<std::int64_t>{0, 7, 1}));
    EXPECT_EQ(agreed.max, (std::vector<std::int64_t>{3, 7, 8}));
    EXPECT_EQ(agreed.any[2], 15);
    EXPECT_TRUE(agreed.same(1));
    EXPECT_FALSE(agreed.same(0));
    ranks.barrier("checkpoint");
  }));
}

TEST(LinkedRanks, PartsOfASum) {
  expect_well(run(3, [](Ranks& ranks) {
    const at::Tensor values = at::full({100}, 1.0 + ranks.rank());
    const Part own = ranks.part_of(100, ranks.rank());
    ranks.sum_part(values, "gradients");
    EXPECT_TRUE(values.slice(0, own.begin, own.end).eq(6).all().item<bool>());
    EXPECT_EQ(values.eq(6).sum().item<std::int64_t>(), own.end - own.begin);
    ranks.gather_parts(values, "weights");
    EXPECT_TRUE(values.eq(6).all().item<bool>());
    std::int64_t next = 0;
    for (int r = 0; r < 3; ++r) {
      EXPECT_EQ(ranks.part_of(100, r).begin, next);
      next = ranks.part_of(100, r).end;
    }
    EXPECT_EQ(next, 100);
  }));
}

TEST(LinkedRanks, ASumOfSeveralRounds) {
  expect_well(run(2, [](Ranks& ranks) {
    const at::Tensor values = at::full({9'000'001}, 1.0 + ranks.rank());
    ranks.sum(values, "gradients");
    EXPECT_EQ(values.min().item<float>(), 3);
    EXPECT_EQ(values.max().item<float>(), 3);
  }));
}

TEST(LinkedRanks, DifferentCollectivesAreNamedOnEveryRank) {
  const auto thrown = run(3, [](Ranks& ranks) {
    ranks.at_step(12);
    ranks.barrier("start");
    const at::Tensor values = at::zeros({4});
    if (ranks.rank() == 1) {
      ranks.barrier("evaluation");
    } else {
      ranks.sum(values, "gradients");
    }
  });
  for (const std::string& error : thrown) {
    EXPECT_NE(error.find("rank 1 on host h1: step 12, evaluation, number 2"), std::string::npos) << error;
    EXPECT_NE(error.find("rank 2 on host h2: step 12, gradients, number 2"), std::string::npos) << error;
  }
}

TEST(LinkedRanks, DifferentSizesAndStepsAreDifferentCollectives) {
  auto thrown = run(2, [](Ranks& ranks) { ranks.sum(at::zeros({4 + ranks.rank()}), "gradients"); });
  EXPECT_NE(thrown[0].find("20 bytes"), std::string::npos) << thrown[0];
  thrown = run(2, [](Ranks& ranks) {
    ranks.at_step(3 + ranks.rank());
    ranks.barrier("stop");
  });
  EXPECT_NE(thrown[1].find("rank 0 on host h0: step 3, stop"), std::string::npos) << thrown[1];
}

TEST(LinkedRanks, LastWordsReachTheOthers) {
  const auto thrown = run(3, [](Ranks& ranks) {
    ranks.at_step(4);
    ranks.barrier("start");
    if (ranks.rank() == 2) {
      ranks.last_words("[train.jsonl:7] expected a string");
      return;
    }
    ranks.sum(at::zeros({4}), "gradients");
  });
  EXPECT_EQ(thrown[2], "");
  for (const std::size_t r : {0, 1}) {
    EXPECT_NE(thrown[r].find("rank 2 on host h2 ended with an error: [train.jsonl:7] expected a string"),
              std::string::npos)
        << thrown[r];
    EXPECT_NE(thrown[r].find("step 4, gradients"), std::string::npos) << thrown[r];
    EXPECT_NE(thrown[r].find("after start"), std::string::npos) << thrown[r];
  }
}

TEST(LinkedRanks, ARankThatDoesNotComeIsNamedAndAlive) {
  const auto thrown = run(
      3,
      [](Ranks& ranks) {
        if (ranks.rank() == 1) {
          std::this_thread::sleep_for(std::chrono::milliseconds(900));
          return;
        }
        ranks.barrier("checkpoint");
      },
      std::chrono::milliseconds(300));
  for (const std::size_t r : {0, 2}) {
    EXPECT_NE(thrown[r].find("rank 1 on host h1 did not come within 0 s, and is alive"), std::string::npos)
        << thrown[r];
    EXPECT_NE(thrown[r].find("it hangs, or its work takes longer"), std::string::npos) << thrown[r];
  }
}

TEST(LinkedRanks, TheTimeOutIsTheLastOneSet) {
  const auto begin = std::chrono::steady_clock::now();
  const auto thrown = run(2, [](Ranks& ranks) {
    ranks.set_timeout(std::chrono::milliseconds(200));
    ranks.barrier("all here");
    if (ranks.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(800));
    ranks.barrier("late");
  });
  EXPECT_NE(thrown[0].find("rank 1 on host h1 did not come within 0 s, and is alive"), std::string::npos)
      << thrown[0];
  EXPECT_NE(thrown[0].find("ddp_timeout"), std::string::npos) << thrown[0];
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(LinkedRanks, NothingAfterTheEnd) {
  run(2, [](Ranks& ranks) {
    ranks.finish();
    EXPECT_THROW(ranks.barrier("late"), base::InternalError);
  });
}

TEST(RequireSame, NamesValuesAndRanks) {
  const auto thrown = run(3, [](Ranks& ranks) {
    require_same(ranks, {{"seed", "42"}}, "start", "", "");
    std::vector<SameValue> values = {{"max_length", ranks.rank() == 2 ? "1024" : "512"}, {"seed", "42"}};
    if (ranks.rank() == 1) values.push_back({"extra", "x"});
    require_same(ranks, values, "start", "another file", "use one file");
  });
  for (const std::string& error : thrown) {
    EXPECT_NE(error.find("max_length is 512 on ranks 0 and 1, 1024 on rank 2"), std::string::npos) << error;
    EXPECT_NE(error.find("extra is missing on ranks 0 and 2, x on rank 1"), std::string::npos) << error;
    EXPECT_EQ(error.find("seed"), std::string::npos) << error;
    EXPECT_NE(error.find("use one file"), std::string::npos) << error;
  }
}

TEST(InTurns, FactsOfAllInOrderOnEveryRank) {
  for (const int size : {1, 2, 3, 4}) {
    const auto body = [](Ranks& ranks) {
      std::vector<std::int64_t> costs = {5, 1, 9, 3, 3, 700, 2};
      const BinnedWork work(costs, ranks.size());
      int own = 0;
      const auto facts = in_turns(
          ranks, work,
          [&](std::int64_t item) {
            ++own;
            return std::string(static_cast<std::size_t>(item * 30), 'f') + std::to_string(item);
          },
          "rewards");
      ASSERT_EQ(facts.size(), costs.size());
      for (std::size_t i = 0; i < facts.size(); ++i)
        EXPECT_EQ(facts[i], std::string(i * 30, 'f') + std::to_string(i));
      EXPECT_EQ(own, static_cast<int>(work.items_of_rank(ranks.rank()).size()));
      EXPECT_EQ(in_turns(ranks, 0, [](std::int64_t) { return std::string("?"); }, "none").size(), 0U);
    };
    if (size == 1) {
      OneRank one;
      body(one);
    } else {
      expect_well(run(size, body));
    }
  }
}

TEST(InTurns, AnErrorOfOneRankEndsAll) {
  const auto thrown = run(3, [](Ranks& ranks) {
    in_turns(
        ranks, 3,
        [&](std::int64_t) -> std::string {
          if (ranks.rank() == 1) throw std::runtime_error("the reward failed");
          return "well";
        },
        "rewards");
  });
  EXPECT_EQ(thrown[1], "the reward failed");
  for (const std::size_t r : {0, 2}) {
    EXPECT_NE(thrown[r].find("rank 1 on host h1 ended with an error: the reward failed"), std::string::npos)
        << thrown[r];
  }
}

TEST(InTurns, AStopThatCutsOneRankShortCutsAll) {
  const auto thrown = run(3, [](Ranks& ranks) {
    in_turns(
        ranks, 3,
        [&](std::int64_t) -> std::string {
          if (ranks.rank() != 1) return "well";
          base::stop_deadline = 1;
          base::cut_if_overdue();
          return "not cut";
        },
        "gradients");
  });
  base::stop_deadline = 0;
  for (const std::string& error : thrown) EXPECT_EQ(error, base::StopCut().what());
}

TEST(InTurns, NothingIsCutOutsideOfSharedWork) {
  base::stop_deadline = 1;
  EXPECT_NO_THROW(base::cut_if_overdue());
  OneRank one;
  EXPECT_EQ(in_turns(
                one, 1,
                [](std::int64_t) {
                  base::cut_if_overdue();
                  return std::string("well");
                },
                "gradients")
                .size(),
            1U);
  base::stop_deadline = 0;
}

// The wall clock was set by days: on this machine the time since its start counts.
TEST(FaultTable, TimesDoNotDependOnTheWallClock) {
  Words words{
      .host = "node1", .process = this_process(), .step = 3, .collective = "gradients", .inside = true};
  words.since = 1e9;
  words.since_boot = 500;
  SeenFault seen{.rank = 1,
                 .size = 2,
                 .hosts = {"node1", "node1"},
                 .failures = {{0, false, "closed"}},
                 .before = std::vector<Words>(2, words),
                 .words = std::vector<Words>(2, words),
                 .now = 1e9 + 8e7,
                 .boot_now = 509,
                 .machine = words.process.machine};
  EXPECT_NE(fault_table(seen).find("  9 s"), std::string::npos) << fault_table(seen);
  seen.machine = "another";
  EXPECT_EQ(fault_table(seen).find("  9 s"), std::string::npos) << fault_table(seen);
}

TEST(AllOrNone, AnErrorOfRankZeroEndsAll) {
  const auto thrown = run(2, [](Ranks& ranks) {
    all_or_none(ranks, [] {}, "checkpoint");
    all_or_none(
        ranks,
        [&] {
          if (ranks.leads()) throw std::runtime_error("disk full");
        },
        "checkpoint");
  });
  EXPECT_EQ(thrown[0], "disk full");
  EXPECT_NE(thrown[1].find("disk full"), std::string::npos) << thrown[1];
}

}  // namespace hone::parallel::linked_ranks_test
