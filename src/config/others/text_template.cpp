#include "config/others/text_template.h"

#include <algorithm>

namespace hone::config {

namespace {

std::string jinja_string(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string jinja_print(std::string_view text) {
  return text.empty() ? "" : "{{- " + jinja_string(text) + " }}";
}

// A piece with `content`, a Jinja expression, in the place of {text}.
std::string piece_of_jinja(std::string_view piece, const std::string& content) {
  struct Mark {
    std::string_view name;
    std::string value;
  };
  const Mark marks[] = {{"{text}", content}, {"{bos}", "bos_token"}, {"{eos}", "eos_token"}};
  std::string out;
  std::size_t from = 0;
  for (std::size_t at = 0; at < piece.size();) {
    const Mark* found = nullptr;
    for (const Mark& mark : marks) {
      if (piece.substr(at).starts_with(mark.name)) found = &mark;
    }
    if (found == nullptr) {
      ++at;
      continue;
    }
    out += jinja_print(piece.substr(from, at - from)) + "{{- " + found->value + " }}";
    from = at += found->name.size();
  }
  return out + jinja_print(piece.substr(from));
}

// The system turn's text, or the default, in `system`; the other turns in `turns`.
std::string opening_of(const TrainerText& text, const TextUse& use) {
  const std::string system =
      use.default_system.empty() ? std::string(text.default_system) : use.default_system;
  const std::string none = jinja_string(system);
  std::string out = piece_of_jinja(text.start, "''");
  out += "{%- set system = " + none + " %}{%- set turns = messages %}{%- if messages[0].role == 'system' %}";
  out += "{%- set turns = messages[1:] %}";
  if (text.system.empty()) return out + "{{- raise_exception('this text has no system turn') }}{%- endif %}";
  // Of an empty turn LLaMA-Factory makes the default, ms-swift nothing, and axolotl an empty turn.
  std::string taken =
      std::string("{%- set system = messages[0].content") + (text.trims ? " | trim %}" : " %}");
  if (text.trainer == Trainer::kFactory) taken = "{%- if messages[0].content %}" + taken + "{%- endif %}";
  out += taken + "{%- endif %}";
  const std::string stands = text.trainer == Trainer::kAxolotl
                                 ? "{%- if system or messages[0].role == 'system' %}"
                                 : "{%- if system %}";
  if (!text.system_in_user) out += stands + piece_of_jinja(text.system, "system") + "{%- endif %}";
  return out;
}

std::string answer_of(const TrainerText& text, const TextUse& use) {
  constexpr std::string_view kStripped = "{%- set content = content.split('</think>')[-1].lstrip('\\n') %}";
  const bool has_thoughts = !text.empty_think.empty();
  const bool in_prompt = !use.thinks || text.think_in_prompt;
  std::string think, out;
  if (has_thoughts) {
    if (!use.thinks) out += kStripped;
    if (use.strips_history) out += "{%- if not loop.last %}" + std::string(kStripped) + "{%- endif %}";
    const std::string last = use.strips_history ? "loop.last and " : "";
    think = "{%- if " + last + "'<think>' not in content and '</think>' not in content %}" +
            jinja_print(text.empty_think) + "{%- endif %}";
    if (in_prompt) out += think;
  }
  const std::string end = jinja_print(text.end);
  const bool ends = std::count(use.trained_ends.begin(), use.trained_ends.end(), text.end) > 0;
  const std::string is_eos = jinja_string(text.end) + " == eos_token";
  const std::string with_end = end.empty() ? ""
                               : ends      ? end
                                           : "{%- if " + is_eos + " %}" + end + "{%- endif %}";
  const std::string behind = end.empty() || ends ? "" : "{%- if not " + is_eos + " %}" + end + "{%- endif %}";
  const std::string answer = (in_prompt ? "" : think) + piece_of_jinja(text.assistant, "content") + with_end;
  const std::string trained = "{%- generation %}" + answer + "{%- endgeneration %}";
  out += use.trains_last_only ? "{%- if loop.last %}" + trained + "{%- else %}" + answer + "{%- endif %}"
                              : trained;
  out += behind + jinja_print(text.behind);
  if (!text.between.empty()) out += "{%- if not loop.last %}" + jinja_print(text.between) + "{%- endif %}";
  return out;
}

}  // namespace

std::string template_of(const TrainerText& text, const TextUse& use) {
  std::string out;
  if (text.trainer != Trainer::kAxolotl)  // whose texts leave tools out; the others write them
    out +=
        "{%- if tools %}{{- raise_exception('tools, which hone does not write in this text') }}{%- endif %}";
  out += opening_of(text, use) + "{%- for message in turns %}{%- set content = message.content";
  out += text.trims ? " | trim %}" : " %}";
  out += "{%- if message.role == 'user' %}";
  std::string user = piece_of_jinja(text.user, "content");
  if (text.system_in_user && !text.system.empty()) {
    user = "{%- set inside = '' %}{%- if loop.first and system %}{%- set inside = system %}{%- endif %}";
    const std::size_t place = text.user.find("{text}");
    user += piece_of_jinja(text.user.substr(0, place), "''") + "{%- if inside %}" +
            piece_of_jinja(text.system, "inside") + "{%- endif %}" +
            piece_of_jinja(text.user.substr(place), "content");
  }
  out += user + "{%- elif message.role == 'assistant' %}{%- if message.tool_calls %}" +
         "{{- raise_exception('calls of tools, which this text has no place for') }}{%- endif %}" +
         answer_of(text, use);
  out +=
      "{%- else %}{{- raise_exception('a turn of another role: ' + message.role) }}{%- endif %}{%- endfor %}";
  // What opens an answer stands behind each question; an empty block that is not trained belongs to it.
  if ((!use.thinks || text.think_in_prompt) && !text.empty_think.empty())
    out += "{%- if add_generation_prompt %}" + jinja_print(text.empty_think) + "{%- endif %}";
  return out;
}

}  // namespace hone::config
