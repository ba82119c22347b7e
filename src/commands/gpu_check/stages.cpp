#include <array>

#include "commands/gpu_check/stage.h"

namespace hone::commands {

namespace {

template <ModelSize kSize, bool kFull = false>
void training(const StageInput& input, StageLog& log) {
  measure_training(input, log, kSize, kFull);
}

template <ModelSize kSize>
void decoding(const StageInput& input, StageLog& log) {
  measure_decoding(input, log, kSize);
}

}  // namespace

std::span<const GpuStage> gpu_stages() {
  using enum ModelSize;
  static constexpr std::array<GpuStage, 20> kStages = {{
      {"card", "card, driver, libraries, memory", 60, &stage_card},
      {"rows", "norms, rotations, gates, routed rows, dropout", 120, &stage_rows},
      {"sequences", "convolutions and delta rules", 120, &stage_sequences},
      {"attention", "attention, packed and over keys, both ways", 120, &stage_attention},
      {"products", "products, gradients of weights, quantized matrices", 120, &stage_products},
      {"head", "log-probabilities by tiles", 120, &stage_head},
      {"optimizer", "AdamW, sums of squares", 60, &stage_optimizer},
      {"shapes", "products and attention of models of 0.5B to 8B", 180, &stage_shapes},
      {"methods", "steps of a tiny model: SFT, DPO, GRPO", 240, &stage_methods},
      {"sampling", "sampled tokens, and their log-probabilities", 120, &stage_sampling},
      {"checkpoint", "runs that go on elsewhere", 180, &stage_checkpoint},
      {"memory", "planned and measured memory, 0.5B", 180, &stage_memory},
      {"rates", "launches, copies, products", 120, &stage_rates},
      {"speed", "training, 0.5B", 180, &training<kHalfBillion>},
      {"decoding", "sampling, 0.5B", 180, &decoding<kHalfBillion>},
      {"full", "training in full, 0.5B", 180, &training<kHalfBillion, true>, true},
      {"speed-1.5b", "training, 1.5B", 180, &training<kOneAndAHalf>, true},
      {"decoding-1.5b", "sampling, 1.5B", 180, &decoding<kOneAndAHalf>, true},
      {"speed-8b", "training, 8B", 240, &training<kEight>, true},
      {"decoding-8b", "sampling, 8B", 240, &decoding<kEight>, true},
  }};
  return kStages;
}

}  // namespace hone::commands
