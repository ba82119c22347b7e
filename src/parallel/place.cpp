#include "parallel/place.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/process/launchers.h"

namespace hone::parallel {

namespace {

using base::UserError;

constexpr int kFirstPort = 20'000, kPorts = 10'000;  // of ports made from a job's name

const std::string* find(const Environment& environment, const std::string& name) {
  const auto it = environment.find(name);
  return it == environment.end() || it->second.empty() ? nullptr : &it->second;
}

std::string text_of(const Environment& environment, const std::string& name) {
  const std::string* const value = find(environment, name);
  return value == nullptr ? std::string() : *value;
}

std::string shown(const std::string& name, const std::string& value) {
  return name + "=" + value;
}

// A whole number in [least, most]; nothing when the variable is not set.
std::optional<int> number(const Environment& environment, const std::string& name, int least, int most) {
  const std::string* const text = find(environment, name);
  if (text == nullptr) return std::nullopt;
  int value = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error == std::errc() && stop == end && value >= least && value <= most) return value;
  throw UserError({.where = "environment variable " + name,
                   .expected = "a whole number from " + std::to_string(least) + " to " + std::to_string(most),
                   .found = shown(name, *text),
                   .cause = "the launcher or a script has set it so",
                   .fix = "correct it, or unset it to train in one process"});
}

using Names = base::LauncherNames;
using base::kByTorch;
using base::kMpirun;
using base::kPmi;
using base::kSlurm;
constexpr int kMostRanks = 65'535;

struct Claim {
  Names names;
  int rank = 0, size = 1;

