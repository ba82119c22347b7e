#include "config/others/text_template.h"

namespace hone::config {

namespace {

std::string quoted(std::string_view text) {
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

std::string printed(std::string_view text) {
  return text.empty() ? "" : "{{- " + quoted(text) + " }}";
}

// A piece with `content`, a Jinja expression, in the place of {text}.
std::string printed_piece(std::string_view piece, const std::string& content) {
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
    out += printed(piece.substr(from, at - from)) + "{{- " + found->value + " }}";
    from = at += found->name.size();
  }
  return out + printed(piece.substr(from));
}

// The system turn's text, or the default, in `system`; the other turns in `turns`.
std::string opening_of(const TrainerText& text, const TextUse& use) {
  const std::string system = use.default_system.empty() ? std::string(text.default_system) : use.default_system;
  const std::string none = quoted(system);
  std::string out = printed_piece(text.start, "''");
  out += "{%- set system = " + none + " %}{%- set turns = messages %}{%- if messages[0].role == 'system' %}";
  out += "{%- set turns = messages[1:] %}{%- if messages[0].content %}{%- set system = messages[0].content";
  out += text.trims ? " | trim %}" : " %}";
  out += "{%- endif %}{%- endif %}";
  if (!text.system_in_user && !text.system.empty())
    out += "{%- if system %}" + printed_piece(text.system, "system") + "{%- endif %}";
  return out;
}

std::string answer_of(const TrainerText& text, const TextUse& use) {
  constexpr std::string_view kStripped =
      "{%- set content = content.split('</think>')[-1].lstrip('\\n') %}";
  const bool has_thoughts = !text.empty_think.empty();
  std::string think, out;
  if (has_thoughts) {
    if (!use.thinks) out += kStripped;
    if (use.strips_history) out += "{%- if not loop.last %}" + std::string(kStripped) + "{%- endif %}";
    const std::string last = use.strips_history ? "loop.last and " : "";
    think = "{%- if " + last + "'<think>' not in content and '</think>' not in content %}" +
            printed(text.empty_think) + "{%- endif %}";
    if (!use.thinks) out += think;
  }
  const std::string answer = (use.thinks ? think : "") + printed_piece(text.assistant, "content");
  const std::string trained = "{%- generation %}" + answer + "{%- endgeneration %}";
  out += use.trains_last_only ? "{%- if loop.last %}" + trained + "{%- else %}" + answer + "{%- endif %}" : trained;
  return out + printed(text.behind);
}

}  // namespace

std::string template_of(const TrainerText& text, const TextUse& use) {
  std::string out = opening_of(text, use) + "{%- for message in turns %}{%- set content = message.content";
  out += text.trims ? " | trim %}" : " %}";
  out += "{%- if message.role == 'user' %}";
  std::string user = printed_piece(text.user, "content");
  if (text.system_in_user && !text.system.empty()) {
    user = "{%- set inside = '' %}{%- if loop.first and system %}{%- set inside = system %}{%- endif %}";
    const std::size_t place = text.user.find("{text}");
    user += printed_piece(text.user.substr(0, place), "''") + "{%- if inside %}" +
            printed_piece(text.system, "inside") + "{%- endif %}" +
            printed_piece(text.user.substr(place), "content");
  }
  out += user + "{%- elif message.role == 'assistant' %}" + answer_of(text, use);
  out += "{%- else %}{{- raise_exception('a turn of another role: ' + message.role) }}{%- endif %}{%- endfor %}";
  // What opens an answer stands behind each question; an empty block that is not trained belongs to it.
  if (!use.thinks && !text.empty_think.empty())
    out += "{%- if add_generation_prompt %}" + printed(text.empty_think) + "{%- endif %}";
  return out;
}

}  // namespace hone::config
