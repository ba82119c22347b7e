#include "adapters/peft_files.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "adapters/adapter_file.h"
#include "adapters/expert_targets.h"
#include "adapters/ranks.h"
#include "adapters/saved_vocabulary.h"
#include "adapters/whole_modules.h"
#include "base/error.h"
#include "base/files/safetensors.h"
#include "base/json_tools.h"
#include "base/strings/plural.h"
#include "base/strings/suggest.h"
#include "base/strings/utf8.h"
#include "model/config/families.h"

namespace hone::adapters {
namespace {

using base::Json;
using base::UserError;

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

// The rows of the vocabulary in a file differ from the model's.
[[noreturn]] void throw_other_vocabulary(const std::string& where, const std::string& key,
                                         std::int64_t expected, std::int64_t found) {
  throw UserError(
      {where + ": " + key, std::to_string(expected) + " rows, as the model has tokens",
       std::to_string(found) + " rows",
       "the vocabulary was changed before the adapter was trained (resize_token_embeddings), and this "
       "file has no whole embedding of it",
       "name the model with the changed vocabulary (--model_name_or_path), or save the adapter with "
       "PEFT's save_embedding_layers=True"});
}

// Takes tensors out of adapter_model.safetensors, and knows at the end what nobody took.
class Reader {
 public:
  Reader(const base::fs::path& folder, const model::ModelConfig& model) : file_(folder), model_(model) {}

  bool has(const std::string& key) const { return file_.has(key); }
  const AdapterFile& file() const { return file_; }

  // fp32. UserError unless it is there in this shape.
  at::Tensor take(const std::string& key, const std::vector<std::int64_t>& expected) {
    const base::StoredTensor* stored = file_.find(key);
    if (stored == nullptr) {
      throw UserError({file_.where(), "the tensor " + key + " (CKPT-01)", "no such tensor",
                       "the adapter belongs to another model or is incomplete",
                       "check base_model_name_or_path in " + std::string(kConfigFile)});
    }
    if (stored->shape != expected) {
      if (stored->shape.size() == 2 && expected.size() == 2) {
        for (const std::size_t i : {0U, 1U}) {
          const bool others_fit = stored->shape[1 - i] == expected[1 - i];
          if (others_fit && expected[i] == model_.vocab_size && expected[i] != expected[1 - i])
            throw_other_vocabulary(file_.where(), key, expected[i], stored->shape[i]);
        }
      }
      throw UserError(
          {file_.where() + ": " + key, "the shape " + shape_text(expected), shape_text(stored->shape),
           "the adapter belongs to another model, or a rank in its config is not the one it was trained with",
           "check base_model_name_or_path and r in " + std::string(kConfigFile)});
    }
    taken_.insert(key);
    return file_.read(*stored);
  }

  // It says nothing that was not read elsewhere.
  void pass_over(const std::string& key) { taken_.insert(key); }

  void require_all_taken() const {
    const std::vector<std::string> known(taken_.begin(), taken_.end());
    for (const auto& [key, stored] : file_.tensors()) {
      if (taken_.contains(key)) continue;
      throw UserError({file_.where() + ": " + base::cut_text(stored->name, 200),
                       "only tensors of the modules that target_modules and modules_to_save name (CKPT-01)",
                       "this one in addition." + base::did_you_mean(key, known),
                       "a part that hone does not have, or another model",
                       "name the adapter's own base model, or merge the adapter with PEFT"});
    }
  }

