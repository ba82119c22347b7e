// plan.yaml: the resolved run. With --config it gives the same run.
#pragma once

#include <string>

#include "config/option_table.h"
#include "config/plan.h"

namespace hone::config {

// Every supported option in table order, grouped, and the ignored options that the user set.
// parse_run_text(plan.method, write_plan(plan), ...) == plan, except for secrets, which are left out
// (option_secrets.h): an address without its secret is then an error.
std::string write_plan(const Plan& plan);

std::string_view method_name(Method method);  // "sft"
const Schema& method_schema(Method method);   // its options

}  // namespace hone::config
