// Which works are recorded, and which graphs stay (ops/machine/step_graphs.h).
#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "ops/machine/step_graphs.h"
#include "standin/fake_graphs.h"

namespace hone::standin {
namespace step_graphs_test {

using ops::StepGraphs;

// How often a work of each form was done, by a graph or not.
struct Works {
  std::int64_t done = 0;
  void run(StepGraphs& graphs, std::int64_t form, std::int64_t times = 1) {
    for (std::int64_t i = 0; i < times; ++i) graphs.run({form}, [this] { ++done; });
  }
};

TEST(StepGraphs, RecordsAWorkWhenItComesAgain) {
  const FakeGraphs library;
  StepGraphs graphs(at::kCPU);
  const ops::StepGraphFacts before = ops::step_graph_facts();
  Works works;
  works.run(graphs, 1);
  EXPECT_EQ(FakeGraphs::recorded(), 0);
  works.run(graphs, 1, 4);
  EXPECT_EQ(FakeGraphs::recorded(), 1);
  EXPECT_EQ(FakeGraphs::started(), 4);
  EXPECT_EQ(works.done, 5);
  EXPECT_EQ(ops::step_graph_facts().recorded - before.recorded, 1);
  EXPECT_EQ(ops::step_graph_facts().started - before.started, 4);
  graphs.clear();
  EXPECT_EQ(FakeGraphs::alive(), 0);
  works.run(graphs, 1);
  EXPECT_EQ(FakeGraphs::recorded(), 1) << "it came once since then";
}

TEST(StepGraphs, FormsThatCameOnceLeaveGraphsAlone) {
  const FakeGraphs library;
  StepGraphs graphs(at::kCPU, /*most=*/2);
  Works works;
  works.run(graphs, 1, 2);
  works.run(graphs, 2, 2);
  for (std::int64_t form = 100; form < 300; ++form) works.run(graphs, form);
  EXPECT_EQ(FakeGraphs::alive(), 2);
  works.run(graphs, 1);
  works.run(graphs, 2);
  EXPECT_EQ(FakeGraphs::recorded(), 2) << "neither was recorded again";
  works.run(graphs, 299);
  EXPECT_EQ(FakeGraphs::recorded(), 3) << "it is still known that this one has come";
  works.run(graphs, 100);
  EXPECT_EQ(FakeGraphs::recorded(), 3) << "what came long ago is forgotten";
  EXPECT_EQ(FakeGraphs::alive(), 2);
  works.run(graphs, 2);
  EXPECT_EQ(FakeGraphs::recorded(), 3) << "the graph that was not used for longest went";
  works.run(graphs, 1, 2);
  EXPECT_EQ(FakeGraphs::recorded(), 4);
  EXPECT_EQ(works.done, 2 + 2 + 200 + 2 + 1 + 1 + 1 + 2);
}

TEST(StepGraphs, WorksAreDoneAloneAfterARecordingThatFails) {
  for (const Fails how : {Fails::kByWord, Fails::kByException}) {
    const FakeGraphs library(how, /*at=*/1);
    StepGraphs graphs(at::kCPU);
    Works works;
    works.run(graphs, 1, 3);
    EXPECT_EQ(graphs.why_not(), "");
    works.run(graphs, 2, 2);
    EXPECT_EQ(graphs.why_not(), kWhyNotRecorded);
    EXPECT_NE(ops::step_graphs_note(), "");
    EXPECT_EQ(FakeGraphs::alive(), 0) << "what was recorded goes";
    const std::int64_t started = FakeGraphs::started();
    works.run(graphs, 1, 3);
    EXPECT_EQ(FakeGraphs::started(), started);
    EXPECT_EQ(works.done, 8);
    StepGraphs others(at::kCPU);
    works.run(others, 1, 2);
    EXPECT_EQ(FakeGraphs::alive(), 1) << "others record";
  }
}

TEST(StepGraphs, AWorkThatFailsIsNotKept) {
  const FakeGraphs library;
  StepGraphs graphs(at::kCPU);
  EXPECT_THROW(graphs.run({1}, [] { throw std::runtime_error("a work that fails"); }), std::runtime_error);
  Works works;
  works.run(graphs, 1);
  EXPECT_EQ(FakeGraphs::recorded(), 0) << "it has been done once";
}

}  // namespace step_graphs_test
}  // namespace hone::standin
