// adapter_model.safetensors by PEFT's own keys, whoever wrote it.
//
// PEFT 0.21.2 saves "base_model.model." + module + ".lora_A.weight". Files that were written from a state
// dict have more: the adapter's name (".lora_A.default.weight"), what wraps a model while it is trained
// ("module.", "_orig_mod.", "_fsdp_wrapped_module."), no prefix, or the prefix twice. They are read as what
// they stand for.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/file.h"
#include "base/files/safetensors.h"

namespace hone::adapters {

// Returns PEFT's name of the tensor: it has no wrappers, no name of the adapter and one prefix. `adapter`
// receives the name that was in the key; it stays unchanged if there was none.
std::string peft_key(std::string_view key, std::string* adapter = nullptr);

class AdapterFile {
 public:
  // UserError for a file that is absent or damaged, for two tensors of one key, and for the tensors of
  // several adapters.
  explicit AdapterFile(const base::fs::path& folder);

  const base::StoredTensor* find(const std::string& key) const;  // null: absent
  bool has(const std::string& key) const { return find(key) != nullptr; }
  // By PEFT's keys; StoredTensor::name is the one in the file.
  const std::map<std::string, const base::StoredTensor*>& tensors() const { return by_key_; }
  std::string where() const { return file_.path().string(); }
  // fp32. UserError for another type than F32, F16 or BF16.
  at::Tensor read(const base::StoredTensor& stored) const;

 private:
  base::SafetensorsFile file_;
  std::map<std::string, const base::StoredTensor*> by_key_;
};

}  // namespace hone::adapters
