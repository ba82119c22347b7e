// Which rank of how many a process is, as its launcher told it by environment variables.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace hone::parallel {

struct RankPlace {
  std::string
      launcher;  // "torchrun", "RANK and WORLD_SIZE", "srun", "mpirun", "PMI"; empty: none, one process
  int rank = 0, size = 1;
  // -1: not told; open_ranks then finds them from the names of the hosts.
  int local_rank = -1, local_size = -1;
  std::string master_addr;  // where rank 0 (or the launcher) keeps the store
  int master_port = 0;
  bool launcher_hosts_store = false;  // torchrun and hone launch do; else rank 0 does
  // The job, and how often it was restarted: two jobs on one store are then an error, and a restart does not read the keys
  // of the attempt before.
  std::string job;
  int restart = 0;
  std::string
      interface;  // network interface for the ranks' connections (GLOO_SOCKET_IFNAME); empty: the one of the host's name

  bool several() const { return size > 1; }
};

using Environment = std::map<std::string, std::string>;

// Reads, in this order of precedence:
//
//   torchrun, hone launch  RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_*
//   Kubeflow, Ray, scripts RANK WORLD_SIZE MASTER_ADDR MASTER_PORT [LOCAL_RANK LOCAL_WORLD_SIZE]
//   srun                   SLURM_PROCID SLURM_STEP_NUM_TASKS SLURM_LOCALID SLURM_STEP_NODELIST SLURM_JOB_ID SLURM_STEP_ID
//   mpirun (Open MPI)      OMPI_COMM_WORLD_RANK _SIZE _LOCAL_RANK _LOCAL_SIZE
//   mpiexec (MPICH, Intel) PMI_RANK PMI_SIZE MPI_LOCALRANKID MPI_LOCALNRANKS
//
// srun's MASTER_ADDR is the first host of its list and its port comes from the job's number; mpirun on one host has
// 127.0.0.1 and a port from the job's name. MASTER_ADDR and MASTER_PORT override both. Slurm's variables in a batch
// script or an `salloc` shell, outside srun, are those of one process.
//
// UserError: a variable that is no number or out of range, RANK without WORLD_SIZE, a missing MASTER_ADDR or MASTER_PORT, a
// rank that is not below the world size, two launchers that say different things; each with names and values.
RankPlace read_place(const Environment& environment);

// "node[01-03,7],gpu-a" -> node01 node02 node03 node7 gpu-a: Slurm's list of hosts. UserError for what is none.
std::vector<std::string> hosts_of_list(const std::string& list);

}  // namespace hone::parallel
