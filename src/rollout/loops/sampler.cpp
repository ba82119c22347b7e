#include "rollout/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "base/rng.h"

namespace hone::rollout {

namespace {

constexpr std::size_t kBlock = 64;  // tokens
constexpr std::size_t kLanes = 16;
constexpr float kLowest = -std::numeric_limits<float>::infinity();

using Block = std::array<float, kBlock>;

// A form for each width of registers, chosen when the program begins. Built without contraction of a * b + c
// (cmake/Folders.cmake), so that all give the same bits. ThreadSanitizer begins after the choice, and would end it.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define HONE_WIDE [[gnu::target_clones("avx512f", "avx2", "default")]]
#else
#define HONE_WIDE
#endif

// exp(x) for -87 <= x <= 0 within 1.2e-7 of the value, exactly 1 at 0. Cody and Waite's reduction to |r| <=
// ln 2 / 2, Taylor to degree 7. Straight-line, so that a loop of it becomes vectors; a number gets the same
// bits in any loop.
constexpr float exp_of(float x) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to a whole number
  const float shifted = x * 1.44269504F + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.0F / 5040;
  p = p * r + 1.0F / 720;
  p = p * r + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(shifted) << 23;  // its low bits are n
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) + exponent);
}

constexpr float kLeastZ = -87.0F;  // where fp32 ends
constexpr float kLeastWeight = exp_of(kLeastZ);

// exp(z), and exactly 0 from -87 down. Taking away 1.6e-38 is no change above 1e-30.
inline float weight_of(float z) {
  return exp_of(z > kLeastZ ? z : kLeastZ) - kLeastWeight;
}

// Block `b`, padded with what is never kept.
Block load(std::span<const float> scores, std::size_t b) {
  Block out;
  const std::size_t begin = b * kBlock, count = std::min(kBlock, scores.size() - begin);
  if (count < kBlock) out.fill(kLowest);
  std::copy_n(scores.begin() + static_cast<std::ptrdiff_t>(begin), count, out.begin());
  return out;
}

// Weights of a block; 0 where the score is below `least`.
HONE_WIDE void weigh(const Block& scores, float best, float scale, float least, Block& out) {
  for (std::size_t i = 0; i < kBlock; ++i) {
    const float weight = weight_of((scores[i] - best) * scale);
    out[i] = scores[i] >= least ? weight : 0.0F;
  }
}

// The weights of block `b` under a cut: at most one block needs to look at ids.
void weigh_kept(const Block& scores, std::size_t b, float best, float scale, const Cut& kept, Block& out) {
  const auto first = static_cast<std::int64_t>(b * kBlock);
  const auto last = first + static_cast<std::int64_t>(kBlock) - 1;
  const bool with_equals = first <= kept.last_id;
  const float least = with_equals ? kept.score : std::nextafter(kept.score, -kLowest);
  weigh(scores, best, scale, least, out);
  if (!with_equals || last <= kept.last_id) return;
  for (auto i = static_cast<std::size_t>(kept.last_id - first + 1); i < kBlock; ++i) {
    if (scores[i] == kept.score) out[i] = 0;
  }
}

HONE_WIDE double sum(const Block& weights) {
  std::array<float, kLanes> lanes{};
  for (std::size_t i = 0; i < kBlock; i += kLanes) {
    for (std::size_t l = 0; l < kLanes; ++l) lanes[l] += weights[i + l];
  }
  double total = 0;
  for (const float lane : lanes) total += static_cast<double>(lane);
  return total;
}

HONE_WIDE float best_of(const Block& scores) {
  std::array<float, kLanes> lanes;
  lanes.fill(kLowest);
  for (std::size_t i = 0; i < kBlock; i += kLanes) {
    for (std::size_t l = 0; l < kLanes; ++l) lanes[l] = scores[i + l] > lanes[l] ? scores[i + l] : lanes[l];
  }
  return *std::max_element(lanes.begin(), lanes.end());
}

// 1 / temperature; bounded, so that (score - best) * scale is never 0 * inf.
float scale_of(double temperature) {
  return static_cast<float>(1.0 / std::max(temperature, 1e-30));
}

