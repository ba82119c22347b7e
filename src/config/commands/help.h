// The texts of --help and `hone options`, generated from the option table. Nothing here prints.
#pragma once

#include <string>
#include <string_view>

#include "config/commands/commands.h"
#include "config/option_table.h"

namespace hone::config {

std::string program_help();  // hone --help
// hone sft --help: what it does; supported options by group, the rest by name
std::string command_help(const CommandRow& command);
std::string options_text(const Schema& schema);  // hone options: every row with its class
std::string options_json(const Schema& schema);  // hone options --json: an array of rows
std::string option_text(const Schema& schema,
                        std::string_view name);  // hone options NAME; UserError when unknown

// The arguments of `hone options`: [COMMAND | --method COMMAND] [--json] [--former] [NAME]; sft by default. Throws
// UserError.
std::string run_options(const std::vector<std::string>& arguments);

}  // namespace hone::config
