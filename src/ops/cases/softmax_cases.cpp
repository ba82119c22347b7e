#include "ops/cases/case.h"
#include "ops/head/logprob_tile.h"

#include <limits>

namespace hone::ops::cases {
namespace softmax_cases {

constexpr double kTemperature = 0.7;

struct Shape {
  std::int64_t rows, vocabulary;
  Layout layout;
};

std::string what(const Shape& s) {
  return std::to_string(s.rows) + " x " + std::to_string(s.vocabulary) + ", " + describe(s.layout);
}

at::Tensor logits_of(const Shape& s) {
  return noise({s.rows, s.vocabulary}, 1) * 4;
}
at::Tensor targets_of(const Shape& s) {
  return (at::arange(s.rows, at::kLong) * 997).remainder(s.vocabulary);
}

// peak, first, target, sum, dot and squares of whole rows, in fp64.
Tensors facts_of(const at::Tensor& logits, const at::Tensor& targets) {
  if (logits.size(0) == 0) {
    const at::Tensor none = at::zeros({0}, at::kDouble);
    return {none, none, none, none, none, none};
  }
  const auto [peak, first] = logits.max(1);
  const at::Tensor z = (logits - peak.unsqueeze(1)) / kTemperature, e = z.exp();
  return {peak,
          wide(first.to(at::kDouble)),
          logits.gather(1, targets.unsqueeze(1)).squeeze(1),
          e.sum(1),
          (z * e).sum(1),
          e.square().sum(1)};
}

Tensors found_in(const SoftmaxRows& rows) {
  Tensors out{rows.peak, rows.first, rows.target, rows.sum, rows.dot};
  if (rows.squares.defined()) out.push_back(rows.squares);
  return out;
}

// libtorch's sums below avx2, and vectors of other widths above it.
Case promised(Case c) {
  c.own_bits_from = base::InstructionLevel::kAvx2;
  c.levels = SameBits::kNone;
  return c;
}

Case row_of(const Shape& s) {
  return promised(of_rows({.op = "take_row",
                           .what = what(s),
                           .make = [=] { return Tensors{logits_of(s), targets_of(s)}; },
                           .outputs = {},
                           .call =
                               [=](const Tensors& t, at::Device /*device*/) {
                                 SoftmaxRows rows(t[1], kTemperature, true);
                                 take_row(rows, t[0]);
                                 return found_in(rows);
                               },
                           .exact = [=](const Tensors& t) { return facts_of(t[0], t[1]); },
                           .bounds = {1e-6, 0, 1e-6, 2e-6, 5e-6, 2e-6},
                           .layout = s.layout}));
}

// Calls f(column, width) for each tile.
template <typename Function>
void over_tiles(std::int64_t vocabulary, const Function& f) {
  for (std::int64_t column = 0; column < vocabulary; column += kTileColumns)
    f(column, std::min(kTileColumns, vocabulary - column));
}

// With an accumulator, to which something is added after each tile, so that rescaling it shows. `first` is
// the tile's column where the vocabulary begins: a piece of a large one.
Case tile_of(const Shape& s, at::ScalarType chances, std::int64_t first) {
  constexpr std::int64_t kHidden = 24;
  return promised(of_rows(
      {.op = "take_tile",
       .what = what(s) + " from " + std::to_string(first) + ", probabilities in " + describe(chances),
       .make = [=] { return Tensors{logits_of(s), targets_of(s) + first, noise({s.rows, kHidden}, 3)}; },
       .outputs = {2},
       .call =
           [=](const Tensors& t, at::Device device) {
             SoftmaxRows rows(t[1], kTemperature);
             at::Tensor last;
             over_tiles(s.vocabulary, [&](std::int64_t column, std::int64_t width) {
               last = unwritten({t[0].size(0), width}, chances).to(device);
               take_tile(rows, t[0].narrow(1, column, width), first + column, last, t[2]);
               t[2].add_(1);
             });
             Tensors out = found_in(rows);
             out.push_back(last);
             return out;
           },
       .exact =
           [=](const Tensors& t) {
             at::Tensor sum = t[2], last, peak;
             over_tiles(s.vocabulary, [&](std::int64_t column, std::int64_t width) {
               const at::Tensor tile = t[0].narrow(1, column, width), most = std::get<0>(tile.max(1));
               const at::Tensor now = peak.defined() ? at::maximum(peak, most) : most;
               sum = (peak.defined() ? sum * ((peak - now) / kTemperature).exp().unsqueeze(1) : sum * 0) + 1;
               peak = now;
               const at::Tensor here = at::arange(column, column + width).eq((t[1] - first).unsqueeze(1));
               last = ((tile - peak.unsqueeze(1)) / kTemperature).exp().masked_fill(here, 0);
             });
             const Tensors facts = facts_of(t[0], t[1] - first);
             return Tensors{sum, facts[0], facts[1] + first, facts[2], facts[3], facts[4], last};
           },
       .bounds = {2e-6, 1e-6, 0, 1e-6, 2e-6, 5e-6, bound_of(chances, 2e-6, kOneRounding)},
       .layout = s.layout,
       .dense_from = 1}));
}

Case finish_of(const Shape& s) {
  const auto make = [=] {
    const at::Tensor targets = targets_of(s);
    Tensors t = facts_of(wide(logits_of(s)), targets);
    for (const std::size_t i : {0U, 2U}) t[i] = t[i].to(at::kFloat);
    t[1] = t[1].to(at::kLong);
    t.push_back(targets);
    return t;
  };
  return of_rows({.op = "finish",
                  .what = what(s),
                  .make = make,
                  .outputs = {},
                  .call =
                      [](const Tensors& t, at::Device /*device*/) {
                        SoftmaxRows rows(t[6], kTemperature, true);
                        rows.peak = t[0];
                        rows.first = t[1];
                        rows.target = t[2];
                        rows.sum = t[3];
                        rows.dot = t[4];
                        rows.squares = t[5];
                        const TokenLogprobs facts = finish(rows);
                        return Tensors{facts.logprob, facts.entropy, facts.is_top1, facts.log_sum,
                                       facts.log_sum_squares};
                      },
                  .exact =
                      [](const Tensors& t) {
                        const at::Tensor log_sum = t[3].log();
                        return Tensors{(t[2] - t[0]) / kTemperature - log_sum, log_sum - t[4] / t[3],
                                       t[1].eq(t[6]).to(at::kDouble), t[0] / kTemperature + log_sum,
                                       t[5].log() - 2 * log_sum};
                      },
                  .bounds = {2e-7}});
}

Case backward_of(const Shape& s, bool narrow) {
  constexpr std::int64_t kFirst = 30 * kTileColumns;
  return of_rows({.op = "tile_backward",
                  .what = what(s) + (narrow ? ", to bf16" : ""),
                  .make =
                      [=] {
                        const at::Tensor logits = logits_of(s);
                        const at::Tensor sums = (wide(logits) / kTemperature).logsumexp(1) + 0.1;
                        // the first row's target is in another tile
                        at::Tensor targets = targets_of(s) + kFirst;
                        if (s.rows > 1) targets[0] = 3;
                        return Tensors{narrow ? unwritten({s.rows, s.vocabulary}, at::kBFloat16) : logits,
                                       targets, sums.to(at::kFloat), noise({s.rows}, 4), logits};
                      },
                  .call =
                      [=](const Tensors& t, at::Device /*device*/) {
                        const TileBackward rows{
                            .targets = t[1], .log_sum = t[2], .upstream = t[3], .temperature = kTemperature};
                        if (narrow) {
                          tile_backward(rows, t[4].clone(), kFirst, t[0]);
                        } else {
                          tile_backward(rows, t[0], kFirst);
                        }
                        return Tensors();
                      },
                  .exact =
                      [=](const Tensors& t) {
                        const at::Tensor p = (t[4] / kTemperature - t[2].unsqueeze(1)).exp();
                        const at::Tensor own =
                            at::arange(s.vocabulary).add(kFirst).eq(t[1].unsqueeze(1)).to(at::kDouble);
                        return Tensors{(own - p) * (t[3] / kTemperature).unsqueeze(1)};
                      },
                  .bounds = {narrow ? kOneRounding : 3e-6},
                  .layout = s.layout,
                  .dense_from = 1});
}

}  // namespace softmax_cases

void add_softmax_cases(Cases& all) {
  using namespace softmax_cases;
  constexpr Shape kShapes[] = {{1, 1, Layout::kDense},        {2, 33, Layout::kUnaligned},
                               {7, 1024, Layout::kDense},     {33, 1025, Layout::kStrided},
                               {5, 2081, Layout::kUnaligned}, {3, 32003, Layout::kStrided},
                               {257, 1100, Layout::kDense},   {4096, 31, Layout::kStrided}};
  for (const Shape& s : kShapes) {
    all.push_back(row_of(s));
    all.push_back(finish_of(s));
    for (const at::ScalarType chances : {at::kFloat, at::kBFloat16}) {
      if (s.vocabulary < 32003) all.push_back(tile_of(s, chances, s.rows == 5 ? 148 * kTileColumns : 0));
      if (s.vocabulary <= kTileColumns) all.push_back(promised(backward_of(s, chances == at::kBFloat16)));
    }
  }
}

}  // namespace hone::ops::cases
