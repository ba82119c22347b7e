#include "ops/sampling/page_parts.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/numeric.h"

namespace hone::ops {
namespace {

using base::narrow;

// Tokens that some rows read together.
struct Shared {
  std::span<const std::int32_t> pages;
  std::int64_t tokens = 0;
  std::vector<PartRow> rows;
};

// The pieces of all rows, in the order in which they are first met.
class Pieces {
 public:
  void add(const PagedRow& row, std::int64_t query) {
    const std::int64_t end = (row.length + kPageTokens - 1) / kPageTokens;
    base::require(end >= 1 && end <= static_cast<std::int64_t>(row.pages.size()), "page_parts",
                  "pages for each token");
    auto cut = row.cuts.begin();
    for (std::int64_t page = 0; page < end;) {
      while (cut != row.cuts.end() && *cut <= page) ++cut;
      std::int64_t next = std::min(end, (page / kPartPages + 1) * kPartPages);
      if (cut != row.cuts.end()) next = std::min(next, *cut);
      const std::int64_t tokens = std::min(row.length, next * kPageTokens) - page * kPageTokens;
      Shared& piece = found(
          row.pages.subspan(static_cast<std::size_t>(page), static_cast<std::size_t>(next - page)), tokens);
      piece.rows.push_back(
          {.query = narrow<std::int32_t>(query), .result = narrow<std::int32_t>(results_++)});
      page = next;
    }
  }
  const std::vector<Shared>& all() const { return all_; }
  std::int64_t results() const { return results_; }

 private:
  Shared& found(std::span<const std::int32_t> pages, std::int64_t tokens) {
    std::vector<std::size_t>& places = by_page_[pages.front()];
    for (const std::size_t place : places) {
      Shared& one = all_[place];
      if (one.tokens == tokens && std::equal(one.pages.begin(), one.pages.end(), pages.begin(), pages.end()))
        return one;
    }
    places.push_back(all_.size());
    return all_.emplace_back(Shared{.pages = pages, .tokens = tokens, .rows = {}});
  }
  std::vector<Shared> all_;
  std::map<std::int32_t, std::vector<std::size_t>> by_page_;
  std::int64_t results_ = 0;
};

}  // namespace

PageParts page_parts(std::span<const PagedRow> rows, std::int64_t group, std::int64_t dim) {
  std::vector<std::size_t> begins(rows.size() + 1);
  std::iota(begins.begin(), begins.end(), 0);
  return page_parts(rows, begins, group, dim);
}

PageParts page_parts(std::span<const PagedRow> spans, std::span<const std::size_t> begins, std::int64_t group,
                     std::int64_t dim) {
  const std::int64_t most = widest_part(dim) / group;
  base::require(most >= 1, "page_parts", "a group of heads that fits into a part");
  Pieces pieces;
  PageParts out;
  for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
    out.results_of.push_back(narrow<std::int32_t>(pieces.results()));
    for (std::size_t span = begins[i]; span < begins[i + 1]; ++span)
      pieces.add(spans[span], static_cast<std::int64_t>(i));
  }
  out.results = pieces.results();
  out.results_of.push_back(narrow<std::int32_t>(out.results));
  std::vector<PagePart> narrow_parts;
  for (const Shared& piece : pieces.all()) {
    const auto first_page = narrow<std::int32_t>(out.pages.size());
    out.pages.insert(out.pages.end(), piece.pages.begin(), piece.pages.end());
    const auto count = static_cast<std::int64_t>(piece.rows.size());
    for (std::int64_t from = 0; from < count; from += most) {
      const std::int64_t some = std::min(most, count - from);
      auto& list = some * group <= kNarrowPart ? narrow_parts : out.parts;
      list.push_back({.first_row = narrow<std::int32_t>(static_cast<std::int64_t>(out.rows.size()) + from),
                      .rows = narrow<std::int32_t>(some),
                      .first_page = first_page,
                      .tokens = narrow<std::int32_t>(piece.tokens)});
      out.tokens += piece.tokens;
    }
    out.rows.insert(out.rows.end(), piece.rows.begin(), piece.rows.end());
  }
  out.wide = static_cast<std::int64_t>(out.parts.size());
  out.parts.insert(out.parts.end(), narrow_parts.begin(), narrow_parts.end());
  return out;
}

}  // namespace hone::ops
