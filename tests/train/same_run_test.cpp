// What ranks must have the same of after a step (train/opening/same_run.h), and facts as bytes (train/facts/facts_bytes.h).
#include "train/opening/same_run.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/process/instruction_level.h"
#include "parallel/thread_ranks.h"
#include "train/facts/facts_bytes.h"
#include "train/loop/shared_work.h"
#include "train/steps/row_method.h"

namespace hone::train {
namespace same_run_test {

TEST(SameStep, ARankWithAnotherLossIsNamed) {
  const auto said = parallel::thread_ranks::run(3, [](parallel::Ranks& ranks) {
    ranks.at_step(7);
    require_same_step(ranks, ranks.rank() == 1 ? 2.5 : 2.25, 1.0, 0xABCD);
  });
  for (const std::string& text : said) {
    EXPECT_NE(text.find("DIST-03"), std::string::npos) << text;
    EXPECT_NE(text.find("2.5"), std::string::npos) << text;
    EXPECT_NE(text.find("2.25"), std::string::npos) << text;
    EXPECT_EQ(text.find("abcd"), std::string::npos) << "what is equal is not listed: " << text;
  }
}

TEST(SameStep, EqualRanksGoOn) {
  const auto said =
      parallel::thread_ranks::run(2, [](parallel::Ranks& ranks) { require_same_step(ranks, 2.5, 1.0, 1); });
  for (const std::string& text : said) EXPECT_EQ(text, "");
}

base::Json saved_facts(const MachineFacts& facts) {
  base::Json out = base::Json::object();
  for (const auto& [name, value] : facts) out[name] = value;
  return out;
}

TEST(ChangedMachine, TheSameOneSaysNothing) {
  EXPECT_EQ(changed_machine(saved_facts(machine_facts({})), machine_facts({})), "");
  EXPECT_EQ(changed_machine(base::Json::object(), machine_facts({})), "") << "an older hone did not say";
  EXPECT_EQ(changed_machine(base::Json(), machine_facts({})), "");
}

TEST(ChangedMachine, OtherKernelsAreToldWithTheLevelThatHasThem) {
  MachineFacts here = machine_facts({}), before = here;
  for (auto& [name, value] : before) {
    if (name == "kernels") value = "plain";
  }
  for (auto& [name, value] : here) {
    if (name == "kernels") value = "amx";
  }
  const std::string text = changed_machine(saved_facts(before), here);
  EXPECT_NE(text.find("kernels: plain -> amx"), std::string::npos) << text;
  EXPECT_NE(text.find("--instructions plain"), std::string::npos) << text;
  if (base::machine_level() < base::InstructionLevel::kAmx) {
    const std::string back = changed_machine(saved_facts(here), before);
    EXPECT_NE(back.find("this machine has no amx"), std::string::npos) << back;
    EXPECT_EQ(back.find("--instructions"), std::string::npos) << back;
  }
}

TEST(ChangedMachine, EveryFactCounts) {
  const MachineFacts here = machine_facts({});
  EXPECT_GE(here.size(), 9U);
  for (std::size_t i = 0; i < here.size(); ++i) {
    MachineFacts before = here;
    before[i].second += "-of-another";
    const std::string text = changed_machine(saved_facts(before), here);
    EXPECT_NE(text.find(here[i].first), std::string::npos) << text;
    EXPECT_NE(text.find("not equal to an uninterrupted one"), std::string::npos) << text;
  }
}

TEST(ChangedMachine, RanksWithTheSameBitsAreOne) {
  config::Plan plan;
  plan.use_peft = true;
  plan.gradient_accumulation_steps = 4;
  const base::Json saved = saved_facts(machine_facts(plan));
  plan.ranks = 2;
  plan.gradient_accumulation_steps = 2;
  EXPECT_EQ(changed_machine(saved, machine_facts(plan)), "") << "the same rows a step, the same bits";
  plan.gradient_accumulation_steps = 4;
  EXPECT_NE(changed_machine(saved, machine_facts(plan)).find("micro-batches of a step: 4 -> 8"),
            std::string::npos);
  plan.ranks = 3;
  EXPECT_NE(changed_machine(saved, machine_facts(plan)).find("ranks: 1, 2, 4 or 8 -> 3"), std::string::npos);
}

TEST(ChangedMachine, ThreadsCountWhereLibtorchSums) {
  config::Plan plan;
  const auto has_threads = [&] { return saved_facts(machine_facts(plan)).contains("threads"); };
  EXPECT_FALSE(has_threads());
  plan.use_bnb_nested_quant = true;
  EXPECT_TRUE(has_threads());
}

TEST(FactsBytes, ComeBackAsTheyWere) {
  BatchLoss facts{.loss = 1.0 / 3, .divisor = 2, .tokens = 7, .nll = -1, .passed = 3, .scored = 2};
  facts.metrics = {{"a", std::numeric_limits<double>::infinity()}, {"", -0.0}};
  const auto back = read_facts<BatchLoss>(write_facts(facts));
  EXPECT_EQ(back.loss, facts.loss);
  EXPECT_EQ(back.tokens, 7);
  EXPECT_EQ(back.metrics, facts.metrics);
  EXPECT_EQ(back.scored, 2);
  using Mixed = std::pair<std::vector<std::vector<float>>, base::Json>;
  const Mixed mixed = {{{1.5F, 2.5F}, {}}, {{"text", "\xE2\x82\xAC"}, {"none", nullptr}}};
  EXPECT_EQ(read_facts<Mixed>(write_facts(mixed)), mixed);
}

TEST(FactsBytes, CutShortIsAnError) {
  const std::string bytes = write_facts(std::vector<double>{1, 2, 3});
  EXPECT_THROW(read_facts<std::vector<double>>(bytes.substr(0, bytes.size() - 1)), base::InternalError);
  EXPECT_THROW(read_facts<std::vector<double>>(bytes + "x"), base::InternalError);
}

// Facts and gradients of 5 items, by 1, 2 and 4 ranks: the same bits, and the sum that one process has.
TEST(SharedWork, AddsTheGradientsOfAllItems) {
  std::vector<at::Tensor> sums;
  for (const int ranks : {1, 2, 4}) {
    std::vector<at::Tensor> found(static_cast<std::size_t>(ranks));
    const auto said = parallel::thread_ranks::run(ranks, [&](parallel::Ranks& all) {
      const at::Tensor gradient = at::full({64}, 99.0F);  // of the step before
      SharedWork work(all, gradient, parallel::BinSums::Order::kTree);
      const auto facts = work.add_gradients<double>({3, 1, 4, 1, 5}, [&](std::size_t i) {
        gradient.add_(at::arange(64, at::kFloat) / static_cast<double>(i + 3));
        return static_cast<double>(i);
      });
      EXPECT_EQ(facts, (std::vector<double>{0, 1, 2, 3, 4}));
      found[static_cast<std::size_t>(all.rank())] = gradient;
    });
    for (const std::string& text : said) EXPECT_EQ(text, "");
    for (const at::Tensor& one : found) EXPECT_TRUE(one.equal(found.front()));
    sums.push_back(found.front());
  }
  EXPECT_TRUE(sums[1].equal(sums[0]));
  EXPECT_TRUE(sums[2].equal(sums[0]));
  EXPECT_NEAR(sums[0][63].item<double>(), 63 * (1.0 / 3 + 1.0 / 4 + 1.0 / 5 + 1.0 / 6 + 1.0 / 7), 1e-4);
}

TEST(SharedWork, AnErrorOfOneItemEndsAllAndTheNextStepIsWhole) {
  const auto said = parallel::thread_ranks::run(2, [](parallel::Ranks& all) {
    const at::Tensor gradient = at::zeros({4});
    SharedWork work(all, gradient, parallel::BinSums::Order::kTree);
    EXPECT_THROW(work.add_gradients<double>({1, 1},
                                            [&](std::size_t i) -> double {
                                              if (i == 1)
                                                throw base::UserError(
                                                    {.where = "item", .expected = "good", .found = "bad"});
                                              return 0;
                                            }),
                 base::UserError);
  });
  for (const std::string& text : said) EXPECT_EQ(text, "");
  parallel::OneRank one;
  const at::Tensor gradient = at::zeros({4});
  SharedWork work(one, gradient, parallel::BinSums::Order::kTree);
  EXPECT_THROW(
      work.add_gradients<double>({1}, [](std::size_t) -> double { throw std::runtime_error("once"); }),
      std::runtime_error);
  const auto facts = work.add_gradients<double>({1}, [&](std::size_t) {
    gradient.add_(1.0);
    return 5.0;
  });
  EXPECT_EQ(facts.at(0), 5.0);
  EXPECT_EQ(gradient[0].item<float>(), 1.0F);
}

}  // namespace same_run_test
}  // namespace hone::train
