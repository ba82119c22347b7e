// Which model families' turns can be read (src/tools/families/*.json), found by the text of a chat template
// or by what it renders.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/chat_template.h"

namespace hone::tools {

struct Family {
  std::string name;
  std::vector<std::string>
      chat_templates;  // "size:hash64" of each chat template that TRL 1.16 reads this way
  base::Json response_template;
  base::Json extra;         // a second one, for forms that TRL does not read; null: none
  bool beyond_trl = false;  // TRL has no such family
};

const std::vector<Family>& families();
// The family of exactly this chat template, as TRL finds it; nullptr: none.
const Family* family_of(std::string_view chat_template);

struct Recognized {
  const Family* family = nullptr;
  base::Json
      response_template;  // the family's, perhaps with the header and the end of a turn that `chat` writes
  bool changed = false;
};
// By rendering a question, one call, two calls and a plain answer: the first family that reads all of them
// back. With `beyond_trl` those families count too.
std::optional<Recognized> recognize(const text::ChatTemplate& chat, bool beyond_trl);

// A call as messages carry it; arguments as an object, or as JSON text for templates that take no other.
base::Json call_message(const std::string& name, const base::Json& arguments,
                        const std::string& content = "");

}  // namespace hone::tools
