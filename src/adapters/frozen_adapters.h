// Frozen adapters below the trained one (base_adapters): LoRA that is part of the base. The reference model
// has it too, nothing of it is trained or dropped, and the adapter above is saved without it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "model/causal_lm.h"

namespace hone::adapters {

// Beside the files of an adapter that was trained above others: which, and the checksums of their weights.
// PEFT has no word for it in adapter_config.json, and does not look at this file.
constexpr const char* kFrozenAdaptersFile = "base_adapters.json";

// What lies below an adapter. Equal means: the same weights in the same order, wherever the folders are.
struct FrozenAdapters {
  std::vector<std::string> folders;
  std::vector<std::uint32_t> checksums;  // CRC-32C of each adapter_model.safetensors and its scale
  bool operator==(const FrozenAdapters& other) const { return checksums == other.checksums; }
};

// Reads the LoRAs in `folders` and lays them below every linear that they are on, in the place of what lay
// there; none takes it away. They multiply in the linears' dtype, their ranks one after the other. UserError
// for what is no LoRA of this model, for DoRA and trainable_token_indices, which do not add up, and for a
// reward model's.
FrozenAdapters attach_frozen(model::CausalLm& model, const std::vector<std::string>& folders);

// The adapters in `folders` as something to lie below, without reading what they hold.
FrozenAdapters frozen_adapters_of(const std::vector<std::string>& folders);

// kFrozenAdaptersFile of an adapter's folder; nothing in it: no such file.
FrozenAdapters read_frozen_adapters(const base::fs::path& adapter);
void write_frozen_adapters(const base::fs::path& adapter,
                           const FrozenAdapters& below);  // no file for nothing

// A note when `adapter` was trained above others than those in `folders`: on such a base it is another model.
std::optional<std::string> frozen_adapters_note(const base::fs::path& adapter,
                                                const std::vector<std::string>& folders);

}  // namespace hone::adapters
