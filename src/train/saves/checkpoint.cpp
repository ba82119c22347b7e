#include "train/saves/checkpoint.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/mapped_crc.h"
#include "base/files/safetensors.h"
#include "base/json.h"
#include "base/numeric.h"
#include "train/loop/shards.h"
#include "train/saves/checkpoint_check.h"
#include "train/saves/publish.h"
#include "train/saves/reference_file.h"
#include "train/saves/run_folder.h"

namespace hone::train {

using base::Json;
using base::UserError;
namespace fs = base::fs;

namespace {

constexpr const char* kOptimizerName = "optimizer";  // in the metadata; older hones had only AdamW

// Options whose change cannot alter what is learned; a resumed run may differ in them without a note.
constexpr std::array<std::string_view, 34> kHarmless = {"output_dir",
                                                        "resume_from_checkpoint",
                                                        "save_steps",
                                                        "save_strategy",
                                                        "save_total_limit",
                                                        "stop_grace",
                                                        "load_best_model_at_end",
                                                        "logging_steps",
                                                        "logging_strategy",
                                                        "logging_first_step",
                                                        "eval_steps",
                                                        "eval_strategy",
                                                        "eval_on_start",
                                                        "report_to",
                                                        "disable_tqdm",
                                                        "run_name",
                                                        "gradient_checkpointing",
                                                        "recompute",
                                                        "memory_limit",
                                                        "project",
                                                        "trackio_space_id",
                                                        "trackio_bucket_id",
                                                        "wandb_project",
                                                        "wandb_entity",
                                                        "wandb_run_group",
                                                        "mlflow_tracking_uri",
                                                        "mlflow_experiment_name",
                                                        "push_to_hub",
                                                        "hub_model_id",
                                                        "hub_token",
                                                        "hub_private_repo",
                                                        "hub_strategy",
                                                        "hub_always_push",
                                                        "hub_revision"};

// Options that a resumed run does not read: the adapter lies in the checkpoint.
constexpr std::array<std::string_view, 15> kOfTheAdapter = {"lora_r",
                                                            "lora_target_parameters",
                                                            "lora_alpha",
                                                            "lora_target_modules",
                                                            "lora_exclude_modules",
                                                            "rank_pattern",
                                                            "alpha_pattern",
                                                            "layers_to_transform",
                                                            "layers_pattern",
                                                            "lora_modules_to_save",
                                                            "bias",
                                                            "use_rslora",
                                                            "use_dora",
                                                            "init_lora_weights",
                                                            "adapter_name_or_path"};

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

base::DType dtype_of(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kByte ? base::DType::kU8 : base::DType::kF32;
}

void write_optimizer(const fs::path& path, const learn::Optimizer& optimizer, Shards* shards) {
  std::vector<base::TensorHeader> headers;
  for (const learn::StateTensor& one : optimizer.state())
    headers.push_back({.name = one.name, .dtype = dtype_of(one.value), .shape = one.value.sizes().vec()});
  const auto write = [&](std::size_t k, const base::TakeBytes& take) {
    if (shards != nullptr)
      return shards->read_state(k, [&](const at::Tensor& part) { take(bytes_of(part)); });
    const at::Tensor values = optimizer.state()[k].value.cpu();
    take(bytes_of(values));
  };
  base::write_safetensors(
      path, headers,
      {{"format", "pt"}, {"step", std::to_string(optimizer.steps())}, {kOptimizerName, optimizer.name()}},
      write);
  optimizer.rest();
}

Json file_table(const fs::path& folder) {
  std::map<std::string, Json> table;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto file = base::MappedFile::open(entry.path());
    table[entry.path().filename().string()] = {{"bytes", file.bytes().size()},
                                               {"crc32c", base::mapped_crc32c(file.bytes())}};
  }
  return Json(table);
}

// Valid while the file is open.
at::Tensor read_state(const base::SafetensorsFile& file, const learn::StateTensor& wanted) {
  const auto* tensor = file.find(wanted.name);
  const bool fits = tensor != nullptr && tensor->dtype == dtype_of(wanted.value) &&
                    tensor->shape == wanted.value.sizes().vec();
  if (!fits) {
    throw UserError({.where = file.path().string() + " tensor " + wanted.name,
                     .expected = std::string(wanted.value.scalar_type() == at::kByte ? "U8" : "F32") + " [" +
                                 std::to_string(wanted.value.numel()) + "]",
                     .found = tensor == nullptr ? "no such tensor" : "another shape or type",
                     .cause = "the checkpoint is from a run with another adapter, or other optim_args",
                     .fix = "resume with the lora_* options and optim_args of that run (see its plan.yaml)"});
  }
  const bool aligned = reinterpret_cast<std::uintptr_t>(tensor->bytes.data()) % sizeof(float) == 0;
  if (aligned) {  // no copy: a rank restores its share only
    return at::from_blob(const_cast<std::byte*>(tensor->bytes.data()), wanted.value.sizes(),
                         at::TensorOptions(wanted.value.scalar_type()));
  }
  at::Tensor out = at::empty(wanted.value.sizes(), wanted.value.scalar_type());
  std::memcpy(out.mutable_data_ptr(), tensor->bytes.data(), tensor->bytes.size());
  return out;
}

void read_optimizer(const fs::path& path, std::int64_t steps, learn::Optimizer& optimizer) {
  const auto file = base::SafetensorsFile::open(path);
  const auto named = file.metadata().find(kOptimizerName);
  const std::string saved = named == file.metadata().end() ? "adamw" : named->second;
  if (saved != optimizer.name()) {
    throw UserError({.where = path.string(),
                     .expected = "the state of " + optimizer.name() + ", as optim says",
                     .found = "that of " + saved,
                     .cause = "the run began with another optimizer",
                     .fix =
                         "set optim as in that run (see its plan.yaml), or begin a new run from its adapter: "
                         "adapter_name_or_path"});
  }
  std::vector<at::Tensor> state;
  for (const learn::StateTensor& one : optimizer.state()) state.push_back(read_state(file, one));
  optimizer.restore(steps, state);
}

std::vector<std::string> changes(const Json& saved, const config::Plan& plan, const std::string& where) {
  std::vector<std::string> out;
  for (const auto& [name, value] : plan.resolved) {
    const bool harmless = std::find(kHarmless.begin(), kHarmless.end(), name) != kHarmless.end();
    if (harmless || !saved.contains(name)) continue;
    if (!saved[name].is_string()) {
      throw BadState({.where = where + " options " + name,
                      .expected = "a text",
                      .found = base::dump_json(saved[name]).substr(0, 200),
                      .cause = "the file was edited",
                      .fix = "resume from another checkpoint-N folder"});
    }
    const auto before = saved[name].get<std::string>();
    if (before == value) continue;
    if (name == "adapter_name_or_path" && plan.policy.beta != 0) {
      throw UserError({.where = "adapter_name_or_path",
                       .expected = before + ", as when the run began: the reference model of beta",
                       .found = value,
                       .cause = "the adapter that a run continues is the reference model",
                       .fix = "set adapter_name_or_path as in that run"});
    }
    const bool idle = std::find(kOfTheAdapter.begin(), kOfTheAdapter.end(), name) != kOfTheAdapter.end();
    out.push_back(name + ": " + before + " -> " + value +
                  (idle ? ", not used: the checkpoint's adapter is continued" : ""));
  }
  return out;
}

}  // namespace