Cut stricter(const Cut& a, const Cut& b) {
  if (a.score != b.score) return a.score > b.score ? a : b;
  return a.last_id < b.last_id ? a : b;
}

// (score - best) / temperature >= ln(min_p), as a threshold of the score.
Cut cut_min_p(float best, double min_p, double temperature) {
  const double least = static_cast<double>(best) + temperature * std::log(min_p);
  if (least < static_cast<double>(std::numeric_limits<float>::lowest())) return {};
  const auto score = static_cast<float>(least);
  return {.score = static_cast<double>(score) < least ? std::nextafter(score, -kLowest) : score};
}

// By distance from the best in steps of 1/16 after temperature; the last bin holds what weighs nothing.
constexpr std::size_t kBins = 87 * 16 + 2;
std::size_t bin_of(float score, float best, float scale) {
  const float at = (best - score) * scale * 16.0F;
  return at < static_cast<float>(kBins - 1) ? static_cast<std::size_t>(at) : kBins - 1;
}

}  // namespace

// The last of the best candidates, best first, that together weigh `needed`: halves are dropped until one is
// left.
const Sampler::Candidate& Sampler::reaching(std::vector<Candidate>& candidates, double needed) {
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score > b.score : a.id < b.id;
  };
  auto low = candidates.begin(), high = candidates.end();
  while (high - low > 1) {
    const auto middle = low + (high - low) / 2;
    std::nth_element(low, middle, high, better);
    double upper = 0;
    for (auto one = low; one != middle; ++one) upper += static_cast<double>(one->weight);
    if (upper >= needed) {
      high = middle;
    } else {
      needed -= upper;
      low = middle;
    }
  }
  return *low;
}

void Sampler::look(std::span<const float> scores) {
  base::require(!scores.empty(), "Sampler", "a vocabulary");
  const std::size_t blocks = (scores.size() + kBlock - 1) / kBlock;
  block_best_.resize(blocks);
  block_mass_.resize(blocks);
  for (std::size_t b = 0; b < blocks; ++b) block_best_[b] = best_of(load(scores, b));
  best_ = *std::max_element(block_best_.begin(), block_best_.end());
  base::require(std::isfinite(best_), "Sampler", "a finite score");
}

double Sampler::mass(std::span<const float> scores, std::size_t b, const Cut& kept, float scale) const {
  if (block_best_[b] < kept.score) return 0;
  Block weights;
  weigh_kept(load(scores, b), b, best_, scale, kept, weights);
  return sum(weights);
}

double Sampler::masses(std::span<const float> scores, const Cut& kept, float scale) {
  double total = 0;
  for (std::size_t b = 0; b < block_mass_.size(); ++b) {
    block_mass_[b] = mass(scores, b, kept, scale);
    total += block_mass_[b];
  }
  return total;
}

// k blocks hold a score of at least the k-th best block maximum, so the k-th best score is no less.
Cut Sampler::cut_top_k(std::span<const float> scores, std::int64_t k) {
  if (k >= static_cast<std::int64_t>(scores.size())) return {};
  const auto nth = k - 1;
  float bound = kLowest;
  if (k <= static_cast<std::int64_t>(block_best_.size())) {
    scratch_ = block_best_;
    std::nth_element(scratch_.begin(), scratch_.begin() + nth, scratch_.end(), std::greater<>());
    bound = scratch_[static_cast<std::size_t>(nth)];
  }
  scratch_.clear();
  for (std::size_t b = 0; b < block_best_.size(); ++b) {
    if (block_best_[b] < bound) continue;
    const std::size_t begin = b * kBlock;
    for (const float score : scores.subspan(begin, std::min(kBlock, scores.size() - begin))) {
      if (score >= bound) scratch_.push_back(score);
    }
  }
  std::nth_element(scratch_.begin(), scratch_.begin() + nth, scratch_.end(), std::greater<>());
  return {.score = scratch_[static_cast<std::size_t>(nth)]};
}

