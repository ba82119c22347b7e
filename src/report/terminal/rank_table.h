// `hone plan` prints these: a row for each number of ranks, the memory by segment, and what would fit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "train/facts/rank_plan.h"

namespace hone::report {

struct RankRow {
  train::RankForecast time;
  train::RankMemory memory;
  std::optional<train::Change> change;  // where the memory does not fit: what would
  std::int64_t accumulation = 1;        // of each rank
  std::int64_t micro_batches = 1;       // of a step
  bool bits_of_one = true;              // of one process
  std::string recompute;                // the level of `memory`
  bool idle = false;                    // a pass over the data has fewer
};

struct RankPlans {
  std::vector<RankRow> rows;  // one at least
  train::RankSpeed speed;
  std::int64_t cores = 1, cores_here = 1;  // of a host that is planned for; of this one
  std::int64_t memory = 0;                 // of a host; 0: not known
  bool memory_is_set = false;
  std::int64_t parameters = 0;  // that are trained
  std::vector<std::string> notes;
};

std::string rank_text(const RankPlans& plans);  // lines of at most 100 columns
base::Json rank_json(const RankPlans& plans);
std::string seconds_text(double seconds);  // "1.25 s", "310 ms", "45 us"

}  // namespace hone::report
