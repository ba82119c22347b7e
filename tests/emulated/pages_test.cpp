// Attention to pages by hone's own kernel in the emulator, in every grouping of the rows, against the definition in fp64.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "emulated/machine/emulator.h"
#include "emulated/own_checks.h"
#include "emulated/use_kernels.h"
#include "ops/cases/case.h"
#include "ops/sampling/kv_pages.h"
#include "ops/sampling/paged_attention.h"

namespace hone::emulated {
namespace pages_test {

using at::Tensor;
using ops::KvPages;
using ops::PagedTokens;
using ops::cases::noise;

static_assert(KvPages::kPageTokens == ops::kPageTokens);

struct Shape {
  std::int64_t heads, kv_heads, dim;
  at::ScalarType dtype;
};

// Numbers of tokens: of a root, of what each of its forks has more, of what each of theirs has, ...; the last ones are the rows.
using Tree = std::vector<std::vector<std::int64_t>>;

struct Grouping {
  const char* what;
  Tree tree;
};

const std::vector<Grouping>& groupings() {
  static const std::vector<Grouping> all = {
      {"one row of one token", {{1}}},
      {"rows that share nothing", {{0}, {1, 63, 64, 65, 130}}},
      {"a row of several parts", {{1100}}},
      {"a prompt of whole pages", {{128}, {1, 64, 7}}},
      {"a prompt that ends in a page", {{150}, {1, 1, 2, 90, 40, 3, 5, 1, 9}}},
      {"a prompt of more than a part", {{700}, {3, 600}}},
      {"nothing of their own", {{70}, {0, 0}}},
      {"a system prompt, prompts, samples", {{200}, {30, 100, 0}, {5, 70, 1}}},
      {"four levels", {{64}, {64, 1}, {10, 600}, {1, 2}}},
  };
  return all;
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {14, 2, 64, at::kFloat},  {14, 2, 64, at::kBFloat16}, {4, 4, 128, at::kBFloat16},
      {8, 1, 128, at::kFloat},  {4, 2, 256, at::kFloat},    {8, 1, 256, at::kBFloat16},
      {3, 1, 8, at::kFloat},    {2, 1, 80, at::kFloat},     {2, 1, 80, at::kBFloat16},
      {3, 1, 8, at::kBFloat16}, {2, 1, 72, at::kBFloat16},  {32, 1, 16, at::kBFloat16}};
  return all;
}

// Sequences in pages, and the same keys and values in rows.
class Memory {
 public:
  explicit Memory(const Shape& shape)
      : shape_(shape),
        book_(std::make_shared<KvPages>(kPages)),
        memory_(ops::make_pages(kPages, shape.kv_heads, shape.dim, at::TensorOptions(shape.dtype))) {
    memory_.keys.fill_(NAN);  // what was not written is not read
    memory_.values.fill_(NAN);
    // Pages are not in order.
    std::deque<PagedTokens> held;
    std::vector<ops::PageCopy> copies;
    for (std::int64_t i = 0; i < kPages; ++i) held.emplace_back(book_).extend(1, copies);
    std::shuffle(held.begin(), held.end(), random_);
  }

  struct Row {
    PagedTokens tokens;
    Tensor keys, values;  // [length, K, D]
  };
  Row root() { return {PagedTokens(book_), none(), none()}; }
  Row fork(const Row& row) const { return {row.tokens.fork(), row.keys, row.values}; }
  void extend(Row& row, std::int64_t count) {
    if (count == 0) return;
    std::vector<ops::PageCopy> copies;
    const std::int64_t before = row.tokens.length();
    ASSERT_TRUE(row.tokens.extend(count, copies));
    for (const auto& [from, to] : copies)
      ops::copy_pages(memory_, at::tensor({to}, at::kLong), at::tensor({from}, at::kLong));
    std::vector<std::int64_t> slots;
    for (std::int64_t i = before; i < before + count; ++i) slots.push_back(row.tokens.slot(i));
    const Tensor k = noise({count, shape_.kv_heads, shape_.dim}, random_(), shape_.dtype),
                 v = noise({count, shape_.kv_heads, shape_.dim}, random_(), shape_.dtype);
    ops::write_pages(memory_, k, v, ops::send_slots(slots, at::kCPU));
    row.keys = at::cat({row.keys, k});
    row.values = at::cat({row.values, v});
  }
  const ops::PageMemory& memory() const { return memory_; }

