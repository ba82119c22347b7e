#include "commands/ranks/caller_link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/files/scratch_folder.h"
#include "commands/process/run_signals.h"

namespace hone::commands {
namespace caller_link_test {

using base::Json;

// A caller: answers each line with `reply`, and closes after `most` of them.
class Caller {
 public:
  Caller(const base::fs::path& path, std::string reply, std::size_t most)
      : listener_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_, 1), 0);
    thread_ = std::thread([this, reply = std::move(reply), most] { serve(reply, most); });
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
  ~Caller() {
    if (thread_.joinable()) thread_.join();
    ::close(listener_);
  }
  std::vector<Json> events() {
    thread_.join();
    return std::move(events_);
  }

 private:
  void serve(const std::string& reply, std::size_t most) {
    const int end = ::accept(listener_, nullptr, nullptr);
    std::string text;
    char byte = 0;
    while (events_.size() < most && ::recv(end, &byte, 1, 0) == 1) {
      text += byte;
      if (byte != '\n') continue;
      events_.push_back(Json::parse(text));
      text.clear();
      ::send(end, reply.data(), reply.size(), MSG_NOSIGNAL);
    }
    ::close(end);
  }

  int listener_;
  std::vector<Json> events_;
  std::thread thread_;
};

struct Counter final : train::RunListener {
  int steps = 0, logs = 0, saves = 0, ends = 0;
  void on_step(const train::StepFacts&, std::int64_t) override { ++steps; }
  void on_log(const train::LogRecord&) override { ++logs; }
  void on_save(const std::string&, std::int64_t) override { ++saves; }
  void on_finish(const std::string&, bool, std::int64_t) override { ++ends; }
};

void run(CallerLink& link) {
  link.on_step({.step = 1, .epoch = 0.5, .num_tokens = 12}, 2);
  link.on_log({.step = 1,
               .epoch = 0.5,
               .values = {{"loss", 2.0}, {"reward", std::numeric_limits<double>::quiet_NaN()}}});
  link.on_save("out/checkpoint-1", 1);
  link.on_finish("out", true, 1);
}

TEST(CallerLink, TellsEveryEventAndPassesItOn) {
  const base::ScratchFolder folder("caller");
  Caller caller(folder.path() / "s", "{\"stop\": false}\n", 4);
  Counter inner;
  const bool before = watch_stop_signals().load();
  {
    CallerLink link(inner, folder.path() / "s");
    run(link);
  }
  const std::vector<Json> events = caller.events();
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0],
            Json({{"event", "step"}, {"step", 1}, {"epoch", 0.5}, {"total_steps", 2}, {"num_tokens", 12}}));
  EXPECT_EQ(events[1]["record"], Json({{"step", 1}, {"epoch", 0.5}, {"loss", 2.0}, {"reward", nullptr}}));
  EXPECT_EQ(events[2], Json({{"event", "save"}, {"step", 1}, {"folder", "out/checkpoint-1"}}));
  EXPECT_EQ(events[3]["interrupted"], true);
  EXPECT_EQ(inner.steps + inner.logs + inner.saves + inner.ends, 4);
  EXPECT_EQ(watch_stop_signals().load(), before);
}

TEST(CallerLink, GoesOnWithoutACallerThatHasHungUp) {
  const base::ScratchFolder folder("caller");
  Caller caller(folder.path() / "s", "{\"stop\": false}\n", 1);
  Counter inner;
  CallerLink link(inner, folder.path() / "s");
  run(link);
  run(link);
  EXPECT_EQ(inner.steps, 2);
  EXPECT_EQ(inner.ends, 2);
  EXPECT_EQ(caller.events().size(), 1U);
}

TEST(CallerLink, StopsTheRunWhenItIsAskedTo) {
  const base::ScratchFolder folder("caller");
  Caller caller(folder.path() / "s", "{\"stop\": true}\n", 1);
  Counter inner;
  CallerLink link(inner, folder.path() / "s");
  link.on_step({.step = 1}, 2);
  EXPECT_TRUE(watch_stop_signals().load());
}

TEST(CallerLink, RefusesASocketThatNobodyListensAt) {
  const base::ScratchFolder folder("caller");
  Counter inner;
  EXPECT_THROW(CallerLink(inner, folder.path() / "gone"), base::UserError);
  EXPECT_THROW(CallerLink(inner, std::string(300, 'x')), base::UserError);
  EXPECT_NO_THROW(CallerLink(inner, ""));
}

}  // namespace caller_link_test
}  // namespace hone::commands
