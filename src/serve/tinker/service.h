// The Tinker API's state and what each request does to it; everything here runs on one TaskThread.
// Tensors are touched by works of the compute thread alone, which post what became of them back.
//
// Ids: a session is "s" and 16 hexadecimal digits that no earlier start of a server gave; its models are
// SESSION:train:N, its sampling sessions SESSION:sample:N, with the client's numbers; a request's future is
// the id of its model or sampling session, a colon and its seq_id. So a request that is sent again is known
// by its numbers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/causal_lm.h"
#include "serve/http.h"
#include "serve/kept_versions.h"
#include "serve/task_thread.h"
#include "serve/tinker/compute.h"
#include "serve/tinker/fields.h"
#include "serve/tinker/futures.h"
#include "serve/tinker/options.h"
#include "serve/tinker/order.h"
#include "serve/tinker/store.h"
#include "serve/tinker/wire.h"
#include "serve/training/trained_model.h"
#include "serve/weights.h"

namespace hone::serve {

using Held = std::shared_ptr<Exchange>;

// Holds what a model's works share, on the compute thread alone.
struct Runtime {
  std::unique_ptr<TrainedModel> model;     // null before it was made, and where that failed
  std::int64_t saved_steps = 0;            // as many steps as its last saved weights have
  std::atomic<bool> is_abandoned = false;  // its session has ended: what waits is not done
};

// An error with a status of its own: {"detail": sentence}.
struct ApiError {
  int status = 400;
  std::string sentence;
  int retry_after = 0;  // seconds; 0: no such header
};

// The model of a work. ApiError where it was not made.
TrainedModel& made(Runtime& runtime);

struct ModelState {
  std::string id, session;
  std::uint64_t queue = 0;  // of Compute
  RunFacts facts;
  RequestOrder order;
  std::shared_ptr<Runtime> runtime = std::make_shared<Runtime>();
  bool is_failed = false;         // it was not made
  Kept newest;                    // of save_weights_for_sampler: held until the next
  std::int64_t last_request = 0;  // seconds since 1970
};

struct SamplingSession {
  std::string id, session;
  std::int64_t number = 0;  // the client's
  std::string model_path;   // empty: none
  Kept version;             // null: the base
  std::int64_t last_seq = -1;
};

struct Session {
  std::string id;
  Steady::time_point seen;
  std::int64_t began = 0;
  base::Json user_metadata;
};

// Returns what a client is told of an error. Of a fault of the server it is one fixed sentence: paths and
// places in the source go to the server's own output.
ApiError error_of(const std::exception_ptr& error);
void answer_error(Exchange& exchange, const ApiError& error);

// A sample's jobs on the compute thread.
struct SampleRun;
struct ScoreJob;
struct PromptScores;

class Service {
 public:
  Service(model::CausalLm& model, Compute& compute, TinkerOptions options);
  ~Service();

  void handle(const Held& exchange);
  void tick();
  void autosave(const std::function<void(Autosaved)>& done);
  KeptFacts versions() const { return kept_.facts(); }  // from any thread

 private:
  using Handler = void (Service::*)(const Held&, const std::string& part);
  struct Route;
  void dispatch(const Held& exchange);

  // session.cpp
  void client_config(const Held&, const std::string&);
  void dynamic_config(const Held&, const std::string&);
  void create_session(const Held&, const std::string&);
  void heartbeat(const Held&, const std::string&);
  void finish_session(const Held&, const std::string&);
  void telemetry(const Held&, const std::string&);
  void retrieve_future(const Held&, const std::string&);
  void retrieve_futures(const Held&, const std::string&);
  void cancel_future(const Held&, const std::string&);
  void capabilities(const Held&, const std::string&);
  void healthz(const Held&, const std::string&);
  void end_session(const std::string& id);

