#include "train/publish.h"

#include "base/json.h"
#include "config/write_plan.h"
#include "train/run_folder.h"

namespace hone::train {

namespace fs = base::fs;

void write_result_files(const fs::path& folder, const CheckpointParts& parts) {
  parts.adapter.save(folder);
  parts.tokenizer.save(folder);
  base::write_file_atomic(folder / kTrainerStateFile,
                          base::dump_json(trainer_state_json(parts.state, parts.facts), 2) + "\n");
  base::write_file_atomic(folder / kPlanFile, config::write_plan(parts.plan));
}

void publish_final(const fs::path& output_dir, const CheckpointParts& parts) {
  // Staged beside its place: a full disk is met before the first file of an older result is replaced.
  const fs::path stage_path = output_dir / ".final";
  {
    base::StagedFolder staged(stage_path);
    write_result_files(staged.path(), parts);
    staged.commit();
  }
  for (const auto& entry : fs::directory_iterator(stage_path)) {
    fs::rename(entry.path(), output_dir / entry.path().filename());
  }
  fs::remove(stage_path);
}

}  // namespace hone::train
