// A Python program of hone's own, beside the run and never in its way: it is told settings, says lines, and is ended with
// everything in its process group. Nothing here waits unless it says so.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/stopwatch.h"

namespace hone::base {

class PythonProcess {
 public:
  struct Options {
    std::string python;        // looked for along PATH; empty: base/process/active_python.h
    std::string_view program;  // its text, given by -c
    // Environment variables beside ours; those that are empty are left as they are.
    std::vector<std::pair<std::string, std::string>> variables = {};
    bool shows_output = false;                     // what it prints goes to our stderr; false: nowhere
    std::size_t most_line = std::size_t{1} << 20;  // bytes that are kept of a line
  };
  // Starts it, in a process group of its own, with /dev/null as stdin, one end of a socket as descriptor 3 and none of our
  // other descriptors. A Python that does not start has ended at once: failure() says why.
  explicit PythonProcess(const Options& options);
  PythonProcess(const PythonProcess&) = delete;
  PythonProcess& operator=(const PythonProcess&) = delete;
  ~PythonProcess();  // ends it

  // A line of JSON for it; kept until it reads. For messages of a few kilobytes.
  void tell(const Json& message);
  // The lines of JSON objects that it has said since the last call; others are left out, and lines above Options::most_line.
  std::vector<Json> messages();
  // The same, after waiting until it has said something or closed the socket, `until` has come, or `stop` is true.
  std::vector<Json> wait(Clock::time_point until, const std::atomic<bool>* stop = nullptr);
  bool closed() const { return socket_ < 0; }  // it has said its last
  // Ends its group, if it has not ended by itself until `until`. True: by itself, with exit code 0.
  bool finish(Clock::time_point until);
  // "python9 does not start: No such file or directory", "ended with code 3", "was killed by SIGSEGV"; "" while it runs, and after 0.
  const std::string& failure() const { return failure_; }

 private:
  void flush();
  void receive();
  void close_socket();

  pid_t pid_ = -1;
  int socket_ = -1;
  std::size_t most_line_;
  std::string outgoing_, incoming_;
  std::vector<Json> said_;
  std::string failure_;
};

}  // namespace hone::base
