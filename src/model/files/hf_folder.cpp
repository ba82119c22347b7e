// A model folder in Hugging Face format: config.json, generation_config.json (optional), and either
// model.safetensors or shards listed in model.safetensors.index.json ({"weight_map": {tensor: file}}).
#include <ATen/ATen.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "base/error.h"
#include "base/files/safetensors.h"
#include "base/json.h"
#include "base/json_tools.h"
#include "base/strings/utf8.h"
#include "model/config/families.h"
#include "model/config/planned_bytes.h"
#include "model/config/wrappers.h"
#include "model/files/bnb_files.h"
#include "model/files/stored_bytes.h"
#include "model/files/weight_source.h"

namespace hone::model {
namespace {

using base::UserError;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr std::size_t kMaxIndexBytes = 100'000'000;  // as many as a safetensors header may have

at::ScalarType scalar_type(const base::StoredTensor& tensor, const std::string& where) {
  switch (tensor.dtype) {
    case base::DType::kF32:
      return at::kFloat;
    case base::DType::kF16:
      return at::kHalf;
    case base::DType::kBF16:
      return at::kBFloat16;
    default:
      break;
  }
  throw UserError({where + ": " + tensor.name, "weights of type F32, F16 or BF16",
                   std::string(base::safetensors_name(tensor.dtype)),
                   "a quantized checkpoint, and not one of bitsandbytes'",
                   "use the unquantized model, or a GGUF of it"});
}

class HfFolder final : public WeightSource {
 public:
  explicit HfFolder(const base::fs::path& folder) : folder_(folder) {
    read_config();
    std::error_code ec;
    if (base::fs::exists(folder / kSingle, ec)) {
      open_single();
    } else if (base::fs::exists(folder / kIndex, ec)) {
      open_shards();
    } else {
      const bool pickled = base::fs::exists(folder / "pytorch_model.bin", ec) ||
                           base::fs::exists(folder / "pytorch_model.bin.index.json", ec);
      throw UserError({folder.string(), "model.safetensors or model.safetensors.index.json",
                       pickled ? "pytorch_model.bin" : "no weights",
                       pickled ? "an old checkpoint; hone does not read pickled files"
                               : "the download is incomplete; in memory the base would take " +
                                     describe_planned_bytes(config_),
                       pickled ? "save it once with safetensors: transformers' save_pretrained does" : ""});
    }
    if (config_.wrapped) keep_text_model();
    find_other_places();
    quantized_ = find_bnb_matrices(tensors_, folder.string());
  }

  const ModelConfig& config() const override { return config_; }
  bool has(const std::string& name) const override { return tensors_.contains(name); }
  std::vector<std::int64_t> shape(const std::string& name) const override {
    const auto it = quantized_.find(name);
    return it != quantized_.end() ? it->second.shape : find(name).shape;
  }
  std::vector<base::StoredTensor> other_parts() const override {
    std::vector<base::StoredTensor> out;
    for (const auto& [name, stored] : beside_) out.push_back(*stored);
    return out;
  }
  std::string stored_name(const std::string& name) const override {
    const auto it = stored_names_.find(name);
    return it == stored_names_.end() ? name : it->second;
  }
  bool is_gguf() const override { return false; }
  const base::fs::path& path() const override { return folder_; }

  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const auto& [name, where] : tensors_) {
      if (!is_bnb_part(name, quantized_)) all.push_back(name);
    }
    return all;
  }

  at::ScalarType stored_dtype(const std::string& name) const override {
    const auto it = quantized_.find(name);
    return it != quantized_.end() ? it->second.source : scalar_type(find(name), folder_.string());
  }

  std::optional<ops::QuantScheme> quantization(const std::string& name) const override {
    const auto it = quantized_.find(name);
    return it != quantized_.end() ? std::optional(it->second.scheme) : std::nullopt;
  }

  ops::Quantized read_quantized(const std::string& name) const override {
    return read_bnb_matrix(tensors_, name, quantized_.at(name), folder_.string());
  }

  void read_into(const std::string& name, at::Tensor out) const override {
    if (quantized_.contains(name)) {
      out.copy_(ops::dequantize(read_quantized(name), out.scalar_type()));
      return;
    }
    const base::StoredTensor& stored = find(name);
    base::require(out.sizes() == stored.shape, "WeightSource::read_into", "a tensor of the stored shape");
    copy_stored(stored.bytes, scalar_type(stored, folder_.string()), out);
  }

 private:
  const base::StoredTensor& find(const std::string& name) const {
    const auto it = tensors_.find(name);
    if (it == tensors_.end()) throw_absent_tensor(folder_.string(), name, names());
    return *it->second;
  }

  void read_config() {
    const base::fs::path file = folder_ / "config.json";
    config_ = parse_model_config(base::parse_json(base::read_settings(file), file.string()), file.string());
    const base::fs::path generation = folder_ / "generation_config.json";
    std::error_code ec;
    if (!base::fs::exists(generation, ec)) return;
    const base::Json json = base::parse_json(base::read_settings(generation), generation.string());
    if (!json.is_object()) throw UserError({generation.string(), "a JSON object", json.type_name(), "", ""});
    for (const std::int64_t id : token_ids(json, "eos_token_id", generation.string())) {
      auto& ids = config_.eos_token_ids;
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
    }
  }

