// Every row of config/commands/commands.cpp has somebody who runs it.
#include "config/commands/commands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "commands/commands.h"
#include "config/method_of.h"

namespace hone::commands {
namespace commands_test {

// Those that src/main.cpp answers itself.
constexpr std::array kInMain = {"options", "version", "help"};

TEST(Commands, EveryRowIsRun) {
  for (const config::CommandRow& row : config::command_rows()) {
    const bool in_main = std::find(kInMain.begin(), kInMain.end(), row.name) != kInMain.end();
    EXPECT_NE(has_command(row.name), in_main) << row.name;
    if (!row.usage.empty()) {
      EXPECT_TRUE(row.usage.starts_with("hone " + std::string(row.name) + " ")) << row.usage;
    }
  }
  EXPECT_FALSE(has_command("plans"));
}

TEST(Commands, EveryMethodIsACommand) {
  for (const std::string& word : config::method_names()) {
    const config::CommandRow* const row = config::find_command(word);
    ASSERT_NE(row, nullptr) << word;
    EXPECT_EQ(row->schema().command, word);
    EXPECT_FALSE(row->what.empty()) << word;
  }
}

}  // namespace commands_test
}  // namespace hone::commands