 private:
  static constexpr std::int64_t kPages = 48;
  Tensor none() const { return at::empty({0, shape_.kv_heads, shape_.dim}, shape_.dtype); }
  const Shape shape_;
  std::mt19937 random_{5};  // NOLINT(bugprone-random-generator-seed): the same each time
  std::shared_ptr<KvPages> book_;
  ops::PageMemory memory_;
};

std::vector<Memory::Row> rows_of(Memory& memory, const Tree& tree) {
  std::vector<Memory::Row> level;
  level.push_back(memory.root());
  memory.extend(level[0], tree[0][0]);
  for (std::size_t i = 1; i < tree.size(); ++i) {
    std::vector<Memory::Row> next;
    for (const Memory::Row& row : level) {
      for (const std::int64_t more : tree[i]) {
        next.push_back(memory.fork(row));
        memory.extend(next.back(), more);
      }
    }
    level = std::move(next);
  }
  return level;
}

struct Found {
  Tensor out, lse;
};

Found attended(const Memory& memory, const std::vector<const Memory::Row*>& rows, const Tensor& q,
               const Shape& shape) {
  std::vector<ops::PagedRow> paged;
  for (const Memory::Row* row : rows)
    paged.push_back({row->tokens.pages(), row->tokens.length(), row->tokens.cuts()});
  const auto parts = ops::send(ops::page_parts(paged, shape.heads / shape.kv_heads, shape.dim), at::kCPU);
  Found found{at::full_like(q, NAN), at::full({q.size(0), shape.heads}, NAN)};
  const double scale = 1 / std::sqrt(static_cast<double>(shape.dim));
  if (!ops::attend_pages(found.out, found.lse, q, memory.memory(), parts, scale)) return {};
  return found;
}

// The definition, in fp64.
Found exact(const Memory::Row& row, const Tensor& q, const Shape& shape) {
  const std::int64_t group = shape.heads / shape.kv_heads;
  const auto of_heads = [&](const Tensor& x) {
    return x.to(at::kDouble).repeat_interleave(group, 1).transpose(0, 1);
  };
  const Tensor scores = at::matmul(of_heads(row.keys), q.to(at::kDouble).unsqueeze(2)).squeeze(2) /
                        std::sqrt(static_cast<double>(shape.dim));  // [N, length]
  return {at::matmul(at::softmax(scores, 1).unsqueeze(1), of_heads(row.values)).squeeze(1),
          at::logsumexp(scores, 1)};
}

// fp32: 1e-5; bf16: one unit in the last place, and 1e-5 where others cancel out: a weight is two numbers of bf16.
std::string too_far(const Tensor& found, const Tensor& expected) {
  const Tensor off = (found.to(at::kDouble) - expected).abs();
  Tensor bound = at::full_like(expected, 1e-5);
  if (found.scalar_type() == at::kBFloat16)
    bound = at::exp2(at::floor(at::log2(expected.abs().clamp_min(1e-30))) - 7) + 1e-5;
  if (off.le(bound).all().item<bool>()) return "";  // NaN is not
  return "off by " + std::to_string(off.max().item<double>());
}

std::string wrong_row(const Memory::Row& row, const Found& found, std::int64_t i, const Tensor& q,
                      const Shape& shape) {
  const Found expected = exact(row, q[i], shape);
  const std::string wrong = too_far(found.out[i], expected.out);
  return wrong.empty() ? too_far(found.lse[i], expected.lse) : wrong;
}

// In each order of threads; the bits are those of the first order, where each row has those that it has alone.
std::string wrong_grouping(const Shape& shape, const Grouping& grouping) {
  Memory memory(shape);
  const std::vector<Memory::Row> rows = rows_of(memory, grouping.tree);
  const Tensor q =
      noise({static_cast<std::int64_t>(rows.size()), shape.heads, shape.dim}, 3, shape.dtype) * 2;
  std::vector<const Memory::Row*> all;
  for (const Memory::Row& row : rows) all.push_back(&row);
  Found first;
  for (const Schedule schedule : kSchedules) {
    set_schedule(schedule);
    const Found found = attended(memory, all, q, shape);
    if (!found.out.defined()) return "there is no kernel";
    for (std::int64_t i = 0; i < q.size(0); ++i) {
      const Memory::Row& row = rows[static_cast<std::size_t>(i)];
      const std::string which = "row " + std::to_string(i), wrong = wrong_row(row, found, i, q, shape);
      if (!wrong.empty()) return which + " is " + wrong;
      const bool begins = !first.out.defined();
      const Found other = begins ? attended(memory, {&row}, q.narrow(0, i, 1), shape)
                                 : Found{first.out.narrow(0, i, 1), first.lse.narrow(0, i, 1)};
      if (!at::equal(other.out[0], found.out[i]) || !at::equal(other.lse[0], found.lse[i]))
        return which + (begins ? " has other bits alone" : " has other bits in another order of threads");
    }
    first = found;
  }
  return "";
}

std::string described(const Shape& shape, const Grouping& grouping) {
  return std::string(grouping.what) + ", " + std::to_string(shape.heads) + " heads over " +
         std::to_string(shape.kv_heads) + " of " + std::to_string(shape.dim) + ", " +
         ops::cases::describe(shape.dtype);
}

std::string wrong_in(const Shape& shape) {
  for (const Grouping& grouping : groupings()) {
    const std::string wrong = wrong_grouping(shape, grouping);
    if (!wrong.empty()) return described(shape, grouping) + ": " + wrong;
  }
  return "";
}

}  // namespace pages_test