  void open_single() {
    files_.push_back(base::SafetensorsFile::open(folder_ / kSingle));
    for (const base::StoredTensor& t : files_.back().tensors()) tensors_[t.name] = &t;
  }

  void open_shards() {
    const std::string where = (folder_ / kIndex).string();
    const base::Json index = base::parse_json(base::read_settings(folder_ / kIndex, kMaxIndexBytes), where);
    if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
      throw UserError(
          {where, "an object with a weight_map", "none", "the index is damaged", "download it again"});
    }
    std::map<std::string, std::size_t> opened;
    std::vector<std::pair<std::string, std::size_t>> placed;
    for (const auto& [tensor, file] : index["weight_map"].items()) {
      const std::string name = file.is_string() ? file.get<std::string>() : "";
      // What it names is opened: nothing outside of the folder, no device, no name cut short by a NUL.
      if (!name.ends_with(".safetensors") || name.find_first_of(std::string("/\0", 2)) != std::string::npos) {
        throw UserError(
            {where,
             "a file of this folder that ends in .safetensors for the tensor " + base::cut_text(tensor, 200),
             base::short_json(file), "the index is damaged", "download it again"});
      }
      if (!opened.contains(name)) {
        std::error_code ec;
        if (!base::fs::exists(folder_ / name, ec)) {
          throw UserError({where, "the shard " + base::cut_text(name, 300), "no such file in the folder",
                           "the download is incomplete", "download the missing shard"});
        }
        opened[name] = files_.size();
        files_.push_back(base::SafetensorsFile::open(folder_ / name));
      }
      placed.emplace_back(tensor, opened[name]);
    }
    for (const auto& [tensor, file] : placed) {  // only now: files_ no longer moves
      const base::StoredTensor* found = files_[file].find(tensor);
      if (found == nullptr) {
        throw UserError(
            {where,
             "the tensor " + base::cut_text(tensor, 200) + " in " + files_[file].path().filename().string(),
             "no such tensor there", "the index and the shards come from different downloads",
             "download the model again"});
      }
      tensors_[tensor] = found;
    }
  }

  // Only the text model's tensors, by the names of the class; the others are other_parts().
  void keep_text_model() {
    TensorTable text;
    for (const auto& [stored, where] : tensors_) {
      const std::optional<std::string> name = text_tensor_name(stored);
      if (!name) {
        beside_.emplace(stored, where);
        continue;
      }
      text[*name] = where;
      stored_names_[*name] = stored;
    }
    tensors_ = std::move(text);
  }

  // Experts that the files have stacked, each under its own name.
  void find_other_places() {
    if (config_.experts.count == 0) return;
    std::set<std::string> taken;
    for (const TensorSpec& spec : expected_tensors(config_)) {
      if (tensors_.contains(spec.name)) continue;
      for (const OtherPlace& place : spec.others) {
        const auto found = tensors_.find(place.name);
        if (found == tensors_.end() || !holds(*found->second, spec, place)) continue;
        tensors_[spec.name] = &parts_.emplace_back(part_of(*found->second, spec, place));
        taken.insert(place.name);
        break;
      }
    }
    for (const std::string& name : taken) tensors_.erase(name);
  }

  static bool holds(const base::StoredTensor& stored, const TensorSpec& spec, const OtherPlace& place) {
    const std::vector<std::int64_t>& shape = stored.shape;
    if (place.expert < 0) return shape == spec.shape;
    return shape.size() == 3 && place.expert < shape[0] && place.row + spec.shape[0] <= shape[1] &&
           shape[2] == spec.shape[1];
  }

  static base::StoredTensor part_of(const base::StoredTensor& stored, const TensorSpec& spec,
                                    const OtherPlace& place) {
    base::StoredTensor out = stored;
    out.name = spec.name;
    if (place.expert < 0) return out;
    const auto rows = static_cast<std::size_t>(stored.shape[0] * stored.shape[1]);
    const std::size_t row_bytes = stored.bytes.size() / rows;
    out.shape = spec.shape;
    out.bytes =
        stored.bytes.subspan(static_cast<std::size_t>(place.expert * stored.shape[1] + place.row) * row_bytes,
                             static_cast<std::size_t>(spec.shape[0]) * row_bytes);
    return out;
  }

  base::fs::path folder_;
  ModelConfig config_;
  std::vector<base::SafetensorsFile> files_;
  std::deque<base::StoredTensor> parts_;  // of stacked tensors
  TensorTable tensors_;                   // into files_ and parts_
  std::map<std::string, BnbMatrix> quantized_;
  // of a text model inside another one
  TensorTable beside_;
  std::map<std::string, std::string> stored_names_;
};

}  // namespace

std::unique_ptr<WeightSource> open_hf_folder(const base::fs::path& folder) {
  return std::make_unique<HfFolder>(folder);
}

}  // namespace hone::model
