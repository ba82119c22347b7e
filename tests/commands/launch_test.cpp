// The processes of hone launch, with shells for ranks; tests/runs/launch_* start real ones.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>

#include "base/error.h"
#include "base/exit_codes.h"
#include "commands/ranks/launch_ranks.h"
#include "config/commands/launch_plan.h"

namespace hone::commands {
namespace launch_test {

using std::chrono::milliseconds;

RankCommand shell(int rank, const std::string& script) {
  return {.rank = rank,
          .words = {"/bin/sh", "-c", script},
          .variables = {{"RANK", std::to_string(rank)}, {"PATH", "/usr/bin:/bin"}}};
}

LaunchedRanks run_shells(const std::vector<std::string>& scripts,
                         milliseconds grace = std::chrono::seconds(30)) {
  const LaunchSignals signals;
  std::vector<RankCommand> commands;
  for (std::size_t r = 0; r < scripts.size(); ++r) commands.push_back(shell(static_cast<int>(r), scripts[r]));
  return run_launched(commands, {.grace = grace}, signals.descriptor());
}

constexpr int exited(int code) {
  return code << 8;
}

TEST(Launch, AllWell) {
  setenv("SLURM_PROCID", "7", 1);
  setenv("OMPI_COMM_WORLD_RANK", "7", 1);
  const LaunchedRanks done =
      run_shells({"test $RANK = 0", "test $RANK = 1 && test -z \"$SLURM_PROCID$OMPI_COMM_WORLD_RANK\""});
  unsetenv("SLURM_PROCID");
  unsetenv("OMPI_COMM_WORLD_RANK");
  EXPECT_EQ(done.ends.size(), 2U);
  EXPECT_EQ(exit_code_of(done.ends), 0);
  EXPECT_TRUE(ends_to_tell(done.ends).empty());
  EXPECT_FALSE(done.stop_asked);
}

TEST(Launch, AnErrorOfAnotherRankIsToldAndDecides) {
  const LaunchedRanks done = run_shells(
      {"sleep 0.3; exit 75", "echo lost >&2; echo out; exit 2", "sleep 0.3; echo table >&2; exit 75"});
  EXPECT_EQ(exit_code_of(done.ends), base::kUserMistake);
  const auto told = ends_to_tell(done.ends);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0]->rank, 1);
  EXPECT_EQ(told[0]->said, "lost\n");
  EXPECT_EQ(end_text(*told[0]), "ended with code 2");
}

TEST(Launch, AKilledRankMayBeStartedAgain) {
  const LaunchedRanks done = run_shells({"kill -KILL $$", "sleep 0.3; echo 'rank 0 was lost' >&2; exit 75"});
  EXPECT_EQ(exit_code_of(done.ends), kLostRank);
  const auto told = ends_to_tell(done.ends);
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(end_text(*told[0]), "was killed by SIGKILL");
  EXPECT_EQ(told[1]->said, "rank 0 was lost\n");
}

TEST(Launch, WhatRankZeroHasSaidIsNotSaidAgain) {
  LaunchedRanks done = run_shells({"exit 2", "echo the same >&2; exit 2", "echo a bug >&2; exit 70"});
  auto told = ends_to_tell(done.ends);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0]->said, "a bug\n");
  done = run_shells({"exit 130", "exit 130"});
  EXPECT_TRUE(ends_to_tell(done.ends).empty());
}

TEST(Launch, ACrashIsABug) {
  const LaunchedRanks done = run_shells({"true", "kill -SEGV $$"});
  EXPECT_EQ(exit_code_of(done.ends), base::kOurBug);
}

TEST(Launch, RanksThatDoNotEndAreEnded) {
  const LaunchedRanks done = run_shells({"exit 75", "sleep 60"}, milliseconds(100));
  EXPECT_EQ(exit_code_of(done.ends), kLostRank);
  ASSERT_EQ(done.ends.size(), 2U);
  EXPECT_TRUE(done.ends[1].by_us);
  EXPECT_NE(end_text(done.ends[1]).find("by hone launch"), std::string::npos);
}

