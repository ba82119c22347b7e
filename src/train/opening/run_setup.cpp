#include "train/opening/run_setup.h"

#include <algorithm>
#include <span>

#include "adapters/peft_files.h"
#include "adapters/whole_modules.h"
#include "base/error.h"
#include "base/files/crc32c.h"
#include "base/files/release_pages.h"
#include "base/files/staging.h"
#include "base/json_tools.h"
#include "base/strings/plural.h"
#include "config/hub_names.h"
#include "config/method_traits.h"
#include "config/write_plan.h"
#include "model/config/families.h"
#include "train/batches/tool_journal.h"
#include "train/loop/optimizer.h"
#include "train/opening/input_files.h"
#include "train/opening/open_model.h"
#include "train/opening/same_run.h"
#include "train/saves/checkpoint.h"
#include "train/saves/checkpoint_check.h"
#include "train/saves/own_files.h"
#include "train/saves/publish.h"
#include "train/saves/run_folder.h"
#include "train/saves/run_inputs.h"

namespace hone::train {

namespace fs = base::fs;

namespace {

// What adapter_config.json names as its base: a model of the hub by its name; PEFT needs a Hugging Face folder, so for a GGUF it is the
// folder that `hone convert` is told to write beside it.
std::string base_model_name(const config::Plan& plan) {
  if (!plan.base_model_name_for_adapter.empty()) return plan.base_model_name_for_adapter;
  const fs::path model = plan.model_name_or_path;
  if (const std::string id = config::hub_id_of(model); !id.empty()) return id;
  if (fs::is_directory(model)) return plan.model_name_or_path;
  return (model.parent_path() / model.stem()).string() + "-hf";
}

adapters::LoraConfig full_config(const config::Plan& plan) {
  adapters::LoraConfig out;
  out.full = adapters::FullTraining{.unfrozen = plan.unfrozen_parameters,
                                    .layers = plan.layers_to_transform,
                                    .freeze_embeddings = plan.freeze_embeddings,
                                    .shard_bytes = plan.max_shard_size};
  out.score_head = config::method_traits(plan.method).scores;
  return out;
}

adapters::LoraConfig lora_config(const config::Plan& plan) {
  adapters::LoraConfig out;
  out.r = plan.lora_r;
  out.alpha = plan.lora_alpha;
  out.dropout = plan.lora_dropout;
  out.target_modules = plan.lora_target_modules;
  out.target_is_regex = plan.lora_target_modules.size() == 1;  // TRL collapses a list of one to a string
  out.target_parameters = plan.lora_target_parameters;
  out.exclude_modules = plan.lora_exclude_modules;
  out.exclude_is_regex = plan.lora_exclude_modules.size() == 1;
  out.token_indices = plan.trainable_token_indices;
  out.token_module = plan.trainable_token_module;
  out.rank_pattern = plan.rank_pattern;
  out.alpha_pattern = plan.alpha_pattern;
  out.layers_to_transform = plan.layers_to_transform;
  out.layers_pattern = plan.layers_pattern;
  out.bias = plan.bias;
  out.rslora = plan.use_rslora;
  out.dora = plan.use_dora;
  out.init = plan.init_lora_weights;
  out.pissa_niter = plan.pissa_niter;
  out.score_head = config::method_traits(plan.method).scores;
  if (!out.score_head) out.modules_to_save = plan.lora_modules_to_save;  // a reward model's are its head
  out.base_model_name_or_path = base_model_name(plan);
  return out;
}

// A continued adapter brings its own options, but for what the user says of them.
adapters::Adapter load_adapter(model::CausalLm& model, const fs::path& folder, const config::Plan& plan) {
  const bool continues = !plan.adapter_name_or_path.empty();
  const bool pissa = !continues && plan.init_lora_weights == config::LoraInit::kPissa;
  adapters::Adapter adapter = pissa ? adapters::Adapter::resume_pissa(model, folder, lora_config(plan))
                                    : adapters::Adapter::load(model, folder);
  adapters::require_kind(adapter.config(), config::method_traits(plan.method).scores, folder.string());
  if (!continues || plan.continued_dropout) adapter.set_dropout(plan.lora_dropout);
  if (!plan.base_model_name_for_adapter.empty())
    adapter.set_base_model_name(plan.base_model_name_for_adapter);
  return adapter;
}

// A checkpoint of a run that trained the other: an adapter, or the whole model.
void require_kind_of_run(const fs::path& checkpoint, bool use_peft) {
  if (fs::exists(checkpoint / adapters::kConfigFile) == use_peft) return;
  throw base::UserError({checkpoint.string(),
                         use_peft ? "the checkpoint of an adapter, as use_peft: true says"
                                  : "the checkpoint of a whole model, as use_peft: false says",
                         use_peft ? "one of a whole model" : "one of an adapter",
                         "use_peft changed since the run began", "resume with the options of plan.yaml"});
}

adapters::Adapter open_full(model::CausalLm& model, const config::Plan& plan, const RunDirectory& directory,
                            const model::WeightSource& source, bool keeps_base) {
  adapters::LoraConfig config = full_config(plan);
  config.full->keeps_base = keeps_base;
  if (!directory.resuming()) return adapters::Adapter::attach_full(model, config, source);
  require_kind_of_run(directory.resume_from(), /*use_peft=*/false);
  const std::unique_ptr<model::WeightSource> saved = model::open_hf_folder(directory.resume_from());
  return adapters::Adapter::resume_full(model, config, source, *saved);
}

// A resumed run has the base it began with.
void require_same_frozen(const fs::path& checkpoint, const adapters::FrozenAdapters& below) {
  const adapters::FrozenAdapters began = adapters::read_frozen_adapters(checkpoint);
  if (began == below) return;
  const auto words = [](const adapters::FrozenAdapters& of) {
    std::string out;
    for (const std::string& folder : of.folders) out += (out.empty() ? "" : ", ") + folder;
    return out.empty() ? "none" : out;
  };
  const bool renewed = began.folders == below.folders;
  throw base::UserError({"option base_adapters", words(began) + ", as when the run began",
                         renewed ? "other weights in the same folders" : words(below),
                         "they are part of the base: on another base the adapter would be trained "
                         "differently",
                         renewed ? "restore these adapters, or start again in another output_dir"
                                 : "set base_adapters as in plan.yaml"});
}

// What the checkpoint's run was trained on, when it was something else.
std::optional<std::string> changed_rows(const RunState& saved, const Fingerprint& data) {
  if (saved.data_rows == 0) return std::nullopt;
  if (saved.data_rows == data.rows && saved.data_crc32c == data.crc32c) return std::nullopt;
  const std::string what =
      saved.data_rows == data.rows
          ? base::counted(data.rows, "row") + " with another checksum"
          : base::counted(saved.data_rows, "row") + " -> " + base::counted(data.rows, "row");
  return "differs from the checkpoint: the training rows changed (" + what +
         "): the resumed run is not equal to an uninterrupted one";
}

// "lm_head", "embed_tokens", "5 norms", "14 biases".
std::vector<std::string> whole_names(const std::vector<adapters::WholeTensor>& whole) {
  std::vector<std::string> out;
  std::int64_t norms = 0, biases = 0;
  for (const adapters::WholeTensor& tensor : whole) {
    const std::string module = tensor.name.substr(0, tensor.name.rfind('.'));
    if (tensor.name.ends_with(".bias")) {
      ++biases;
    } else if (tensor.shape.size() == 1) {
      ++norms;
    } else {
      out.push_back(module.substr(module.rfind('.') + 1));
    }
  }
  const auto count = [&out](std::int64_t number, const char* one, const char* many) {
    if (number > 0) out.push_back(std::to_string(number) + " " + (number == 1 ? one : many));
  };
  count(norms, "norm", "norms");
  count(biases, "bias", "biases");
  return out;
}

// "every tensor", "14 of 74 tensors".
std::vector<std::string> full_names(const model::CausalLm& model, const adapters::Adapter& adapter) {
  const std::vector<model::TensorSpec> specs = model::expected_tensors(model.config());
  const auto all = static_cast<std::size_t>(std::count_if(
      specs.begin(), specs.end(), [](const model::TensorSpec& spec) { return !spec.is_buffer; }));
  const std::size_t trained = adapter.whole().size();
  if (trained == all) return {"every tensor of the model"};
  return {std::to_string(trained) + " of " + std::to_string(all) + " tensors of the model"};
}

}  // namespace

RunDirectory::RunDirectory(const config::Plan& plan) : output_dir_(plan.output_dir) {
  if (plan.leads()) require_apart_from_inputs(plan);
  if (plan.leads() && fs::is_directory(output_dir_)) {
    lock_.emplace(output_dir_);
    notes_ = lock_->notes();
    recover_run_folder(output_dir_);
    recover_result(output_dir_);
  }
  if (plan.resume_from_checkpoint.empty()) {
    if (plan.leads()) begin_again(plan);
    return;
  }
  FoundCheckpoint found = find_checkpoint(output_dir_, plan.resume_from_checkpoint);
  resume_from_ = std::move(found.folder);
  notes_.insert(notes_.end(), found.notes.begin(), found.notes.end());
  if (!plan.leads()) return;
  if (!in_place(resume_from_)) {
    require_apart_from_checkpoint(plan);
    require_fresh(output_dir_);
    require_own_files(output_dir_, plan, /*resuming=*/false);
    return;
  }
  require_own_files(output_dir_, plan, /*resuming=*/true);
  branch_ = plan_branch(output_dir_, resume_from_, found.step);
  if (branch_) notes_.push_back(describe(*branch_));
}

// From step 0: in a folder without a run, or, as overwrite_output_dir allows, beside what an earlier one left
// there.
void RunDirectory::begin_again(const config::Plan& plan) {
  if (!plan.overwrite_output_dir) require_fresh(output_dir_);
  require_folder(output_dir_);
  require_own_files(output_dir_, plan, /*resuming=*/false);
  if (!plan.overwrite_output_dir) return;
  branch_ = plan_branch(output_dir_, {}, 0);
  if (branch_) notes_.push_back("overwrite_output_dir: " + describe(*branch_));
  if (!own_files(output_dir_).result.empty())
    notes_.emplace_back(
        "overwrite_output_dir: the earlier run's result stays until this run's takes its place");
}

// The checkpoint of another run, which this one only reads.
void RunDirectory::require_apart_from_checkpoint(const config::Plan& plan) const {
  base::require_apart({{.option = "output_dir",
                        .path = output_dir_,
                        .touches = [&plan](const std::string& name) { return is_written(name, plan); }}},
                      {{.option = "resume_from_checkpoint", .path = resume_from_}});
}

void prepare_run_folder(config::Plan& plan) {
  const RunDirectory looked(plan);
  // of a lock that was taken over: there is nothing to say when rank 0 looks again
  for (const std::string& note : looked.lock_notes()) plan.notes.push_back(note);
}

// A checkpoint of output_dir, or one that was moved aside there.
bool RunDirectory::in_place(const fs::path& checkpoint) const {
  std::error_code error;
  if (fs::equivalent(fs::absolute(checkpoint / "..").lexically_normal(), output_dir_, error)) return true;
  const fs::path folder = fs::canonical(checkpoint, error).parent_path();
  if (error) return false;
  const bool aside = abandoned_name_of(folder).has_value();
  return fs::equivalent(aside ? folder.parent_path() : folder, output_dir_, error);
}

void RunDirectory::open(const config::Plan& plan) {
  base::create_folders(output_dir_);
  if (!lock_) {
    lock_.emplace(output_dir_);
    // another run may have come and gone since the first look
    if (resume_from_.empty()) {
      begin_again(plan);
    } else {
      require_fresh(output_dir_);
    }
  }
  lock_->begin();
  const OwnFiles own = own_files(output_dir_);
  base::write_file_atomic(output_dir_ / kOwnFile, own_files_text(own.result));
  const bool goes_on =
      !resume_from_.empty() && in_place(resume_from_) && (!branch_ || plan.resume_from_checkpoint == "true");
  if (!goes_on) remove_journals(output_dir_);
  if (branch_) make_branch(output_dir_, *branch_);
  // A run that was killed before its first checkpoint has left records too.
  if (resume_from_.empty() || !in_place(resume_from_))
    set_records_aside(output_dir_, branch_ ? branch_->to : std::string());
  base::write_file_atomic(output_dir_ / kPlanFile, config::write_plan(plan));
}

Fingerprint data_fingerprint(const std::vector<fs::path>& files, std::int64_t rows) {
  Fingerprint out{.rows = rows};
  for (const fs::path& path : files) {
    const base::MappedFile file = base::MappedFile::open(path);
    for (std::span<const std::byte> left = file.bytes(); !left.empty();) {
      const std::span<const std::byte> window = left.first(std::min(left.size(), base::kReadWindow));
      out.crc32c = base::crc32c(window, out.crc32c);
      base::release_pages(window);
      left = left.subspan(window.size());
    }
  }
  return out;
}

bool fused_trains(const config::Plan& plan, const RunDirectory& directory, const model::ModelConfig& model) {
  if (!plan.use_peft) return true;
  if (directory.resuming()) require_kind_of_run(directory.resume_from(), /*use_peft=*/true);
  const fs::path from = directory.resuming() ? directory.resume_from() : fs::path(plan.adapter_name_or_path);
  if (from.empty()) return adapters::fused_trains(lora_config(plan), model, /*strict=*/true);
  const fs::path file = from / adapters::kConfigFile;
  return adapters::fused_trains(
      adapters::config_from_json(base::parse_json(base::read_settings(file), file.string()), file.string()),
      model, /*strict=*/false);
}

adapters::Adapter open_adapter(model::CausalLm& model, const config::Plan& plan,
                               const RunDirectory& directory, const model::WeightSource& source,
                               bool keeps_base) {
  if (!plan.use_peft) return open_full(model, plan, directory, source, keeps_base);
  const fs::path from = directory.resuming() ? directory.resume_from() : fs::path(plan.adapter_name_or_path);
  const adapters::FrozenAdapters below = adapters::attach_frozen(model, plan.base_adapters);
  if (directory.resuming()) require_same_frozen(from, below);
  adapters::Adapter adapter =
      from.empty() ? adapters::Adapter::attach(model, lora_config(plan), plan_seed(plan), &source)
                   : load_adapter(model, from, plan);
  adapter.set_frozen_adapters(below);
  return adapter;
}

ResumeState find_resume_state(const config::Plan& plan, const RunDirectory& directory,
                              const adapters::Adapter& adapter, const Fingerprint& data, base::Json inputs) {
  // not in the braces: g++ 12 destroys members that are not there yet when one of them throws
  learn::Optimizer optimizer = make_optimizer(plan, adapter, divided_state(plan));
  ResumeState out{.optimizer = std::move(optimizer)};
  const MachineFacts machine = machine_facts(plan);
  out.notes = directory.notes();
  if (directory.resuming()) {
    LoadedCheckpoint loaded = load_checkpoint(directory.resume_from(), out.optimizer, plan);
    out.state = std::move(loaded.state);
    out.method_files = std::move(loaded.method_files);
    out.resumed_from = directory.resume_from().string();
    BestCheckpoint& best = out.state.best;
    if (best.saved > 0 && !fs::is_directory(checkpoint_path(plan.output_dir, best.saved))) {
      out.notes.push_back("the best checkpoint, of step " + std::to_string(best.saved) + ", is not in " +
                          plan.output_dir + " anymore: another may become the best");
      best = {};
    }
    for (const auto& change : loaded.changed_options)
      out.notes.push_back("differs from the checkpoint: " + change);
    if (const auto note = changed_rows(out.state, data)) out.notes.push_back(*note);
    if (std::string note = changed_machine(out.state.machine, machine); !note.empty())
      out.notes.push_back(std::move(note));
    out.changed_inputs = changed_inputs(out.state.inputs, inputs);
    require_same_reference(out.state.inputs, inputs, config::method_traits(plan.method).reference_option);
  }
  if (!plan.adapter_name_or_path.empty()) {
    if (const auto note = adapters::frozen_adapters_note(plan.adapter_name_or_path, plan.base_adapters))
      out.notes.push_back(*note);
  }
  out.state.data_rows = data.rows;
  out.state.data_crc32c = data.crc32c;
  out.state.inputs = std::move(inputs);
  out.state.machine = base::Json::object();
  for (const auto& [name, value] : machine) out.state.machine[name] = value;
  return out;
}

TrainedFacts trained_facts(const model::CausalLm& model, const adapters::Adapter& adapter) {
  TrainedFacts out;
  out.tensors = static_cast<std::int64_t>(adapter.tensors().size());
  out.parameters = adapter.flat().numel();
  out.bytes = static_cast<std::int64_t>(adapter.flat().nbytes());
  out.base_parameters = model.parameter_count();
  out.base_bytes = model.parameter_bytes();
  out.token_rows = static_cast<std::int64_t>(model.token_rows().ids().size());
  out.tied_head = model.config().tie_word_embeddings && !model.score_head().defined();
  if (const model::Quantize scheme = model.held_as()) out.base_kind = model::describe(scheme);
  const auto add_module = [&out](const std::string& name) {
    out.modules_matched += 1;
    const std::string shortened = name.substr(name.rfind('.') + 1);
    if (std::find(out.modules.begin(), out.modules.end(), shortened) == out.modules.end())
      out.modules.push_back(shortened);
  };
  for (const ops::Linear* linear : model.linears_and_head()) {
    if (linear->lora) add_module(linear->named_in_adapters());
  }
  out.adapts_embedding = model.trained_parts().embedding_lora.has_value();
  out.full = adapter.is_full();
  out.whole = out.full ? full_names(model, adapter) : whole_names(adapter.whole());
  const model::TrainedParts& parts = model.trained_parts();
  const bool ends =
      parts.embedding.defined() || parts.head.defined() || parts.embedding_lora || model.head_linear().lora;
  out.unties_head = out.tied_head && ends && !out.full;
  return out;
}

std::int64_t bytes_to_save(const config::Plan& plan, const adapters::Adapter& adapter,
                           const learn::Optimizer& optimizer, bool moves) {
  constexpr std::int64_t kTokenizerBytes = 32LL << 20;
  const auto values = static_cast<std::int64_t>(adapter.flat().nbytes());
  if (plan.save_strategy == config::IntervalStrategy::kNo) return values + kTokenizerBytes;
  return values * (moves ? 2 : 1) + optimizer.state_bytes() + kTokenizerBytes;
}

void require_room_to_save(const RunDirectory& directory, const config::Plan& plan, std::int64_t bytes) {
  const bool only_the_result = plan.save_strategy == config::IntervalStrategy::kNo;
  base::require_free_space(directory.output_dir(), static_cast<std::uint64_t>(bytes),
                           only_the_result ? "the trained parameters" : "a checkpoint");
}

std::optional<std::string> convert_note(const config::Plan& plan, const model::WeightSource& source) {
  const std::string folder = base_model_name(plan);
  if (!plan.use_peft || !source.is_gguf() || fs::exists(folder)) return std::nullopt;
  return "the base is a GGUF; PEFT and transformers need a folder: hone convert --input " +
         plan.model_name_or_path + " --output " + folder + " (recorded in adapter_config.json)";
}

// transformers trains on such rows too, without a word.
std::optional<std::string> beyond_positions(std::int64_t longest, const model::ModelConfig& model) {
  if (longest <= model.max_position_embeddings) return std::nullopt;
  return "the longest row has " + std::to_string(longest) +
         " tokens, the model's max_position_embeddings is " + std::to_string(model.max_position_embeddings) +
         ": it has never seen the positions after that; lower max_length";
}

}  // namespace hone::train
