#include "model/files/export.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <set>

#include "base/error.h"
#include "base/files/path_kind.h"
#include "base/files/safetensors.h"
#include "base/gguf/gguf.h"
#include "base/json.h"
#include "base/numeric.h"
#include "base/step_progress.h"
#include "model/config/config_fields.h"
#include "model/config/families.h"
#include "model/config/wrappers.h"
#include "model/files/bnb_files.h"
#include "text/tokenizer.h"

namespace hone::model {
namespace {

using base::Json;
using base::fs::path;

struct Planned {
  std::string name;
  std::vector<std::int64_t> shape;
  at::ScalarType dtype;
  std::int64_t bytes;
  std::optional<ops::QuantScheme> quantize = {};
  std::vector<std::string> parts = {};           // the tensors that it stacks, by their own names
  std::optional<base::StoredTensor> other = {};  // of another part than the text model: copied as it is
  std::string stored = {};                       // its name in files, where it is not `name`

  const std::string& file_name() const { return stored.empty() ? name : stored; }
};

base::DType disk_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return base::DType::kF32;
    case at::kHalf:
      return base::DType::kF16;
    case at::kBFloat16:
      return base::DType::kBF16;
    case at::kByte:
      return base::DType::kU8;
    case at::kChar:
      return base::DType::kI8;
    default:
      break;
  }
  throw base::InternalError(
      {"write_hf_folder", "float32, float16 or bfloat16", c10::toString(dtype), "", ""});
}

const char* config_name(at::ScalarType dtype) {
  return dtype == at::kFloat ? "float32" : dtype == at::kHalf ? "float16" : "bfloat16";
}

constexpr const char* kScore = "score.weight";  // a reward model's head

constexpr std::int64_t kQuantizedTables = 16LL << 10;  // at most: a matrix's tables and state, headers too

// Of a family whose files stack the experts: one more expert in its tensor.
void add_to_stack(const WeightSource& source, const ExportOptions& options, const TensorSpec& spec,
                  std::vector<Planned>& plan) {
  const OtherPlace& place = spec.others.front();
  auto found = std::find_if(plan.begin(), plan.end(), [&](const Planned& p) { return p.name == place.name; });
  if (found == plan.end()) {
    const at::ScalarType dtype = options.dtype.value_or(source.stored_dtype(spec.name));
    plan.push_back({place.name, {source.config().experts.count, 0, spec.shape[1]}, dtype, 0});
    found = std::prev(plan.end());
  }
  found->parts.push_back(spec.name);
  if (place.expert == 0) found->shape[1] += spec.shape[0];
  found->bytes += spec.shape[0] * spec.shape[1] * static_cast<std::int64_t>(c10::elementSize(found->dtype));
}

// What only a model without other parts than the text model can be written as.
void check_wrapped(const WeightSource& source, const ExportOptions& options) {
  if (!source.config().wrapped) return;
  const Json& json = source.config().json;
  const std::string where = source.path().string();
  const std::string type = json.at("model_type").get<std::string>();
  constexpr const char* kKey = "quantization_config";
  if (options.quantize || lookup(json, kKey) != nullptr || lookup(json.at("text_config"), kKey) != nullptr) {
    throw base::UserError({where, "a text model by itself, to be written in 4 or 8 bits or read from them",
                           "a " + type + ", with other parts beside it",
                           "transformers would quantize the other parts too",
                           "write it without quantization"});
  }
  if (options.score.defined() && find_wrapper(type)->classifier.empty()) {
    throw base::UserError({where, "a model that transformers has a ForSequenceClassification of", "a " + type,
                           "it has none with images", "train the reward model on a text model"});
  }
}

// The parts beside the text model, and the names that the files have.
void plan_other_parts(const WeightSource& source, std::vector<Planned>& plan) {
  for (Planned& p : plan) {
    if (const std::string stored = source.stored_name(p.name); stored != p.name) p.stored = stored;
  }
  for (const base::StoredTensor& other : source.other_parts()) {
    Planned& p = plan.emplace_back();
    p.name = other.name;
    p.shape = other.shape;
    p.dtype = at::kFloat;
    p.bytes = base::narrow<std::int64_t>(other.bytes.size());
    p.other = other;
  }
}

