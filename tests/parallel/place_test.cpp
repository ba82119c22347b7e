#include "parallel/place.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace hone::parallel::place_test {

std::string error_of(const Environment& environment) {
  try {
    read_place(environment);
  } catch (const base::UserError& error) {
    return error.what();
  }
  return "no error";
}

void expect_error(const Environment& environment, const std::vector<std::string>& parts) {
  const std::string error = error_of(environment);
  for (const std::string& part : parts)
    EXPECT_NE(error.find(part), std::string::npos) << part << " is not in\n" << error;
}

const Environment kTorchrun = {{"RANK", "5"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "4"},
                               {"MASTER_ADDR", "node1"},
                               {"MASTER_PORT", "29500"},
                               {"TORCHELASTIC_RUN_ID", "job7"},
                               {"TORCHELASTIC_RESTART_COUNT", "2"},
                               {"TORCHELASTIC_USE_AGENT_STORE", "True"}};

Environment with(Environment environment, const Environment& others) {
  for (const auto& [name, value] : others) environment[name] = value;
  return environment;
}

Environment without(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}

TEST(Place, NothingIsOneProcess) {
  EXPECT_EQ(read_place({}).size, 1);
  EXPECT_FALSE(read_place({{"MASTER_ADDR", "node1"}}).several());
  EXPECT_FALSE(read_place({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).several());
  EXPECT_FALSE(read_place({{"WORLD_SIZE", "1"}}).several());
  EXPECT_FALSE(read_place({{"RANK", ""}, {"WORLD_SIZE", ""}}).several());
}

TEST(Place, Torchrun) {
  const RankPlace place = read_place(kTorchrun);
  EXPECT_EQ(place.launcher, "torchrun");
  EXPECT_EQ(place.rank, 5);
  EXPECT_EQ(place.size, 8);
  EXPECT_EQ(place.local_rank, 1);
  EXPECT_EQ(place.local_size, 4);
  EXPECT_EQ(place.master_addr, "node1");
  EXPECT_EQ(place.master_port, 29500);
  EXPECT_EQ(place.job, "job7");
  EXPECT_EQ(place.restart, 2);
  EXPECT_TRUE(place.launcher_hosts_store);
  // Inside srun, with one task a node: torchrun's count is the one.
  EXPECT_EQ(read_place(with(kTorchrun, {{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}})).rank, 5);
}

TEST(Place, KubeflowHasNoLocalRank) {
  const RankPlace place = read_place(
      {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "job-master-0"}, {"MASTER_PORT", "23456"}});
  EXPECT_EQ(place.launcher, "RANK and WORLD_SIZE");
  EXPECT_EQ(place.local_rank, -1);
  EXPECT_FALSE(place.launcher_hosts_store);
}

const Environment kSlurm = {{"SLURM_PROCID", "3"},        {"SLURM_STEP_NUM_TASKS", "4"},
                            {"SLURM_LOCALID", "1"},       {"SLURM_STEP_NODELIST", "gpu[07-08]"},
                            {"SLURM_JOB_ID", "4711"},     {"SLURM_STEP_ID", "0"},
                            {"GLOO_SOCKET_IFNAME", "ib0"}};

TEST(Place, Slurm) {
  const RankPlace place = read_place(kSlurm);
  EXPECT_EQ(place.launcher, "srun");
  EXPECT_EQ(place.rank, 3);
  EXPECT_EQ(place.local_rank, 1);
  EXPECT_EQ(place.master_addr, "gpu07");
  EXPECT_GE(place.master_port, 20000);
  EXPECT_LT(place.master_port, 30000);
  EXPECT_EQ(place.interface, "ib0");
  // Another rank finds the same; another job another port; MASTER_ADDR and MASTER_PORT come first.
  EXPECT_EQ(read_place(with(kSlurm, {{"SLURM_PROCID", "0"}})).master_port, place.master_port);
  EXPECT_NE(read_place(with(kSlurm, {{"SLURM_JOB_ID", "4712"}})).master_port, place.master_port);
  const RankPlace other = read_place(with(kSlurm, {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "7777"}}));
  EXPECT_EQ(other.master_addr, "10.0.0.1");
  EXPECT_EQ(other.master_port, 7777);
  // A batch script, outside srun.
  EXPECT_FALSE(read_place(without(kSlurm, "SLURM_STEP_NUM_TASKS")).several());
}

