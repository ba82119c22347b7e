// Passes over memory: norms, rotation, SwiGLU, dropout, embedding, optimizer. bf16 is 2 bytes; what is read
// and written once is counted once each way.
#include <ATen/ATen.h>

#include <memory>

#include "bench/ops_cases.h"
#include "bench/work.h"
#include "learn/adamw.h"
#include "ops/delta_rule.h"
#include "ops/dropout.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/short_conv.h"
#include "ops/swiglu.h"
#include "ops/weight.h"

namespace hone::bench {

namespace {

double elements(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) * static_cast<double>(b);
}

Case norm(std::int64_t tokens, std::int64_t width) {
  const at::Tensor x = random_bf16({tokens, width}), weight = random_bf16({width}),
                   out = random_bf16({tokens, width});
  return {.bytes = 4 * elements(tokens, width), .run = [=] { ops::rms_norm_into(out, x, weight, 1e-6); }};
}

Case norm_backward(std::int64_t tokens, std::int64_t width) {
  const at::Tensor x = random_bf16({tokens, width}), weight = random_bf16({width}),
                   dy = random_bf16({tokens, width});
  const at::Tensor dx = random_bf16({tokens, width});
  return {.bytes = 8 * elements(tokens, width),
          .run = [=] { ops::rms_norm_backward_add(dx, dy, x, weight, 1e-6); }};
}

struct Rotation {
  at::Tensor x;  // [T, N, D], a slice of a concatenated buffer
  at::Tensor norm;
  ops::RopeTable table;
};

Rotation rotation(const OpsShape& shape, bool with_norm) {
  const model::ModelConfig& c = shape.config;
  const std::int64_t width = (c.num_attention_heads + 2 * c.num_key_value_heads) * c.head_dim;
  std::vector<std::int64_t> positions;
  for (std::int64_t t = 0; t < shape.tokens; ++t) positions.push_back(t % shape.length);
  return {.x = random_bf16({shape.tokens, width})
                   .narrow(1, 0, c.num_attention_heads * c.head_dim)
                   .unflatten(1, {c.num_attention_heads, c.head_dim}),
          .norm = with_norm ? random_bf16({c.head_dim}) : at::Tensor(),
          .table = ops::rope_table(ops::rope_inverse_frequencies(c.rope_theta, c.head_dim), positions,
                                   at::kBFloat16)};
}

// In place: every element is read and written, cos and sin are read.
Case rotate(const OpsShape& shape, bool with_norm) {
  const Rotation r = rotation(shape, with_norm);
  return {.bytes = 4 * static_cast<double>(r.x.numel() + r.table.cos.numel()),
          .run = [=] { ops::norm_rope_into(r.x, r.x, r.norm, 1e-6, r.table); }};
}

Case rotate_backward(const OpsShape& shape, bool with_norm) {
  const Rotation r = rotation(shape, with_norm), forward = rotation(shape, with_norm);
  const double read_x = with_norm ? 2 * static_cast<double>(forward.x.numel()) : 0;
  return {.bytes = 4 * static_cast<double>(r.x.numel() + r.table.cos.numel()) + read_x,
          .run = [=] { ops::norm_rope_backward(r.x, forward.x, r.norm, 1e-6, r.table); }};
}

Case swiglu_forward(std::int64_t tokens, std::int64_t width) {
  const at::Tensor both = random_bf16({tokens, 2 * width}), out = random_bf16({tokens, width});
  return {.bytes = 6 * elements(tokens, width),
          .run = [=] { ops::swiglu_into(out, both.narrow(1, 0, width), both.narrow(1, width, width)); }};
}

Case swiglu_back(std::int64_t tokens, std::int64_t width) {
  const at::Tensor both = random_bf16({tokens, 2 * width}), d = random_bf16({tokens, width});
  return {.bytes = 10 * elements(tokens, width),
          .run = [=] { ops::swiglu_backward(both.narrow(1, 0, width), both.narrow(1, width, width), d); }};
}

// What a token is, for the mask.
struct Keys {
  std::vector<std::int64_t> row, position;
  ops::PassContext context() const {
    return {.training = true, .seed = 1, .step = 3, .token_row = &row, .token_position = &position};
  }
};

std::shared_ptr<Keys> keys(const OpsShape& shape) {
  const auto out = std::make_shared<Keys>();
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    out->row.push_back(t / shape.length);
    out->position.push_back(t % shape.length);
  }
  return out;
}

Case drop(const OpsShape& shape, std::int64_t width, bool backward) {
  const auto key = keys(shape);
  const at::Tensor x = random_bf16({shape.tokens, width}), out = random_bf16({shape.tokens, width});
  return {.bytes = (backward ? 6 : 4) * elements(shape.tokens, width), .run = [=] {
            if (backward) {
              ops::dropout_backward_add(out, x, key->context(), 5, 0.05);
            } else {
              ops::dropout_into(out, x, key->context(), 5, 0.05);
            }
          }};
}

Case embedding(const OpsShape& shape, bool packed) {
  const at::Tensor plain = random_bf16({shape.config.vocab_size, shape.config.hidden_size});
  const auto weight =
      std::make_shared<ops::Weight>(packed ? ops::Weight::packed_where_possible(plain) : ops::Weight(plain));
  const at::Tensor ids = at::randint(shape.config.vocab_size, {shape.tokens}, at::kLong);
  return {.bytes = 4 * elements(shape.tokens, shape.config.hidden_size), .run = [=] { weight->rows(ids); }};
}

