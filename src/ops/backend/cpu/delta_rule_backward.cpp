#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "ops/backend/cpu/delta_rule_chunk.h"
#include "ops/backend/cpu/flush_denormals.h"
#include "ops/backend/cpu/row_call.h"

namespace hone::ops::delta {
namespace {

std::int64_t chunks_of(std::int64_t tokens) {
  return (tokens + kTokens - 1) / kTokens;
}

std::int64_t length_of(const AttentionSegment& s) {
  return s.end - s.begin;
}

// A segment and those that follow it.
struct Tree {
  const AttentionSegment* root = nullptr;
  std::vector<const AttentionSegment*> followers;
};

std::vector<Tree> trees_of(const std::vector<AttentionSegment>& segments) {
  std::vector<Tree> trees;
  std::vector<std::size_t> tree_of(segments.size());
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].prefix == kNoSegment) {
      tree_of[i] = trees.size();
      trees.push_back({.root = &segments[i], .followers = {}});
    } else {
      trees[tree_of[static_cast<std::size_t>(segments[i].prefix)]].followers.push_back(&segments[i]);
    }
  }
  return trees;
}

// A tree's share of the weights' gradients; null: not wanted. Each head and channel has its own place.
struct Shares {
  float *taps = nullptr, *rates = nullptr, *biases = nullptr, *norms = nullptr;  // [L, C], [V], [V], [V, E]
};

// Of one value head: S before each chunk, delta and gates of each token, of the root and of one that follows it; R; and what the
// convolution's first tokens pass to the L - 1 before them.
struct HeadMemory {
  std::vector<float> states, deltas, beta, log_decay, r, r_root, v_ahead, v_ahead_root;
};

std::vector<float> zero_floats(std::int64_t size) {
  return std::vector<float>(static_cast<std::size_t>(size));
}

// A thread's memory for one tree and key head.
class Worker {
 public:
  Worker(const at::Tensor& in, const at::Tensor& d, const Prepared& p, std::int64_t states,
         std::int64_t tokens)
      : p_(p),
        memory_(p.shape),
        in_(rows_out(in)),
        d_(rows_in(d)),
        element_(p.bf16 ? 2 : 4),
        state_(p.shape.key_dim * row_stride(p.shape.value_dim)),
        key_stride_(row_stride(p.shape.key_dim)),
        delta_stride_(row_stride(p.shape.value_dim)),
        queries_(zero_floats(tokens * key_stride_)),
        keys_(zero_floats(tokens * key_stride_)),
        q_inverses_(zero_floats(tokens)),
        k_inverses_(zero_floats(tokens)) {
    for (std::int64_t i = 0; i < group(); ++i) {
      HeadMemory& head = heads_.emplace_back();
      head.states = zero_floats(states * state_);
      head.deltas = zero_floats(tokens * delta_stride_);
      for (std::vector<float>* gates : {&head.beta, &head.log_decay}) *gates = zero_floats(tokens);
      for (std::vector<float>* r : {&head.r, &head.r_root}) *r = zero_floats(state_);
      for (std::vector<float>* rows : {&head.v_ahead, &head.v_ahead_root})
        *rows = zero_floats(kTapsMost * delta_stride_);
    }
    for (std::vector<float>* rows : {&q_ahead_, &k_ahead_, &q_ahead_root_, &k_ahead_root_})
      *rows = zero_floats(kTapsMost * key_stride_);
  }
  static std::int64_t floats(const DeltaShape& shape, std::int64_t tokens) {
    const std::int64_t value = row_stride(shape.value_dim), state = shape.key_dim * value;
    const std::int64_t head = (tokens / kTokens + 6) * state + (tokens + 2 * kTapsMost) * value + 2 * tokens;
    return shape.value_heads / shape.key_heads * head +
           (2 * tokens + 4 * kTapsMost) * row_stride(shape.key_dim) + 2 * tokens + ChunkMemory::floats(shape);
  }

