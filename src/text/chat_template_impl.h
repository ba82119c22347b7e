// A ChatTemplate holds these; the files that implement it share them.
#pragma once

#include <string>
#include <vector>

#include "text/chat_template.h"
#include "text/ffi.h"

namespace hone::text {

struct ChatTemplate::Impl {
  TemplateHandle handle;           // null: several templates, and none is "default"
  TemplateHandle tool_use;         // for conversations with tools; null: they take the other
  std::vector<std::string> names;  // of several templates
  base::Json special;              // the named special tokens, as variables
  std::string special_text;        // the same, as JSON
  std::string where;

  // The template of a conversation with these tools, null for none. UserError where there is none for it.
  const hone_text_template* of(const base::Json& tools) const;

  // Adds the request of hone_text_template_apply.
  void append_call(const base::Json& messages, const base::Json& tools, const base::Json& template_kwargs,
                   bool add_generation_prompt, std::string& out) const;
};

}  // namespace hone::text
