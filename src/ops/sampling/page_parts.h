// Which tokens a step's rows read together: the lists that attend_pages takes (paged_attention.h).
//
// A row's tokens are cut where a part is full, and where the row says so: at the end of its prompt, for example. Rows with the same
// pages in a part share it, and it is read once for all of them. Where a row is cut depends on the row alone, and so do its bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/sampling/lists.h"

namespace hone::ops {

// A row's keys: `length` tokens, at least one, in pages of kPageTokens, the last of which may be full in part.
struct PagedRow {
  std::span<const std::int32_t> pages;
  std::int64_t length = 0;
  std::span<const std::int64_t> cuts;  // rising numbers of pages, from where on a part begins
};

struct PageParts {
  std::vector<PagePart> parts;  // `wide` of them, then narrow ones
  std::vector<PartRow> rows;
  // results_of [rows + 1]. Where a row's last part is its own, that part has room for kPartPages pages, so that it can grow in place.
  std::vector<std::int32_t> pages, results_of;
  // [rows], the place in `parts` of a row's last part, if no other row reads it; else -1.
  std::vector<std::int32_t> last;
  std::int64_t wide = 0, results = 0;
  std::int64_t tokens = 0;  // keys that are read, each as often as a part has them
};

// `group` heads of queries have a head of keys, at most widest_part(dim) of them.
PageParts page_parts(std::span<const PagedRow> rows, std::int64_t group, std::int64_t dim);
// Rows whose tokens are in several lists of pages each, one behind the other: a prompt's and its own, for example. Row i has those of
// `spans` from begins[i] on and below begins[i + 1], at least one. Parts begin at each list.
PageParts page_parts(std::span<const PagedRow> spans, std::span<const std::size_t> begins, std::int64_t group,
                     std::int64_t dim);

}  // namespace hone::ops
