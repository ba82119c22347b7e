// Arguments of a call as its tool's JSON schema types them, by the rules of transformers 5.23.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace hone::tools {

// Which tools there are and how their arguments are typed.
class Casts {
 public:
  // `tools`: an array of schemas, {"type": "function", "function": {...}} or the function alone; or null.
  explicit Casts(const base::Json& tools);
  bool empty() const { return tools_.empty(); }
  // A field's value: a call, a list of calls, or anything else, which stays as it is. Texts among the
  // arguments become what the schema says; a failed cast, an unknown argument or tool keeps the text.
  void apply(base::Json& value) const;

 private:
  struct Argument {
    std::string name;
    std::vector<std::string> types;  // in the order in which they are tried
  };
  struct Tool {
    std::string name;
    std::vector<Argument> arguments;
  };
  std::vector<Tool> tools_;
};

}  // namespace hone::tools
