#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>

#include "base/error.h"
#include "base/files/file.h"

namespace hone::base {
namespace folder_lock_test {

TEST(FolderLock, OneHolderAtATimeAndNothingLeft) {
  const fs::path folder = fs::temp_directory_path() / ("hone_lock_" + std::to_string(getpid()));
  fs::create_directories(folder);
  std::optional<FolderLock> first(std::in_place, folder, "another run");
  try {
    const FolderLock second(folder, "another run");
    ADD_FAILURE() << "two holders";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("another run, which is still running"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find(folder.string()), std::string::npos);
  }
  first.reset();
  EXPECT_NO_THROW(FolderLock(folder, "another run"));
  EXPECT_TRUE(fs::is_empty(folder));
  fs::remove_all(folder);
}

}  // namespace folder_lock_test
}  // namespace hone::base
