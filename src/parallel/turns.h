// Work that each rank does its share of, and every rank needs the results of.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/bins.h"
#include "parallel/ranks.h"

namespace hone::parallel {

// compute(item) for the items of this rank (BinnedWork::items_of_rank, in that order), then one gather: the facts of all
// items, in order of item, on every rank. Facts are bytes of any length. compute makes no collective.
//
// An error of compute does not leave the others waiting: the rank that had it throws it after the gather, and the others
// throw a RankFault (kError) that holds its text. Where a rank was cut short by a stop (base/process/stop_request.h), all throw StopCut.
//
// `after`, if any: called by every rank when its own items are done or one
// has failed; it may make collectives, and compute too if `after` sees to it that all ranks make the same.
std::vector<std::string> in_turns(Ranks& ranks, const BinnedWork& work,
                                  const std::function<std::string(std::int64_t item)>& compute,
                                  std::string_view what, const std::function<void()>& after = {});

// The same for items of equal cost.
std::vector<std::string> in_turns(Ranks& ranks, std::int64_t items,
                                  const std::function<std::string(std::int64_t item)>& compute,
                                  std::string_view what);

// Work of a rank without a result, after which every rank goes on or none: an error on one rank is an error on all, as above.
// One collective. For work that only rank 0 does (writing a checkpoint), compute returns at once on the others.
void all_or_none(Ranks& ranks, const std::function<void()>& compute, std::string_view what);

}  // namespace hone::parallel
