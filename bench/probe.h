// The rates of this machine, measured in the process that uses them: a share of the limit is never against a
// figure from elsewhere.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "model/config/model_config.h"

namespace hone::bench {

struct GemmRate {
  std::string name;
  std::int64_t m = 0, k = 0, n = 0;
  double ours = 0, libtorch = 0;  // GFLOP/s, the best repetition
};

struct Rates {
  std::vector<GemmRate> bf16, fp32;  // at the model's shapes
  double bf16_gflops = 0;  // the best of all shapes, ours or libtorch's: the limit that shares are taken of
  double fp32_gflops = 0;
  double read_gbs = 0;  // one pass over memory much larger than the caches, all threads
  double copy_gbs = 0;  // read and written bytes together
};

// `quick`: a look, a second or so; otherwise 5 s, with fp32 8. `fp32`: the fp32 products too.
Rates probe(const model::ModelConfig& config, bool quick, bool fp32 = false);
// The better of both, rate by rate: a machine that others disturbed for a moment still has its limit.
Rates better_of(const Rates& a, const Rates& b);

base::Json to_json(const Rates& rates);
// "probed here: bf16 GEMM 431 GFLOP/s, reads 36.1 GB/s, copies 30.2 GB/s"
std::string sentence(const Rates& rates);

}  // namespace hone::bench
