#include "ops/sampling/page_parts.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "base/error.h"
#include "base/numeric.h"

namespace hone::ops {
namespace {

using base::narrow;

constexpr std::int32_t kNone = -1;

// Tokens that some rows read together.
struct Shared {
  std::span<const std::int32_t> pages;
  std::int64_t tokens = 0, rows = 0;
  std::int32_t first = kNone, last = kNone;  // of its rows, in the list of all
  std::int32_t same_page = kNone;            // the one before that begins with this page
};

struct ListedRow {
  PartRow row;
  std::int32_t next = kNone;  // of the same piece
};

// The pieces of all rows, in the order in which they are first met.
class Pieces {
 public:
  explicit Pieces(std::size_t spans) {
    all_.reserve(2 * spans);
    rows_.reserve(2 * spans);
    by_page_.reserve(2 * spans);
  }
  // The last piece of the row.
  std::int32_t add(const PagedRow& row, std::int64_t query) {
    const std::int64_t end = (row.length + kPageTokens - 1) / kPageTokens;
    base::require(end >= 1 && end <= static_cast<std::int64_t>(row.pages.size()), "page_parts",
                  "pages for each token");
    std::int32_t piece = kNone;
    auto cut = row.cuts.begin();
    for (std::int64_t page = 0; page < end;) {
      while (cut != row.cuts.end() && *cut <= page) ++cut;
      std::int64_t next = std::min(end, (page / kPartPages + 1) * kPartPages);
      if (cut != row.cuts.end()) next = std::min(next, *cut);
      const std::int64_t tokens = std::min(row.length, next * kPageTokens) - page * kPageTokens;
      piece = found(row.pages.subspan(static_cast<std::size_t>(page), static_cast<std::size_t>(next - page)),
                    tokens);
      put({.query = narrow<std::int32_t>(query), .result = narrow<std::int32_t>(results_++)},
          all_[static_cast<std::size_t>(piece)]);
      page = next;
    }
    return piece;
  }
  const std::vector<Shared>& all() const { return all_; }
  const ListedRow& row(std::int32_t place) const { return rows_[static_cast<std::size_t>(place)]; }
  std::int64_t results() const { return results_; }

 private:
  std::int32_t found(std::span<const std::int32_t> pages, std::int64_t tokens) {
    const auto [place, is_new] = by_page_.try_emplace(pages.front(), kNone);
    for (std::int32_t at = place->second; at != kNone; at = all_[static_cast<std::size_t>(at)].same_page) {
      const Shared& one = all_[static_cast<std::size_t>(at)];
      if (one.tokens == tokens && std::equal(one.pages.begin(), one.pages.end(), pages.begin(), pages.end()))
        return at;
    }
    all_.push_back({.pages = pages, .tokens = tokens, .same_page = place->second});
    return place->second = narrow<std::int32_t>(static_cast<std::int64_t>(all_.size()) - 1);
  }
  void put(const PartRow& row, Shared& piece) {
    const auto place = narrow<std::int32_t>(static_cast<std::int64_t>(rows_.size()));
    rows_.push_back({.row = row});
    if (piece.last != kNone) rows_[static_cast<std::size_t>(piece.last)].next = place;
    if (piece.first == kNone) piece.first = place;
    piece.last = place;
    ++piece.rows;
  }
  std::vector<Shared> all_;
  std::vector<ListedRow> rows_;
  std::unordered_map<std::int32_t, std::int32_t> by_page_;
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
  Pieces pieces(spans.size());
  PageParts out;
  out.results_of.reserve(begins.size());
  for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
    out.results_of.push_back(narrow<std::int32_t>(pieces.results()));
    for (std::size_t span = begins[i]; span < begins[i + 1]; ++span) {
      const std::int32_t piece = pieces.add(spans[span], static_cast<std::int64_t>(i));
      if (span + 1 == begins[i + 1]) out.last.push_back(piece);
    }
  }
  out.results = pieces.results();
  out.results_of.push_back(narrow<std::int32_t>(out.results));
  std::vector<bool> grows(pieces.all().size(), false);
  for (const std::int32_t piece : out.last) grows[static_cast<std::size_t>(piece)] = true;
  std::vector<PagePart> narrow_parts;
  // Of each piece its part, below 0 that of narrow ones: ~place.
  std::vector<std::int32_t> places;
  places.reserve(pieces.all().size());
  for (const Shared& piece : pieces.all()) {
    const auto first_page = narrow<std::int32_t>(out.pages.size());
    out.pages.insert(out.pages.end(), piece.pages.begin(), piece.pages.end());
    if (piece.rows == 1 && grows[places.size()])
      out.pages.resize(static_cast<std::size_t>(first_page) + kPartPages, 0);
    std::int32_t listed = piece.first;
    for (std::int64_t from = 0; from < piece.rows; from += most) {
      const std::int64_t some = std::min(most, piece.rows - from);
      auto& list = some * group <= kNarrowPart ? narrow_parts : out.parts;
      if (from == 0) {
        const auto place = narrow<std::int32_t>(static_cast<std::int64_t>(list.size()));
        places.push_back(&list == &out.parts ? place : ~place);
      }
      list.push_back({.first_row = narrow<std::int32_t>(static_cast<std::int64_t>(out.rows.size())),
                      .rows = narrow<std::int32_t>(some),
                      .first_page = first_page,
                      .tokens = narrow<std::int32_t>(piece.tokens)});
      out.tokens += piece.tokens;
      for (std::int64_t i = 0; i < some; ++i) {
        const ListedRow& one = pieces.row(listed);
        out.rows.push_back(one.row);
        listed = one.next;
      }
    }
  }
  out.wide = static_cast<std::int64_t>(out.parts.size());
  out.parts.insert(out.parts.end(), narrow_parts.begin(), narrow_parts.end());
  for (std::int32_t& one : out.last) {
    const auto piece = static_cast<std::size_t>(one);
    const std::int32_t place = places[piece];
    one = pieces.all()[piece].rows > 1 ? kNone
          : place >= 0                 ? place
                                       : ~place + static_cast<std::int32_t>(out.wide);
  }
  return out;
}

}  // namespace hone::ops