std::int64_t lora_parameters(const OpsShape& shape) {
  std::int64_t sum = 0;
  for (const Shape& s : layer_shapes(shape.config)) sum += shape.rank * (s.in + s.out);
  return sum * shape.config.num_hidden_layers;
}

Case clip(const OpsShape& shape) {
  const at::Tensor gradient = at::randn({lora_parameters(shape)});
  return {.bytes = 4 * static_cast<double>(gradient.numel()),
          .run = [=] { learn::clip_gradient(gradient, 0); }};
}

// p, m and v read and written, g read.
Case adamw(const OpsShape& shape) {
  const at::Tensor parameters = at::randn({lora_parameters(shape)}),
                   gradient = at::randn({parameters.numel()});
  const auto state = std::make_shared<learn::AdamWState>(learn::AdamWState::zeros_like(parameters));
  return {.bytes = 28 * static_cast<double>(parameters.numel()),
          .run = [=] { learn::adamw_step(parameters, gradient, *state, {}, 1e-5); }};
}

// LFM2's: three taps, on its gates b, c and x.
Case convolution(std::int64_t tokens, std::int64_t width, bool backward) {
  const at::Tensor bcx = random_bf16({tokens, 3 * width}), weight = random_bf16({width, 1, 3}),
                   out = random_bf16({tokens, width});
  if (backward) {
    return {.bytes = 14 * elements(tokens, width),
            .run = [=] { ops::short_conv_backward(bcx, out, weight, {}, {{0, tokens}}, {}, {}); }};
  }
  return {.bytes = 8 * elements(tokens, width), .run = [=] {
            const at::Tensor inputs = ops::conv_inputs(bcx);
            ops::short_conv_into(out, inputs, bcx, weight, {}, {{0, tokens, {}}});
          }};
}

// Qwen3.5's: 16 heads of 128 columns, 4 taps. Its products are in fp32: 7 D E of a token and value head for S; backward, in
// chunks of 64, 12 D E, 6 D E again for S, and what goes between two tokens.
Case delta_rule(const OpsShape& shape, bool backward) {
  const ops::DeltaShape delta{.key_heads = 16, .value_heads = 16, .key_dim = 128, .value_dim = 128};
  const std::int64_t tokens = shape.tokens;
  const ops::DeltaWeights weights{random_bf16({delta.channels(), 1, 4}), random_bf16({16}), random_bf16({16}),
                                  random_bf16({128})};
  const at::Tensor in = random_bf16({tokens, delta.inputs()}), out = random_bf16({tokens, delta.values()});
  std::vector<ops::AttentionSegment> segments;
  for (std::int64_t t = 0; t < tokens; t += shape.length)
    segments.push_back({t, std::min(t + shape.length, tokens)});
  const double state = 16.0 * 128 * 128 * static_cast<double>(tokens),
               pairs = 16.0 * 64 * 128 * static_cast<double>(tokens);
  if (backward) {
    return {.flop = 18 * state + 12 * pairs,
            .bytes = 2 * elements(tokens, 2 * delta.inputs() + delta.values()),
            .run = [=] { ops::delta_rule_backward(in, out, weights, delta, segments, {}); },
            .prepare = [=] { in.copy_(random_bf16({tokens, delta.inputs()})); }};
  }
  return {.flop = 7 * state, .bytes = 2 * elements(tokens, delta.inputs() + delta.values()), .run = [=] {
            ops::delta_rule_into(out, in, weights, delta, segments);
          }};
}

}  // namespace

std::vector<Entry> fused_entries(const OpsShape& shape) {
  const std::int64_t t = shape.tokens, h = shape.config.hidden_size, i = shape.config.intermediate_size;
  return {{"rms_norm", [=] { return norm(t, h); }},
          {"rms_norm backward", [=] { return norm_backward(t, h); }},
          {"norm_rope q, no norm", [=] { return rotate(shape, false); }},
          {"norm_rope q, with norm", [=] { return rotate(shape, true); }},
          {"norm_rope backward q, no norm", [=] { return rotate_backward(shape, false); }},
          {"norm_rope backward q, with norm", [=] { return rotate_backward(shape, true); }},
          {"swiglu", [=] { return swiglu_forward(t, i); }},
          {"swiglu backward", [=] { return swiglu_back(t, i); }},
          {"short_conv", [=] { return convolution(t, h, false); }},
          {"short_conv backward", [=] { return convolution(t, h, true); }},
          {"delta_rule", [=] { return delta_rule(shape, false); }},
          {"delta_rule backward", [=] { return delta_rule(shape, true); }},
          {"dropout hidden", [=] { return drop(shape, h, false); }},
          {"dropout intermediate", [=] { return drop(shape, i, false); }},
          {"dropout backward hidden", [=] { return drop(shape, h, true); }},
          {"dropout backward intermediate", [=] { return drop(shape, i, true); }},
          {"embedding plain", [=] { return embedding(shape, false); }},
          {"embedding packed", [=] { return embedding(shape, true); }},
          {"clip_gradient, norm only", [=] { return clip(shape); }},
          {"adamw_step", [=] { return adamw(shape); }}};
}

}  // namespace hone::bench
