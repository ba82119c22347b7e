#include "parallel/fault_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "parallel/rank_text.h"

namespace hone::parallel {

namespace {

constexpr std::size_t kMostRows = 16;
constexpr std::size_t kMostText = 2000;  // of sentences about culprits

const Words* words_of(const SeenFault& seen, int rank) {
  return seen.words ? &seen.words->at(static_cast<std::size_t>(rank)) : nullptr;
}

const LinkFailure* failure_of(const SeenFault& seen, int rank) {
  const auto it = std::find_if(seen.failures.begin(), seen.failures.end(),
                               [&](const LinkFailure& one) { return one.peer == rank; });
  return it == seen.failures.end() ? nullptr : &*it;
}

ProcessState process_of(const SeenFault& seen, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  return r < seen.states.size() ? seen.states[r] : ProcessState::kUnknown;
}

// Whether the rank wrote something between the two readings of the board.
bool pulses(const SeenFault& seen, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  return seen.before && seen.words && seen.before->at(r).pulse < seen.words->at(r).pulse;
}

std::string seconds_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::max(0.0, std::round(seconds)));
  if (whole < 120) return std::to_string(whole) + " s";
  if (whole < 7200) return std::to_string(whole / 60) + " min";
  return std::to_string(whole / 3600) + " h";
}

// What a rank is doing, in the table's words.
std::string state_text(const SeenFault& seen, int rank) {
  const Words* const words = words_of(seen, rank);
  if (rank == seen.rank) return "this rank";
  if (words != nullptr && words->own_error()) return "ended by an error";
  const ProcessState process = process_of(seen, rank);
  if (process == ProcessState::kStopped) return "process is stopped";
  if (words != nullptr && !words->error.empty()) return "ended, saw " + rank_list(words->blames) + " fail";
  if (process == ProcessState::kGone) return "process is gone";
  const LinkFailure* const failure = failure_of(seen, rank);
  if (failure != nullptr && !failure->timed_out) return "connection broken";
  if (process == ProcessState::kRunning || pulses(seen, rank)) {
    return words != nullptr && words->inside ? "waits" : "is alive, computes or hangs";
  }
  return failure != nullptr ? "no sign of life" : "waits";
}

// "gradients", "after gradients", "start".
std::string place_text(const Words& words) {
  if (words.collective.empty()) return "start";
  return (words.inside ? "" : "after ") + words.collective;
}

// How long the rank has been where it is. The Unix clock of another machine may differ, and may have been set.
double seconds_there(const SeenFault& seen, const Words& words) {
  const bool here = !seen.machine.empty() && words.process.machine == seen.machine;
  return here ? seen.boot_now - words.since_boot : seen.now - words.since;
}

struct Row {
  std::array<std::string, 7> cells;
};

Row row_of(const SeenFault& seen, int rank) {
  const Words* const words = words_of(seen, rank);
  const std::string host = seen.hosts.at(static_cast<std::size_t>(rank));
  if (words == nullptr) return {{std::to_string(rank), host, "?", "?", "?", state_text(seen, rank), "?"}};
  return {{std::to_string(rank), host, std::to_string(words->step), place_text(*words),
           std::to_string(words->number), state_text(seen, rank), seconds_text(seconds_there(seen, *words))}};
}