TEST(Place, MpirunOnOneHostAndOnTwo) {
  Environment mpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                     {"OMPI_COMM_WORLD_SIZE", "2"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                     {"PMIX_NAMESPACE", "3141"}};
  const RankPlace place = read_place(mpi);
  EXPECT_EQ(place.launcher, "mpirun");
  EXPECT_EQ(place.master_addr, "127.0.0.1");
  EXPECT_GE(place.master_port, 20000);
  mpi["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  mpi["OMPI_COMM_WORLD_LOCAL_RANK"] = "0";
  expect_error(mpi, {"MASTER_ADDR", "rank 1 of 2 (mpirun)", "mpirun -x MASTER_ADDR"});
}

TEST(Place, Pmi) {
  const RankPlace place = read_place({{"PMI_RANK", "2"},
                                      {"PMI_SIZE", "3"},
                                      {"MPI_LOCALRANKID", "0"},
                                      {"MPI_LOCALNRANKS", "1"},
                                      {"MASTER_ADDR", "a"},
                                      {"MASTER_PORT", "1234"}});
  EXPECT_EQ(place.launcher, "PMI");
  EXPECT_EQ(place.rank, 2);
  EXPECT_EQ(place.size, 3);
}

TEST(Place, MistakesHaveNamesAndValues) {
  expect_error(with(kTorchrun, {{"RANK", "8"}}), {"RANK=8", "WORLD_SIZE=8", "0 to 7"});
  expect_error(with(kTorchrun, {{"RANK", "-1"}}), {"RANK=-1", "whole number"});
  expect_error(with(kTorchrun, {{"WORLD_SIZE", "two"}}), {"WORLD_SIZE=two"});
  expect_error(with(kTorchrun, {{"WORLD_SIZE", "0"}}), {"WORLD_SIZE=0"});
  expect_error(with(kTorchrun, {{"MASTER_PORT", "99999"}}), {"MASTER_PORT=99999", "65535"});
  expect_error(with(kTorchrun, {{"LOCAL_RANK", "4"}}), {"LOCAL_RANK=4", "LOCAL_WORLD_SIZE=4"});
  expect_error(without(kTorchrun, "MASTER_ADDR"), {"MASTER_ADDR is not set", "rank 5 of 8 (torchrun)"});
  expect_error(without(kTorchrun, "MASTER_PORT"), {"MASTER_PORT is not set"});
  expect_error({{"RANK", "1"}}, {"RANK=1, and no WORLD_SIZE"});
  expect_error({{"WORLD_SIZE", "4"}}, {"WORLD_SIZE=4, and no RANK"});
}

TEST(Place, LaunchersThatContradict) {
  const Environment slurm_and_rank = with(kSlurm, {{"RANK", "3"}, {"WORLD_SIZE", "4"}});
  EXPECT_EQ(read_place(with(slurm_and_rank, {{"MASTER_PORT", "29500"}})).rank, 3);
  expect_error(with(slurm_and_rank, {{"RANK", "0"}, {"WORLD_SIZE", "2"}}),
               {"RANK=0 of WORLD_SIZE=2", "SLURM_PROCID=3 of SLURM_STEP_NUM_TASKS=4", "unset"});
  expect_error(with(kSlurm, {{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}}), {"PMI_RANK=1 of PMI_SIZE=4"});
  // One task, in which a script starts four ranks by hand.
  const Environment by_hand = with(without(kTorchrun, "TORCHELASTIC_RUN_ID"),
                                   {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}});
  EXPECT_EQ(read_place(by_hand).rank, 5);
}

TEST(Place, SlurmsListsOfHosts) {
  using Hosts = std::vector<std::string>;
  EXPECT_EQ(hosts_of_list("a"), Hosts{"a"});
  EXPECT_EQ(hosts_of_list("a,b-c"), (Hosts{"a", "b-c"}));
  EXPECT_EQ(hosts_of_list("node[01-03,7],gpu-a"), (Hosts{"node01", "node02", "node03", "node7", "gpu-a"}));
  EXPECT_EQ(hosts_of_list("r[9-10].x"), (Hosts{"r9.x", "r10.x"}));
  for (const char* const wrong : {"", ",", "a[", "a[]", "a[3-1]", "a[x]", "a]b[", "a[1][2]"}) {
    EXPECT_THROW(hosts_of_list(wrong), base::UserError) << wrong;
  }
}

}  // namespace hone::parallel::place_test
