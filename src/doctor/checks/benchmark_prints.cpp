#include "doctor/checks/benchmark_prints.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>
#include <unordered_map>

#include "base/error.h"
#include "doctor/checks/check_format.h"
#include "doctor/checks/row_rules.h"
#include "doctor/checks/word_prints.h"
#include "doctor/number_format.h"

namespace hone::doctor {

namespace {

constexpr std::size_t kItemRun = 8;  // words
constexpr std::size_t kDigits = 8;   // of a hash
constexpr const char* kFile = "benchmark_prints.txt";
constexpr double kManyItems = 0.02;  // of a benchmark: as Tulu 3's rule

std::uint32_t hash_of_digits(std::string_view digits) {
  std::uint32_t out = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out, 16);
  base::require(error == std::errc() && end == digits.data() + digits.size(), kFile, "a hash of 8 digits");
  return out;
}

// The items of which a row has a run, by its hash.
using Index = std::unordered_multimap<std::uint32_t, std::size_t>;

struct Hits {
  std::set<std::size_t> items, rows;
  std::string first;  // where
};

Hits hits_of(const Benchmark& benchmark, const std::vector<std::vector<std::uint32_t>>& runs,
             const std::vector<RowTexts>& rows) {
  Index index;
  for (std::size_t item = 0; item < benchmark.prints.size(); ++item) {
    for (const std::uint32_t hash : benchmark.prints[item]) index.emplace(hash, item);
  }
  Hits out;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const std::uint32_t run : runs[i]) {
      for (auto [at, end] = index.equal_range(run); at != end; ++at) {
        const auto& both = benchmark.prints[at->second];
        const bool holds = std::ranges::all_of(
            both, [&](std::uint32_t one) { return std::binary_search(runs[i].begin(), runs[i].end(), one); });
        if (!holds) continue;
        if (out.items.empty()) out.first = rows[i].where;
        out.items.insert(at->second);
        out.rows.insert(i);
      }
    }
  }
  return out;
}

}  // namespace

std::vector<Benchmark> read_benchmarks(std::string_view text) {
  std::vector<Benchmark> out;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    if (line.starts_with("# ")) {
      std::string mark;
      out.emplace_back();
      words >> mark >> out.back().name >> out.back().items >> out.back().every;
      continue;
    }
    for (std::string word; words >> word;) {
      base::require(!out.empty() && word.size() == 2 * kDigits, kFile, "two hashes an item");
      out.back().prints.push_back(
          {hash_of_digits(word.substr(0, kDigits)), hash_of_digits(word.substr(kDigits))});
    }
  }
  return out;
}

std::vector<base::Verdict> judge_benchmarks(std::span<const Benchmark> benchmarks,
                                            const std::vector<RowTexts>& rows) {
  std::vector<std::vector<std::uint32_t>> runs;
  for (const RowTexts& row : rows) {
    runs.push_back(word_runs(words_of(all_texts(row)), kItemRun));
    std::sort(runs.back().begin(), runs.back().end());
  }
  std::vector<base::Verdict> out;
  std::string names;
  for (const Benchmark& one : benchmarks) {
    names += (names.empty() ? "" : ", ") + one.name;
    const Hits hits = hits_of(one, runs, rows);
    if (hits.items.empty()) continue;
    const auto count = static_cast<std::int64_t>(hits.items.size());
    const double part = share(count, static_cast<std::int64_t>(one.prints.size()));
    base::Verdict found{.code = "DATA-18",
                        .level = part > kManyItems ? base::Level::kWarn : base::Level::kNote};
    found.what = of_first(static_cast<std::int64_t>(hits.rows.size()), rows.size(), "row") +
                 " hold items of " + one.name + "'s test";
    found.evidence = hits.first + " is the first; " + std::to_string(count) + " of the " +
                     format::counted(static_cast<std::int64_t>(one.prints.size()), "item") +
                     " that are known by hash (" + format::percent(part, 1) + ")" +
                     (one.every > 1 ? ", which are one of " + std::to_string(one.every) : std::string());
    found.cause =
        "suspected: a collection that was not decontaminated, or rows that were made from a benchmark";
    found.not_this = "tasks of the same kind: runs of eight words are the same";
    found.fix = "remove these rows, or do not report " + one.name + " of this model";
    found.cost = "a score on " + one.name + " that measures memory";
    out.push_back(std::move(found));
  }
  if (out.empty() && !rows.empty())
    out.push_back({.code = "DATA-18",
                   .what = "no item of " + names + " is in the first " +
                           format::counted(static_cast<std::int64_t>(rows.size()), "row"),
                   .evidence = "by hashes of runs of eight words"});
  return out;
}

}  // namespace hone::doctor