// The ranks of the table's rows: all, or of many those that are somewhere else than most.
std::vector<int> ranks_shown(const SeenFault& seen) {
  std::vector<int> all;
  for (int rank = 0; rank < seen.size; ++rank) all.push_back(rank);
  if (all.size() <= kMostRows || !seen.words) return all;
  const auto place = [&](int rank) {
    const Words& words = *words_of(seen, rank);
    return std::tuple(words.step, words.number, words.inside);
  };
  std::map<std::tuple<std::int64_t, std::int64_t, bool>, int> counts;
  for (const int rank : all) ++counts[place(rank)];
  const auto most = std::max_element(counts.begin(), counts.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<int> out;
  for (const int rank : all) {
    if (place(rank) != most->first || rank == seen.rank || failure_of(seen, rank) != nullptr)
      out.push_back(rank);
  }
  if (out.size() > 2 * kMostRows) out.resize(2 * kMostRows);
  return out;
}

// The failed peers, or those that they blame in turn.
void follow_blame(const SeenFault& seen, int rank, std::set<int>& visited, std::set<int>& culprits) {
  if (!visited.insert(rank).second) return;
  const Words* const words = words_of(seen, rank);
  if (words == nullptr || words->blames.empty()) {
    culprits.insert(rank);
    return;
  }
  for (const int blamed : words->blames) follow_blame(seen, blamed, visited, culprits);
}

RankFault::Kind kind_of(const SeenFault& seen, const std::vector<int>& culprits) {
  const int rank = culprits.front();
  const Words* const words = words_of(seen, rank);
  if (words != nullptr && words->own_error()) return RankFault::Kind::kError;
  const ProcessState process = process_of(seen, rank);
  if (process == ProcessState::kGone) return RankFault::Kind::kLost;
  if (process == ProcessState::kStopped) return RankFault::Kind::kSilent;
  const LinkFailure* const failure = failure_of(seen, rank);
  return failure == nullptr || failure->timed_out ? RankFault::Kind::kSilent : RankFault::Kind::kLost;
}

std::string with_host(const SeenFault& seen, int rank) {
  return "rank " + std::to_string(rank) + " on host " + seen.hosts.at(static_cast<std::size_t>(rank));
}

std::string culprit_text(const SeenFault& seen, int rank, RankFault::Kind kind) {
  if (rank == seen.rank) return "the other ranks went on without this one: it came too late";
  const Words* const words = words_of(seen, rank);
  std::string out = with_host(seen, rank);
  switch (kind) {
    case RankFault::Kind::kError:
      return out + " ended with an error: " + words->error;
    case RankFault::Kind::kLost:
      out += " was lost: ";
      out += process_of(seen, rank) == ProcessState::kGone ? "its process is gone"
                                                           : "the connection to it broke";
      return out + ", and it left no error";
    default:
      break;
  }
  out += " did not come within " + seconds_text(seen.timeout);
  if (process_of(seen, rank) == ProcessState::kStopped) return out + ": its process is stopped";
  if (process_of(seen, rank) == ProcessState::kRunning || pulses(seen, rank)) return out + ", and is alive";
  return out + ", and gives no sign of life";
}

std::string cause_text(const SeenFault& seen, int rank, RankFault::Kind kind) {
  if (rank == seen.rank)
    return "this process was stopped for a while, or computed much longer than the others";
  switch (kind) {
    case RankFault::Kind::kError:
      return {};
    case RankFault::Kind::kLost:
      return "it was killed (out of memory, by a scheduler or a user) or crashed; or its host or the network failed";
    default:
      break;
  }
  if (process_of(seen, rank) == ProcessState::kStopped) return "SIGSTOP, Ctrl-Z or a debugger stopped it";
  if (process_of(seen, rank) == ProcessState::kRunning || pulses(seen, rank)) {
    return "it hangs, or its work takes longer than the time-out allows";
  }
  return "its host is down, overloaded or cut off from the network";
}

std::string fix_text(const SeenFault& seen, int rank, RankFault::Kind kind) {
  const std::string host = seen.hosts.at(static_cast<std::size_t>(rank));
  if (kind == RankFault::Kind::kError) return "fix what that error says, then start the run again";
  if (kind == RankFault::Kind::kLost) {
    return "look at what that rank printed last, and at the kernel's log of " + host +
           "; start the run again with --resume_from_checkpoint true";
  }
  const ProcessState process = process_of(seen, rank);
  const bool is_stopped = process == ProcessState::kStopped;
  const bool computes = !is_stopped && (process == ProcessState::kRunning || pulses(seen, rank));
  return "find out what holds it up on " + host +
         (computes ? ", or raise ddp_timeout where its work takes that long" : "") +
         "; then start the run again with --resume_from_checkpoint true";
}

}  // namespace

std::vector<int> culprits_of(const SeenFault& seen) {
  std::vector<int> own;
  for (int rank = 0; rank < seen.size; ++rank) {
    const Words* const words = words_of(seen, rank);
    if (words != nullptr && words->own_error() && rank != seen.rank) own.push_back(rank);
  }
  if (!own.empty()) return own;
  std::set<int> visited, culprits;
  for (const LinkFailure& failure : seen.failures) follow_blame(seen, failure.peer, visited, culprits);
  if (culprits.empty()) {  // they blame each other
    for (const LinkFailure& failure : seen.failures) culprits.insert(failure.peer);
  }
  return {culprits.begin(), culprits.end()};
}

std::string fault_table(const SeenFault& seen) {
  std::vector<Row> rows = {{{"rank", "host", "step", "collective", "number", "state", "for"}}};
  const std::vector<int> shown = ranks_shown(seen);
  for (const int rank : shown) rows.push_back(row_of(seen, rank));
  std::array<std::size_t, 7> widths{};
  for (const Row& row : rows) {
    for (std::size_t c = 0; c < widths.size(); ++c) widths[c] = std::max(widths[c], row.cells[c].size());
  }
  constexpr std::array<bool, 7> kRight = {true, false, true, false, true, false, true};
  std::string out;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < widths.size(); ++c) {
      const std::string space(widths[c] - row.cells[c].size(), ' ');
      line += "  " + (kRight[c] ? space + row.cells[c] : row.cells[c] + space);
    }
    out += (out.empty() ? "" : "\n") + line.substr(0, line.find_last_not_of(' ') + 1);
  }
  const std::size_t others = static_cast<std::size_t>(seen.size) - shown.size();
  if (others > 0) out += "\n  and " + std::to_string(others) + " ranks more";
  return out;
}

RankFault fault_of(const SeenFault& seen) {
  const std::vector<int> culprits = culprits_of(seen);
  const RankFault::Kind kind = kind_of(seen, culprits);
  std::string found;
  for (const int rank : culprits) {
    if (found.size() > kMostText) {
      found += "\n          and more: " + rank_list(culprits);
      break;
    }
    found += (found.empty() ? "" : "\n          ") + culprit_text(seen, rank, kind_of(seen, {rank}));
  }
  found += "\n" + fault_table(seen);
  if (!seen.words) {
    found +=
        "\n  what the other ranks last did is not known: the store that they write it to does not answer";
  }
  return RankFault(kind, culprits,
                   {.where = "rank " + std::to_string(seen.rank) + " of " + std::to_string(seen.size) +
                             ", step " + std::to_string(seen.step) + ", " + seen.collective,
                    .expected = "every rank to take part",
                    .found = found,
                    .cause = cause_text(seen, culprits.front(), kind),
                    .fix = fix_text(seen, culprits.front(), kind)});
}

}  // namespace hone::parallel
