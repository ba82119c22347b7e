// The moments of AdamW in a file, as hone's checkpoints have them (train/saves/checkpoint.h).
#pragma once

#include "base/files/file.h"
#include "learn/adamw.h"

namespace hone::serve {

constexpr const char* kMomentsFile = "optimizer.safetensors";

void write_moments(const base::fs::path& folder, const learn::AdamWState& state);
// Into `state`, whose tensors say the size. UserError for a file that is absent, damaged or of another
// adapter.
void read_moments(const base::fs::path& folder, learn::AdamWState& state);

}  // namespace hone::serve
