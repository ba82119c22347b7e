#include "python/http_calls.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/process/stop_request.h"
#include "base/strings/printable.h"
#include "base/strings/utf8.h"
#include "python/http_texts.h"

namespace hone::python {

using base::Clock;
using base::Json;

namespace {

constexpr double kStart = 20;  // seconds for Python to begin, beside those of the first request
constexpr std::size_t kShown = 300;

}  // namespace

std::string server_root(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  if (url.ends_with("/v1")) url.resize(url.size() - 3);
  return url;
}

Json member_of(const Json& object, const std::string& name) {
  if (!object.is_object()) return {};
  const auto found = object.find(name);
  return found == object.end() ? Json() : *found;
}

HttpCalls::HttpCalls(HttpOptions options) : options_(std::move(options)) {}

void HttpCalls::refuse(const std::string& path, const std::string& expected, const std::string& found,
                       const std::string& fix) const {
  throw base::UserError({.where = options_.url + path,
                         .expected = expected,
                         .found = repeats_key_ ? "an answer that repeats the key, and is not shown"
                                               : base::printable(base::cut_text(found, kShown)),
                         .cause = {},
                         .fix = fix});
}

std::vector<Json> HttpCalls::wait_for_answer(Clock::time_point until) {
  constexpr auto kGlance = std::chrono::milliseconds(100);  // between looks at a step's limit
  while (true) {
    std::vector<Json> said = process_->wait(std::min(until, Clock::now() + kGlance));
    if (!said.empty() || process_->closed() || Clock::now() >= until) return said;
    if (!base::stop_overdue()) continue;
    process_.reset();  // its answer would be taken for that of a later request
    base::cut_if_overdue();
  }
}

HttpReply HttpCalls::ask(const char* method, const std::string& path, const Json& body) {
  repeats_key_ = false;
  if (!process_) {
    const std::size_t most_line = 2 * options_.most_bytes + 1000;  // an answer in JSON, whose quotes take two
    process_ = std::make_unique<base::PythonProcess>(base::PythonProcess::Options{
        .python = options_.python, .program = kHttpCallsPython, .most_line = most_line});
    process_->tell({{"url", options_.url},
                    {"seconds", options_.seconds},
                    {"key_env", options_.key_env},
                    {"most", options_.most_bytes},
                    {"most_line", most_line}});
  }
  process_->tell({{"method", method}, {"path", path}, {"body", body}});
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(kStart + options_.seconds));
  const std::vector<Json> said = wait_for_answer(until);
  if (said.empty()) {
    const bool late = !process_->closed();
    process_->finish(Clock::now());
    const std::string how = process_->failure();
    process_.reset();
    refuse(path, "an answer", late || how.empty() ? "no answer in time" : "the Python that asks " + how,
           "name another Python with --python");
  }
  const Json& reply = said.front();
  repeats_key_ = member_of(reply, "repeats_key") == Json(true);
  if (const Json failed = member_of(reply, "failed"); failed.is_string()) {
    const bool absent = member_of(reply, "absent") == Json(true);
    refuse(path, absent ? "a server that listens" : "an answer", failed.get<std::string>(),
           absent ? "start it, or correct the address" : options_.when_late);
  }
  const Json status = member_of(reply, "status"), text = member_of(reply, "text");
  base::require(status.is_number_integer() && text.is_string(), "python::HttpCalls", "a status and a text");
  return {.status = status.get<int>(), .text = text.get<std::string>()};
}

HttpReply HttpCalls::get(const std::string& path) {
  return ask("GET", path, {});
}

HttpReply HttpCalls::post(const std::string& path, const Json& body) {
  return ask("POST", path, body);
}

Json HttpCalls::object(const HttpReply& reply, const std::string& path) const {
  if (reply.status != 200) {
    const bool key = reply.status == 401 || reply.status == 403;
    refuse(path, "status 200", std::to_string(reply.status) + ": " + reply.text, key ? options_.how_key : "");
  }
  try {
    Json out = base::parse_json(reply.text, options_.url + path);
    if (out.is_object()) return out;
  } catch (const base::UserError&) {
    // told below, with what came
  }
  refuse(path, "a JSON object", reply.text.empty() ? "an empty answer" : reply.text,
         "it is no server that hone knows; correct the address");
}

}  // namespace hone::python
