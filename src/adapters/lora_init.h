// How the A and B of a new LoRA adapter start (PEFT's init_lora_weights). Nothing of libtorch here.
#pragma once

namespace hone::adapters {

enum class LoraInit { kTrue, kGaussian, kFalse, kPissa };

}  // namespace hone::adapters