std::vector<Planned> plan_tensors(const WeightSource& source, const ExportOptions& options) {
  check_wrapped(source, options);
  std::vector<Planned> plan;
  const bool stacks = !traits_of(source.config().family).experts.stacked_down.empty();
  std::set<std::string> quantized;
  if (options.quantize) {
    for (const LinearSpec& linear : adaptable_linears(source.config()))
      quantized.insert(linear.name + ".weight");
  }
  const std::string head = std::string(names_of(source.config()).head.hf) + ".weight";
  if (!options.score.defined() && source.has(kScore)) {
    throw base::UserError({source.path().string() + ": " + kScore, "a language model", "a reward model",
                           "what would be written has no head for its scores",
                           "name the language model, or an adapter of a reward model"});
  }
  if (options.score.defined()) {
    const at::ScalarType dtype = options.dtype.value_or(at::kFloat);
    plan.push_back({kScore, options.score.sizes().vec(), dtype,
                    options.score.numel() * static_cast<std::int64_t>(c10::elementSize(dtype))});
  }
  for (const TensorSpec& spec : expected_tensors(source.config())) {
    if (options.score.defined() && spec.name == head) continue;
    if (!source.has(spec.name)) throw_absent_tensor(source.path().string(), spec.name, source.names());
    if (spec.expert >= 0 && stacks) {
      add_to_stack(source, options, spec, plan);
      continue;
    }
    const at::ScalarType dtype = options.dtype.value_or(source.stored_dtype(spec.name));
    std::int64_t numel = 1;
    for (const std::int64_t n : source.shape(spec.name)) numel *= n;
    plan.push_back({spec.name, source.shape(spec.name), dtype,
                    numel * static_cast<std::int64_t>(c10::elementSize(dtype))});
    if (!quantized.contains(spec.name)) continue;
    plan.back().quantize = options.quantize;
    plan.back().bytes = ops::quantized_bytes(plan.back().shape[0], plan.back().shape[1], *options.quantize) +
                        kQuantizedTables;
  }
  plan_other_parts(source, plan);
  std::sort(plan.begin(), plan.end(),
            [](const Planned& a, const Planned& b) { return a.file_name() < b.file_name(); });
  return plan;
}

// Tensors in order, each file below the limit (a larger tensor has a file of its own).
std::vector<std::vector<Planned>> split(const std::vector<Planned>& plan, std::int64_t limit) {
  std::vector<std::vector<Planned>> files(1);
  std::int64_t held = 0;
  for (const Planned& p : plan) {
    if (held > 0 && held + p.bytes > limit) {
      files.emplace_back();
      held = 0;
    }
    held += p.bytes;
    files.back().push_back(p);
  }
  return files;
}