  // training.cpp
  void create_model(const Held&, const std::string&);
  void load_weights(const Held&, const std::string&);
  void get_info(const Held&, const std::string&);
  void forward_backward(const Held&, const std::string&);
  void optim_step(const Held&, const std::string&);
  // Answers a request that makes a model. Null: the request came again, and the model is there.
  ModelState* begin_model(const Held& exchange, const Fields& fields);
  void load_into(ModelState& model, const std::string& future, const TinkerPath& path, bool moments);
  // The body of a request of `model`, in its turn: what it throws goes into its future.
  using Turn = std::function<void(ModelState& model, const std::string& future)>;
  void in_turn(const Held& exchange, const std::string& model, std::int64_t seq, Turn turn);
  // On the compute thread, after the model's earlier works: `step` until it says false, then `done` here.
  // What either throws goes into the future.
  void work(ModelState& model, const std::string& future, std::function<bool(Runtime&)> step,
            std::function<void()> done);

  // saving.cpp
  void save_weights(const Held&, const std::string&);
  void save_weights_for_sampler(const Held&, const std::string&);
  SavedFacts saved_facts(const ModelState& model, const Fields& fields, WeightsKind kind,
                         std::int64_t seq) const;
  void save(ModelState& model, const std::string& future, const SavedFacts& facts, bool overwrite);
  void new_sampler(ModelState& model, const std::string& future, std::int64_t number);

  // sampling.cpp
  void create_sampling_session(const Held&, const std::string&);
  void asample(const Held&, const std::string&);
  void get_sampler(const Held&, const std::string&);
  SamplingSession& add_sampler(const std::string& session, std::int64_t number);
  void start(const std::shared_ptr<SampleRun>& run);
  void sampled(const std::shared_ptr<SampleRun>& run);
  void part_done(const std::shared_ptr<SampleRun>& run);
  void part_failed(const std::shared_ptr<SampleRun>& run, const std::exception_ptr& error);
  void score_prompt_of(const std::shared_ptr<SampleRun>& run);
  void score(const std::shared_ptr<SampleRun>& run, ScoreJob job,
             std::function<void(const PromptScores&)> take);

  // files.cpp
  void get_run(const Held&, const std::string&);
  void list_runs(const Held&, const std::string&);
  void list_run_checkpoints(const Held&, const std::string&);
  void list_checkpoints(const Held&, const std::string&);
  void list_sessions(const Held&, const std::string&);
  void get_session(const Held&, const std::string&);
  void delete_checkpoint(const Held&, const std::string&);
  void set_ttl(const Held&, const std::string&);
  void weights_info(const Held&, const std::string&);
  base::Json run_json(const RunFacts& facts, std::int64_t last_request) const;
  std::optional<RunFacts> facts_of(const std::string& run) const;

  // Throws what becomes 404 {"detail"}.
  Session& session(const std::string& id);
  ModelState& model(const std::string& id);
  SamplingSession& sampler(const std::string& id);
  void require_base(const std::optional<std::string>& name) const;
  bool was_given(const std::string& future) const;
  void require_running() const;  // ApiError 503 while the server drains
  std::int64_t max_context() const;
  void fail(const std::string& future, const std::exception_ptr& error);
  std::function<void()> here(std::function<void()> call);  // of another thread: posts it

  model::CausalLm& model_;
  Compute& compute_;
  const TinkerOptions options_;
  Futures futures_;
  KeptVersions kept_;  // before all that has a Kept
  std::map<std::string, Session> sessions_;
  std::map<std::string, std::unique_ptr<ModelState>> models_;
  std::map<std::string, SamplingSession> samplers_;
  std::map<std::string, std::weak_ptr<const std::uint64_t>>
      versions_;                                               // of tinker:// paths, while somebody has them
  std::map<std::string, std::shared_ptr<SampleRun>> running_;  // by future
  Store store_;
  std::uint64_t last_queue_ = 0;
  TaskThread* tasks_ = nullptr;
  friend class TinkerApi;
};

}  // namespace hone::serve
