// Environment variables in the values of a YAML file: ${VERSION}, $HOME, ${VERSION:-v1}, ${oc.env:VERSION},
// ${oc.env:VERSION,v1}. envsubst, shells and OmegaConf put them in before TRL reads a recipe; TRL itself
// takes the text as it is written. A name has capital letters, digits and '_'; "\$", "$5" and "${" before
// other text are left.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/option_table.h"

namespace hone::config {

struct ExpandedText {
  std::string text;                  // with the values of the variables that are set, and defaults
  std::vector<std::string> found;    // variables that are set, or that have a default
  std::vector<std::string> missing;  // the others; their text stays
  std::vector<std::string>
      references;  // OmegaConf's "${model.name}", other options of the file; their text stays
};
ExpandedText expand_environment(std::string_view text);

// Returns whether variables are looked for in the values of `name`. Templates, prompts and patterns may hold
// such text themselves.
bool takes_environment(std::string_view name);

// Whether `text`, in the value of `name`, is an address whose ${NAME} the worker of rewards looks up in each
// call: a secret that was put in here would stand in plan.yaml.
bool keeps_variables(std::string_view name, std::string_view text);

// Names of what a run writes, and not of what it reads: a variable that is not set leaves their text, as in
// TRL.
bool names_results(std::string_view name);

}  // namespace hone::config
