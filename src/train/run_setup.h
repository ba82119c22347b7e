// What the training commands share before their first step: the run's folder, the adapter, what is resumed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "adapters/lora.h"
#include "base/file.h"
#include "config/plan.h"
#include "learn/adamw.h"
#include "model/causal_lm.h"
#include "model/weight_source.h"
#include "train/branch.h"
#include "train/run_state.h"
#include "train/step_facts.h"

namespace hone::train {

// output_dir, claimed by this process for as long as this lives.
class RunDirectory {
 public:
  // Mends what a killed run left there and finds the checkpoint to go on from. UserError when another process
  // runs there, when a fresh run would overwrite an earlier one, or when there is no such checkpoint.
  explicit RunDirectory(const config::Plan& plan);

  const base::fs::path& output_dir() const { return output_dir_; }
  bool resuming() const { return !resume_from_.empty(); }
  const base::fs::path& resume_from() const { return resume_from_; }
  // Of the checkpoint: damaged ones that were passed over, those that open() moves aside.
  const std::vector<std::string>& notes() const { return notes_; }
  // Creates the folder, if it is not there, moves checkpoints aside that are newer than the one to go on from
  // (train/branch.h), and writes plan.yaml: after everything that can be wrong was looked at.
  void open(const config::Plan& plan);

 private:
  bool in_place(const base::fs::path& checkpoint) const;

  base::fs::path output_dir_, resume_from_;
  std::optional<Branch> branch_;
  std::vector<std::string> notes_;
  std::optional<base::FolderLock> lock_;
};

// The file that is trained on, by what a resumed run compares.
struct Fingerprint {
  std::int64_t rows = 0;
  std::uint32_t crc32c = 0;
};
Fingerprint data_fingerprint(const base::fs::path& file, std::int64_t rows);

// A new adapter, the checkpoint's, or the one that adapter_name_or_path names.
adapters::Adapter open_adapter(model::CausalLm& model, const config::Plan& plan,
                               const RunDirectory& directory);

// Where the run stands: fresh, or as its checkpoint says.
struct ResumeState {
  RunState state;
  learn::AdamWState optimizer;
  std::map<std::string, std::string> method_files;
  std::string resumed_from;
  std::vector<std::string> notes;  // what differs from the checkpoint's run
};
ResumeState find_resume_state(const config::Plan& plan, const RunDirectory& directory,
                              const adapters::Adapter& adapter, const Fingerprint& data);

TrainedFacts trained_facts(const model::CausalLm& model, const adapters::Adapter& adapter);

// UserError when output_dir has no room for a checkpoint.
void require_room_for_checkpoint(const RunDirectory& directory, const adapters::Adapter& adapter);

// The note that PEFT needs a folder, for a GGUF without one beside it.
std::optional<std::string> convert_note(const config::Plan& plan, const model::WeightSource& source);

// A note when sequences of `longest` tokens are longer than the model has ever seen.
std::optional<std::string> beyond_positions(std::int64_t longest, const model::ModelConfig& model);

}  // namespace hone::train
