#include "text/training_template.h"

#include <algorithm>

#include "base/hash.h"

namespace hone::text {
namespace {

struct Row {
  std::string_view family;
  std::size_t size;    // of the model's template, in bytes
  std::uint64_t hash;  // base::hash64 of it
  std::vector<TextEdit> edits;
};

// Places are bytes of exactly the template that size and hash name. Changes of two kinds: generation tags, and
// what lets one statement be inside them that wrote every role's turn.
const std::vector<Row>& rows() {
  // clang-format off
  static const std::vector<Row> all = {
      {"Qwen2.5", 2507, 0xC2B27EE60F1B8775,
       {{1196, 60, ""},
        {1440, 0, R"({%- generation %}{%- if not message.tool_calls %}{{- '\n' + message.content }}{%- endif %})"},
        {1471, 0, R"( and message.tool_calls)"},
        {1979, 0, R"({%- endgeneration %})"}}},
      {"Qwen3", 4168, 0x959A4551391A6549,
       {{2213, 141, ""},
        {2393, 0, R"(' }}{%- generation %}{{- ')"},
        {2480, 227, ""},
        {3529, 0, R"({%- endgeneration %})"}}},
      {"Qwen3-Instruct-2507", 2630, 0x3751FE8EA48448AB,
       {{1283, 0, R"( }}{%- generation %}{{- '')"},
        {2119, 0, R"({%- endgeneration %})"}}},
      {"Qwen3.5", 7756, 0xF07C510F47FBACA0,
       {{5259, 56, ""},
        {5354, 0, R"(' }}{%- generation %}{{- ')"},
        {5416, 107, ""},
        {6954, 0, R"({%- endgeneration %})"}}},
      {"Qwen3.5 without thinking", 7755, 0x407BBCDEB62737B7,
       {{5259, 56, ""},
        {5354, 0, R"(' }}{%- generation %}{{- ')"},
        {5416, 107, ""},
        {6954, 0, R"({%- endgeneration %})"}}},
      {"Qwen3.6", 7764, 0x8AE3A8BC6E68F114,
       {{5259, 122, ""},
        {5420, 0, R"(' }}{%- generation %}{{- ')"},
        {5482, 107, ""},
        {6962, 0, R"({%- endgeneration %})"}}},
      {"Qwen3.8", 8952, 0x8B6B0871C5DB260B,
       {{6420, 119, ""},
        {6578, 0, R"(' }}{%- generation %}{{- ')"},
        {6640, 107, ""},
        {8150, 0, R"({%- endgeneration %})"}}},
      {"Llama 3", 389, 0x0E60067A5537498E,
       {{268, 13, R"({% if message['role'] == 'assistant' %}{% set parts = content.split('<|end_header_id|>\n\n', 1) %}{{ parts[0] + '<|end_header_id|>\n\n' }}{% generation %}{{ parts[1] }}{% endgeneration %}{% else %}{{ content }}{% endif %})"}}},
      {"DeepSeek-R1-Distill", 2246, 0x845FDF813C637EE2,
       {{609, 0, R"({%- generation %})"},
        {1252, 0, R"({%- endgeneration %})"},
        {1339, 0, R"({%- generation %})"},
        {1525, 90, ""},
        {1692, 0, R"({%- endgeneration %})"}}},
      {"Phi-3", 407, 0xECEBDB26677C663D,
       {{259, 0, R"('}}{% generation %}{{')"},
        {296, 0, R"({% endgeneration %})"},
        {381, 15, R"({% if messages[-1]['role'] == 'assistant' %}{% generation %}{{ eos_token }}{% endgeneration %}{% else %}{{ eos_token }}{% endif %})"}}},
      {"Phi-3.5", 430, 0xCF278CDE387A54C8,
       {{282, 0, R"('}}{% generation %}{{')"},
        {319, 0, R"({% endgeneration %})"},
        {404, 15, R"({% if messages[-1]['role'] == 'assistant' %}{% generation %}{{ eos_token }}{% endgeneration %}{% else %}{{ eos_token }}{% endif %})"}}},
      {"Gemma", 591, 0x5C10EE65212D93B3,
       {{428, 0, R"({% set turn %})"},
        {461, 0, R"( }}{% endset %}{% set said %}{{ '')"},
        {511, 0, R"({% endset %}{{ turn }}{% if role == 'model' %}{% generation %}{{ said }}{% endgeneration %}{% else %}{{ said }}{% endif %})"}}},
      {"Gemma 3", 1532, 0xC90DEA00B85C935D,
       {{915, 0, R"({%- set said -%})"},
        {1437, 0, R"({%- endset -%}{%- if role == 'model' -%}{%- generation -%}{{ said }}{%- endgeneration -%}{%- else -%}{{ said }}{%- endif -%})"}}},
      {"LFM2", 1379, 0x7FAEF5D8E49CF520,
       {{1250, 0, R"({%- if message["role"] == "assistant" -%}{% generation %}{{- content + "<|im_end|>\n" -}}{% endgeneration %}{%- else -%})"},
        {1282, 0, R"({%- endif -%})"}}},
      {"LFM2-v2", 3099, 0x8F22102D7794BB85,
       {{2784, 0, R"({% generation %})"},
        {2940, 0, R"({% endgeneration %}{%- elif message["role"] == "assistant" -%}{% generation %}{{- content + "<|im_end|>\n" -}}{% endgeneration %})"}}},
  };
  // clang-format on
  return all;
}

}  // namespace

std::string with_edits(std::string_view text, const std::vector<TextEdit>& edits) {
  std::string out;
  std::size_t at = 0;
  for (const TextEdit& edit : edits) {
    out += text.substr(at, edit.at - at);
    out += edit.inserted;
    at = edit.at + edit.removed;
  }
  return out += text.substr(at);
}

std::optional<TrainingTemplate> training_template(std::string_view source) {
  const std::uint64_t hash = base::hash64(source);
  const auto row = std::find_if(rows().begin(), rows().end(), [&](const Row& each) {
    return each.size == source.size() && each.hash == hash;
  });
  if (row == rows().end()) return std::nullopt;
  return TrainingTemplate{.family = std::string(row->family), .source = with_edits(source, row->edits)};
}

std::string training_families() {
  std::string out;
  for (const Row& row : rows()) out += (out.empty() ? "" : ", ") + std::string(row.family);
  return out;
}

}  // namespace hone::text
