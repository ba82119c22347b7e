// hone launch: several processes of one run, and the command that each of them runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/option_table.h"

namespace hone::config {

struct LaunchPlan {
  std::int64_t nproc = 0;            // ranks on this host
  std::vector<std::string> hosts;    // of all hosts, that of rank 0 first; empty: this one
  std::int64_t node = -1;            // which of `hosts` this one is; -1: not said
  std::int64_t master_port = 0;      // 0: a free one
  std::int64_t restarts = 0;         // how often a run is started again after a rank was lost
  double grace = 60;                 // seconds for the other ranks to end after one has
  bool pin = true;                   // each rank has its share of the processors
  bool all_output = false;           // of every rank, with its number before each line
  std::vector<std::string> command;  // "sft", "--config", "run.yaml"
  std::vector<std::string> notes;

  bool operator==(const LaunchPlan&) const = default;
};

const Schema& launch_schema();

// `arguments`: the words after `launch`: options, then the command, with or without `--` before it. UserError for a wrong option, for a
// command that does not train, and for what that command itself refuses.
LaunchPlan parse_launch(const std::vector<std::string>& arguments);

// What to type on each host, where several are given and none is said to be this one: a line each.
std::string host_lines(const LaunchPlan& plan);

}  // namespace hone::config