  void run(const Tree& tree, std::int64_t key_head, const Shares& shares) {
    key_head_ = key_head;
    shares_ = shares;
    const std::int64_t chunks = chunks_of(length_of(*tree.root));
    follower_chunk_ = chunks + 1;
    follower_token_ = length_of(*tree.root);
    forward(*tree.root, nullptr, 0, 0);
    clear(true);
    for (const AttentionSegment* follower : tree.followers) {
      for (HeadMemory& head : heads_)
        std::copy_n(head.states.begin() + chunks * state_, state_,
                    head.states.begin() + follower_chunk_ * state_);
      forward(*follower, tree.root, follower_chunk_, follower_token_);
      clear(false);
      backward(*follower, tree.root, follower_chunk_, follower_token_);
      add_to_root();
    }
    for (HeadMemory& head : heads_) {
      head.r.swap(head.r_root);
      head.v_ahead.swap(head.v_ahead_root);
    }
    q_ahead_.swap(q_ahead_root_);
    k_ahead_.swap(k_ahead_root_);
    backward(*tree.root, nullptr, 0, 0);
  }

 private:
  std::int64_t group() const { return p_.shape.value_heads / p_.shape.key_heads; }
  std::int64_t value_head(std::int64_t i) const { return key_head_ * group() + i; }
  char* row(std::int64_t t) const { return static_cast<char*>(in_.data) + t * in_.stride * element_; }

  void clear(bool root) {
    for (HeadMemory& head : heads_) {
      std::fill(head.r.begin(), head.r.end(), 0.0F);
      std::fill(head.v_ahead.begin(), head.v_ahead.end(), 0.0F);
      if (!root) continue;
      std::fill_n(head.states.begin(), state_, 0.0F);
      std::fill(head.r_root.begin(), head.r_root.end(), 0.0F);
      std::fill(head.v_ahead_root.begin(), head.v_ahead_root.end(), 0.0F);
    }
    for (std::vector<float>* rows : {&q_ahead_, &k_ahead_}) std::fill(rows->begin(), rows->end(), 0.0F);
    if (!root) return;
    for (std::vector<float>* rows : {&q_ahead_root_, &k_ahead_root_})
      std::fill(rows->begin(), rows->end(), 0.0F);
  }

  void add_to_root() {
    const auto add = [](std::vector<float>& sum, const std::vector<float>& more) {
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
    };
    for (HeadMemory& head : heads_) {
      add(head.r_root, head.r);
      add(head.v_ahead_root, head.v_ahead);
    }
    add(q_ahead_root_, q_ahead_);
    add(k_ahead_root_, k_ahead_);
  }

  // The rows that tokens [begin, end) of the segment read.
  void find_rows(const AttentionSegment& s, const AttentionSegment* root, std::int64_t begin,
                 std::int64_t end) {
    Source source{.in = row(s.begin), .row_bytes = in_.stride * element_, .before = {}};
    for (std::int64_t t = s.begin; root != nullptr && root->end - 1 >= root->begin + (t - s.begin); ++t) {
      if (t - s.begin >= p_.taps_count - 1) break;
      source.before.push_back(row(root->end - 1 - (t - s.begin)));
    }
    source.rows_of(begin, end, p_.taps_count, memory_.rows);
  }

  // What is kept of the tokens from `token` on, of the key head and of a value head.
  void point_at(std::int64_t token) {
    memory_.q = queries_.data() + token * key_stride_;
    memory_.k = keys_.data() + token * key_stride_;
  }
  void point_at(std::int64_t token, const HeadMemory& head) {
    memory_.beta = head.beta.data() + token;
    memory_.log_decay = head.log_decay.data() + token;
  }

  void keep_key_head(std::int64_t token, std::int64_t count) {
    read_queries(p_, memory_.rows, count,
                 {.key_head = key_head_,
                  .q = queries_.data() + token * key_stride_,
                  .k = keys_.data() + token * key_stride_,
                  .q_inverse = q_inverses_.data() + token,
                  .k_inverse = k_inverses_.data() + token});
    point_at(token);
  }

