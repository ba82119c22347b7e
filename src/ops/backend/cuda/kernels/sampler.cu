// The next token of each row as rollout/sampler.h defines it, with the CPU's weights, bit for bit, and its uniform number. A block
// has a row. No sort: a border (of top-k, of top-p) is found digit by digit of the scores' bits, from counts and masses of 256 bins.
// Masses are added as whole numbers, which have the same sum in any order.
#include "ops/backend/cuda/kernels/device.h"
#include "ops/backend/cuda/kernels/entries.h"
#include "ops/backend/cuda/kernels/philox.h"
#include "ops/backend/cuda/kernels/sampler_row.h"

namespace hone::ops::cuda::kernels {
namespace {

constexpr int kFewThreads = 128, kManyThreads = 1024;
constexpr std::int64_t kFewTokens = 8192;  // of a vocabulary
constexpr int kBins = 256, kBinsOfLane = kBins / kWarp, kDigit = 8, kKeyBits = 32;
constexpr int kHalfWarp = 16, kMass = static_cast<int>(kMassTokens);
constexpr int kPurpose = 3;  // base::Purpose::kSampling

__device__ int masses_of(int vocabulary) {
  return (vocabulary + kMass - 1) / kMass;
}
__device__ std::int64_t words_of(std::int64_t vocabulary) {
  return (vocabulary + kWord - 1) / kWord;
}
constexpr double kUnit = 0x1p40;  // of a mass in its upper word; the lower one has units of 2^-80

// ---- borders

// The index where `before` and the masses come to `needed` (kAbove: pass it), or the last with a mass; `before` becomes what
// comes before it.
template <bool kAbove, typename Mass>
__device__ int reach(double& before, double needed, int count, const Mass& mass) {
  int index = 0;
  double sum = before;
  HONE_ROLLED
  for (int i = 0; i < count; ++i) {
    const double one = mass(i);
    if (one <= 0) continue;
    index = i;
    before = sum;
    sum += one;
    if (kAbove ? sum > needed : sum >= needed) break;
  }
  return index;
}

// rollout::Cut
struct Cut {
  float score;
  int last_id;
  __device__ bool keeps(float value, int id) const {
    return value > score || (value == score && id <= last_id);
  }
};

__device__ float kept_weight(const Row& row, float best, const Cut& cut, int id) {
  const float score = row.score(id);
  return cut.keeps(score, id) ? weight_of(__fmul_rn(__fadd_rn(score, -best), row.scale)) : 0;
}

// Keys are in the order of scores.
__device__ std::uint32_t key_of(float score) {
  const std::uint32_t bits = __float_as_uint(score);
  return bits >> 31U != 0 ? ~bits : bits | 0x80000000U;
}
__device__ float score_of(std::uint32_t key) {
  return __uint_as_float(key >> 31U != 0 ? key & 0x7FFFFFFFU : ~key);
}

// What is looked for: the k-th best score; where the mass of the best comes to top_p; how many of the equals there are kept.
enum Search : int { kTopK, kTopP, kEquals };

struct Item {
  std::uint32_t key;
  double mass;  // 0: it does not count
};

__device__ Item item_of(Search search, const Row& row, float best, const Cut& cut, int id) {
  if (search == kTopP) return {key_of(row.score(id)), kept_weight(row, best, cut, id)};
  const float score = row.score(id);
  if (search == kTopK) return {key_of(score), 1};
  return {~static_cast<std::uint32_t>(id), score == cut.score ? 1.0 : 0.0};  // the lower ids are kept
}

struct Bins {
  unsigned long long high[kBins], low[kBins];
  unsigned counts[kBins];
  double parts[kWarp];  // of kBinsOfLane bins, the highest keys first
  double needed, before;
  unsigned digit;