  std::string text() const {
    return shown(names.rank, std::to_string(rank)) + " of " + shown(names.size, std::to_string(size));
  }
};

// What one launcher says; nothing when it says nothing.
std::optional<Claim> claim_of(const Environment& environment, const Names& names) {
  const auto size = number(environment, names.size, 1, kMostRanks);
  const auto rank = number(environment, names.rank, 0, kMostRanks);
  if (!size || !rank) return std::nullopt;
  if (*rank < *size) return Claim{names, *rank, *size};
  throw UserError(
      {.where = std::string("environment variables ") + names.rank + " and " + names.size,
       .expected = "a rank below the number of ranks: 0 to " + std::to_string(*size - 1),
       .found = shown(names.rank, std::to_string(*rank)) + ", " + shown(names.size, std::to_string(*size)),
       .cause = "ranks count from 0, or the number of processes was changed in one place only",
       .fix = "start as many processes as the world size says, with ranks from 0"});
}

// RANK without WORLD_SIZE, or a WORLD_SIZE of several without RANK.
void refuse_half(const Environment& environment) {
  const auto size = number(environment, "WORLD_SIZE", 1, kMostRanks);
  const bool has_rank = find(environment, "RANK") != nullptr;
  if (has_rank == size.has_value() || (!has_rank && size == 1)) return;
  const std::string there = has_rank ? "RANK" : "WORLD_SIZE", missing = has_rank ? "WORLD_SIZE" : "RANK";
  throw UserError({.where = "environment variables RANK and WORLD_SIZE",
                   .expected = "both, or neither",
                   .found = shown(there, text_of(environment, there)) + ", and no " + missing,
                   .cause = "a script sets one of them only",
                   .fix = "set " + missing + ", or unset " + there + " to train in one process"});
}

// Slurm, mpirun and PMI inside one another, or beside RANK: they must say the same. One process of theirs says nothing:
// a shell that srun started, in which torchrun starts ranks.
std::optional<Claim> agreed_claim(const Environment& environment) {
  std::optional<Claim> first = claim_of(environment, kByTorch);
  if (first && find(environment, "TORCHELASTIC_RUN_ID") != nullptr)
    return first;  // torchrun may run in anything
  for (const Names& names : {kSlurm, kMpirun, kPmi}) {
    const auto claim = claim_of(environment, names);
    if (!claim || claim->size == 1) continue;
    if (!first) first = claim;
    if (first->rank == claim->rank && first->size == claim->size) continue;
    throw UserError({.where = "the environment variables of " + std::string(first->names.launcher) + " and " +
                              names.launcher,
                     .expected = "one launcher, or several that say the same",
                     .found = first->text() + ", but " + claim->text(),
                     .cause = std::string("a launcher inside another, or ") + first->names.rank + " and " +
                              first->names.size + " left over from an earlier job",
                     .fix = std::string("unset ") + names.rank + " and " + names.size + ", or " +
                            first->names.rank + " and " + first->names.size});
  }
  return first;
}

int port_from(const std::string& name) {
  return kFirstPort + static_cast<int>(base::hash64(name) % static_cast<std::uint64_t>(kPorts));
}

[[noreturn]] void missing_master(const RankPlace& place, const std::string& name,
                                 const std::string& launcher_way) {
  throw UserError({.where = "environment variable " + name,
                   .expected = name == "MASTER_ADDR" ? "the host of rank 0, the same for all ranks"
                                                     : "a free port of that host, the same for all ranks",
                   .found = name + " is not set; this is rank " + std::to_string(place.rank) + " of " +
                            std::to_string(place.size) + " (" + place.launcher + ")",
                   .cause = "the script or launcher does not pass it on",
                   .fix = launcher_way});
}

// What srun and mpirun let one derive, beside RANK too where they say the same; MASTER_ADDR and MASTER_PORT come first.
void derive_master(const Environment& environment, RankPlace& place) {
  const auto is_one_of = [&](const Names& names) {
    const auto claim = claim_of(environment, names);
    return claim && claim->size == place.size && place.launcher != "torchrun";
  };
  const std::string list = text_of(environment, "SLURM_STEP_NODELIST");
  if (is_one_of(kSlurm) && !list.empty()) {
    place.job = "slurm " + text_of(environment, "SLURM_JOB_ID") + "." + text_of(environment, "SLURM_STEP_ID");
    place.master_addr = hosts_of_list(list).front();
    place.master_port = port_from(place.job);
  } else if (is_one_of(kMpirun) || is_one_of(kPmi)) {
    const std::string job = text_of(environment, "PMIX_NAMESPACE") + text_of(environment, "PMI_JOBID");
    if (place.local_size == place.size) place.master_addr = "127.0.0.1";
    if (job.empty()) return;
    place.job = "mpi " + job;
    place.master_port = port_from(place.job);
  }
}

void read_master(const Environment& environment, RankPlace& place) {
  derive_master(environment, place);
  if (const std::string* address = find(environment, "MASTER_ADDR")) place.master_addr = *address;
  if (const auto port = number(environment, "MASTER_PORT", 1, 65'535)) place.master_port = *port;
  const bool mpi = place.launcher == "mpirun";
  if (place.master_addr.empty()) {
    missing_master(
        place, "MASTER_ADDR",
        mpi ? "mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=29500 ..." : "set it to the name of that host");
  }
  if (place.master_port == 0) {
    missing_master(place, "MASTER_PORT",
                   mpi ? "mpirun -x MASTER_PORT=29500 ..." : "set it, to 29500 for example");
  }
}

}  // namespace

RankPlace read_place(const Environment& environment) {
  refuse_half(environment);
  const std::optional<Claim> claim = agreed_claim(environment);
  RankPlace place;
  if (!claim || claim->size == 1) return place;
  place.launcher = claim->names.launcher;
  place.rank = claim->rank;
  place.size = claim->size;
  place.local_rank = number(environment, claim->names.local_rank, 0, kMostRanks).value_or(-1);
  place.local_size = number(environment, claim->names.local_size, 1, kMostRanks).value_or(-1);
  if (place.local_size > 0 && place.local_rank >= place.local_size) {
    throw UserError({.where = std::string("environment variables ") + claim->names.local_rank + " and " +
                              claim->names.local_size,
                     .expected = "a rank on this host below the number of ranks on this host",
                     .found = shown(claim->names.local_rank, std::to_string(place.local_rank)) + ", " +
                              shown(claim->names.local_size, std::to_string(place.local_size)),
                     .cause = "a script has set one of them wrongly",
                     .fix = "correct them, or unset both"});
  }
  if (const std::string* id = find(environment, "TORCHELASTIC_RUN_ID")) {
    place.launcher = "torchrun";
    place.job = *id;
    place.restart = number(environment, "TORCHELASTIC_RESTART_COUNT", 0, 1'000'000).value_or(0);
    place.launcher_hosts_store = text_of(environment, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  }
  place.interface = text_of(environment, "GLOO_SOCKET_IFNAME");
  read_master(environment, place);
  return place;
}

namespace {

[[noreturn]] void no_list(const std::string& list) {
  throw UserError({.where = "environment variable SLURM_STEP_NODELIST",
                   .expected = "hosts as Slurm writes them: node[01-03,7],gpu-a",
                   .found = list,
                   .cause = {},
                   .fix = "set MASTER_ADDR to the host of rank 0"});
}

// "01-03,7" of node[01-03,7]: node01, node02, node03, node7.
void expand_numbers(const std::string& list, const std::string& before, const std::string& numbers,
                    const std::string& after, std::vector<std::string>& out) {
  constexpr int kMostHosts = 100'000;
  for (std::size_t at = 0; at <= numbers.size();) {
    const std::size_t comma = std::min(numbers.find(',', at), numbers.size());
    const std::string range = numbers.substr(at, comma - at);
    const std::size_t dash = range.find('-');
    const std::string first = range.substr(0, dash),
                      last = dash == std::string::npos ? first : range.substr(dash + 1);
    int from = 0, to = 0;
    const auto read = [&](const std::string& text, int& value) {
      const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc() || stop != text.data() + text.size()) no_list(list);
    };
    read(first, from);
    read(last, to);
    if (to < from || to - from > kMostHosts) no_list(list);
    for (int n = from; n <= to; ++n) {
      std::string digits = std::to_string(n);
      if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
      std::string host = before;
      host += digits;
      host += after;
      out.push_back(std::move(host));
    }
    at = comma + 1;
  }
}

}  // namespace

std::vector<std::string> hosts_of_list(const std::string& list) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < list.size();) {
    std::size_t end = at;  // the next comma outside brackets
    bool inside = false;
    for (; end < list.size() && (inside || list[end] != ','); ++end) {
      if (list[end] == '[') inside = true;
      if (list[end] == ']') inside = false;
    }
    const std::string one = list.substr(at, end - at);
    const std::size_t open = one.find('['), close = one.find(']');
    if (one.empty() || (open == std::string::npos) != (close == std::string::npos)) no_list(list);
    if (open == std::string::npos) {
      out.push_back(one);
    } else if (close < open + 2 || one.find('[', close) != std::string::npos) {
      no_list(list);
    } else {
      expand_numbers(list, one.substr(0, open), one.substr(open + 1, close - open - 1), one.substr(close + 1),
                     out);
    }
    at = end + 1;
  }
  if (out.empty()) no_list(list);
  return out;
}

}  // namespace hone::parallel
