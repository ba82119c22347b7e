// The environment variables by which launchers tell a process which rank of how many it is. parallel/place.h reads them.
#pragma once

#include <array>
#include <string_view>

namespace hone::base {

// One launcher's names for the same four numbers; "": it has none.
struct LauncherNames {
  const char *launcher, *rank, *size, *local_rank, *local_size;
};
inline constexpr LauncherNames kByTorch = {"RANK and WORLD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_RANK",
                                           "LOCAL_WORLD_SIZE"};
inline constexpr LauncherNames kSlurm = {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""};
inline constexpr LauncherNames kMpirun = {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                          "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
inline constexpr LauncherNames kPmi = {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
inline constexpr std::array<LauncherNames, 4> kLaunchers = {kByTorch, kSlurm, kMpirun, kPmi};

// Variables of launchers, and what others of them begin with, that are to be taken from a process that another launcher starts.
inline constexpr std::array<std::string_view, 5> kLauncherVariables = {
    "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "GROUP_RANK"};
inline constexpr std::array<std::string_view, 5> kLauncherPrefixes = {"OMPI_", "PMI_", "PMIX_", "MPI_LOCAL",
                                                                      "TORCHELASTIC_"};

}  // namespace hone::base
