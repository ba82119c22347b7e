// What a ChatTemplate holds; shared by the files that implement it.
#pragma once

#include <string>

#include "text/chat_template.h"
#include "text/ffi.h"

namespace hone::text {

struct ChatTemplate::Impl {
  TemplateHandle handle;
  base::Json special;        // the named special tokens, as variables
  std::string special_text;  // the same, as JSON
  std::string where;

  // Adds the request of hone_text_template_apply.
  void append_call(const base::Json& messages, const base::Json& tools, const base::Json& template_kwargs,
                   bool add_generation_prompt, std::string& out) const;
};

}  // namespace hone::text
