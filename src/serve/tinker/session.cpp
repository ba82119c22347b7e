// Sessions, futures, and what a client asks before it begins.
#include <algorithm>
#include <cstdio>
#include <random>

#include "base/error.h"
#include "serve/tinker/sample_run.h"
#include "serve/tinker/service.h"

namespace hone::serve {

using base::Json;

namespace {

std::string new_session_id() {
  std::random_device device;  // the kernel's
  char text[20];
  std::snprintf(text, sizeof(text), "s%08x%08x", device(), device());
  return text;
}

}  // namespace

void Service::client_config(const Held& exchange, const std::string&) {
  exchange->answer(json_answer({{"pjwt_auth_enabled", false},
                                {"credential_default_source", "api_key"},
                                {"parallel_fwdbwd_chunks", true},
                                {"proto_compress_fwdbwd", false},
                                {"fwdbwd_max_chunk_len", 1024},
                                {"fwdbwd_max_chunk_bytes_count", 5000000},
                                {"sample_max_concurrent_requests", 256},
                                {"sample_use_retrieve_futures", true},
                                {"custom_loss_server_side", false},
                                {"sample_join_sampling_session", false}}));
}

void Service::dynamic_config(const Held& exchange, const std::string&) {
  exchange->answer(json_answer({{"refresh_interval_sec", 300},
                                {"sample_cancel_enabled", true},
                                {"sample_cancel_max_batch_size", 64}}));
}

void Service::create_session(const Held& exchange, const std::string&) {
  require_running();
  const Fields fields(exchange->request.body);
  fields.only({"tags", "user_metadata", "sdk_version", "project_id", "display_name", "type"});
  Session session{
      .id = new_session_id(), .seen = Steady::now(), .began = now_seconds(), .user_metadata = nullptr};
  if (const Json* metadata = fields.find("user_metadata")) session.user_metadata = *metadata;
  exchange->answer(json_answer({{"type", "create_session"}, {"session_id", session.id}}));
  sessions_.emplace(session.id, std::move(session));
}

void Service::heartbeat(const Held& exchange, const std::string&) {
  const Fields fields(exchange->request.body);
  fields.only({"session_id", "type"});
  const auto found = sessions_.find(fields.text("session_id"));
  if (found == sessions_.end())
    throw ApiError{410, "the session has ended, or the server has been started again"};
  found->second.seen = Steady::now();
  exchange->answer(json_answer({{"type", "session_heartbeat"}}));
}

void Service::finish_session(const Held& exchange, const std::string& id) {
  if (sessions_.contains(id)) end_session(id);
  exchange->answer({.status = 204});
}

void Service::end_session(const std::string& id) {
  for (const auto& [future, run] : running_)
    if (run->session == id)
      for (const JobId job : run->jobs) compute_.cancel(job);
  for (auto it = samplers_.begin(); it != samplers_.end();) {
    const auto here = it++;
    if (here->second.session != id) continue;
    futures_.drop_owner(here->first);
    samplers_.erase(here);
  }
  for (auto it = models_.begin(); it != models_.end();) {
    const auto here = it++;
    if (here->second->session != id) continue;
    futures_.drop_owner(here->first);
    here->second->runtime->is_abandoned = true;
    models_.erase(here);
  }
  sessions_.erase(id);
}

// Dropped: it has stack traces with the client's paths. SESSION_END in it comes after any error, while the
// session goes on.
void Service::telemetry(const Held& exchange, const std::string&) {
  exchange->answer(json_answer({{"status", "accepted"}}));
}

void Service::retrieve_future(const Held& exchange, const std::string&) {
  const Fields fields(exchange->request.body);
  fields.only({"request_id", "allow_metadata_only"});
  const std::string id = fields.text("request_id");
  futures_.poll(exchange, id, fields.flag_or("allow_metadata_only", false), was_given(id), Steady::now());
}

void Service::retrieve_futures(const Held& exchange, const std::string&) {
  const Fields fields(exchange->request.body);
  fields.only({"target", "prev_cursor", "timeout", "retrieved_request_ids"});
  const auto target = fields.maybe_object("target");
  if (!target) fields.fail("target", "an object", "nothing");
  target->only({"type", "sampling_session_id", "cloned_sampler_id"});
  const std::string id = target->text("sampling_session_id");
  sampler(id);
  const double seconds = fields.number_or("timeout", 3600);
  const auto wait =
      std::chrono::milliseconds(static_cast<std::int64_t>(1000 * std::min(std::max(seconds, 0.0), 3600.0)));
  futures_.poll_owner(exchange, id, static_cast<std::size_t>(fields.whole_or("prev_cursor", 0)), wait,
                      Steady::now());
}

void Service::cancel_future(const Held& exchange, const std::string&) {
  const Fields fields(exchange->request.body);
  fields.only({"request_id", "request_ids"});
  const auto cancel = [&](const std::string& id) {
    const auto found = running_.find(id);
    if (found == running_.end()) return;
    for (const JobId job : found->second->jobs) compute_.cancel(job);
  };
  if (const Json* const several = fields.find("request_ids"); several != nullptr && several->is_array()) {
    for (const Json& one : *several)
      if (one.is_string()) cancel(one.get<std::string>());
  } else {
    cancel(fields.text("request_id"));
  }
  exchange->answer({.status = 204});
}

void Service::capabilities(const Held& exchange, const std::string&) {
  Json models = Json::array();
  models.push_back({{"model_name", options_.model_name},
                    {"max_context_length", max_context()},
                    {"trainable", true},
                    {"sampleable", true}});
  exchange->answer(json_answer({{"supported_models", models}}));
}

void Service::healthz(const Held& exchange, const std::string&) {
  exchange->answer(json_answer({{"status", "ok"}}));
}

}  // namespace hone::serve