TEST(Launch, SignalsGoToEveryRankOnce) {
  // Each rank counts the SIGTERMs that it gets; rank 1 sends the launcher one when all wait.
  const std::string count =
      "n=0; trap 'n=$((n + 1))' TERM; i=0; while [ $n = 0 ] && [ $i -lt 500 ]; do sleep 0.02; i=$((i + 1)); done; "
      "sleep 0.1; exit $((100 + n))";
  const LaunchedRanks done = run_shells({count, "(sleep 0.5; kill -TERM $PPID) & " + count});
  EXPECT_TRUE(done.stop_asked);
  for (const RankEnd& end : done.ends) EXPECT_EQ(end.status, exited(101));
}

TEST(Launch, ExitCodes) {
  const auto code = [](const std::vector<RankEnd>& ends) { return exit_code_of(ends); };
  EXPECT_EQ(code({{.rank = 0, .status = exited(0)}, {.rank = 1, .status = exited(0)}}), 0);
  EXPECT_EQ(code({{.rank = 1, .status = exited(130)}, {.rank = 0, .status = exited(130)}}), 130);
  EXPECT_EQ(code({{.rank = 1, .status = exited(3)}, {.rank = 0, .status = exited(3)}}), 3);
  EXPECT_EQ(code({{.rank = 1, .status = exited(kLostRank)}, {.rank = 0, .status = exited(2)}}), 2);
  EXPECT_EQ(code({{.rank = 1, .status = exited(70)}, {.rank = 0, .status = exited(2)}}), 70);
  EXPECT_EQ(code({{.rank = 1, .status = SIGKILL}, {.rank = 0, .status = exited(2)}}), kLostRank);
  EXPECT_EQ(code({{.rank = 1, .status = exited(kLostRank)}, {.rank = 0, .status = SIGKILL, .by_us = true}}),
            kLostRank);
  EXPECT_EQ(code({{.rank = 1, .status = exited(0)}, {.rank = 0, .status = SIGTERM, .by_us = true}}),
            kLostRank);
}

TEST(Launch, ProcessorsAreDivided) {
  const std::vector<int> all = {0, 1, 4, 5, 6};
  EXPECT_EQ(processor_share(all, 0, 2), (std::vector<int>{0, 1}));
  EXPECT_EQ(processor_share(all, 1, 2), (std::vector<int>{4, 5, 6}));
  EXPECT_EQ(processor_share(all, 6, 8), (std::vector<int>{1}));
  EXPECT_TRUE(processor_share({}, 0, 2).empty());
  EXPECT_FALSE(own_processors().empty());
}

std::string refusal(const std::vector<std::string>& words) {
  try {
    config::parse_launch(words);
  } catch (const base::UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Launch, Arguments) {
  EXPECT_NE(refusal({"--nproc", "2"}).find("a training command"), std::string::npos);
  EXPECT_NE(refusal({"--nproc", "2", "sfd"}).find("Did you mean 'sft'"), std::string::npos);
  EXPECT_NE(refusal({"--nproc", "0", "sft"}).find("--nproc"), std::string::npos);
  EXPECT_NE(refusal({"sft"}).find("no --nproc"), std::string::npos);
  EXPECT_NE(refusal({"--nproc", "2", "--hosts", "a,b", "--node", "2", "sft"}).find("0 to 1"),
            std::string::npos);
  EXPECT_NE(refusal({"--nproc", "2", "--hosts", "a,b", "--restarts", "2", "sft"}).find("torchrun"),
            std::string::npos);
  EXPECT_NE(refusal({"--nproc", "2", "--no_pin", "--", "sft", "--learning_rat", "1"}).find("learning_rate"),
            std::string::npos);
}

TEST(Launch, LinesForHosts) {
  config::LaunchPlan plan;
  plan.nproc = 4;
  plan.hosts = {"a", "b"};
  plan.master_port = 29500;
  plan.command = {"sft", "--config", "my run.yaml"};
  const std::string lines = config::host_lines(plan);
  EXPECT_NE(lines.find("ssh b 'cd "), std::string::npos) << lines;
  EXPECT_NE(
      lines.find("--nproc 4 --hosts a,b --node 1 --master_port 29500 -- sft --config '\\''my run.yaml'\\'''"),
      std::string::npos)
      << lines;
}

}  // namespace launch_test
}  // namespace hone::commands