void save_checkpoint(const fs::path& output_dir, const CheckpointParts& parts) {
  base::StagedFolder staged(checkpoint_path(output_dir, parts.state.step));
  write_result_files(staged.path(), parts, Weights::kMasters);
  write_optimizer(staged.path() / kOptimizerFile, parts.optimizer, parts.shards);
  if (parts.reference.defined())
    write_reference(staged.path() / kReferenceFile, parts.adapter, parts.reference);
  Json method_files = Json::array();
  for (const auto& [name, text] : parts.method_files) {
    base::write_file_atomic(staged.path() / name, text);
    method_files.push_back(name);
  }
  Json options = Json::object();
  for (const auto& [name, value] : parts.plan.resolved) options[name] = value;
  const Json state = {{"run", parts.state.to_json()},
                      {"options", options},
                      {"method_files", method_files},
                      {"files", file_table(staged.path())}};
  base::write_file_atomic(staged.path() / kHoneStateFile, sealed_state(state));
  staged.commit();
}

LoadedCheckpoint load_checkpoint(const fs::path& folder, learn::Optimizer& optimizer,
                                 const config::Plan& plan) {
  const std::string where = (folder / kHoneStateFile).string();
  const CheckedCheckpoint checked = check_checkpoint(folder);
  LoadedCheckpoint out;
  out.folder = folder;
  out.state = RunState::from_json(checked.state.at("run"), where);
  out.changed_options = changes(checked.state.value("options", Json()), plan, where);
  for (const Json& name : checked.state.at("method_files")) {
    const auto file = name.get<std::string>();
    out.method_files[file] = base::read_text(folder / file);
  }
  read_optimizer(folder / kOptimizerFile, out.state.step, optimizer);
  return out;
}

}  // namespace hone::train