  void keep_gates(std::int64_t value, std::int64_t first, std::int64_t token, std::int64_t count,
                  HeadMemory& head) {
    for (std::int64_t t = 0; t < count; ++t) {
      const Gates gates = gates_of(p_, row(first + t), value);
      head.beta[static_cast<std::size_t>(token + t)] = gates.beta;
      head.log_decay[static_cast<std::size_t>(token + t)] = gates.log_decay;
    }
    point_at(token, head);
  }

  void forward(const AttentionSegment& s, const AttentionSegment* root, std::int64_t chunk,
               std::int64_t token) {
    if (chunk == 0) {
      for (HeadMemory& head : heads_) std::fill_n(head.states.begin(), state_, 0.0F);
    }
    for (std::int64_t begin = 0; begin < length_of(s); begin += kTokens, ++chunk) {
      const std::int64_t count = std::min(kTokens, length_of(s) - begin);
      find_rows(s, root, begin, begin + count);
      keep_key_head(token + begin, count);
      multiply_keys(p_, memory_, count);
      for (std::int64_t i = 0; i < group(); ++i) {
        HeadMemory& head = heads_[static_cast<std::size_t>(i)];
        float* const before = head.states.data() + chunk * state_;
        read_values(p_, memory_.rows, count, {.value_head = value_head(i), .v = memory_.v});
        keep_gates(value_head(i), s.begin + begin, token + begin, count, head);
        decay_pairs(memory_, count);
        chunk_forward(p_, memory_, count, before, head.deltas.data() + (token + begin) * delta_stride_,
                      before + state_);
      }
    }
  }

  void backward(const AttentionSegment& s, const AttentionSegment* root, std::int64_t first_chunk,
                std::int64_t token) {
    for (std::int64_t chunk = chunks_of(length_of(s)) - 1; chunk >= 0; --chunk) {
      const std::int64_t begin = chunk * kTokens, count = std::min(kTokens, length_of(s) - begin);
      find_rows(s, root, begin, begin + count);
      point_at(token + begin);
      multiply_keys(p_, memory_, count);
      multiply_queries(p_, memory_, count);
      for (std::int64_t i = 0; i < group(); ++i) {
        HeadMemory& head = heads_[static_cast<std::size_t>(i)];
        const float* before = head.states.data() + (first_chunk + chunk) * state_;
        const float* delta = head.deltas.data() + (token + begin) * delta_stride_;
        point_at(token + begin, head);
        head_backward(i, s.begin + begin, count, before, delta, head);
      }
      const Kernels& kernel = kernels();
      const std::int64_t dim = p_.shape.key_dim;
      kernel.unit_backward(memory_.dq, memory_.q, key_stride_, count, dim,
                           q_inverses_.data() + token + begin);
      kernel.unit_backward(memory_.dk, memory_.k, key_stride_, count, dim,
                           k_inverses_.data() + token + begin);
      convolution(s.begin + begin, count, key_head_ * dim, dim, memory_.dq, q_ahead_);
      convolution(s.begin + begin, count, p_.shape.keys() + key_head_ * dim, dim, memory_.dk, k_ahead_);
    }
  }

  void head_backward(std::int64_t i, std::int64_t first, std::int64_t count, const float* before,
                     const float* delta, HeadMemory& head) {
    const std::int64_t value = value_head(i);
    decay_pairs(memory_, count);
    output_gradient(value, first, count, before, delta);
    chunk_backward(p_, memory_, count, before, delta, head.r.data(), i > 0);
    gate_gradients(value, first, count);
    const std::int64_t width = p_.shape.value_dim;
    convolution(first, count, 2 * p_.shape.keys() + value * width, width, memory_.v, head.v_ahead);
  }

