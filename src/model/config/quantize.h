// How the matrices of a base are quantized as they are read.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "model/config/model_config.h"
#include "ops/quantized.h"

namespace hone::model {

// `scheme` is that of the layers' linears; empty: they are not quantized. Embedding, head, norms and routers never are.
// Experts are with `experts` only: transformers 5 holds them as stacked parameters, which bitsandbytes leaves alone. The
// gate, the up and the down of each expert are then a matrix of their own. Their codes are those of the stacked parameter
// (bitsandbytes' nn.parametrize) where a matrix is whole blocks of 64 numbers; with nested scales each has its own offset.
struct Quantize {
  std::optional<ops::QuantScheme> scheme;
  bool experts = false;

  Quantize() = default;
  Quantize(std::nullopt_t) {}  // NOLINT(google-explicit-constructor): not quantized
  Quantize(
      const ops::QuantScheme& of_linears,  // NOLINT(google-explicit-constructor): the linears in this scheme
      bool of_experts = false)
      : scheme(of_linears), experts(of_experts) {}

  explicit operator bool() const { return scheme.has_value(); }
  const ops::QuantScheme& operator*() const { return *scheme; }
  const ops::QuantScheme* operator->() const { return &*scheme; }
  bool operator==(const Quantize&) const = default;
};

// The names of the matrices that are quantized, with or without those of experts.
std::set<std::string> quantized_matrices(const ModelConfig& config, bool experts);

std::string describe(const Quantize& quantize);  // "4-bit nf4, experts too"

// How options hold a model in the least memory, and those options: "load_in_4bit: true with use_bnb_nested_quant: true".
Quantize leanest_base(const ModelConfig& config);
std::string leanest_options(const ModelConfig& config);

}  // namespace hone::model
