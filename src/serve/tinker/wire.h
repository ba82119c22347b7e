// The messages of package tinker_public that hone reads and writes, by the field numbers of the tinker SDK
// 0.38, and their tensors as plain vectors. Numbers on the wire are little-endian, as is every machine that
// hone runs on.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace hone::serve {

// Memory that the sender of a message can make hone take: a sparse tensor says its dense size in a few bytes.
inline constexpr std::int64_t kMaxTensorElements = std::int64_t{1} << 24;
inline constexpr std::int64_t kMostColumns = 128;  // of a tensor of two dimensions: targets of a position

// A tensor of a datum: dense, row by row. Sparse ones have been made dense, bf16 and int32 have been widened.
struct WireTensor {
  std::vector<std::int64_t> shape;  // one or two dimensions
  std::variant<std::vector<float>, std::vector<std::int64_t>> values = {};

  std::int64_t rows() const { return shape.front(); }
  std::int64_t columns() const { return shape.size() > 1 ? shape[1] : 1; }
  bool is_float() const { return values.index() == 0; }
};

struct WireDatum {
  std::vector<std::int32_t> tokens;  // of all chunks, in order
  std::map<std::string, WireTensor> inputs;
  bool has_spans = false;  // provenance: of losses that hone does not have
};

using ConfigValue = std::variant<double, std::string>;

struct ForwardBackward {
  std::string model_id;
  std::int64_t seq_id = 0;
  bool forward_only = false;
  std::string loss_fn;
  std::map<std::string, ConfigValue> config;  // loss_fn_config_v2, and what only loss_fn_config has
  std::vector<WireDatum> data;
};

// What tells a request from others, which is read even where the rest is refused.
struct ForwardBackwardHead {
  std::string model_id;
  std::int64_t seq_id = 0;
};
ForwardBackwardHead read_forward_backward_head(std::string_view bytes);
// UserError, naming the datum and the tensor: cut bytes, an image or audio chunk, a tensor whose bytes do not
// fit its dtype and shape, indices of a sparse one that are out of order or range, more than two dimensions.
ForwardBackward read_forward_backward(std::string_view bytes);

// Holds what an answer has of a datum: log-probabilities in the shape of its targets.
struct DatumLogprobs {
  std::vector<float> values;
  std::int64_t columns = 0;  // K of targets [N, K]; 0: they are [N]
};
std::string write_forward_backward(const std::vector<DatumLogprobs>& datums,
                                   const std::map<std::string, double>& metrics);

// Of each position the k best tokens, best first; position i has those of [i k, (i + 1) k).
struct WireTop {
  std::uint32_t k = 0;
  std::vector<std::int32_t> ids;
  std::vector<float> logprobs;
};
inline constexpr float kNoTopLogprob = -99999;  // of an empty slot, whose id is 0

struct SampledSequence {
  bool is_length = false;  // ended by max_tokens
  std::vector<std::int32_t> tokens;
  std::vector<float> logprobs;
  WireTop top = {};  // k 0: not asked for
};

struct SampleAnswer {
  std::vector<SampledSequence> sequences;
  std::vector<float> prompt_logprobs = {};  // empty: not asked for; NaN: none, as of the first token
  WireTop prompt_top = {};
  std::int64_t cache_hit_tokens = 0;
};
std::string write_sample(const SampleAnswer& answer);

}  // namespace hone::serve
