#include "serve/tinker/service.h"

#include <array>
#include <charconv>
#include <iostream>
#include <string_view>

#include "base/error.h"
#include "base/strings/printable.h"
#include "serve/tinker/sample_run.h"
#include "serve/tinker/steps.h"

namespace hone::serve {

struct Service::Route {
  std::string_view method,
      pattern;  // {}: any part of the path, given to the handler; several are joined by '/'
  Handler handler;
};

namespace {

constexpr std::string_view kPrefix = "/api/v1/";

std::vector<std::string> parts_of(std::string_view path) {
  std::vector<std::string> out;
  for (;;) {
    const std::size_t slash = path.find('/');
    out.push_back(percent_decoded(path.substr(0, slash)));
    if (slash == std::string_view::npos) return out;
    path.remove_prefix(slash + 1);
  }
}

// What {} stood for; nothing: another path.
std::optional<std::string> matched(std::string_view pattern, const std::vector<std::string>& parts) {
  const std::vector<std::string> wanted = parts_of(pattern);
  if (wanted.size() != parts.size()) return std::nullopt;
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (wanted[i] != "{}") {
      if (wanted[i] != parts[i]) return std::nullopt;
      continue;
    }
    if (parts[i].find('/') != std::string::npos) return std::nullopt;  // of %2F
    out += (out.empty() ? "" : "/") + parts[i];
  }
  return out;
}

constexpr std::string_view kLoadAgain = "load the last tinker:// path that was saved";

ApiError not_here(const std::string& what, const std::string& id, const std::string& why) {
  return {.status = 404,
          .sentence = "no " + what + " '" + id + "': the server has been started again, or " + why};
}

// A page of another site can send a text here without asking first, and no JSON.
void require_type(const HttpRequest& asked) {
  if (asked.method == "GET" || asked.body.empty()) return;
  if (!asked.has_type("application/json") && !asked.has_type("application/x-protobuf"))
    throw ApiError{415, "the content-type must be application/json or application/x-protobuf"};
}

}  // namespace

ApiError error_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ApiError& wrong) {
    return wrong;
  } catch (const base::UserError& wrong) {
    return {.status = 400, .sentence = wrong.what()};
  } catch (const std::exception& fault) {
    std::cerr << "fault     " << base::printable(fault.what()) << std::endl;
    return {.status = 500, .sentence = "the server failed at this request; its own output says why"};
  }
}

void answer_error(Exchange& exchange, const ApiError& error) {
  HttpAnswer answer = detail(error.status, error.sentence);
  if (error.retry_after > 0) answer.headers.emplace_back("retry-after", std::to_string(error.retry_after));
  exchange.answer(std::move(answer));
}

Service::Service(model::CausalLm& model, Compute& compute, TinkerOptions options)
    : model_(model),
      compute_(compute),
      options_(std::move(options)),
      futures_(options_.futures),
      kept_({.folder = options_.root, .bound = options_.adapter_memory}),
      store_(options_.root) {}

Service::~Service() = default;

void Service::handle(const Held& exchange) {
  try {
    dispatch(exchange);
  } catch (...) {
    answer_error(*exchange, error_of(std::current_exception()));
  }
}

void Service::dispatch(const Held& exchange) {
  using S = Service;
  static const std::array kRoutes = std::to_array<Route>({
      {"POST", "client/config", &S::client_config},
      {"POST", "client/dynamic_config", &S::dynamic_config},
      {"POST", "create_session", &S::create_session},
      {"POST", "session_heartbeat", &S::heartbeat},
      {"POST", "sessions/{}/finish", &S::finish_session},
      {"POST", "telemetry", &S::telemetry},
      {"POST", "create_model", &S::create_model},
      {"POST", "load_weights", &S::load_weights},
      {"POST", "get_info", &S::get_info},
      {"POST", "forward_backward", &S::forward_backward},
      {"POST", "optim_step", &S::optim_step},
      {"POST", "save_weights", &S::save_weights},
      {"POST", "save_weights_for_sampler", &S::save_weights_for_sampler},
      {"POST", "create_sampling_session", &S::create_sampling_session},
      {"POST", "asample", &S::asample},
      {"POST", "retrieve_future", &S::retrieve_future},
      {"POST", "retrieve_futures", &S::retrieve_futures},
      {"POST", "cancel_future", &S::cancel_future},
      {"POST", "weights_info", &S::weights_info},
      {"GET", "samplers/{}", &S::get_sampler},
      {"GET", "get_server_capabilities", &S::capabilities},
      {"GET", "healthz", &S::healthz},
      {"GET", "training_runs", &S::list_runs},
      {"GET", "training_runs/{}", &S::get_run},
      {"GET", "training_runs/{}/checkpoints", &S::list_run_checkpoints},
      {"GET", "checkpoints", &S::list_checkpoints},
      {"GET", "sessions", &S::list_sessions},
      {"GET", "sessions/{}", &S::get_session},
      {"DELETE", "training_runs/{}/checkpoints/{}/{}", &S::delete_checkpoint},
      {"PUT", "training_runs/{}/checkpoints/{}/{}/ttl", &S::set_ttl},
  });
  const std::string& path = exchange->request.path;
  const std::vector<std::string> parts = parts_of(std::string_view(path).substr(kPrefix.size()));
  bool is_known = false;
  for (const Route& route : kRoutes) {
    const std::optional<std::string> part = matched(route.pattern, parts);
    if (!part) continue;
    is_known = true;
    require_type(exchange->request);
    if (route.method == exchange->request.method) return (this->*route.handler)(exchange, *part);
  }
  if (is_known) throw ApiError{405, "this path has another method than " + exchange->request.method};
  throw ApiError{404, "hone serve has no " + path + "; docs/serve-tinker.md lists the paths that it has"};
}

