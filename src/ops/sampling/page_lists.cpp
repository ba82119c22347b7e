#include "ops/sampling/page_lists.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/numeric.h"

namespace hone::ops {
namespace {

using at::Tensor;
using base::narrow;

constexpr std::size_t kAligned = 4, kPartNumbers = sizeof(PagePart) / sizeof(std::int32_t),
                      kRowNumbers = sizeof(PartRow) / sizeof(std::int32_t), kWide = 2;

// So many places for `count`, a quarter more at most but for few: lists that grow a little have the same form.
std::size_t places_for(std::size_t count) {
  constexpr std::size_t kLeast = 8;
  const std::size_t step = std::max(kLeast, std::bit_floor(count) / 4);
  return (count + step - 1) / step * step;
}

template <typename T>
void copy_list(const std::vector<T>& list, std::size_t begin, std::size_t count, std::int32_t* to) {
  if (count > 0) std::memcpy(to, list.data() + begin, count * sizeof(T));
}

}  // namespace

PageLists::PageLists(const std::vector<std::pair<std::int64_t, std::int64_t>>& shapes, at::Device device)
    : device_(device) {
  for (const auto& [group, dim] : shapes) shapes_.push_back({.group = group, .dim = dim});
}

const SentParts& PageLists::parts(std::int64_t group, std::int64_t dim) const {
  const auto found = std::find_if(shapes_.begin(), shapes_.end(),
                                  [&](const Shape& one) { return one.group == group && one.dim == dim; });
  base::require(found != shapes_.end(), "PageLists::parts", "heads of one of the layers");
  return found->sent;
}

void PageLists::put_form(std::vector<std::int64_t>& out) const {
  out.push_back(std::ssize(rows_));
  out.push_back(reinterpret_cast<std::intptr_t>(sent_.const_data_ptr()));
  for (const Shape& one : shapes_) out.insert(out.end(), one.form.begin(), one.form.end());
}

void PageLists::set(std::span<const PageRows> rows, const PageRun* nobody) {
  if (!advance(rows, nobody)) make(rows, nobody);
  send();
}

bool PageLists::is_row(const Row& known, std::size_t first_before, const PageRows& row) const {
  if (known.befores - first_before != row.before.size()) return false;
  return std::equal(row.before.begin(), row.before.end(),
                    befores_.begin() + static_cast<std::ptrdiff_t>(first_before),
                    [](const PageRun* run, const Before& before) {
                      return before == Before{.version = run->version(), .length = run->length()};
                    });
}

// False: the lists are to be made again, whatever was changed.
bool PageLists::advance(std::span<const PageRows> rows, const PageRun* nobody) {
  if (rows.size() != rows_.size()) return false;
  std::size_t before = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const PageRun* const own = rows[i].own == nullptr ? nobody : rows[i].own;
    Row& known = rows_[i];
    if (own->version() != known.version || !is_row(known, before, rows[i])) return false;
    before = known.befores;
    if (own == nobody) continue;
    if (own->length() != known.length + 1 || !advance_row(i, *own, rows[i].position)) return false;
  }
  return true;
}

// The row's last part gets a token.
bool PageLists::advance_row(std::size_t i, const PageRun& own, std::int64_t position) {
  Row& known = rows_[i];
  const std::int64_t page = known.length / kPageTokens;  // of the new token
  if (page >= known.part_end) return false;
  for (Shape& shape : shapes_) {
    const std::int32_t last = shape.last[i];
    if (last < 0) return false;
    std::int32_t* const part = host_.data() + shape.parts + static_cast<std::size_t>(last) * kPartNumbers;
    PagePart read;
    std::memcpy(static_cast<void*>(&read), part, sizeof read);
    read.tokens += 1;
    std::memcpy(part, &read, sizeof read);
    const std::size_t place = static_cast<std::size_t>(read.first_page + page - known.part_begin);
    host_[shape.pages + place] = own.tokens().pages()[static_cast<std::size_t>(page)];
  }
  known.length += 1;
  put_slot(i, own, position);
  return true;
}

void PageLists::put_slot(std::size_t i, const PageRun& own, std::int64_t position) {
  const std::int64_t slot = own.tokens().slot(own.length() - 1);
  // Both are int64 there, whose upper halves stay 0: every host of a GPU is little-endian.
  host_[pages_ + kWide * i] = narrow<std::int32_t>(slot / kPageTokens);
  host_[places_ + kWide * i] = narrow<std::int32_t>(slot % kPageTokens);
  host_[floats_ + i] = std::bit_cast<std::int32_t>(static_cast<float>(position));
  rows_[i].position = position;
}

std::size_t PageLists::room(std::size_t numbers) {
  const std::size_t begin = (host_.size() + kAligned - 1) / kAligned * kAligned;
  host_.resize(begin + numbers, 0);
  return begin;
}

