// The options that say what rows become before a method reads them -> base::RowMapping.
#pragma once

#include <string>
#include <vector>

#include "base/row_mapping.h"
#include "config/settings.h"

namespace hone::config {

// dataset_columns, row_format, prompt_template, text_template, make_conversation, dataset_system_prompt, row_function. UserError for
// columns that are no mapping of names, two of one name, braces of a template that are not closed, a Python file that is not there.
base::RowMapping row_mapping(const Settings& settings);

// One line for each that is set: "row_format: alpaca: instruction, input and output become prompt and completion".
std::vector<std::string> describe_mapping(const base::RowMapping& mapping);

}  // namespace hone::config
