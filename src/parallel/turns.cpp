#include "parallel/turns.h"

#include <exception>
#include <optional>

#include "base/error.h"
#include "base/process/stop_request.h"
#include "parallel/pack.h"
#include "parallel/rank_text.h"

namespace hone::parallel {

namespace {

// What a rank gathers: 'F' and its facts (length, bytes) in order; 'E' and the text of its error; 'C': it was cut short by a stop.
constexpr char kFacts = 'F', kFailed = 'E', kCut = 'C';

// Throws when a rank failed: on that rank its own error, on the others a RankFault that names the first.
void throw_failures(const Ranks& ranks, const std::vector<std::string>& said, const std::exception_ptr& own,
                    std::string_view what) {
  if (own) std::rethrow_exception(own);
  for (const std::string& one : said) {
    if (one.starts_with(kCut)) throw base::StopCut();
  }
  std::vector<int> failed;
  for (std::size_t r = 0; r < said.size(); ++r) {
    if (said[r].starts_with(kFailed)) failed.push_back(static_cast<int>(r));
  }
  if (failed.empty()) return;
  const auto first = static_cast<std::size_t>(failed.front());
  throw RankFault(RankFault::Kind::kError, failed,
                  {.where = rank_where(ranks) + ", " + std::string(what),
                   .expected = "every rank to do its share",
                   .found = "rank " + std::to_string(first) + " on host " + ranks.hosts().at(first) +
                            " ended with an error: " + said[first].substr(1),
                   .cause = {},
                   .fix = "see that error; the ranks have stopped together"});
}

}  // namespace

std::vector<std::string> in_turns(Ranks& ranks, const BinnedWork& work,
                                  const std::function<std::string(std::int64_t item)>& compute,
                                  std::string_view what, const std::function<void()>& after) {
  base::require(work.ranks() == ranks.size(), "parallel::in_turns",
                "work that is shared among as many ranks");
  std::string facts(1, kFacts);
  std::exception_ptr own;
  try {
    std::optional<base::CutScope> cuts;  // not between collectives of compute
    if (ranks.several() && !after) cuts.emplace();
    for (const std::int64_t item : work.items_of_rank(ranks.rank())) append_text(facts, compute(item));
  } catch (const RankFault&) {
    throw;  // of a collective of compute: there is nobody to gather with
  } catch (const base::StopCut&) {
    own = std::current_exception();
    facts = kCut;
  } catch (const std::exception& error) {
    own = std::current_exception();
    facts = kFailed + std::string(error.what());
  }
  if (after) after();
  const std::vector<std::string> said = ranks.gather(facts, what);
  throw_failures(ranks, said, own, what);
  std::vector<std::string> out(static_cast<std::size_t>(work.count()));
  for (int r = 0; r < ranks.size(); ++r) {
    std::string_view bytes = said[static_cast<std::size_t>(r)];
    bytes.remove_prefix(1);
    for (const std::int64_t item : work.items_of_rank(r))
      out[static_cast<std::size_t>(item)] = take_text(bytes, "parallel::in_turns");
  }
  return out;
}

std::vector<std::string> in_turns(Ranks& ranks, std::int64_t items,
                                  const std::function<std::string(std::int64_t item)>& compute,
                                  std::string_view what) {
  const std::vector<std::int64_t> costs(static_cast<std::size_t>(items), 1);
  return in_turns(ranks, BinnedWork(costs, ranks.size()), compute, what);
}

void all_or_none(Ranks& ranks, const std::function<void()>& compute, std::string_view what) {
  std::exception_ptr own;
  std::string said(1, kFacts);
  try {
    compute();
  } catch (const std::exception& error) {
    own = std::current_exception();
    said = kFailed + std::string(error.what());
  }
  throw_failures(ranks, ranks.gather(said, what), own, what);
}

}  // namespace hone::parallel
