// The lists of a step whose rows have one token each: kept from step to step, in one place of the device (ops/sampling/page_step.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ops/sampling/page_parts.h"
#include "ops/sampling/page_step.h"
#include "ops/sampling/paged_attention.h"

namespace hone::ops {

class PageLists {
 public:
  // It serves layers of these shapes: heads of queries over a head of keys, and their size.
  PageLists(const std::vector<std::pair<std::int64_t, std::int64_t>>& shapes, at::Device device);

  // After each row's `own` has its new token. `nobody` is the own of rows that have none: one token, which they all read.
  void set(std::span<const PageRows> rows, const PageRun* nobody);

  const PageSlots& slots() const { return slots_; }
  const at::Tensor& positions() const { return positions_; }  // [T] fp32
  const SentParts& parts(std::int64_t group, std::int64_t dim) const;
  void put_form(std::vector<std::int64_t>& out) const;

 private:
  // A row as the lists have it.
  struct Row {
    std::uint64_t version = 0;
    std::int64_t length = 0, position = 0;
    // Pages of its last part, and from which one on another begins.
    std::int64_t part_begin = 0, part_end = 0;
    std::size_t befores = 0;  // of those of all rows, so many up to this row's
  };
  struct Before {
    std::uint64_t version = 0;
    std::int64_t length = 0;
    bool operator==(const Before&) const = default;
  };
  // Places in host_.
  struct Shape {
    std::int64_t group = 1, dim = 1;
    // Of each row, in `parts` of the layout; -1: it is not the row's own.
    std::vector<std::int32_t> last = {};
    std::size_t parts = 0, pages = 0;
    SentParts sent = {};
    std::vector<std::int64_t> form = {};
  };
  bool advance(std::span<const PageRows> rows, const PageRun* nobody);
  bool advance_row(std::size_t i, const PageRun& own, std::int64_t position);
  bool is_row(const Row& known, std::size_t first_before, const PageRows& row) const;
  void put_slot(std::size_t i, const PageRun& own, std::int64_t position);
  void make(std::span<const PageRows> rows, const PageRun* nobody);
  void lay_out(Shape& shape, const PageParts& parts);
  std::size_t room(std::size_t numbers);  // in host_, at a multiple of sixteen bytes
  void place();
  void send();

  const at::Device device_;
  std::vector<Shape> shapes_;
  std::vector<Row> rows_;
  std::vector<Before> befores_;
  std::vector<std::int32_t> host_;
  at::Tensor sent_;  // [n] int32 on the device, n at least that of host_
  std::size_t pages_ = 0, places_ = 0, floats_ = 0;
  PageSlots slots_;
  at::Tensor positions_;
};

}  // namespace hone::ops
