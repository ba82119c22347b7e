// Probes P10 and P12 with writing and reading as parameters: tests pass ones that lose data.
#pragma once

#include <functional>

#include "adapters/lora.h"
#include "base/files/file.h"
#include "doctor/examination.h"
#include "train/saves/checkpoint.h"

namespace hone::doctor {

struct AdapterFiles {
  std::function<void(const adapters::Adapter&, const base::fs::path& folder)> save;
  std::function<void(const base::fs::path& base, const base::fs::path& adapter, const base::fs::path& out,
                     const model::Quantize& trained_on)>
      merge;
};

// Saves an adapter that has an effect into a temporary folder, loads it into the model, merges it into a copy
// of the base, together with the adapters below it:
//   CKPT-01  the loaded adapter has the saved one's bits and loss, and a loss other than the base's
//   CKPT-02  the merged model against adapter and base: KL and the share of equal most likely tokens Of a
//            base that is quantized as it is loaded, onto what its codes stand for; beside it the adapter on
//            the base as it is stored, which is another model: with its KL a warning where it is far off
//   CKPT-03  the merged model was read again from its files, with its head tied or not as they say
// A base for which the temporary folder has no room is not merged; then it says so.
Verdicts examine_round_trip(const train::RunView& run, const AdapterFiles& files);

using CheckpointReader = std::function<train::LoadedCheckpoint(
    const base::fs::path& folder, learn::Optimizer& optimizer, const config::Plan& plan)>;

// A rehearsal step, a checkpoint in a temporary folder, a second step; then the checkpoint read back, and the
// second step again: CKPT-05, the same bits in parameters, the optimizer's state and loss.
Verdicts examine_resume(const train::RunView& run, const CheckpointReader& read);

}  // namespace hone::doctor
