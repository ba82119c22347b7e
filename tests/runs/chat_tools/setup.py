"""A tiny model that learns one dialogue with a call by heart."""
import json
import pathlib

from staging import copy_model, edit_json

TEMPLATE = """{%- for m in messages -%}
{%- if m.role == 'tool' -%}
  {{- '<|im_start|>user\\n<tool_response>\\n' + m.content + '\\n</tool_response><|im_end|>\\n' -}}
{%- else -%}
  {{- '<|im_start|>' + m.role + '\\n' + (m.content or '') -}}
  {%- for c in m.tool_calls | default([]) -%}
    {{- '\\n' if m.content or not loop.first -}}
    {{- '<tool_call>\\n{"name": "' + c.function.name + '", "arguments": ' + (c.function.arguments | tojson) + '}\\n</tool_call>' -}}
  {%- endfor -%}
  {{- '<|im_end|>\\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"""

model = copy_model()
edit_json(model / "tokenizer_config.json", chat_template=TEMPLATE, eos_token="<|im_end|>")
call = {"type": "function", "function": {"name": "add", "arguments": {"a": 2, "b": 3}}}
messages = [{"role": "user", "content": "2 + 3?"}, {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "name": "add", "content": "5"}, {"role": "assistant", "content": "It is 5."}]
pathlib.Path("rows.jsonl").write_text(json.dumps({"messages": messages}) + "\n", encoding="utf-8")
