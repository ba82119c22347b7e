// Options that have no effect in a run because of what others say. Their values are told in a note and never
// refused: nothing reads them, so that a value out of range or of another type harms nothing. An unknown name
// stays a mistake.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/settings.h"

namespace hone::config {

// Names, separated by spaces.
inline constexpr std::string_view kOnlyOfAdapters =
    "lora_r lora_target_parameters lora_alpha lora_dropout lora_target_modules lora_exclude_modules lora_modules_to_save "
    "lora_task_type rank_pattern alpha_pattern layers_pattern bias use_rslora use_dora init_lora_weights "
    "trainable_token_indices base_model_name_for_adapter";  // with use_peft: false
inline constexpr std::string_view kOnlyOfFullTraining =
    "unfrozen_parameters spectrum_config_path freeze_embeddings max_shard_size zero_stage offload_folder";
inline constexpr std::string_view kOfNewAdapters =
    "lora_r lora_alpha lora_target_modules lora_target_parameters lora_exclude_modules rank_pattern alpha_pattern "
    "layers_to_transform layers_pattern lora_modules_to_save bias trainable_token_indices use_rslora use_dora "
    "init_lora_weights";  // with adapter_name_or_path

// Why `option` has no effect with these settings, as "use_peft is false"; empty where it may have one, and
// where an option that decides it is among the mistakes. The settings are those that were read, before
// defaults are resolved.
std::string idle_reason(const Settings& settings, const Option& option);

// A note for each option that was changed without effect, which no other part of the plan tells.
std::vector<std::string> idle_notes(const Settings& settings);

// The options that rules name and read, for a test of the table.
std::vector<std::string> names_of_idle_rules();

}  // namespace hone::config
