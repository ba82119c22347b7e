// adapter_config.json as PEFT 0.21.2 writes it for the same settings: every key, its place, type and value.
// Golden: tests/parity/record_peft_configs.py.
#include <gtest/gtest.h>

#include <algorithm>

#include "adapters/lora.h"
#include "adapters/peft_files.h"
#include "adapters/ranks.h"
#include "base/json.h"
#include "model/config/model_config.h"

namespace hone::adapters {
namespace peft_config_test {

namespace fs = base::fs;
using base::Json;

// A list of names, or one string that is a regular expression.
void take_names(const Json& options, const char* key, std::vector<std::string>& names, bool& is_regex) {
  if (!options.contains(key)) return;
  is_regex = options.at(key).is_string();
  names = is_regex ? std::vector<std::string>{options.at(key).get<std::string>()}
                   : options.at(key).get<std::vector<std::string>>();
}

LoraConfig config_of(const Json& options) {
  LoraConfig out;
  out.r = options.value("lora_r", 4);
  out.alpha = options.value("lora_alpha", 8.0);
  out.dropout = options.value("lora_dropout", 0.0);
  out.rslora = options.value("use_rslora", false);
  if (options.contains("init_lora_weights")) {
    const bool gaussian = options.at("init_lora_weights") == "gaussian";
    out.init = gaussian ? LoraInit::kGaussian : LoraInit::kFalse;
  }
  take_names(options, "lora_target_modules", out.target_modules, out.target_is_regex);
  take_names(options, "lora_exclude_modules", out.exclude_modules, out.exclude_is_regex);
  if (options.contains("rank_pattern")) {
    for (const auto& [name, rank] : options.at("rank_pattern").items())
      out.rank_pattern.emplace_back(name, rank);
    for (const auto& [name, alpha] : options.at("alpha_pattern").items())
      out.alpha_pattern.emplace_back(name, alpha);
  }
  if (options.contains("layers_to_transform")) {
    out.layers_to_transform = options.at("layers_to_transform").get<std::vector<std::int64_t>>();
    out.layers_pattern = options.at("layers_pattern").get<std::vector<std::string>>();
  }
  if (options.contains("lora_modules_to_save"))
    out.modules_to_save = options.at("lora_modules_to_save").get<std::vector<std::string>>();
  const std::string bias = options.value("bias", "none");
  out.bias = bias == "all"         ? TrainedBias::kAll
             : bias == "lora_only" ? TrainedBias::kLoraOnly
                                   : TrainedBias::kNone;
  out.dora = options.value("use_dora", false);
  if (options.contains("trainable_token_indices"))
    out.token_indices = options.at("trainable_token_indices").get<std::vector<std::int64_t>>();
  out.base_model_name_or_path = "some/base";
  return out;
}

TEST(PeftConfigGolden, EveryKeyIsPeftsInOrderTypeAndValue) {
  const fs::path file = fs::path(HONE_FIXTURES) / "parity/peft_configs.json";
  const Json golden = base::parse_json(base::read_text(file), file.string());
  const fs::path model_file = fs::path(HONE_FIXTURES) / "parity/tiny_llama/config.json";
  auto model =
      model::parse_model_config(base::parse_json(base::read_text(model_file), ""), model_file.string());
  EXPECT_GE(golden.at("cases").size(), 10U);
  for (const auto& [name, one] : golden.at("cases").items()) {
    model.num_hidden_layers = one.at("layers").get<std::int64_t>();
    const LoraConfig config = config_of(one.at("options"));
    Json ours = config_to_json(
        with_recorded_patterns(with_recorded_targets(config, model), select_targets(config, model, true)));
    // Sets in PEFT, written in any order; the golden is sorted.
    for (const char* key : {"target_modules", "exclude_modules"}) {
      if (ours[key].is_array()) std::sort(ours[key].begin(), ours[key].end());
    }
    EXPECT_EQ(base::dump_json(ours, 2), base::dump_json(one.at("config"), 2)) << name;
  }
}

}  // namespace peft_config_test
}  // namespace hone::adapters
