// Shared by the training commands before their first step: the run's folder, the adapter, the resume state.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "adapters/lora.h"
#include "base/files/file.h"
#include "config/plan.h"
#include "learn/optimizer.h"
#include "model/causal_lm.h"
#include "model/files/weight_source.h"
#include "train/facts/step_facts.h"
#include "train/saves/branch.h"
#include "train/saves/run_lock.h"
#include "train/saves/run_state.h"

namespace hone::train {

// output_dir, locked by this process while the object lives.
class RunDirectory {
 public:
  // Repairs what a killed run left there and finds the checkpoint to resume from. UserError when the run
  // would write over something that it reads (train/saves/run_inputs.h) or that hone did not write
  // (train/saves/own_files.h), when another process runs there, when a fresh run would overwrite an earlier one, or
  // when there is no such checkpoint. A rank other than 0 only finds the checkpoint: rank 0 has been here
  // before (prepare_run_folder).
  explicit RunDirectory(const config::Plan& plan);

  const base::fs::path& output_dir() const { return output_dir_; }
  bool resuming() const { return !resume_from_.empty(); }
  const base::fs::path& resume_from() const { return resume_from_; }
  // These notes are of the checkpoint: they name damaged ones that were skipped, and those that open() moves.
  const std::vector<std::string>& notes() const { return notes_; }
  // Returns the notes of the lock alone: whose place this run takes.
  std::vector<std::string> lock_notes() const { return lock_ ? lock_->notes() : std::vector<std::string>(); }
  // Creates the folder, if it is not there, moves checkpoints that are newer than the one to resume from, or,
  // with overwrite_output_dir, all (train/saves/branch.h), and writes plan.yaml. Called after all checks.
  void open(const config::Plan& plan);

 private:
  bool in_place(const base::fs::path& checkpoint) const;
  void begin_again(const config::Plan& plan);
  void require_apart_from_checkpoint(const config::Plan& plan) const;

  base::fs::path output_dir_, resume_from_;
  std::optional<Branch> branch_;
  std::vector<std::string> notes_;
  std::optional<RunLock> lock_;
};

// Does what rank 0 does to output_dir before the other ranks look into it: repairs, and the checks of
// RunDirectory.
void prepare_run_folder(config::Plan& plan);

// The fingerprint of the training files, one after another, which a resumed run compares.
struct Fingerprint {
  std::int64_t rows = 0;
  std::uint32_t crc32c = 0;
};
Fingerprint data_fingerprint(const std::vector<base::fs::path>& files, std::int64_t rows);

// Opens what is trained: a new adapter, the checkpoint's, the one that adapter_name_or_path names, or the
// model in full, new or from the checkpoint. `source`: what the model was read from, which must outlive it.
// `keeps_base`: a reference model will be asked for.
adapters::Adapter open_adapter(model::CausalLm& model, const config::Plan& plan,
                               const RunDirectory& directory, const model::WeightSource& source,
                               bool keeps_base);
// Whether the fused form will be able to train that. Reads no weights.
bool fused_trains(const config::Plan& plan, const RunDirectory& directory, const model::ModelConfig& model);

// The run's state: new, or from its checkpoint.
struct ResumeState {
  RunState state;
  learn::Optimizer optimizer;
  std::map<std::string, std::string> method_files;
  std::string resumed_from;
  std::vector<std::string> notes;           // what differs from the checkpoint's run
  std::vector<std::string> changed_inputs;  // files that were changed in place since (input_files.h)
};
// `inputs`: of input_files().
ResumeState find_resume_state(const config::Plan& plan, const RunDirectory& directory,
                              const adapters::Adapter& adapter, const Fingerprint& data,
                              base::Json inputs = base::Json::object());

TrainedFacts trained_facts(const model::CausalLm& model, const adapters::Adapter& adapter);

// Bytes that a run needs on the disk of output_dir: a checkpoint, with the optimizer's state, or with save_strategy
// no the result alone. `moves`: the reference's parameters are in a checkpoint too.
std::int64_t bytes_to_save(const config::Plan& plan, const adapters::Adapter& adapter,
                           const learn::Optimizer& optimizer, bool moves);

// UserError when output_dir has no room for `bytes` of bytes_to_save().
void require_room_to_save(const RunDirectory& directory, const config::Plan& plan, std::int64_t bytes);

// The note that PEFT needs a folder, for a GGUF without one beside it.
std::optional<std::string> convert_note(const config::Plan& plan, const model::WeightSource& source);

// A note when sequences of `longest` tokens are longer than the model's positions.
std::optional<std::string> beyond_positions(std::int64_t longest, const model::ModelConfig& model);

}  // namespace hone::train
