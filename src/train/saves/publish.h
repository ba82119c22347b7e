// The finished result at the top of output_dir: adapter, tokenizer, trainer state, plan.
#pragma once

#include "train/saves/checkpoint.h"

namespace hone::train {

// The files that a checkpoint and the finished result have in common: everything but the optimizer's moments
// and hone_state.json. A model that was trained in full has fp32 masters, which a checkpoint holds; the `result` is in
// the run's dtype, as transformers saves it.
enum class Weights { kMasters, kResult };
void write_result_files(const base::fs::path& folder, const CheckpointParts& parts, Weights weights);

// Finishes a publish_final() that a kill or a power failure interrupted (base::finish_publishing): afterwards
// the complete old or new result is at the top. For the only process that writes there.
void recover_result(const base::fs::path& output_dir);

}  // namespace hone::train
