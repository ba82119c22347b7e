// What the examination saves of a run comes back bit for bit, from memory and from a file, and takes no more than
// the run's own plan leaves.
#include "doctor/probes/machine/exam_memory.h"

#include <ATen/ATen.h>

#include <numeric>

#include "doctor/probes/probe_state.h"
#include "probe_runs.h"

namespace hone::doctor {
namespace exam_memory_test {

class ExamMemoryTest : public ProbeTest {};

TEST_F(ExamMemoryTest, ATensorComesBackFromMemoryAndFromAFile) {
  const at::Tensor original = at::randn({70, 1001});
  for (const std::int64_t room : {std::int64_t{1} << 30, std::int64_t{0}}) {
    at::Tensor held = original.clone();
    const SavedTensor saved(held, room, root_);
    EXPECT_EQ(saved.in_file(), room == 0);
    EXPECT_EQ(saved.bytes_in_memory(), room == 0 ? 0 : static_cast<std::int64_t>(original.nbytes()));
    held.fill_(7);
    saved.restore(held);
    EXPECT_TRUE(held.equal(original)) << "room " << room;
  }
  EXPECT_TRUE(fs::is_empty(root_)) << "the file has no name";
}

TEST_F(ExamMemoryTest, ZerosTakeNothing) {
  at::Tensor held = at::zeros({5000});
  const SavedTensor saved(held, 1 << 20, root_);
  EXPECT_EQ(saved.bytes_in_memory(), 0);
  EXPECT_FALSE(saved.in_file());
  held.fill_(1);
  saved.restore(held);
  EXPECT_FALSE(held.any().item<bool>());
}

TEST_F(ExamMemoryTest, WithoutAFolderTheSystemsTemporaryOneIsUsed) {
  at::Tensor held = at::ones({100});
  const SavedTensor saved(held, 0, root_ / "not there");
  EXPECT_TRUE(saved.in_file());
  held.zero_();
  saved.restore(held);
  EXPECT_EQ(held.sum().item<float>(), 100);
}

TEST_F(ExamMemoryTest, TheRoomIsHalfOfWhatThePlanLeaves) {
  const auto run = open(sft("run"));
  const std::int64_t planned = run->start.memory.total;
  run->start.memory.total = planned + (std::int64_t{1} << 33);
  EXPECT_GT(exam_room(*run), std::int64_t{1} << 31);
  EXPECT_LE(exam_room(*run), (planned + (std::int64_t{1} << 33)) / 2);
  run->start.memory.total = 1;
  EXPECT_EQ(exam_room(*run), 0);
  run->start.memory.segments.clear();
  EXPECT_GT(exam_room(*run), std::int64_t{1} << 60) << "nothing was planned";
}

// With no room at all the probes find the same, and the run has the same bits afterwards.
TEST_F(ExamMemoryTest, ProbesWithoutRoomLeaveTheRunUnchanged) {
  for (const bool room : {true, false}) {
    const auto run = open(grpo("run"));
    if (!room) run->start.memory.total = 1;
    const at::Tensor before = run->adapter->flat().clone();
    std::vector<at::Tensor> state;
    for (const auto& one : run->resume_state->optimizer.state()) state.push_back(one.value.clone());
    Verdicts found = probe_gradient(*run);
    for (const Verdicts& more : {probe_loss(*run), probe_sampler(*run)})
      found.insert(found.end(), more.begin(), more.end());
    EXPECT_NE(worst(found), base::Level::kFail) << describe(found);
    EXPECT_EQ(verdict_of(found, "GRAD-05").level, base::Level::kOk) << describe(found);
    EXPECT_EQ(verdict_of(found, "NUM-08").code, "NUM-08") << describe(found);
    EXPECT_TRUE(run->adapter->flat().equal(before)) << room;
    EXPECT_EQ(run->resume_state->optimizer.steps(), 0);
    for (std::size_t k = 0; k < state.size(); ++k)
      EXPECT_TRUE(run->resume_state->optimizer.state()[k].value.equal(state[k])) << k;
  }
}

TEST_F(ExamMemoryTest, AResumedOptimizerComesBack) {
  const auto run = open(sft("run"));
  learn::Optimizer& optimizer = run->resume_state->optimizer;
  std::vector<at::Tensor> state;
  for (const auto& one : optimizer.state()) state.push_back(at::rand_like(one.value));
  optimizer.restore(41, state);
  run->start.memory.total = 1;
  {
    OptimizerGuard guard(*run);
    EXPECT_EQ(guard.optimizer().steps(), 0);
    for (const auto& one : guard.optimizer().state()) EXPECT_FALSE(one.value.any().item<bool>()) << one.name;
  }
  EXPECT_EQ(optimizer.steps(), 41);
  for (std::size_t k = 0; k < state.size(); ++k) EXPECT_TRUE(optimizer.state()[k].value.equal(state[k])) << k;
}

TEST_F(ExamMemoryTest, ModulesAreSpreadOverTheLayersAndWhole) {
  const auto run = open(sft("run", {"--lora_target_modules", "all-linear"}));
  const auto& tensors = run->adapter->tensors();
  const std::vector<bool> all = spread_tensors(*run->adapter, run->adapter->flat().numel());
  EXPECT_EQ(std::accumulate(all.begin(), all.end(), 0), static_cast<int>(tensors.size()));
  const std::int64_t third = run->adapter->flat().numel() / 3;
  const std::vector<bool> some = spread_tensors(*run->adapter, third);
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < tensors.size(); i += 2) {
    EXPECT_EQ(some[i], some[i + 1]) << tensors[i].name << " without its other half";
    if (some[i]) elements += tensors[i].value.numel() + tensors[i + 1].value.numel();
  }
  EXPECT_GT(elements, 0);
  EXPECT_LE(elements, third);
  const std::vector<bool> one = spread_tensors(*run->adapter, 1);
  EXPECT_EQ(std::accumulate(one.begin(), one.end(), 0), 2) << "at least one module";
}

}  // namespace exam_memory_test
}  // namespace hone::doctor
