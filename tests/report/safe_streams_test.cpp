#include "report/terminal/safe_streams.h"

#include <gtest/gtest.h>

#include <iostream>
#include <sstream>
#include <thread>

#include "report/terminal/terminal.h"

namespace hone::report {
namespace safe_streams_test {

std::string shown(const std::vector<std::string>& pieces, bool terminal = true) {
  std::stringbuf out;
  SafeBuffer safe(&out, terminal);
  std::ostream stream(&safe);
  for (const std::string& piece : pieces) stream << piece;
  stream.flush();
  return out.str();
}

TEST(SafeStreams, WhatSteersATerminalIsSpelledOut) {
  EXPECT_EQ(shown({"a\x1b]0;title\x07 \x1b[31m\x1b[2J\r"}), "a\\x1b]0;title\\x07 \\x1b[31m\\x1b[2J\\x0d");
  EXPECT_EQ(shown({"\x9B", "31m"}), "\\x9b31m");
}

TEST(SafeStreams, OwnSequencesPassToATerminalOnly) {
  const Terminal colors{.interactive = true, .color = true, .columns = 80};
  const std::string text = colors.bold("b") + colors.green("g") + colors.dim("d") + "\r\x1b[K";
  EXPECT_EQ(shown({text}), text);
  EXPECT_EQ(shown({"\x1b[1m\r\x1b[K"}, false), "\\x1b[1m\\x0d\\x1b[K");
  EXPECT_EQ(shown({"\x1b", "[1m"}), "\\x1b[1m") << "in one piece or not at all";
}

TEST(SafeStreams, CharactersMayComeInPieces) {
  EXPECT_EQ(shown({"\xE6", "\x97", "\xA5", "\xF0\x9F", "\x98\x80", "\xC2", "\x9B", "x"}), "日😀\\x9bx");
  EXPECT_EQ(shown({"\xE6\x97"}), "\\xe6\\x97") << "what is incomplete at the end is not lost";
  EXPECT_EQ(shown({"\xE6\x97", "abc"}),
            "\\xe6\\x97"
            "abc");
}

TEST(SafeStreams, CoutAndCerrAreSafeWhileTheyLive) {
  std::ostringstream out;
  std::streambuf* const before = std::cout.rdbuf(out.rdbuf());
  {
    const SafeStreams safe;
    std::cout << "a\x1b" << 'b' << '\x1b' << 1 << std::endl;
    std::thread([] { std::cout << "\x1b" << std::flush; }).join();
  }
  std::cout << "\x1b";
  std::cout.rdbuf(before);
  EXPECT_EQ(out.str(), "a\\x1bb\\x1b1\n\\x1b\x1b");
}

}  // namespace safe_streams_test
}  // namespace hone::report
