// "~" in paths (base/files/home_path.h).
#include "base/files/home_path.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"

namespace hone::base {
namespace home_path_test {

class HomePath : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* home = std::getenv("HOME")) before_ = home;
    setenv("HOME", "/home/somebody", 1);
  }
  void TearDown() override { setenv("HOME", before_.c_str(), 1); }
  std::string before_;
};

TEST_F(HomePath, TheBeginningOnly) {
  EXPECT_EQ(expand_home("~", "x"), "/home/somebody");
  EXPECT_EQ(expand_home("~/a b/c", "x"), "/home/somebody/a b/c");
  EXPECT_EQ(expand_home("~root/c", "x"), "/root/c");
  for (const char* text : {"", "a/~", "./~/x", "a~", "~no-such-user-of-all/x", "/x/~/y"})
    EXPECT_EQ(expand_home(text, "x"), text);
}

TEST_F(HomePath, WithoutAHome) {
  unsetenv("HOME");
  EXPECT_THROW(expand_home("~/x", "output_dir"), UserError);
  EXPECT_EQ(expand_home("x", "output_dir"), "x");
  setenv("HOME", "", 1);
  try {
    expand_home("~", "output_dir");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("HOME"), std::string::npos);
  }
}

}  // namespace home_path_test
}  // namespace hone::base