std::string file_name(std::size_t index, std::size_t count) {
  if (count == 1) return "model.safetensors";
  char text[64];
  std::snprintf(text, sizeof text, "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return text;
}

ops::Quantized quantized(const WeightSource& source, const Planned& p,
                         const std::optional<at::Tensor>& replaced) {
  if (!replaced && source.quantization(p.name) == p.quantize) return source.read_quantized(p.name);
  return ops::quantize(replaced ? *replaced : source.read(p.name, p.dtype), *p.quantize,
                       source.path().string() + ": " + p.name);
}

// What is written instead of the source's tensors.
struct Replaced {
  const Adjust& adjust;
  const at::Tensor& score;

  std::optional<at::Tensor> of(const std::string& name) const {
    if (name == kScore) return score;
    return adjust ? adjust(name) : std::nullopt;
  }
};

// The matrices of all experts of a layer in the order of [experts, rows, columns]: of each expert its parts (gate, up).
// p.parts has all experts of a part, then those of the next.
void for_each_part(const WeightSource& source, const Planned& p, const Replaced& by,
                   const std::function<void(const at::Tensor&)>& take) {
  const auto experts = static_cast<std::size_t>(p.shape[0]);
  for (std::size_t expert = 0; expert < experts; ++expert) {
    for (std::size_t i = expert; i < p.parts.size(); i += experts) {
      const std::optional<at::Tensor> replaced = by.of(p.parts[i]);
      take(replaced ? replaced->to(p.dtype).contiguous() : source.read(p.parts[i], p.dtype));
    }
  }
}

at::Tensor stacked(const WeightSource& source, const Planned& p, const Replaced& by) {
  at::Tensor out = at::empty(p.shape, p.dtype);
  const at::Tensor rows = out.view({-1, p.shape[2]});
  std::int64_t row = 0;
  for_each_part(source, p, by, [&](const at::Tensor& part) {
    rows.narrow(0, row, part.size(0)).copy_(part);
    row += part.size(0);
  });
  return out;
}

std::optional<at::Tensor> replaced_of(const Planned& p, const Replaced& by) {
  if (!p.parts.empty()) return std::nullopt;
  std::optional<at::Tensor> out = by.of(p.name);
  base::require(!out || out->sizes().vec() == p.shape, "write_hf_folder",
                "an adjusted tensor of the old shape");
  return out;
}

// One matrix at a time in memory, also of a stack.
void write_plain_file(const WeightSource& source, const std::vector<Planned>& file, const Replaced& by,
                      const path& to) {
  std::vector<base::TensorHeader> headers;
  for (const Planned& p : file)
    headers.push_back({p.file_name(), p.other ? p.other->dtype : disk_type(p.dtype), p.shape});
  base::write_safetensors(to, headers, {{"format", "pt"}}, [&](std::size_t i, const base::TakeBytes& take) {
    if (file[i].other) {
      take(file[i].other->bytes);
      base::advance_part();
      return;
    }
    const auto take_tensor = [&](const at::Tensor& t) {
      take({static_cast<const std::byte*>(t.const_data_ptr()), t.nbytes()});
    };
    const std::optional<at::Tensor> replaced = replaced_of(file[i], by);
    if (!file[i].parts.empty()) {
      for_each_part(source, file[i], by, take_tensor);
    } else {
      take_tensor(replaced ? replaced->to(file[i].dtype).contiguous()
                           : source.read(file[i].name, file[i].dtype));
    }
    base::advance_part();
  });
}

void write_file(const WeightSource& source, const std::vector<Planned>& file, const Replaced& by,
                const path& to) {
  if (std::none_of(file.begin(), file.end(), [](const Planned& p) { return p.quantize.has_value(); }))
    return write_plain_file(source, file, by, to);
  std::vector<at::Tensor> held;
  std::vector<base::StoredTensor> stored;
  const auto store = [&](const std::string& name, const at::Tensor& t) {
    held.push_back(t);
    stored.push_back({name,
                      disk_type(t.scalar_type()),
                      t.sizes().vec(),
                      {static_cast<const std::byte*>(t.const_data_ptr()), t.nbytes()}});
  };
  for (const Planned& p : file) {
    const std::optional<at::Tensor> replaced = replaced_of(p, by);
    if (p.quantize) {
      for (const auto& [name, part] : bnb_tensors(quantized(source, p, replaced), p.name)) store(name, part);
    } else {
      store(p.name, replaced          ? replaced->to(p.dtype).contiguous()
                    : p.parts.empty() ? source.read(p.name, p.dtype)
                                      : stacked(source, p, by));
    }
    base::advance_part();
  }
  base::write_safetensors(to, stored, {{"format", "pt"}});
}

// What AutoModelForSequenceClassification.from_pretrained(.., num_labels=1) saves in its config.json.
void make_classifier(Json& json, const ModelConfig& config) {
  std::string name(config.wrapped ? find_wrapper(json.at("model_type").get<std::string>())->classifier
                                  : traits_of(config.family).architecture);
  const std::size_t end = name.rfind("ForCausalLM");
  if (end != std::string::npos) name = name.substr(0, end) + "ForSequenceClassification";
  json["architectures"] = Json::array({name});
  json["id2label"] = {{"0", "LABEL_0"}};
  json["label2id"] = {{"LABEL_0", 0}};
}

void write_configs(const WeightSource& source, at::ScalarType dtype, const ExportOptions& options,
                   const path& out) {
  Json json = source.config().json;
  json.erase("quantization_config");
  if (options.quantize) json["quantization_config"] = quantization_config(*options.quantize, dtype);
  if (options.score.defined()) make_classifier(json, source.config());
  json[json.contains("dtype") ? "dtype" : "torch_dtype"] = config_name(dtype);
  base::write_file_atomic(out / "config.json", base::dump_json(json, 2) + "\n");
  std::error_code ec;
  const path generation = source.path() / "generation_config.json";
  if (!source.is_gguf()) {
    if (base::fs::exists(generation, ec)) {
      base::write_file_atomic(out / "generation_config.json", base::read_text(generation));
    }
    return;
  }
  Json made = {{"_from_model_config", true}};
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (json.contains(key)) made[key] = json[key];
  }
  made["use_cache"] = true;
  base::write_file_atomic(out / "generation_config.json", base::dump_json(made, 2) + "\n");
}

