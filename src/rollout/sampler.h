// From scores to the next token: greedy, or temperature with top-k, top-p and min-p in transformers' order of
// warpers (5.23): temperature, top_k, top_p, min_p.
//
// No sort of the vocabulary. Every filter keeps the tokens above a threshold, so that what may be drawn is a
// Cut: one score, and up to which id its equals count. The threshold is found among few candidates (block
// maxima bound the k-th score; a weighted selection finds top-p's), and the draw is the inverse of the
// cumulative sum in the order of token ids. Weights are exp((score - best) / temperature) in fp32 (within
// 1e-7), sums in fp64.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace hone::rollout {

struct SamplerOptions {
  double temperature = 0;         // 0: greedy, the first of the best; the filters then have no effect
  std::int64_t top_k = 0;         // the k best, and all that equal the k-th, as TopKLogitsWarper; 0: off
  double top_p = 1.0;             // the fewest best whose share reaches top_p, at least one; 1: off
  double min_p = 0;               // those at least min_p times as likely as the best; 0: off
  double repetition_penalty = 1;  // scores.h applies it, before everything else; 1: off
};

// Which tokens may be drawn: scores above `score`, and of those that equal it the ids up to `last_id`.
struct Cut {
  float score = -std::numeric_limits<float>::infinity();
  std::int64_t last_id = std::numeric_limits<std::int64_t>::max();

  bool keeps(float value, std::int64_t id) const {
    return value > score || (value == score && id <= last_id);
  }
};

struct Draw {
  std::int64_t id = 0;
  float logprob = 0;  // of the distribution that was drawn from, after all filters; greedy: 0
};

// Holds scratch of one vocabulary: one object a thread.
class Sampler {
 public:
  // scores [V]: finite, or -inf for a token that is forbidden; at least one is finite. The same arguments
  // give the same token on every run, whatever was drawn before. `uniform` in [0, 1).
  Draw draw(std::span<const float> scores, const SamplerOptions& options, double uniform);

  // Returns what the filters leave at options.temperature > 0. Equals at top-p's border: the lower ids are
  // kept. (Where transformers keeps which of them depends on its sort.)
  Cut cut(std::span<const float> scores, const SamplerOptions& options);

 private:
  struct Candidate {
    float score;
    std::int32_t id;
    float weight;
  };
  static const Candidate& reaching(std::vector<Candidate>& candidates, double needed);
  void look(std::span<const float> scores);  // block_best_ and best_
  Cut cut_top_k(std::span<const float> scores, std::int64_t k);
  Cut cut_top_p(std::span<const float> scores, const Cut& kept, double top_p, float scale);
  double mass(std::span<const float> scores, std::size_t block, const Cut& kept, float scale) const;
  double masses(std::span<const float> scores, const Cut& kept, float scale);  // into block_mass_; their sum

  std::vector<float> block_best_;  // of each 64 tokens
  std::vector<float> scratch_;
  std::vector<double> block_mass_, bins_;
  std::vector<Candidate> candidates_;
  float best_ = 0;
};

// The number that decides token `position` (0-based) of sample `sample` of prompt `prompt`; [0, 1) in steps
// of 2^-53. `step` is the training step, 0 for `hone generate`. prompt < 2^32, sample < 2^16.
double sampling_uniform(std::uint64_t seed, std::uint64_t step, std::uint64_t prompt, std::uint64_t sample,
                        std::uint64_t position);

}  // namespace hone::rollout
