#include "base/process/python_process.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <csignal>
#include <fstream>

namespace hone::base {
namespace python_process_test {

constexpr std::string_view kEcho = R"(
import json, os, socket
channel = socket.socket(fileno=3)
lines = channel.makefile("r")
print("what it prints goes nowhere")
channel.sendall(b"no JSON\n")
for line in lines:
    channel.sendall(json.dumps({"got": json.loads(line), "variable": os.environ.get("HONE_TEST_VARIABLE")}).encode() + b"\n")
)";

Clock::time_point soon() {
  return Clock::now() + std::chrono::seconds(20);
}

TEST(PythonProcess, IsToldLinesAndSaysThem) {
  PythonProcess process({.program = kEcho, .variables = {{"HONE_TEST_VARIABLE", "set"}, {"HOME", ""}}});
  const std::string long_text(300000, 'x');  // more than the socket holds
  process.tell({{"text", long_text}});
  std::vector<Json> said = process.wait(soon());
  ASSERT_EQ(said.size(), 1U) << process.failure();
  EXPECT_EQ(said[0]["got"]["text"], long_text);
  EXPECT_EQ(said[0]["variable"], "set");
  EXPECT_TRUE(process.messages().empty());
  EXPECT_FALSE(process.closed());
}

TEST(PythonProcess, APythonThatIsNotThereHasEnded) {
  PythonProcess process({.python = "python-of-nobody", .program = kEcho});
  EXPECT_TRUE(process.closed());
  EXPECT_NE(process.failure().find("'python-of-nobody' does not start: No such file"), std::string::npos);
  process.tell({{"nobody", "reads"}});
  EXPECT_TRUE(process.wait(soon()).empty());
}

TEST(PythonProcess, SaysHowItEnded) {
  PythonProcess three({.program = "raise SystemExit(3)"});
  EXPECT_TRUE(three.wait(soon()).empty());
  EXPECT_TRUE(three.closed());
  EXPECT_FALSE(three.finish(soon()));
  EXPECT_EQ(three.failure(), "ended with code 3");
  PythonProcess killed({.program = "import os; os.kill(os.getpid(), 11)"});
  EXPECT_FALSE(killed.finish(soon()));
  EXPECT_EQ(killed.failure(), "was killed by SIGSEGV");
  PythonProcess good({.program = "pass"});
  EXPECT_TRUE(good.finish(soon()));
  EXPECT_EQ(good.failure(), "");
}

// What it has started ends with it; waiting for one that hangs ends when it should.
TEST(PythonProcess, EndsItsGroup) {
  const auto start = Clock::now();
  pid_t child = 0;
  {
    PythonProcess process({.program = R"py(
import json, socket, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
socket.socket(fileno=3).sendall(json.dumps({"child": child.pid}).encode() + b"\n")
time.sleep(1000)
)py"});
    const std::vector<Json> said = process.wait(soon());
    ASSERT_EQ(said.size(), 1U);
    child = said[0]["child"].get<pid_t>();
    EXPECT_EQ(kill(child, 0), 0);
    EXPECT_TRUE(process.wait(Clock::now() + std::chrono::milliseconds(50)).empty());
    const std::atomic<bool> stop = true;
    EXPECT_TRUE(process.wait(soon(), &stop).empty());
  }
  for (int tries = 0; tries < 200 && kill(child, 0) == 0; ++tries) {
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    std::string text;
    std::getline(stat, text);
    if (text.find(") Z") != std::string::npos) break;  // ended; whoever has it now has not asked yet
    usleep(10000);
  }
  std::ifstream left("/proc/" + std::to_string(child) + "/cmdline");
  std::string words;
  std::getline(left, words);
  EXPECT_EQ(words, "");
  EXPECT_LT(seconds_since(start), 15);
}

}  // namespace python_process_test
}  // namespace hone::base