Session& Service::session(const std::string& id) {
  const auto found = sessions_.find(id);
  if (found != sessions_.end()) return found->second;
  throw not_here("session", id, "the session has ended; " + std::string(kLoadAgain));
}

ModelState& Service::model(const std::string& id) {
  const auto found = models_.find(id);
  if (found == models_.end())
    throw not_here("model", id, "its session has ended; " + std::string(kLoadAgain));
  found->second->last_request = now_seconds();
  return *found->second;
}

SamplingSession& Service::sampler(const std::string& id) {
  const auto found = samplers_.find(id);
  if (found != samplers_.end()) return found->second;
  throw not_here("sampling session", id, "its session has ended");
}

void Service::require_base(const std::optional<std::string>& name) const {
  if (!name || *name == options_.model_name) return;
  for (const std::string& other : options_.other_names)
    if (*name == other) return;
  throw base::UserError(
      {.where = "base_model",
       .expected = "'" + options_.model_name + "', the model of this server",
       .found = "'" + *name + "'",
       .cause = "a server has one base model, which it was started with",
       .fix = "start another server for it, or give this one the name: --served-model-name"});
}

void Service::require_running() const {
  if (options_.drains && options_.drains()) throw ApiError{503, "the server is being stopped", 5};
}

std::int64_t Service::max_context() const {
  return options_.max_context > 0 ? options_.max_context : model_.config().max_position_embeddings;
}

bool Service::was_given(const std::string& future) const {
  const std::size_t colon = future.rfind(':');
  if (colon == std::string::npos) return false;
  const std::string owner = future.substr(0, colon);
  std::int64_t number = -1;
  const auto read = std::from_chars(future.data() + colon + 1, future.data() + future.size(), number);
  if (read.ec != std::errc() || read.ptr != future.data() + future.size() || number < 0) return false;
  if (const auto found = models_.find(owner); found != models_.end())
    return number <= found->second->order.last_run();
  const auto found = samplers_.find(owner);
  return found != samplers_.end() && number <= found->second.last_seq;
}

void Service::fail(const std::string& future, const std::exception_ptr& error) {
  const ApiError wrong = error_of(error);
  futures_.fail(future, wrong.sentence, wrong.status >= 500 ? Blame::kServer : Blame::kUser);
}

std::function<void()> Service::here(std::function<void()> call) {
  return [tasks = tasks_, call = std::move(call)] { tasks->run(call); };
}

void Service::in_turn(const Held& exchange, const std::string& id, std::int64_t seq, Turn turn) {
  require_running();
  ModelState& asked = model(id);
  const std::string future = id + ":" + std::to_string(seq);
  const auto place = asked.order.look(seq);
  const std::size_t bytes = exchange->request.body.size();
  if (place == RequestOrder::Place::kTaken) {
    const bool is_full = futures_.pending() >= options_.waiting_requests ||
                         futures_.pending_bytes() + bytes > options_.waiting_bytes;
    const bool frees_others = asked.order.is_next(seq) && asked.order.held() > 0;
    if (is_full && futures_.pending() > 0 && !frees_others)
      throw ApiError{429, "too many requests wait: send this one again", 1};
    futures_.open(future, id, false, bytes);
    asked.order.take(
        seq,
        [this, exchange, id, future, turn = std::move(turn)] {
          try {
            ModelState& mine = model(id);
            if (mine.is_failed)
              throw ApiError{400, "the model was not made: the future of create_model says why"};
            turn(mine, future);
          } catch (...) {
            fail(future, std::current_exception());
          }
        },
        Steady::now());
  } else if (place == RequestOrder::Place::kTooLate) {
    futures_.open(future, id, false, 0);
    futures_.fail(future,
                  "seq_id " + std::to_string(seq) +
                      " came after the requests behind it had been told that it was missing",
                  Blame::kUser);
  }
  exchange->answer(json_answer({{"request_id", future}, {"model_id", id}}));
}

void Service::work(ModelState& model, const std::string& future, std::function<bool(Runtime&)> step,
                   std::function<void()> done) {
  const auto finish = [this, future, done = std::move(done)] {
    try {
      done();
    } catch (...) {
      fail(future, std::current_exception());
    }
  };
  compute_.work(std::make_unique<Steps>(model.runtime, std::move(step), here(finish),
                                        [this, future](const std::exception_ptr& error) {
                                          tasks_->run([this, future, error] { fail(future, error); });
                                        }),
                model.queue);
}

void Service::tick() {
  const auto now = Steady::now();
  if (options_.drains && options_.drains()) futures_.end_polls(now);
  futures_.tick(now);
  for (auto& [id, model] : models_) {
    for (const auto& [seq, missing] : model->order.give_up(now - options_.gap)) {
      futures_.fail(id + ":" + std::to_string(seq),
                    "seq_id " + std::to_string(missing) + " of " + id + " has not come, so " +
                        std::to_string(seq) + " was not done; later requests of the model are",
                    Blame::kUser);
    }
  }
  std::vector<std::string> ended;
  for (const auto& [id, session] : sessions_)
    if (session.seen + options_.heartbeat < now) ended.push_back(id);
  for (const std::string& id : ended) end_session(id);
}

}  // namespace hone::serve