// What transformers' processors read beside the tokenizer.
void copy_processor(const path& from, const path& to) {
  for (const char* name : {"preprocessor_config.json", "processor_config.json",
                           "video_preprocessor_config.json", "chat_template.json"}) {
    std::error_code ec;
    if (base::fs::exists(from / name, ec)) base::write_file_atomic(to / name, base::read_text(from / name));
  }
}

std::optional<text::Tokenizer> tokenizer_of(const WeightSource& source, const ExportOptions& options) {
  const path& from = options.tokenizer.empty() ? source.tokenizer_path() : options.tokenizer;
  if (!base::is_folder(from)) {
    const base::GgufFile file = base::GgufFile::open(from);
    if (!file.has("tokenizer.ggml.model")) return std::nullopt;
    return text::Tokenizer::from_gguf(file);
  }
  if (!base::exists(from / "tokenizer.json")) return std::nullopt;
  return text::Tokenizer::from_folder(from);
}

// transformers scores the last token that is not pad_token_id, and takes no batch without one.
void add_pad_token(const path& folder, const text::Tokenizer& tokenizer) {
  const path file = folder / "config.json";
  Json json = base::parse_json(base::read_text(file), file.string());
  if (lookup(json, "pad_token_id") != nullptr || !tokenizer.pad_id()) return;
  json["pad_token_id"] = *tokenizer.pad_id();
  base::write_file_atomic(file, base::dump_json(json, 2) + "\n");
}

// `place`: what the user calls the folder.
ExportFacts facts_with_room(const std::vector<Planned>& plan, const path& place) {
  ExportFacts facts;
  facts.tensors = static_cast<std::int64_t>(plan.size());
  for (const Planned& p : plan) facts.bytes += p.bytes;
  base::require_free_space(place, static_cast<std::uint64_t>(facts.bytes), "the model's weights");
  return facts;
}

void write_planned(const WeightSource& source, const std::vector<Planned>& plan, const path& folder,
                   const ExportOptions& options, const Adjust& adjust, ExportFacts& facts) {
  const std::vector<std::vector<Planned>> files = split(plan, options.shard_bytes);
  facts.files = static_cast<int>(files.size());
  Json map = Json::object();
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string name = file_name(i, files.size());
    write_file(source, files[i], {adjust, options.score}, folder / name);
    for (const Planned& p : files[i]) {
      map[p.file_name()] = name;
      if (!p.quantize) continue;
      for (const std::string& part : bnb_tensor_names(*p.quantize, p.name)) map[part] = name;
    }
  }
  if (files.size() > 1) {
    const Json index = {{"metadata", {{"total_size", facts.bytes}}}, {"weight_map", map}};
    base::write_file_atomic(folder / "model.safetensors.index.json", base::dump_json(index, 2) + "\n");
  }
  const auto text = std::find_if(plan.begin(), plan.end(), [](const Planned& p) { return !p.other; });
  write_configs(source, text->dtype, options, folder);
  if (source.config().wrapped) copy_processor(source.path(), folder);
}

}  // namespace

ExportFacts write_model_files(const WeightSource& source, const path& folder, const ExportOptions& options,
                              const Adjust& adjust) {
  const std::vector<Planned> plan = plan_tensors(source, options);
  ExportFacts facts = facts_with_room(plan, folder);
  write_planned(source, plan, folder, options, adjust, facts);
  return facts;
}

ExportFacts write_hf_folder(const WeightSource& source, const path& out, const ExportOptions& options,
                            const Adjust& adjust) {
  std::error_code ec;
  if (base::fs::exists(out, ec) && !(base::fs::is_directory(out, ec) && base::fs::is_empty(out, ec))) {
    throw base::UserError({out.string(), "a new or empty folder to write the model to", "it exists already",
                           "", "name another folder, or remove this one"});
  }
  const std::vector<Planned> plan = plan_tensors(source, options);
  ExportFacts facts = facts_with_room(plan, out);
  base::StagedFolder staged(out);
  base::begin_part("writing", "tensors", static_cast<std::int64_t>(plan.size()));
  write_planned(source, plan, staged.path(), options, adjust, facts);
  const std::optional<text::Tokenizer> tokenizer = tokenizer_of(source, options);
  facts.tokenizer = tokenizer.has_value();
  if (tokenizer) {
    tokenizer->save(staged.path());
    if (options.score.defined()) add_pad_token(staged.path(), *tokenizer);
  }
  staged.commit();
  return facts;
}

}  // namespace hone::model
