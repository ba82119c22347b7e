// Chat templates of a few lines in the forms of known families, which need nothing fetched.
#pragma once

namespace hone::tools {

// Hermes' calls in ChatML. TURN_START and TURN_END stand for what tests put there.
inline constexpr const char* kHermesTemplate = R"({%- for m in messages -%}
{%- if m.role == 'tool' -%}
  {{- '<|im_start|>user\n<tool_response>\n' + m.content + '\n</tool_response><|im_end|>\n' -}}
{%- else -%}
  {{- '<|im_start|>' + m.role + '\n' -}}TURN_START{{- m.content -}}
  {%- for c in m.tool_calls | default([]) -%}
    {{- '\n' if m.content or not loop.first -}}
    {{- '<tool_call>\n{"name": "' + c.function.name + '", "arguments": ' + (c.function.arguments | tojson) + '}\n</tool_call>' -}}
  {%- endfor -%}
  {{- '<|im_end|>\n' -}}TURN_END
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%})";

inline constexpr const char* kLlamaTemplate = R"({%- for m in messages -%}
{%- if m.role == 'tool' -%}
  {{- '<|start_header_id|>ipython<|end_header_id|>\n\n' + (m.content | tojson) + '<|eot_id|>' -}}
{%- else -%}
  {{- '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + m.content -}}
  {%- if m.tool_calls -%}
    {%- if m.tool_calls | length > 1 -%}{{- raise_exception('one call at once') -}}{%- endif -%}
    {%- set f = m.tool_calls[0].function -%}
    {{- '{"name": "' + f.name + '", "parameters": ' + (f.arguments | tojson) + '}' -}}
  {%- endif -%}
  {{- '<|eot_id|>' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}{%- endif -%})";

inline constexpr const char* kHarmonyTemplate = R"({%- for m in messages -%}
{%- if m.role == 'tool' -%}
  {{- '<|start|>functions.' + m.name + ' to=assistant<|channel|>commentary<|message|>' + m.content + '<|end|>' -}}
{%- elif m.role == 'user' -%}
  {{- '<|start|>user<|message|>' + m.content + '<|end|>' -}}
{%- elif m.tool_calls -%}
  {%- set f = m.tool_calls[0].function -%}
  {{- '<|start|>assistant to=functions.' + f.name + '<|channel|>commentary json<|message|>' + (f.arguments | tojson) + '<|call|>' -}}
{%- else -%}
  {{- '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|return|>' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start|>assistant' -}}{%- endif -%})";

inline constexpr const char* kMistralTemplate = R"({%- for m in messages -%}
{%- if m.role == 'tool' -%}
  {{- '[TOOL_RESULTS]' + m.tool_call_id + ': ' + m.content + '[/TOOL_RESULTS]' -}}
{%- elif m.role == 'user' -%}
  {{- '[INST]' + m.content + '[/INST]' -}}
{%- elif m.tool_calls -%}
  {{- '[TOOL_CALLS][' -}}
  {%- for c in m.tool_calls -%}
    {%- if c.id is not defined -%}{{- raise_exception('a call without an id') -}}{%- endif -%}
    {{- ', ' if not loop.first -}}
    {{- '{"name": "' + c.function.name + '", "arguments": ' + (c.function.arguments | tojson) + ', "id": "' + c.id + '"}' -}}
  {%- endfor -%}
  {{- ']</s>' -}}
{%- else -%}
  {{- m.content + '</s>' -}}
{%- endif -%}
{%- endfor -%})";

}  // namespace hone::tools
