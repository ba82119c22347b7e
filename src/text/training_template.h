// TRL's training form of a chat template: the same template with {% generation %} around what the assistant
// writes, for models whose own template has none (assistant_only_loss).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hone::text {

struct TrainingTemplate {
  std::string family;  // whose template it is: "Qwen3"
  std::string source;
};

// As trl/chat_template_utils.py, get_training_chat_template (TRL 1.16), decides: by the exact text of the
// model's template, else none. Texts and masks are those of TRL's training templates
// (tests/text/training_templates_test.cpp). Some also change the text, as TRL's do: those of Qwen3 and Qwen3.5 to
// 3.8 write a thinking block in every assistant turn, DeepSeek-R1-Distill's keeps what stands before </think>.
std::optional<TrainingTemplate> training_template(std::string_view source);

// "Qwen2.5, Qwen3, ...": the families that training_template knows.
std::string training_families();

// One change to a text: `removed` bytes at `at` become `inserted`.
struct TextEdit {
  std::size_t at = 0;
  std::size_t removed = 0;
  std::string_view inserted;
};
// `edits` in the order of their places, which do not overlap.
std::string with_edits(std::string_view text, const std::vector<TextEdit>& edits);

}  // namespace hone::text
