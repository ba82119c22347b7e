// Runs and what they have saved, as the SDK's RestClient asks for them.
#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "serve/tinker/sample_run.h"
#include "serve/tinker/service.h"

namespace hone::serve {

using base::Json;

namespace {

Json checkpoint_json(const SavedFacts& saved) {
  Json out = {{"checkpoint_id", saved.path.checkpoint_id()},
              {"checkpoint_type", saved.path.kind == WeightsKind::kTraining ? "training" : "sampler"},
              {"time", iso_time(saved.time)},
              {"tinker_path", saved.path.text()},
              {"size_bytes", saved.bytes},
              {"public", false},
              {"user_metadata", saved.user_metadata}};
  out["expires_at"] = saved.expires_at ? Json(iso_time(*saved.expires_at)) : Json(nullptr);
  return out;
}

// A number of the query; `absent` where it has none.
std::size_t query_number(const std::string& query, std::string_view name, std::size_t absent) {
  std::string_view rest = query;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const std::size_t equals = one.find('=');
    if (equals == std::string_view::npos || one.substr(0, equals) != name) continue;
    const std::string_view text = one.substr(equals + 1);
    std::size_t value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (read.ec == std::errc() && read.ptr == text.data() + text.size()) return value;
    throw ApiError{400, "query " + std::string(name) + ": expected a whole number"};
  }
  return absent;
}

// The part of `all` that the query asks for, with a cursor, under `name`.
Json page(const std::string& query, const char* name, std::size_t limit, const Json& all) {
  const std::size_t offset = std::min(query_number(query, "offset", 0), all.size());
  limit = query_number(query, "limit", limit);
  Json part = Json::array();
  for (std::size_t i = offset; i < all.size() && part.size() < limit; ++i) part.push_back(all[i]);
  return {{name, part}, {"cursor", {{"offset", offset}, {"limit", limit}, {"total_count", all.size()}}}};
}

// RUN/KIND/NAME of a route.
TinkerPath path_of_route(const std::string& part) {
  return parse_tinker_path("tinker://" + part);
}

}  // namespace

std::optional<RunFacts> Service::facts_of(const std::string& run) const {
  if (const auto found = models_.find(run); found != models_.end() && !found->second->is_failed)
    return found->second->facts;
  return store_.run(run);
}

Json Service::run_json(const RunFacts& facts, std::int64_t last_request) const {
  Json out = {{"training_run_id", facts.id},
              {"base_model", facts.base_model},
              {"model_owner", "local"},
              {"is_lora", true},
              {"lora_rank", facts.lora.rank},
              {"corrupted", false},
              {"user_metadata", facts.user_metadata}};
  for (const SavedFacts& saved : store_.saved(facts.id)) {
    last_request = std::max(last_request, saved.time);
    out[saved.path.kind == WeightsKind::kTraining ? "last_checkpoint" : "last_sampler_checkpoint"] =
        checkpoint_json(saved);
  }
  out["last_request_time"] = iso_time(last_request);
  return out;
}

void Service::get_run(const Held& exchange, const std::string& id) {
  const std::optional<RunFacts> facts = facts_of(id);
  if (!facts) throw ApiError{404, "no training run '" + id + "' below the server's root"};
  const auto found = models_.find(id);
  exchange->answer(json_answer(run_json(*facts, found == models_.end() ? 0 : found->second->last_request)));
}

void Service::list_runs(const Held& exchange, const std::string&) {
  std::vector<std::string> ids = store_.runs();
  for (const auto& [id, model] : models_) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  Json all = Json::array();
  for (const std::string& id : ids) {
    const auto found = models_.find(id);
    if (const std::optional<RunFacts> facts = facts_of(id))
      all.push_back(run_json(*facts, found == models_.end() ? 0 : found->second->last_request));
  }
  exchange->answer(json_answer(page(exchange->request.query, "training_runs", 20, all)));
}

void Service::list_run_checkpoints(const Held& exchange, const std::string& id) {
  if (!facts_of(id)) throw ApiError{404, "no training run '" + id + "' below the server's root"};
  Json all = Json::array();
  for (const SavedFacts& saved : store_.saved(id)) all.push_back(checkpoint_json(saved));
  exchange->answer(json_answer(page(exchange->request.query, "checkpoints", all.size(), all)));
}

void Service::list_checkpoints(const Held& exchange, const std::string&) {
  Json all = Json::array();
  for (const std::string& run : store_.runs())
    for (const SavedFacts& saved : store_.saved(run)) all.push_back(checkpoint_json(saved));
  exchange->answer(json_answer(page(exchange->request.query, "checkpoints", 100, all)));
}

void Service::list_sessions(const Held& exchange, const std::string&) {
  Json all = Json::array();
  for (const auto& [id, session] : sessions_) all.push_back(id);
  exchange->answer(json_answer(page(exchange->request.query, "sessions", 20, all)));
}

void Service::get_session(const Held& exchange, const std::string& id) {
  const Session& found = session(id);
  Json runs = Json::array(), samplers = Json::array();
  for (const auto& [name, model] : models_)
    if (model->session == id) runs.push_back(name);
  for (const auto& [name, sampler] : samplers_)
    if (sampler.session == id) samplers.push_back(name);
  exchange->answer(json_answer(
      {{"training_run_ids", runs}, {"sampler_ids", samplers}, {"user_metadata", found.user_metadata}}));
}

void Service::delete_checkpoint(const Held& exchange, const std::string& part) {
  const TinkerPath path = path_of_route(part);
  store_.remove(path);
  versions_.erase(path.text());
  exchange->answer({.status = 204});
}

void Service::set_ttl(const Held& exchange, const std::string& part) {
  const Fields fields(exchange->request.body);
  fields.only({"ttl_seconds"});
  std::optional<std::int64_t> expires;
  if (fields.has("ttl_seconds")) expires = now_seconds() + fields.whole("ttl_seconds", 1);
  store_.set_expiry(path_of_route(part), expires);
  exchange->answer({.status = 204});
}

void Service::weights_info(const Held& exchange, const std::string&) {
  const Fields fields(exchange->request.body);
  fields.only({"tinker_path", "weights_access_token", "type"});
  const SavedFacts saved = store_.read(parse_tinker_path(fields.text("tinker_path")));
  exchange->answer(json_answer({{"base_model", saved.run.base_model},
                                {"optimizer_config", {{"type", "adamw"}}},
                                {"is_lora", true},
                                {"lora_rank", saved.run.lora.rank},
                                {"train_unembed", saved.run.lora.unembed},
                                {"train_mlp", saved.run.lora.mlp},
                                {"train_attn", saved.run.lora.attention}}));
}

}  // namespace hone::serve
