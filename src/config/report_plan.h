// These plans say where a run is reported beside its own folder: loggers (report_to), and the hub
// (push_to_hub).
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace hone::config {

struct LoggerPlan {
  std::vector<std::string> loggers;  // of report_to, without tensorboard: packages of kLoggers
  bool installed_loggers = false;    // report_to: all, so that one that is not installed says nothing
  std::string run_name;
  std::string project = "huggingface";
  std::string trackio_space_id, trackio_bucket_id;
  // Recipes have these, which become WANDB_PROJECT, WANDB_ENTITY, WANDB_RUN_GROUP, MLFLOW_TRACKING_URI and
  // MLFLOW_EXPERIMENT_NAME of the logger's process.
  std::string wandb_project, wandb_entity, wandb_run_group;
  std::string mlflow_tracking_uri, mlflow_experiment_name;

  bool operator==(const LoggerPlan&) const = default;
};

// When a run uploads (transformers' HubStrategy).
enum class HubStrategy { kEverySave, kEnd, kCheckpoint, kAllCheckpoints };

struct HubPlan {
  bool push_to_hub = false;
  std::string hub_model_id;  // "owner/name" or "name"; empty: the name of output_dir, as in transformers
  HubStrategy hub_strategy = HubStrategy::kEverySave;
  std::string hub_token;                 // empty: the one that the user's huggingface_hub has
  std::optional<bool> hub_private_repo;  // empty: as the owner's account says
  bool hub_always_push = false;
  std::string hub_revision;  // a branch; empty: main

  bool operator==(const HubPlan&) const = default;
};

}  // namespace hone::config
