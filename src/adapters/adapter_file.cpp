#include "adapters/adapter_file.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "adapters/peft_files.h"
#include "base/error.h"
#include "base/strings/utf8.h"

namespace hone::adapters {
namespace {

using base::UserError;

constexpr std::string_view kPrefix = "base_model.model.";

// Of torch.compile, FSDP and activation checkpointing.
constexpr std::array<std::string_view, 3> kWrappers = {"_orig_mod", "_fsdp_wrapped_module",
                                                       "_checkpoint_wrapped_module"};
// What holds the tensors of each adapter by its name, before ".weight" or ".bias"; and those that are
// tensors.
constexpr std::array<std::string_view, 3> kHolders = {"lora_A", "lora_B", "modules_to_save"};
constexpr std::array<std::string_view, 4> kTensors = {"lora_embedding_A", "lora_embedding_B",
                                                      "lora_magnitude_vector", "trainable_tokens_delta"};

bool among(const auto& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::vector<std::string_view> parts_of(std::string_view key) {
  std::vector<std::string_view> out;
  while (true) {
    const std::size_t dot = key.find('.');
    const std::string_view part = key.substr(0, dot);
    const bool wraps = among(kWrappers, part) || (out.empty() && part == "module");
    if (!wraps) out.push_back(part);
    if (dot == std::string_view::npos) return out;
    key.remove_prefix(dot + 1);
  }
}

}  // namespace

std::string peft_key(std::string_view key, std::string* adapter) {
  const std::vector<std::string_view> parts = parts_of(key);
  std::string out(kPrefix.substr(0, kPrefix.size() - 1));
  std::size_t first = 0;
  while (first + 2 < parts.size() && parts[first] == "base_model" && parts[first + 1] == "model") first += 2;
  for (std::size_t i = first; i < parts.size(); ++i) {
    out += "." + std::string(parts[i]);
    const std::size_t left = parts.size() - i - 1;
    const std::string_view last = parts.back();
    const bool field = last == "weight" || last == "bias";
    std::string_view name;
    if (among(kHolders, parts[i]) && left == 2 && field) {
      name = parts[++i];
    } else if (among(kTensors, parts[i]) && left > 0 && left <= 2) {
      // DoRA's has been a parameter and a module with a weight
      const bool named = left == 2 || !field;
      if (left == 2 && !field) continue;
      if (named) name = parts[i + 1];
      i = parts.size();
    }
    if (adapter != nullptr && !name.empty()) *adapter = name;
  }
  return out;
}

AdapterFile::AdapterFile(const base::fs::path& folder)
    : file_(base::SafetensorsFile::open(folder / kWeightsFile)) {
  std::string adapter;
  for (const base::StoredTensor& tensor : file_.tensors()) {
    std::string name = adapter;
    const std::string key = peft_key(tensor.name, &name);
    if (!adapter.empty() && name != adapter) {
      throw UserError(
          {where() + ": " + base::cut_text(tensor.name, 200), "the tensors of one adapter",
           "those of '" + base::cut_text(adapter, 60) + "' and '" + base::cut_text(name, 60) + "'",
           "the state dict of a model that had several adapters",
           "save one of them with PEFT: model.save_pretrained(DIR, selected_adapters=[NAME])"});
    }
    adapter = name;
    const auto [place, fresh] = by_key_.emplace(key, &tensor);
    if (fresh) continue;
    throw UserError({where() + ": " + base::cut_text(tensor.name, 200),
                     "one tensor of " + base::cut_text(key, 200),
                     base::cut_text(place->second->name, 200) + " too", "two state dicts that were joined",
                     "save the adapter again with PEFT"});
  }
}

const base::StoredTensor* AdapterFile::find(const std::string& key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : found->second;
}

at::Tensor AdapterFile::read(const base::StoredTensor& stored) const {
  at::ScalarType type = at::kFloat;
  if (stored.dtype == base::DType::kBF16) {
    type = at::kBFloat16;
  } else if (stored.dtype == base::DType::kF16) {
    type = at::kHalf;
  } else if (stored.dtype != base::DType::kF32) {
    throw UserError({where() + ": " + base::cut_text(stored.name, 200), "F32, F16 or BF16",
                     std::string(base::safetensors_name(stored.dtype)), "not a LoRA that PEFT wrote", ""});
  }
  const at::Tensor raw = at::empty(stored.shape, type);
  if (!stored.bytes.empty()) std::memcpy(raw.mutable_data_ptr(), stored.bytes.data(), stored.bytes.size());
  return raw.to(at::kFloat);
}

}  // namespace hone::adapters
