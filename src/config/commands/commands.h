// The commands as rows: what `hone help` and `hone NAME --help` say, the options, and what checks a command line
// before libhone_core is loaded. To add one: a row in commands.cpp and, where it needs tensors, one in
// src/commands/commands.cpp; a test compares the two tables.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/option_table.h"

namespace hone::config {

struct CommandRow {
  std::string_view name;
  std::string_view what, example;       // its line of `hone help`; hidden where `what` is empty
  std::string_view usage;               // of `hone NAME --help`; empty: that is `hone help`
  const Schema& (*schema)() = nullptr;  // null: no options
  void (*check)(const std::vector<std::string>& words) = nullptr;  // UserError; null: nothing to check
};

std::span<const CommandRow> command_rows();
const CommandRow* find_command(std::string_view name);  // null: no such command

}  // namespace hone::config
