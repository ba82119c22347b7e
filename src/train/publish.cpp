#include "train/publish.h"

#include "base/json.h"
#include "base/staging.h"
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
  base::publish(
      output_dir, [&](const fs::path& folder) { write_result_files(folder, parts); }, kAdapterConfigFile);
}

void recover_result(const fs::path& output_dir) {
  // Earlier versions of hone staged it here.
  base::recover_former_staging(output_dir / ".final");
  base::finish_publishing(output_dir, kAdapterConfigFile);
}

}  // namespace hone::train
