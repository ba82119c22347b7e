// From what a rank saw fail, and from what all ranks last said: the culprit, and the table that every rank prints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/last_words.h"
#include "parallel/link.h"
#include "parallel/ranks.h"

namespace hone::parallel {

struct SeenFault {
  int rank = 0, size = 1;
  std::vector<std::string> hosts;
  std::int64_t step = 0;
  std::string collective;
  std::vector<LinkFailure> failures;  // at least one
  double timeout = 0;                 // seconds
  // Of all ranks, twice, at least two pulses apart; null: the board did not answer. `words` is the newer one.
  std::optional<std::vector<Words>> before, words;
  std::vector<ProcessState> states;  // of every rank's process; kUnknown on other machines
  double now = 0, boot_now = 0;      // seconds: of the Unix clock, and since this machine's start
  std::string machine;               // this one (machine_name())
};

// The ranks that are to blame: those with an error of their own; else, of the ranks that this rank or its failed peers saw fail,
// those that do not themselves wait for others.
std::vector<int> culprits_of(const SeenFault& seen);

RankFault fault_of(const SeenFault& seen);

// "rank  host  step  collective  number  state  since", one line a rank; of more than 16 ranks, those that differ from
// most, and how many do not.
std::string fault_table(const SeenFault& seen);

}  // namespace hone::parallel