 private:
  AdapterFile file_;
  const model::ModelConfig& model_;
  std::set<std::string> taken_;
};

void require_weights(const base::fs::path& folder) {
  std::error_code ec;
  if (base::fs::exists(folder / kWeightsFile, ec)) return;
  if (base::fs::exists(folder / "adapter_model.bin", ec)) {
    throw UserError({folder.string(), kWeightsFile, "adapter_model.bin",
                     "an old adapter; hone does not read pickled files",
                     "load it with PEFT and call save_pretrained once"});
  }
  throw UserError({folder.string(), std::string(kWeightsFile) + " beside adapter_config.json", "no such file",
                   "an incomplete download, or a run that has not saved yet",
                   "name the folder that has both"});
}

// A module that can have a LoRA; stacked experts have the factors of each of them.
struct AdaptedShape : model::LinearSpec {
  std::int64_t stacked = 1;
};

// Of every module that can have a LoRA. The embedding's are those of its transposed matrix: what it adds to the
// columns of W^T [H, V] is B A.
std::map<std::string, AdaptedShape> shapes_of(const model::ModelConfig& model) {
  std::map<std::string, AdaptedShape> out;
  for (const model::LinearSpec& spec : model::adaptable_linears(model)) out[spec.name] = {spec};
  for (const model::ParameterSpec& spec : model::adaptable_parameters(model)) {
    const std::string name = spec.experts == 1 ? spec.module : spec.module + "." + spec.name;
    out[name] = {{.name = name, .out = spec.out, .in = spec.in}, spec.experts};
  }
  const model::TensorNames& names = model::names_of(model);
  const std::string head(names.head.hf), embedding(names.embedding.hf);
  out[head] = {{.name = head, .out = model.vocab_size, .in = model.hidden_size}};
  out[embedding] = {{.name = embedding, .out = model.hidden_size, .in = model.vocab_size}};
  return out;
}

StoredLora read_module(Reader& reader, const AdaptedShape& spec, const std::string& module,
                       const ModuleRank& rank, bool dora, const model::ModelConfig& model) {
  const std::int64_t rows = rank.r * spec.stacked;
  const bool embedding = spec.name == model::names_of(model).embedding.hf;
  StoredLora out{.module = spec.name,
                 .a = reader.take(embedding ? key_embedding_a(module) : key_a(module), {rows, spec.in}),
                 .b = reader.take(embedding ? key_embedding_b(module) : key_b(module), {spec.out, rows}),
                 .magnitude = {},
                 .scale = rank.scale,
                 .transposed = embedding};
  if (dora && !embedding) out.magnitude = reader.take(key_magnitude(module), {spec.out});
  return out;
}

// A tensor in full. State dicts, and PEFT beside a changed vocabulary, have it in its wrapper too.
at::Tensor take_whole(Reader& reader, const WholeTensor& tensor) {
  const std::string wrapped = in_wrapper(tensor.key, kTrainedCopy),
                    original = in_wrapper(tensor.key, kBaseCopy);
  for (const std::string& copy : {wrapped, original})
    if (reader.has(copy)) reader.pass_over(copy);
  return reader.take(reader.has(wrapped) && !reader.has(tensor.key) ? wrapped : tensor.key, tensor.shape);
}

// Whole matrices of the vocabulary that are not trained in full: what the base's are in this adapter's model;
// and a tied head's copy of the rows of token_indices.
void read_vocabulary_matrices(Reader& reader, const model::ModelConfig& model, StoredAdapter& adapter) {
  const std::vector<std::int64_t> shape = {model.vocab_size, model.hidden_size};
  for (const std::string& module : vocabulary_modules(model)) {
    const std::string tensor = module + ".weight";
    const bool whole = std::find(adapter.whole_names.begin(), adapter.whole_names.end(), tensor) !=
                       adapter.whole_names.end();
    for (const std::string& key : keys_of_base(module, whole)) {
      if (reader.has(key)) adapter.base_copies[tensor] = {.key = key, .value = reader.take(key, shape)};
    }
  }
  if (!adapter.token_rows.defined() || !model.tie_word_embeddings) return;
  const std::string of_head =
      "base_model.model." + std::string(model::names_of(model).head.hf) + kTokenRowsSuffix;
  if (!reader.has(of_head)) return;
  if (reader.take(of_head, adapter.token_rows.sizes().vec()).equal(adapter.token_rows)) return;
  throw UserError({reader.file().where() + ": " + of_head,
                   "the rows of the embedding, to which the head is tied", "others",
                   "the file was edited, or the head was not tied in training",
                   "name the model that the adapter was trained on"});
}

}  // namespace

std::string key_a(const std::string& module) {
  return "base_model.model." + module + ".lora_A.weight";
}
std::string key_b(const std::string& module) {
  return "base_model.model." + module + ".lora_B.weight";
}

std::string key_embedding_a(const std::string& module) {
  return "base_model.model." + module + ".lora_embedding_A";
}
std::string key_embedding_b(const std::string& module) {
  return "base_model.model." + module + ".lora_embedding_B";
}

std::string key_magnitude(const std::string& module) {
  return "base_model.model." + module + ".lora_magnitude_vector";
}

std::string key_token_rows(const model::ModelConfig& model) {
  return "base_model.model." + std::string(model::names_of(model).embedding.hf) + kTokenRowsSuffix;
}

StoredAdapter read_adapter(const base::fs::path& folder, const model::ModelConfig& model) {
  const std::string where = (folder / kConfigFile).string();
  const Json json = base::parse_json(base::read_settings(folder / kConfigFile), where);
  StoredAdapter adapter;
  adapter.config = with_expert_targets(config_from_json(json, where), model, /*strict=*/false);
  require_weights(folder);
  Reader reader(folder, model);
  const std::vector<std::string> targets = select_targets(adapter.config, model, /*strict=*/false);
  const std::vector<ModuleRank> ranks = ranks_of(adapter.config, targets, /*strict=*/false);
  const std::map<std::string, AdaptedShape> shapes = shapes_of(model);
  for (std::size_t i = 0; i < targets.size(); ++i)
    adapter.modules.push_back(read_module(reader, shapes.at(targets[i]), module_in_files(targets[i], targets),
                                          ranks[i], adapter.config.dora, model));
  if (const auto rows = static_cast<std::int64_t>(adapter.config.token_indices.size()); rows > 0) {
    check_token_indices(adapter.config, model, where + ": trainable_token_indices");
    adapter.token_rows = reader.take(key_token_rows(model), {rows, model.hidden_size});
  }
  for (const WholeTensor& tensor : whole_tensors(adapter.config, model, targets, /*strict=*/false)) {
    adapter.whole_names.push_back(tensor.name);
    adapter.whole.push_back(take_whole(reader, tensor));
  }
  if (adapter.config.score_head)
    adapter.score =
        take_whole(reader, {.name = "score.weight", .key = kScoreKey, .shape = {1, model.hidden_size}});
  read_vocabulary_matrices(reader, model, adapter);
  reader.require_all_taken();
  return adapter;
}

void require_same_base(const StoredAdapter& adapter, const model::CausalLm& model, const std::string& where) {
  for (const auto& [name, copy] : adapter.base_copies) {
    const bool head = name == model.head_linear().name + ".weight";
    const at::Tensor& value = copy.value;
    const at::Tensor held = head ? model.head().dense() : at::Tensor();
    std::int64_t rows = 0;
    if (head) {
      rows = value.to(held.device(), held.scalar_type()).ne(held).any(1).sum().item<std::int64_t>();
    } else {
      std::vector<std::int64_t> ids(static_cast<std::size_t>(value.size(0)));
      std::iota(ids.begin(), ids.end(), 0);
      const at::Tensor own = model.embed(ids);
      rows = value.to(own.device(), own.scalar_type()).ne(own).any(1).sum().item<std::int64_t>();
    }
    if (rows == 0) continue;
    const std::string module = name.substr(0, name.rfind('.'));
    const std::string listed = module.substr(module.rfind('.') + 1);
    // A matrix that was trained in full has the same key in PEFT's files, and only the config tells the two
    // apart.
    const bool may_be_trained = copy.key == "base_model.model." + name;
    throw UserError(
        {where + ": " + copy.key, "the base's rows in the adapter's copy of the matrix",
         base::counted(rows, "row that differs", "rows that differ"),
         "it was trained on another base, or on one whose rows were changed or added" +
             (may_be_trained ? "; or it was trained in full, and adapter_config.json has no " + listed +
                                   " in modules_to_save"
                             : std::string()),
         "name that base, or merge the adapter with PEFT" +
             (may_be_trained ? "; where it was trained in full, add " + listed + " to modules_to_save"
                             : std::string())});
  }
}

void write_adapter(const base::fs::path& folder, const LoraConfig& config,
                   const std::map<std::string, at::Tensor>& tensors) {
  base::write_file_atomic(folder / kConfigFile, base::dump_json(config_to_json(config), 2));
  std::vector<base::StoredTensor> stored;
  std::vector<at::Tensor> here;  // outlive the writing
  for (const auto& [name, given] : tensors) {
    base::require(given.is_contiguous() && given.scalar_type() == at::kFloat, "write_adapter",
                  "fp32 tensors");
    const at::Tensor& value = here.emplace_back(given.cpu());
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(value.const_data_ptr()),
                                           value.nbytes());
    stored.push_back({name, base::DType::kF32, value.sizes().vec(), bytes});
  }
  base::write_safetensors(folder / kWeightsFile, stored, {{"format", "pt"}});
}

}  // namespace hone::adapters
