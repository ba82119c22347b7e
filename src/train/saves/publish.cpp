#include "train/saves/publish.h"

#include <string>
#include <vector>

#include "base/files/mapped_files.h"
#include "base/files/staging.h"
#include "base/json.h"
#include "config/write_plan.h"
#include "text/tokenizer_files.h"
#include "train/loop/shards.h"
#include "train/saves/checkpoint_check.h"
#include "train/saves/own_files.h"
#include "train/saves/reference_file.h"
#include "train/saves/run_folder.h"

namespace hone::train {

namespace fs = base::fs;

namespace {

// Earlier versions of hone moved a whole set from output_dir/.final to the top: what is left of it follows.
// Files that no such set had stay.
void finish_former(const fs::path& output_dir) {
  const fs::path set = output_dir / ".final";
  base::recover_former_staging(set);
  std::error_code none;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(set, none)) files.push_back(entry.path());
  for (const fs::path& file : files) {
    const std::string name = file.filename().string();
    const bool ours = name == kAdapterConfigFile || name == kAdapterWeightsFile || name == kPlanFile ||
                      name == kTrainerStateFile || name == "base_adapters.json";
    if (text::is_tokenizer_file(name) || ours) fs::rename(file, output_dir / name, none);
  }
  if (!files.empty()) fs::remove(set, none);
}

}  // namespace

namespace {

at::ScalarType result_dtype(const config::Plan& plan) {
  const bool narrow = !plan.use_peft && plan.precision == config::Precision::kBFloat16;
  return narrow ? at::kBFloat16 : at::kFloat;
}

}  // namespace

void write_result_files(const fs::path& folder, const CheckpointParts& parts, Weights weights) {
  adapters::Adapter::BeforeRead before;
  if (parts.shards != nullptr)
    before = [&](const std::string& tensor) { parts.shards->read_parameters(tensor); };
  parts.adapter.save(folder, weights == Weights::kMasters ? at::kFloat : result_dtype(parts.plan), before);
  parts.tokenizer.save(folder);
  base::write_file_atomic(folder / kTrainerStateFile,
                          base::dump_json(trainer_state_json(parts.state, parts.facts), 2) + "\n");
  base::write_file_atomic(folder / kPlanFile, config::write_plan(parts.plan));
  base::require_readable();  // of a model in full, some of it comes from the base's files
}

namespace {

// The files of the best checkpoint's adapter or model, in place of those of the last step's.
void take_best(const fs::path& checkpoint, const fs::path& folder, const CheckpointParts& parts) {
  check_checkpoint(checkpoint);
  if (parts.adapter.is_full()) {
    parts.adapter.save_checkpoints_model(folder, checkpoint, result_dtype(parts.plan));
    return;
  }
  for (const std::string_view name : {kAdapterConfigFile, kAdapterWeightsFile}) {
    base::write_file_atomic(folder / name, base::read_text(checkpoint / name));
  }
}

}  // namespace

void publish_final(const fs::path& output_dir, const CheckpointParts& parts) {
  const base::Json before = own_files(output_dir).result;
  base::Json now;
  const auto write = [&](const fs::path& folder) {
    write_result_files(folder, parts, Weights::kResult);
    if (!parts.best.empty()) take_best(parts.best, folder, parts);
    if (parts.reference.defined()) write_reference(folder / kReferenceFile, parts.adapter, parts.reference);
    if (!parts.adapter.is_full() && !parts.state.inputs.empty())
      base::write_file_atomic(folder / kInputsFile, base::dump_json(parts.state.inputs, 2) + "\n");
    now = prints_of_files(folder);
    base::Json known = before;  // until the files that have no successor are removed
    known.update(now);
    base::write_file_atomic(folder / kOwnFile, own_files_text(known));
  };
  base::publish(output_dir, write, parts.adapter.is_full() ? kModelConfigFile : kAdapterConfigFile);
  remove_replaced(output_dir, before, now);
}

void recover_result(const fs::path& output_dir) {
  finish_former(output_dir);
  base::finish_publishing(output_dir, kAdapterConfigFile);
}

}  // namespace hone::train
