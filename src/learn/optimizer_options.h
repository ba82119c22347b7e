// An optimizer is told these: `optim`, `optim_args`, `weight_decay` and `adam_*`. Plain data, without
// libtorch.
#pragma once

namespace hone::learn {

enum class OptimizerKind { kAdamW, kAdamW8bit, kAdafactor, kRmsprop, kSgd, kAdagrad, kLion, kLion8bit };

// Whether an element's step needs no other element, so that ranks can divide the state: not so for adafactor, which
// has sums of rows and columns, and the 8-bit forms, which have blocks.
constexpr bool divides(OptimizerKind kind) {
  using enum OptimizerKind;
  return kind != kAdafactor && kind != kAdamW8bit && kind != kLion8bit;
}

// optim_args, with the names and defaults of torch.optim.
struct OptimizerArguments {
  double momentum = 0;    // sgd, rmsprop
  double dampening = 0;   // sgd
  bool nesterov = false;  // sgd
  double alpha = 0.99;    // rmsprop
  bool centered = false;  // rmsprop
  double lr_decay = 0;    // adagrad
  double eps = 1e-8;      // rmsprop; adagrad: 1e-10

  bool operator==(const OptimizerArguments&) const = default;
};

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double beta1 = 0.9, beta2 = 0.999;  // AdamW, Lion
  double epsilon = 1e-8;              // AdamW
  double weight_decay = 0;
  OptimizerArguments arguments;
};

}  // namespace hone::learn