  // o again; then d_out and the gradients of z and the norm.
  void output_gradient(std::int64_t value, std::int64_t first, std::int64_t count, const float* before,
                       const float* delta) {
    const Kernels& kernel = kernels();
    const ChunkMemory& m = memory_;
    const std::int64_t keys = p_.shape.key_dim, width = p_.shape.value_dim, stride = delta_stride_;
    set_product({m.d_out, stride}, as_is(m.q, row_stride(keys)), {before, stride}, {count, width, keys});
    kernel.scale_rows(m.d_out, m.d_out, stride, count, width, m.from_begin);
    kernel.multiply(m.decay, m.queries_by_keys, m.scores, kPairStride, count, count, false);
    add_product({m.d_out, stride}, as_is(m.scores, kPairStride), {delta, stride}, {count, width, count},
                Zeros::kLowerA);
    std::fill_n(m.factor, count, 1 / std::sqrt(static_cast<float>(keys)));
    kernel.scale_rows(m.d_out, m.d_out, stride, count, width, m.factor);
    const auto* d = static_cast<const char*>(d_.data) + (first * d_.stride + value * width) * element_;
    char* const z = row(first) + (p_.shape.channels() + value * width) * element_;
    kernel.gate_backward({.o = m.d_out,
                          .stride = stride,
                          .count = count,
                          .width = width,
                          .z = {z, in_.stride, p_.bf16},
                          .d = {d, d_.stride, p_.bf16},
                          .weight = p_.norm.const_data_ptr<float>(),
                          .rounds_product = p_.rounds_product,
                          .eps = static_cast<float>(p_.shape.eps),
                          .d_weight = shares_.norms == nullptr ? nullptr : shares_.norms + value * width});
    kernel.scale_rows(m.d_out, m.d_out, stride, count, width, m.factor);
  }

  // b and a become their gradients, from that of beta (in m.reads) and of the log of the decay (in m.writes).
  void gate_gradients(std::int64_t value, std::int64_t first, std::int64_t count) {
    const auto head = static_cast<std::size_t>(value);
    const std::int64_t b = p_.shape.channels() + p_.shape.values() + value, a = b + p_.shape.value_heads;
    double d_rate = 0, d_bias = 0;
    for (std::int64_t t = 0; t < count; ++t) {
      const float x = element(row(first + t), a, p_.bf16) + p_.biases[head];
      const float slope = x > 20 ? 1 : sigmoid_of(x), by_log = memory_.writes[t];
      const float d_a = -by_log * p_.rates[head] * slope;
      set_element(row(first + t), b, p_.bf16, memory_.reads[t]);
      set_element(row(first + t), a, p_.bf16, d_a);
      d_rate += by_log * memory_.log_decay[t];
      d_bias += d_a;
    }
    if (shares_.rates != nullptr) shares_.rates[head] += static_cast<float>(d_rate);
    if (shares_.biases != nullptr) shares_.biases[head] += static_cast<float>(d_bias);
  }

  // Channels [channel, channel + width): from d of u, [count, width], to that of x. `ahead`: of the sums of the L - 1 tokens
  // after these; then of the first L - 1 of these.
  void convolution(std::int64_t first, std::int64_t count, std::int64_t channel, std::int64_t width, float* d,
                   std::vector<float>& ahead) {
    const std::int64_t stride = row_stride(width), passed = (p_.taps_count - 1) * stride;
    std::copy_n(ahead.begin(), passed, d + count * stride);
    kernels().conv_backward({.conv = conv_args(p_, memory_.rows, count, channel, width, d),
                             .to = {row(first), in_.stride, p_.bf16},
                             .d_taps = shares_.taps == nullptr ? nullptr : shares_.taps + channel});
    std::copy_n(d, passed, ahead.begin());
  }

  const Prepared& p_;
  ChunkMemory memory_;
  RowsOut in_;
  RowsIn d_;
  std::int64_t element_, state_, key_stride_, delta_stride_, follower_chunk_ = 0, follower_token_ = 0;
  std::vector<float> queries_, keys_, q_inverses_, k_inverses_;  // of each token, as the deltas are
  std::vector<HeadMemory> heads_;
  std::vector<float> q_ahead_, k_ahead_, q_ahead_root_, k_ahead_root_;
  std::int64_t key_head_ = 0;
  Shares shares_;
};

