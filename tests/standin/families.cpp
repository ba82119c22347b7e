#include "standin/families.h"

#include <algorithm>

namespace hone::standin {

std::vector<std::string> generating_families() {
  return {"tiny_llama",         "tiny_llama3",     "tiny_qwen2",     "tiny_qwen2_windows", "tiny_qwen3",
          "tiny_qwen3_yarn",    "tiny_qwen3_5",    "tiny_qwen3_moe", "tiny_phi3",          "tiny_phi3_short",
          "tiny_ministral3",    "tiny_mistral",    "tiny_mixtral",   "tiny_gemma",         "tiny_gemma2",
          "tiny_gemma3",        "tiny_gemma4",     "tiny_smollm3",   "tiny_granite",       "tiny_granite4",
          "tiny_granite4_nope", "tiny_granitemoe", "tiny_olmo2",     "tiny_olmo3",         "tiny_olmoe",
          "tiny_lfm2",          "tiny_lfm2_bias",  "tiny_exaone4"};
}

std::vector<std::string> families_of_a_day() {
  return {"tiny_llama",  "tiny_qwen2_windows", "tiny_qwen3",    "tiny_qwen3_5", "tiny_qwen3_moe",
          "tiny_gemma3", "tiny_gemma4",        "tiny_granite4", "tiny_lfm2",    "tiny_phi3_short"};
}

std::vector<std::string> families_of_slow_tests() {
  std::vector<std::string> out = generating_families();
  const std::vector<std::string> daily = families_of_a_day();
  std::erase_if(out, [&](const std::string& name) {
    return std::find(daily.begin(), daily.end(), name) != daily.end();
  });
  return out;
}

std::vector<std::int32_t> some_prompt(std::int32_t length, std::int32_t salt) {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < length; ++i) ids.push_back(3 + (i * i + i * salt + salt) % 45);
  return ids;
}

std::vector<std::vector<std::int32_t>> prompts_of(const std::string& family) {
  std::vector<std::vector<std::int32_t>> out = {some_prompt(70, 1), some_prompt(1, 2), some_prompt(17, 5)};
  if (family == "tiny_phi3_short") out.erase(out.begin());
  return out;
}

}  // namespace hone::standin
