// Frozen adapters below the trained one (base_adapters): LoRA that is part of the base. The reference model
// has it too, nothing of it is trained or dropped, and the adapter above is saved without it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "model/causal_lm.h"

namespace hone::adapters {

// A file beside an adapter that was trained above others: their folders and the checksums of their weights.
// PEFT has no field for it in adapter_config.json, and ignores this file.
constexpr const char* kFrozenAdaptersFile = "base_adapters.json";

// The adapters below another one. Equal: the same weights in the same order, in any folders.
struct FrozenAdapters {
  std::vector<std::string> folders;
  std::vector<std::uint32_t> checksums;  // CRC-32C of each adapter_model.safetensors and its scale
  bool operator==(const FrozenAdapters& other) const { return checksums == other.checksums; }
};

// Reads the LoRAs in `folders` and attaches them as frozen adapters to the linears that they target,
// replacing earlier ones; an empty list removes them. They multiply in the linears' dtype, with concatenated
// ranks. UserError for adapters that are not a LoRA of this model, for DoRA and trainable_token_indices,
// which cannot be added, and for a reward model's.
FrozenAdapters attach_frozen(model::CausalLm& model, const std::vector<std::string>& folders);

// The adapters in `folders` as a FrozenAdapters, without loading their weights.
FrozenAdapters frozen_adapters_of(const std::vector<std::string>& folders);

// kFrozenAdaptersFile of an adapter's folder; empty: no such file.
FrozenAdapters read_frozen_adapters(const base::fs::path& adapter);
void write_frozen_adapters(const base::fs::path& adapter,
                           const FrozenAdapters& below);  // no file for nothing

// A note when `adapter` was trained above adapters other than those in `folders`, so that the result is a
// different model.
std::optional<std::string> frozen_adapters_note(const base::fs::path& adapter,
                                                const std::vector<std::string>& folders);

}  // namespace hone::adapters
