// Requests to one server over HTTP, one after another, by the user's Python (python/http_calls.py). In a step that a signal has cut short
// (base/process/stop_request.h) a request ends with StopCut.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/process/python_process.h"
#include "base/stopwatch.h"

namespace hone::python {

struct HttpOptions {
  std::string url;                   // "http://127.0.0.1:8000"
  std::string key_env;               // the variable that holds the key; empty, or it is not set: no key
  double seconds = 30;               // of a request
  std::size_t most_bytes = 400'000;  // of an answer
  std::string python;                // empty: base/process/active_python.h
  std::string when_late;             // what to do where an answer does not come in time
  std::string how_key = "name the variable that holds the key: --api_key_env NAME";
};

struct HttpReply {
  int status = 0;
  std::string text;
};

class HttpCalls {
 public:
  explicit HttpCalls(HttpOptions options);

  // Any status. UserError: no Python, nobody listens, no whole answer in time, or one that is too long.
  HttpReply get(const std::string& path);
  HttpReply post(const std::string& path, const base::Json& body);

  // The object of an answer with status 200. UserError for another status, and for what is no JSON object.
  base::Json object(const HttpReply& reply, const std::string& path) const;

  const std::string& url() const { return options_.url; }
  // UserError: what came as the answer of `path` is not what `expected` says.
  // The key that was sent along is not shown, also where the server has repeated it.
  [[noreturn]] void refuse(const std::string& path, const std::string& expected, const std::string& found,
                           const std::string& fix = "") const;

 private:
  HttpReply ask(const char* method, const std::string& path, const base::Json& body);
  std::vector<base::Json> wait_for_answer(base::Clock::time_point until);

  HttpOptions options_;
  std::unique_ptr<base::PythonProcess> process_;
  bool repeats_key_ = false;  // the last answer does
};

// The address below which paths begin with /v1: "http://127.0.0.1:8000/v1/", as clients are given it, without its end.
std::string server_root(std::string url);

// A member of an object; null where there is none.
base::Json member_of(const base::Json& object, const std::string& name);

}  // namespace hone::python