std::string wrong_pages() {
  using namespace pages_test;
  // Columns that are not a whole number of lanes or of matrices, at first: they are the quickest. Then a block of each kind.
  for (const Shape& shape : {Shape{2, 1, 72, at::kBFloat16},
                             {2, 1, 80, at::kFloat},
                             {8, 1, 128, at::kBFloat16},
                             {14, 2, 64, at::kFloat}}) {
    const std::string wrong = wrong_in(shape);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

namespace pages_test {

class EmulatedPages : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, EmulatedPages, testing::ValuesIn(shapes()));

TEST_P(EmulatedPages, AttentionIsTheDefinitionInEveryGrouping) {
  const UseKernels use(emulated_kernels());
  EXPECT_EQ(wrong_in(GetParam()), "");
}

// What the kernel has no form for is refused before anything is written.
TEST(EmulatedPageShapes, RefusesHeadsThatItCannotRead) {
  const UseKernels use(emulated_kernels());
  const std::vector<Shape> refused = {{2, 1, 12, at::kFloat}, {2, 1, 264, at::kFloat}, {2, 1, 64, at::kHalf}};
  for (const Shape& shape : refused) {
    Memory memory(shape);
    Memory::Row row = memory.root();
    memory.extend(row, 3);
    const Tensor q = noise({1, shape.heads, shape.dim}, 1, shape.dtype);
    EXPECT_FALSE(attended(memory, {&row}, q, shape).out.defined()) << shape.dim;
  }
}

// A prompt's keys are read once for all samples that fit into a block, not once for each.
TEST(PageParts, ReadAPromptOnceForItsSamples) {
  const Shape shape{14, 2, 64, at::kBFloat16};
  Memory memory(shape);
  const std::vector<Memory::Row> rows = rows_of(memory, {{1024}, {10, 10, 10, 10, 10, 10, 10, 10}});
  std::vector<ops::PagedRow> paged;
  for (const Memory::Row& row : rows)
    paged.push_back({row.tokens.pages(), row.tokens.length(), row.tokens.cuts()});
  const auto parts = ops::page_parts(paged, 7, 64);
  EXPECT_EQ(parts.tokens, 1024 + 8 * 10);
  EXPECT_EQ(parts.wide, 2);
  EXPECT_EQ(parts.parts.size(), 2 + 8);
  EXPECT_EQ(parts.results, 8 * 3);
}

}  // namespace pages_test
}  // namespace hone::emulated
