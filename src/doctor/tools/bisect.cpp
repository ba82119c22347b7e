#include "doctor/tools/bisect.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>

namespace hone::doctor {

namespace {

OptionSet united(const OptionSet& a, const OptionSet& b) {
  OptionSet out;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

OptionSet without(const OptionSet& all, const OptionSet& part) {
  OptionSet out;
  std::set_difference(all.begin(), all.end(), part.begin(), part.end(), std::back_inserter(out));
  return out;
}

OptionSet prefix(const OptionSet& all, std::size_t length) {
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(length)};
}

class Search {
 public:
  explicit Search(const std::function<Outcome(const OptionSet&)>& fails) : fails_(fails) {}

  Outcome try_again(const OptionSet& options) {
    ++tries_;
    const Outcome outcome = fails_(options);
    known_[options] = outcome;
    return outcome;
  }

  bool failed(const OptionSet& options) {
    const auto found = known_.find(options);
    return (found != known_.end() ? found->second : try_again(options)) == Outcome::kFails;
  }

  int tries() const { return tries_; }

  // `kept` and `candidates` together fail, at every turn.
  OptionSet by_halves(OptionSet candidates) {
    OptionSet kept;
    while (!candidates.empty() && !failed(kept)) {
      std::size_t passes = 0, fails = candidates.size();
      while (fails - passes > 1) {
        const std::size_t middle = (passes + fails) / 2;
        (failed(united(kept, prefix(candidates, middle))) ? fails : passes) = middle;
      }
      kept = united(kept, {candidates[fails - 1]});
      candidates.resize(fails - 1);
    }
    return kept;
  }

  // Chunks alone, then all but a chunk, in finer and finer chunks: ends with a set from which no option can
  // be left out.
  OptionSet ddmin(OptionSet options) {
    for (std::size_t chunks = 2; options.size() > 1 && chunks <= options.size();) {
      if (const auto smaller = smaller_by_a_chunk(options, chunks)) {
        chunks = std::max<std::size_t>(2, smaller->alone ? 2 : chunks - 1);
        options = smaller->options;
      } else if (chunks == options.size()) {
        break;
      } else {
        chunks = std::min(options.size(), 2 * chunks);
      }
    }
    return options;
  }

 private:
  struct Smaller {
    OptionSet options;
    bool alone = false;  // a chunk; else all but one
  };

  std::optional<Smaller> smaller_by_a_chunk(const OptionSet& options, std::size_t chunks) {
    std::vector<OptionSet> parts;
    for (std::size_t i = 0; i < chunks; ++i) {
      const std::size_t begin = options.size() * i / chunks, end = options.size() * (i + 1) / chunks;
      parts.emplace_back(options.begin() + static_cast<std::ptrdiff_t>(begin),
                         options.begin() + static_cast<std::ptrdiff_t>(end));
    }
    for (const OptionSet& part : parts) {
      if (failed(part)) return Smaller{.options = part, .alone = true};
    }
    for (const OptionSet& part : parts) {
      if (chunks == 2) break;  // all but a half is the other half
      if (OptionSet rest = without(options, part); failed(rest)) return Smaller{.options = std::move(rest)};
    }
    return std::nullopt;
  }

  const std::function<Outcome(const OptionSet&)>& fails_;
  std::map<OptionSet, Outcome> known_;
  int tries_ = 0;
};

}  // namespace

Minimized minimize(std::size_t count, const std::function<Outcome(const OptionSet&)>& fails) {
  OptionSet all(count);
  std::iota(all.begin(), all.end(), std::size_t{0});
  Search search(fails);
  Minimized out;
  if (!search.failed(all)) {
    out.end = SearchEnd::kAllPass;
  } else if (search.failed({})) {
    out.end = SearchEnd::kNoneFails;
  } else {
    out.options = search.ddmin(search.by_halves(all));
    const bool repeats =
        search.try_again(out.options) == Outcome::kFails && search.try_again({}) != Outcome::kFails;
    if (!repeats) out.end = SearchEnd::kFlaky;
  }
  out.tries = search.tries();
  return out;
}

}  // namespace hone::doctor
