#include "model/config/wrappers.h"

#include "base/error.h"

namespace hone::model {
namespace {

// Beside the text model: the head of the language model or of a reward model.
constexpr std::string_view kScoreHead = "score.";
constexpr std::string_view kText = "model.", kWrapped = "model.language_model.",
                           kOldWrapped = "language_model.model.", kOldHead = "language_model.lm_head.",
                           kHead = "lm_head.";

}  // namespace

const std::vector<Wrapper>& wrappers() {
  static const std::vector<Wrapper> table = {
      {"gemma3", "gemma3_text", true, "Gemma3ForSequenceClassification"},
      {"gemma4", "gemma4_text", true},
      {"qwen3_5", "qwen3_5_text", false, "Qwen3_5ForSequenceClassification"},
      {"mistral3", "mistral", true},
      {"lfm2_vl", "lfm2", true}};
  return table;
}

const Wrapper* find_wrapper(std::string_view model_type) {
  for (const Wrapper& row : wrappers()) {
    if (row.model_type == model_type) return &row;
  }
  return nullptr;
}

base::Json text_config_of(const base::Json& file, const Wrapper& wrapper, const std::string& where) {
  const auto found = file.find("text_config");
  if (found == file.end() || !found->is_object()) {
    throw base::UserError({where, "an object text_config, of the text model",
                           found == file.end() ? "none" : found->type_name(),
                           "a " + std::string(wrapper.model_type) + " has its text model's fields there",
                           "download config.json again"});
  }
  base::Json text = *found;
  if (!text.contains("model_type")) text["model_type"] = std::string(wrapper.text_type);
  for (const char* key : {"dtype", "torch_dtype", "bos_token_id", "eos_token_id", "tie_word_embeddings",
                          "tie_embedding", "quantization_config"}) {
    if (file.contains(key) && !file.at(key).is_null()) text[key] = file.at(key);
  }
  if (!text.contains("tie_word_embeddings") && !text.contains("tie_embedding"))
    text["tie_word_embeddings"] = wrapper.tied_head;
  return text;
}

std::optional<std::string> text_tensor_name(std::string_view stored) {
  if (stored.starts_with(kWrapped) || stored.starts_with(kHead) || stored.starts_with(kScoreHead))
    return std::string(stored);
  if (stored.starts_with(kOldWrapped))
    return std::string(kWrapped) + std::string(stored.substr(kOldWrapped.size()));
  if (stored.starts_with(kOldHead)) return std::string(kHead) + std::string(stored.substr(kOldHead.size()));
  return std::nullopt;
}

std::string wrapped_name(std::string_view of_text_class) {
  if (!of_text_class.starts_with(kText)) return std::string(of_text_class);
  return std::string(kWrapped) + std::string(of_text_class.substr(kText.size()));
}

}  // namespace hone::model