// The mass by distance from the best, in bins, says in which bin the border lies; only its tokens are
// compared.
Cut Sampler::cut_top_p(std::span<const float> scores, const Cut& kept, double top_p, float scale) {
  bins_.assign(kBins, 0.0);
  Block weights;
  for (std::size_t b = 0; b < block_best_.size(); ++b) {
    if (block_best_[b] < kept.score) continue;
    const Block block = load(scores, b);
    weigh_kept(block, b, best_, scale, kept, weights);
    for (std::size_t i = 0; i < kBlock; ++i) {
      if (weights[i] > 0) bins_[bin_of(block[i], best_, scale)] += static_cast<double>(weights[i]);
    }
  }
  const double needed = top_p * std::accumulate(bins_.begin(), bins_.end(), 0.0);
  double before = 0;
  std::size_t border = 0;
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    if (bins_[bin] <= 0) continue;
    border = bin;
    if (before + bins_[bin] >= needed) break;
    before += bins_[bin];
  }
  candidates_.clear();
  for (std::size_t b = 0; b < block_best_.size(); ++b) {
    if (block_best_[b] < kept.score || bin_of(block_best_[b], best_, scale) > border) continue;
    const Block block = load(scores, b);
    weigh_kept(block, b, best_, scale, kept, weights);
    for (std::size_t i = 0; i < kBlock; ++i) {
      if (weights[i] <= 0 || bin_of(block[i], best_, scale) != border) continue;
      candidates_.push_back({block[i], static_cast<std::int32_t>(b * kBlock + i), weights[i]});
    }
  }
  const Candidate& last = reaching(candidates_, needed - before);
  return {.score = last.score, .last_id = last.id};
}

Cut Sampler::cut(std::span<const float> scores, const SamplerOptions& options) {
  look(scores);
  base::require(options.temperature > 0, "Sampler::cut", "a temperature above 0");
  Cut kept;
  if (options.top_k > 0) kept = cut_top_k(scores, options.top_k);
  if (options.top_p < 1) kept = cut_top_p(scores, kept, options.top_p, scale_of(options.temperature));
  if (options.min_p > 0) kept = stricter(kept, cut_min_p(best_, options.min_p, options.temperature));
  return kept;
}

Draw Sampler::draw(std::span<const float> scores, const SamplerOptions& options, double uniform) {
  if (options.temperature == 0) {
    look(scores);
    const auto block = std::find(block_best_.begin(), block_best_.end(), best_) - block_best_.begin();
    const auto first = scores.begin() + block * static_cast<std::ptrdiff_t>(kBlock);
    return {.id = std::find(first, scores.end(), best_) - scores.begin(),
            .logprob = 0};  // the first of equals
  }
  const Cut kept = cut(scores, options);
  const float scale = scale_of(options.temperature);
  const double total = masses(scores, kept, scale);
  double left = uniform * total;
  // The block, then the token, where the sum passes `left`. Rounding may pass the end: then the last with a
  // weight.
  std::size_t chosen = 0;
  for (std::size_t b = 0; b < block_mass_.size(); ++b) {
    if (block_mass_[b] <= 0) continue;
    chosen = b;
    if (left < block_mass_[b]) break;
    left -= block_mass_[b];
  }
  Block weights;
  weigh_kept(load(scores, chosen), chosen, best_, scale, kept, weights);
  std::size_t token = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    if (weights[i] <= 0) continue;
    token = i;
    if (left < static_cast<double>(weights[i])) break;
    left -= static_cast<double>(weights[i]);
  }
  const std::size_t id = chosen * kBlock + token;
  const double z =
      (static_cast<double>(scores[id]) - static_cast<double>(best_)) * static_cast<double>(scale);
  return {.id = static_cast<std::int64_t>(id), .logprob = static_cast<float>(z - std::log(total))};
}

double sampling_uniform(std::uint64_t seed, std::uint64_t step, std::uint64_t prompt, std::uint64_t sample,
                        std::uint64_t position) {
  base::require(prompt < (1ULL << 32) && sample < (1ULL << 16), "sampling_uniform",
                "a prompt below 2^32 and a sample below 2^16");
  const base::Stream stream(seed, base::Purpose::kSampling, step, sample << 32 | prompt);
  const auto words = stream.block(position);  // a block a token; two of its words
  const std::uint64_t bits = static_cast<std::uint64_t>(words[0]) << 21 | words[1] >> 11;
  return static_cast<double>(bits) * 0x1.0p-53;
}

}  // namespace hone::rollout
