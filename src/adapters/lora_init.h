// How the A and B of a new LoRA adapter start (PEFT's init_lora_weights). Nothing of libtorch here.
#pragma once

namespace hone::adapters {

// PEFT's bias: which biases of the base are trained in full besides the LoRA.
enum class TrainedBias { kNone, kAll, kLoraOnly };

enum class LoraInit { kTrue, kGaussian, kFalse, kPissa };

}  // namespace hone::adapters
