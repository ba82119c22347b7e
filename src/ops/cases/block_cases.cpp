#include "ops/cases/case.h"
#include "ops/routed_rows.h"

namespace hone::ops::cases {
namespace block_cases {

struct Block {
  std::int64_t rows, columns;
  at::ScalarType out, x;
  bool add, transposed;
};

std::vector<Block> blocks_of(std::int64_t count, at::ScalarType out, at::ScalarType x) {
  // a row, columns that are not whole fours, more than a block of threads, and none
  constexpr std::pair<std::int64_t, std::int64_t> kShapes[] = {{1, 1},    {7, 33}, {16, 896},
                                                               {300, 16}, {0, 8},  {5, 2052}};
  std::vector<Block> all;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& [rows, columns] = kShapes[static_cast<std::size_t>(i) % std::size(kShapes)];
    all.push_back({rows, columns, out, x, i % 2 == 1, i % 3 == 1});
  }
  return all;
}

Tensors inputs_of(const std::vector<Block>& blocks) {
  Tensors all;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Block& b = blocks[i];
    all.push_back(noise({b.rows, b.columns}, 2 * i, b.out));
    all.push_back(b.transposed ? noise({b.columns, b.rows}, 2 * i + 1, b.x)
                               : noise({b.rows, b.columns}, 2 * i + 1, b.x));
  }
  return all;
}

at::Tensor upright(const Block& b, const at::Tensor& x) {
  return b.transposed ? x.t() : x;
}

Case copied(std::int64_t count, at::ScalarType out, at::ScalarType x, Layout layout) {
  const std::vector<Block> blocks = blocks_of(count, out, x);
  Case one{.op = "copy_blocks",
           .what = std::to_string(count) + " blocks, " + describe(x) + " to " + describe(out) + ", " +
                   describe(layout),
           .bounds = std::vector<double>(blocks.size(), bound_of(out, 1e-7, kOneRounding))};
  one.run = [=](at::Device device) {
    std::vector<Placed> placed;
    for (const at::Tensor& tensor : inputs_of(blocks)) {
      // out in columns of a wider buffer, x dense: rows of either begin elsewhere
      const bool is_x = placed.size() % 2 == 1;
      placed.emplace_back(tensor, device, is_x && layout == Layout::kStrided ? Layout::kDense : layout);
    }
    std::vector<BlockCopy> all;
    for (std::size_t i = 0; i < blocks.size(); ++i)
      all.push_back({placed[2 * i].view(), upright(blocks[i], placed[2 * i + 1].view()), blocks[i].add});
    copy_blocks(all);
    Tensors outs;
    for (std::size_t i = 0; i < blocks.size(); ++i) outs.push_back(placed[2 * i].taken());
    return outs;
  };
  one.exact = [=] {
    const Tensors all = inputs_of(blocks);
    Tensors outs;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const at::Tensor from = wide(upright(blocks[i], all[2 * i + 1]));
      outs.push_back(blocks[i].add ? wide(all[2 * i]) + from : from);
    }
    return outs;
  };
  one.own_bits_from = base::InstructionLevel::kPlain;
  one.levels = SameBits::kAllLevels;
  return one;
}

}  // namespace block_cases

void add_block_cases(Cases& all) {
  using namespace block_cases;
  for (const at::ScalarType out : {at::kFloat, at::kBFloat16}) {
    for (const at::ScalarType x : {at::kFloat, at::kBFloat16}) {
      for (const Layout layout : {Layout::kDense, Layout::kStrided, Layout::kUnaligned})
        all.push_back(copied(6, out, x, layout));
    }
  }
  all.push_back(copied(1, at::kBFloat16, at::kFloat, Layout::kDense));
  all.push_back(copied(70, at::kFloat, at::kFloat, Layout::kStrided));  // more than one launch has
}

}  // namespace hone::ops::cases