// Shares of some trees, [trees, .] each.
struct AllShares {
  AllShares(std::int64_t trees, const Prepared& p, const DeltaGradients& wanted) {
    const auto zeros = [trees](const at::Tensor& like, std::int64_t size) {
      return like.defined() ? at::zeros({trees, size}, at::kFloat) : at::Tensor();
    };
    taps = zeros(wanted.conv, p.shape.channels() * p.taps_count);
    rates = zeros(wanted.a_log, p.shape.value_heads);
    biases = zeros(wanted.dt_bias, p.shape.value_heads);
    norms = zeros(wanted.norm, p.shape.values());
  }
  Shares of(std::int64_t tree) const {
    const auto row = [tree](const at::Tensor& t) {
      return t.defined() ? t.mutable_data_ptr<float>() + tree * t.size(1) : nullptr;
    };
    return {.taps = row(taps), .rates = row(rates), .biases = row(biases), .norms = row(norms)};
  }
  void add_to(const DeltaGradients& sums, const Prepared& p) const {
    const std::int64_t channels = p.shape.channels(), heads = p.shape.value_heads;
    if (taps.defined()) {
      for (std::int64_t i = 0; i < taps.size(0); ++i)
        sums.conv.view({channels, p.taps_count}).add_(taps[i].view({p.taps_count, channels}).flip(0).t());
    }
    for (const auto& [share, sum] : {std::pair{rates, sums.a_log}, std::pair{biases, sums.dt_bias}}) {
      for (std::int64_t i = 0; share.defined() && i < share.size(0); ++i)
        sum.add_(share[i].view(sum.sizes()));
    }
    if (!norms.defined()) return;
    for (const at::Tensor& tree : norms.unbind(0)) {
      for (const at::Tensor& head : tree.view({heads, p.shape.value_dim}).unbind(0)) sums.norm.add_(head);
    }
  }
  at::Tensor taps, rates, biases, norms;
};

}  // namespace

void backward(const at::Tensor& in, const at::Tensor& d, const Prepared& p,
              const std::vector<AttentionSegment>& segments, const DeltaGradients& gradients) {
  const std::vector<Tree> trees = trees_of(segments);
  std::int64_t states = 0, tokens = 0;
  for (const Tree& tree : trees) {
    std::int64_t most = 0;
    for (const AttentionSegment* follower : tree.followers) most = std::max(most, length_of(*follower));
    tokens = std::max(tokens, length_of(*tree.root) + most);
    states = std::max(states, chunks_of(length_of(*tree.root)) + chunks_of(most) + 2);
  }
  const std::int64_t heads = p.shape.key_heads, threads = at::get_num_threads();
  const auto all = static_cast<std::int64_t>(trees.size());
  const bool shares = gradients.conv.defined() || gradients.a_log.defined() || gradients.dt_bias.defined() ||
                      gradients.norm.defined();
  // So many trees at once that the shares stay small.
  const std::int64_t most = shares ? std::max<std::int64_t>(1, 4 * threads / heads) : all;
  std::vector<std::unique_ptr<Worker>> workers(static_cast<std::size_t>(std::max<std::int64_t>(threads, 1)));
  for (std::int64_t begin = 0; begin < all; begin += most) {
    const std::int64_t count = std::min(most, all - begin);
    const AllShares sums(count, p, gradients);
    in_team(count * heads, threads, [&](std::int64_t unit, std::int64_t thread) {
      const FlushDenormals flush;
      std::unique_ptr<Worker>& worker = workers[static_cast<std::size_t>(thread)];
      if (worker == nullptr) worker = std::make_unique<Worker>(in, d, p, states, tokens);
      worker->run(trees[static_cast<std::size_t>(begin + unit / heads)], unit % heads, sums.of(unit / heads));
    });
    sums.add_to(gradients, p);
  }
}

std::int64_t backward_bytes(const DeltaShape& shape, std::int64_t longest, std::int64_t threads) {
  const std::int64_t trees = std::max<std::int64_t>(1, 4 * threads / shape.key_heads);
  const std::int64_t share = shape.channels() * kTapsMost + shape.values() + 2 * shape.value_heads;
  return 4 * (threads * Worker::floats(shape, longest) + (trees + 2) * share);
}

}  // namespace hone::ops::delta
