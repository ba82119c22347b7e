#include "base/process/signal_names.h"

#include <gtest/gtest.h>

#include <csignal>

namespace hone::base {
namespace {

TEST(SignalNames, BothWays) {
  EXPECT_EQ(signal_name(SIGFPE), "SIGFPE");
  EXPECT_EQ(signal_number("SIGKILL"), SIGKILL);
  for (const auto& [number, name] : kSignalNames) {
    EXPECT_EQ(signal_name(number), name);
    EXPECT_EQ(signal_number(name), number) << name;
  }
}

TEST(SignalNames, OthersHaveANumber) {
  EXPECT_EQ(signal_text(SIGSEGV), "SIGSEGV");
  EXPECT_EQ(signal_name(40), "");
  EXPECT_EQ(signal_text(40), "signal 40");
  EXPECT_EQ(signal_number("SIGNOTHING"), 0);
  EXPECT_EQ(signal_number(""), 0);
}

}  // namespace
}  // namespace hone::base