  __device__ void add(unsigned bin, double mass, bool is_counted) {
    const double units = mass * kUnit;
    const auto whole = static_cast<unsigned long long>(units);
    const auto rest = static_cast<unsigned long long>((units - static_cast<double>(whole)) * kUnit);
    if (whole != 0) atomicAdd(&high[bin], whole);
    if (rest != 0) atomicAdd(&low[bin], rest);
    if (is_counted) atomicAdd(&counts[bin], 1U);
  }
  __device__ double mass(int from_highest) const {
    const int bin = kBins - 1 - from_highest;
    return (static_cast<double>(high[bin]) + static_cast<double>(low[bin]) / kUnit) / kUnit;
  }
};

// In the first thread: the digit of the border among all that have the digits before it.
__device__ void find_digit(Bins& bins) {
  double before = bins.before;
  const int lane = reach<false>(before, bins.needed, kWarp, [&](int i) { return bins.parts[i]; });
  const int first = lane * kBinsOfLane;
  const int bin = reach<false>(before, bins.needed, kBinsOfLane, [&](int i) { return bins.mass(first + i); });
  bins.before = before;
  bins.digit = static_cast<unsigned>(kBins - 1 - first - bin);
}

struct Border {
  std::uint32_t key;
  double missing;  // what the keys above it lack
  unsigned count;  // items with this key
};

// The key at which masses, from the highest key on, come to `needed`; of kTopP: to that share of them all.
template <int kThreads>
__device__ Border border_of(Search search, const Row& row, float best, const Cut& cut, double needed) {
  Bins& bins = shared<7, Bins, 1>()[0];
  constexpr int kFirst = kKeyBits - kDigit;
  const int thread = static_cast<int>(threadIdx.x);
  std::uint32_t prefix = 0;
  HONE_ROLLED
  for (int shift = kFirst; shift >= 0; shift -= kDigit) {
    for (int bin = thread; bin < kBins; bin += kThreads)
      bins.high[bin] = bins.low[bin] = bins.counts[bin] = 0;
    __syncthreads();
    for (int i = thread; i < row.count; i += kThreads) {
      const Item item = item_of(search, row, best, cut, i);
      if (item.mass <= 0 || (shift < kFirst && item.key >> (shift + kDigit) != prefix)) continue;
      bins.add(item.key >> shift & (kBins - 1U), item.mass, shift == 0);
    }
    __syncthreads();
    if (thread < kWarp) {
      double sum = 0;
      HONE_ROLLED
      for (int j = 0; j < kBinsOfLane; ++j) sum += bins.mass(thread * kBinsOfLane + j);
      bins.parts[thread] = sum;
    }
    __syncthreads();
    if (thread == 0) {
      if (shift == kFirst) {
        double all = 0;
        HONE_ROLLED
        for (int i = 0; i < kWarp; ++i) all += bins.parts[i];
        bins.needed = search == kTopP ? needed * all : needed;
        bins.before = 0;
      }
      find_digit(bins);
    }
    __syncthreads();
    prefix = prefix << kDigit | bins.digit;
  }
  const Border found = {prefix, bins.needed - bins.before, bins.counts[bins.digit]};
  __syncthreads();  // before the next border takes the bins
  return found;
}

// Scores of at least this are at least min_p times as likely as the best.
__device__ float least_score(float best, double distance) {
  const double least = static_cast<double>(best) + distance;
  if (least < -3.4028234663852886e38) return -INFINITY;  // below every finite score
  const auto near = static_cast<float>(least);
  return static_cast<double>(near) < least ? nextafterf(near, INFINITY) : near;
}

template <int kThreads>
__device__ Cut cut_of(const Row& row, float best, const DrawRule& rule) {
  Cut kept = {-INFINITY, row.count};
  double needed = static_cast<double>(rule.top_k);
  HONE_ROLLED
  for (int search = kTopK; search <= kEquals; ++search) {
    if (search == kTopK && (rule.top_k <= 0 || rule.top_k >= row.count)) continue;
    if (search == kTopP && rule.top_p >= 1) break;
    if (search == kTopP) needed = rule.top_p;
    const Border border = border_of<kThreads>(static_cast<Search>(search), row, best, kept, needed);
    if (search == kEquals) {
      kept.last_id = static_cast<int>(~border.key);
      break;
    }
    kept.score = score_of(border.key);
    if (search == kTopK) continue;
    const double weight = weight_of(__fmul_rn(__fadd_rn(kept.score, -best), row.scale));
    needed = ceil(border.missing / weight);
    if (needed >= border.count) break;  // all equals are kept
    if (needed < 1) needed = 1;
  }
  const float least = least_score(best, rule.least);
  return least > kept.score ? Cut{least, row.count} : kept;
}

// ---- the draw

// rollout::sampling_uniform
__device__ double uniform_of(const DrawRule& rule, std::int64_t drawn) {
  const auto block = static_cast<std::uint64_t>(rule.position + drawn);
  const Words words =
      philox({{static_cast<std::uint32_t>(block),
               static_cast<std::uint32_t>(block >> 32U) | kPurpose << 8U | rule.sample << 16U, rule.step,
               rule.prompt}},
             static_cast<std::uint32_t>(rule.seed), static_cast<std::uint32_t>(rule.seed >> 32U));
  const std::uint64_t bits = std::uint64_t{words.at[0]} << 21U | words.at[1] >> 11U;
  return static_cast<double>(bits) * 0x1p-53;
}

// Of each kMassTokens tokens: sixteen sums in fp32, then one in fp64, as the CPU has them. Half a warp has one at a time.
template <int kThreads>
__device__ void add_masses(const Row& row, float best, const Cut& cut, double* masses, int blocks) {
  constexpr int kAtOnce = kThreads / kHalfWarp;
  const int lane = static_cast<int>(threadIdx.x) % kHalfWarp;
  HONE_ROLLED
  for (int first = 0; first < blocks; first += kAtOnce) {
    const int block = first + static_cast<int>(threadIdx.x) / kHalfWarp;
    float sum = 0;
    for (int j = lane; j < kMass; j += kHalfWarp) {
      const int id = block * kMass + j;
      if (id < row.count) sum = __fadd_rn(sum, kept_weight(row, best, cut, id));
    }
    double mass = sum;
    for (int distance = kHalfWarp / 2; distance > 0; distance /= 2)
      mass += __shfl_xor_sync(kAllLanes, mass, distance);
    if (lane == 0 && block < blocks) masses[block] = mass;
  }
  __syncthreads();
}

struct Drawn {
  int id;
  double total;  // the mass of all that may be drawn
};

// In the first thread. `best` is that of the scores.
template <int kThreads>
__device__ Drawn draw(const SampleTokens& s, std::int64_t at, const Row& row, float best, const Cut& cut) {
  double* const warps = shared<3, double, kThreads / kWarp>();
  double* const threads = shared<4, double, kThreads>();
  float* const weights = shared<5, float, kMass>();
  int& chosen = shared<6, int, 1>()[0];
  double* const masses = s.masses + at * masses_of(row.count);
  const int blocks = masses_of(row.count), each = (blocks + kThreads - 1) / kThreads;
  add_masses<kThreads>(row, best, cut, masses, blocks);
  const int thread = static_cast<int>(threadIdx.x);
  double sum = 0, total = 0, before = 0, needed = 0;
  for (int b = thread * each; b < blocks && b < (thread + 1) * each; ++b) sum += masses[b];
  threads[thread] = sum;
  sum = warp_sum(sum);
  if (thread % kWarp == 0) warps[thread / kWarp] = sum;
  __syncthreads();
  if (thread == 0) {
    HONE_ROLLED
    for (int i = 0; i < kThreads / kWarp; ++i) total += warps[i];
    needed = uniform_of(s.rules[at], s.drawn[at]) * total;
    const int warp = reach<true>(before, needed, kThreads / kWarp, [&](int i) { return warps[i]; });
    const int lane = reach<true>(before, needed, kWarp, [&](int i) { return threads[warp * kWarp + i]; });
    const int from = (warp * kWarp + lane) * each, left = blocks - from;
    chosen = from +
             reach<true>(before, needed, left < each ? left : each, [&](int i) { return masses[from + i]; });
  }
  __syncthreads();
  const int first = chosen * kMass;
  if (thread < kMass)
    weights[thread] = first + thread < row.count ? kept_weight(row, best, cut, first + thread) : 0;
  __syncthreads();
  if (thread != 0) return {0, 1};
  return {first + reach<true>(before, needed, kMass, [&](int i) { return static_cast<double>(weights[i]); }),
          total};
}

// What the first thread says of the row.
__device__ void take(const SampleTokens& s, std::int64_t at, const Row& row, float best, const Drawn& found) {
  const DrawRule& rule = s.rules[at];
  const std::int64_t drawn = ++s.drawn[at];
  DrawState state = drawn >= rule.max_new_tokens ? DrawState::kLength : DrawState::kGoesOn;
  for (int i = 0; i < rule.stops; ++i)
    if (s.stop_ids[rule.first_stop + i] == found.id) state = DrawState::kStopToken;
  s.ids[at] = found.id;
  s.states[at] = state;
  const double z = (static_cast<double>(row.score(found.id)) - best) * row.scale;
  s.sampled_logprobs[at] = rule.scale > 0 ? static_cast<float>(z - log(found.total)) : 0;
  if (s.logprobs != nullptr) {
    const Facts& facts = shared<2, Facts, 1>()[0];
    const double own = (static_cast<double>(row.logits[found.id]) - facts.best) * row.scale;
    s.logprobs[at] = static_cast<float>(own - facts.log_sum);
    s.entropies[at] = static_cast<float>(facts.log_sum - facts.mean);
  }
  if (s.seen != nullptr) s.seen[at * words_of(row.count) + found.id / kWord] |= 1U << (found.id % kWord);
}

// Of row `at`, in its block's memory: registers are few.
__device__ const Row& row_of(const SampleTokens& s, std::int64_t at) {
  Row& row = shared<0, Row, 1>()[0];
  const DrawRule& rule = s.rules[at];
  if (threadIdx.x == 0)
    row = {.logits = static_cast<const float*>(s.logits.data) + at * s.logits.stride,
           .seen = rule.penalty == 1 || s.seen == nullptr ? nullptr : s.seen + at * words_of(s.vocabulary),
           .forbidden = s.stop_ids + rule.first_stop,
           .stops = s.drawn[at] < rule.min_new_tokens ? rule.stops : 0,
           .count = static_cast<int>(s.vocabulary),
           .penalty = rule.penalty,
           .scale = rule.scale > 0 ? rule.scale : 1};
  __syncthreads();
  return row;
}

template <int kThreads>
__global__ void __launch_bounds__(kThreads, blocks_at_once(kThreads)) sample_kernel(SampleTokens s) {
  const auto at = static_cast<std::int64_t>(blockIdx.x);
  if (s.states[at] != DrawState::kGoesOn) return;
  const DrawRule& rule = s.rules[at];
  const Row& row = row_of(s, at);
  const Best best = look<kThreads>(row);
  if (best.bad != 0 || best.score == -INFINITY) {
    if (threadIdx.x == 0) {
      s.ids[at] = 0;  // the next step may have begun: it reads a row of the embedding, for nothing
      s.states[at] = DrawState::kNotFinite;
    }
    return;
  }
  if (s.logprobs != nullptr) add_facts<kThreads>(row, best.logit);
  Drawn found = {best.id, 1};
  if (rule.scale > 0) {
    const Cut cut = cut_of<kThreads>(row, best.score, rule);
    found = draw<kThreads>(s, at, row, best.score, cut);
  }
  if (threadIdx.x == 0) take(s, at, row, best.score, found);
}

}  // namespace

int sample_tokens(const SampleTokens& s, void* stream) {
  if (s.vocabulary <= kFewTokens) return launch(sample_kernel<kFewThreads>, s.rows, kFewThreads, stream, s);
  return launch(sample_kernel<kManyThreads>, s.rows, kManyThreads, stream, s);
}

}  // namespace hone::ops::cuda::kernels