void PageLists::make(std::span<const PageRows> rows, const PageRun* nobody) {
  rows_.clear();
  befores_.clear();
  host_.clear();
  pages_ = room(kWide * rows.size());
  places_ = room(kWide * rows.size());
  floats_ = room(rows.size());
  std::vector<PagedRow> spans;
  std::vector<std::size_t> begins = {0};
  for (const PageRows& row : rows) {
    const PageRun* const own = row.own == nullptr ? nobody : row.own;
    for (const PageRun* const one : row.before) {
      befores_.push_back({.version = one->version(), .length = one->length()});
      if (one->length() > 0) spans.push_back({one->tokens().pages(), one->length(), one->tokens().cuts()});
    }
    spans.push_back({own->tokens().pages(), own->length(), own->tokens().cuts()});
    begins.push_back(spans.size());
    const std::int64_t page = (own->length() - 1) / kPageTokens, full = page / kPartPages * kPartPages;
    const std::span<const std::int64_t> cuts = own->tokens().cuts();
    const auto next = std::upper_bound(cuts.begin(), cuts.end(), page);
    rows_.push_back({.version = own->version(),
                     .length = own->length(),
                     .part_begin = next == cuts.begin() ? full : std::max(full, *(next - 1)),
                     .part_end = next == cuts.end() ? full + kPartPages : std::min(full + kPartPages, *next),
                     .befores = befores_.size()});
    put_slot(rows_.size() - 1, *own, row.own == nullptr ? 0 : row.position);
  }
  for (Shape& shape : shapes_) lay_out(shape, page_parts(spans, begins, shape.group, shape.dim));
  place();
}

// Lists of kinds that grow have more places than they need, which are parts without rows, and numbers that no part names.
void PageLists::lay_out(Shape& shape, const PageParts& parts) {
  const auto wide = static_cast<std::size_t>(parts.wide), narrow_parts = parts.parts.size() - wide;
  const std::size_t wides = wide == 0 ? 0 : places_for(wide),
                    narrows = narrow_parts == 0 ? 0 : places_for(narrow_parts),
                    rows = places_for(parts.rows.size()), pages = places_for(parts.pages.size()),
                    results = places_for(static_cast<std::size_t>(parts.results));
  shape.parts = room((wides + narrows) * kPartNumbers);
  copy_list(parts.parts, 0, wide, host_.data() + shape.parts);
  copy_list(parts.parts, wide, narrow_parts, host_.data() + shape.parts + wides * kPartNumbers);
  const std::size_t at_rows = room(rows * kRowNumbers);
  copy_list(parts.rows, 0, parts.rows.size(), host_.data() + at_rows);
  shape.pages = room(pages);
  copy_list(parts.pages, 0, parts.pages.size(), host_.data() + shape.pages);
  const std::size_t at_results = room(parts.results_of.size());
  copy_list(parts.results_of, 0, parts.results_of.size(), host_.data() + at_results);
  shape.last = parts.last;
  for (std::int32_t& one : shape.last)
    if (one >= parts.wide) one += narrow<std::int32_t>(static_cast<std::int64_t>(wides - wide));
  shape.form.clear();
  for (const std::size_t one : {shape.parts, wides, narrows, at_rows, rows, shape.pages, pages, at_results,
                                parts.results_of.size(), results})
    shape.form.push_back(static_cast<std::int64_t>(one));
}

// Views of what is on the device, by the forms of all shapes.
void PageLists::place() {
  const auto needed = static_cast<std::int64_t>(host_.size());
  if (!sent_.defined() || sent_.size(0) < needed)
    sent_ = at::empty({static_cast<std::int64_t>(std::bit_ceil(host_.size()))},
                      at::TensorOptions(at::kInt).device(device_));
  const auto at = [&](std::int64_t begin, std::int64_t count) { return sent_.narrow(0, begin, count); };
  const std::int64_t rows = std::ssize(rows_);
  slots_ = {.page = at(static_cast<std::int64_t>(pages_), 2 * rows).view(at::kLong),
            .place = at(static_cast<std::int64_t>(places_), 2 * rows).view(at::kLong)};
  positions_ = at(static_cast<std::int64_t>(floats_), rows).view(at::kFloat);
  for (Shape& one : shapes_) {
    const std::vector<std::int64_t>& form = one.form;
    one.sent = {.parts = at(form[0], (form[1] + form[2]) * static_cast<std::int64_t>(kPartNumbers)),
                .rows = at(form[3], form[4] * static_cast<std::int64_t>(kRowNumbers)),
                .pages = at(form[5], form[6]),
                .results_of = at(form[7], form[8]),
                .wide = form[1],
                .narrow = form[2],
                .results = form[9]};
  }
}

// In pinned memory of its own each time, which libtorch keeps until the device has read it.
void PageLists::send() {
  const auto count = static_cast<std::int64_t>(host_.size());
  const Tensor from = at::empty({count}, at::TensorOptions(at::kInt).pinned_memory(device_.is_cuda()));
  std::memcpy(from.mutable_data_ptr(), host_.data(), host_.size() * sizeof(std::int32_t));
  sent_.narrow(0, 0, count).copy_(from, /*non_blocking=*/true);
}

}  // namespace hone::ops
