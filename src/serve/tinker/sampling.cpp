// Sampling sessions and samples.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "serve/prompt_scores.h"
#include "serve/tinker/sample_fields.h"
#include "serve/tinker/sample_run.h"
#include "serve/tinker/service.h"

namespace hone::serve {

using base::Json;

SamplingSession& Service::add_sampler(const std::string& session, std::int64_t number) {
  SamplingSession one;
  one.id = session + ":sample:" + std::to_string(number);
  one.session = session;
  one.number = number;
  return samplers_.emplace(one.id, one).first->second;
}

namespace {

// Reads weights of a file as a version.
class LoadVersion : public Work {
 public:
  LoadVersion(model::CausalLm& model, base::fs::path folder, LoraChoice lora,
              std::function<void(Version)> done, std::function<void(std::exception_ptr)> failed)
      : model_(model),
        folder_(std::move(folder)),
        lora_(lora),
        done_(std::move(done)),
        failed_(std::move(failed)) {}

  bool step() override {
    try {
      done_(TrainedModel::load(model_, folder_, lora_, /*moments=*/false)->snapshot());
    } catch (...) {
      failed_(std::current_exception());
    }
    return false;
  }

 private:
  model::CausalLm& model_;
  base::fs::path folder_;
  LoraChoice lora_;
  std::function<void(Version)> done_;
  std::function<void(std::exception_ptr)> failed_;
};

}  // namespace

void Service::create_sampling_session(const Held& exchange, const std::string&) {
  const Fields fields(exchange->request.body);
  fields.only({"session_id", "sampling_session_seq_id", "base_model", "model_path", "type"});
  const std::string owner = session(fields.text("session_id")).id;
  const std::int64_t number = fields.whole("sampling_session_seq_id");
  const auto answer = [this, exchange, owner, number](const std::string& path, Kept version) {
    if (!sessions_.contains(owner)) return answer_error(*exchange, {410, "the session has ended"});
    SamplingSession& made = add_sampler(owner, number);
    made.model_path = path;
    made.version = std::move(version);
    exchange->answer(json_answer({{"type", "create_sampling_session"}, {"sampling_session_id", made.id}}));
  };
  require_base(fields.maybe_text("base_model"));
  if (!fields.has("model_path")) {
    if (!fields.has("base_model")) fields.fail("base_model", "base_model or model_path", "none");
    return answer("", nullptr);
  }
  const TinkerPath path = parse_tinker_path(fields.text("model_path"));
  const SavedFacts saved = store_.read(path);
  require_base(saved.run.base_model);
  if (const auto found = versions_.find(path.text()); found != versions_.end())
    if (Kept version = found->second.lock()) return answer(path.text(), std::move(version));
  compute_.work(std::make_unique<LoadVersion>(
                    model_, store_.folder(path), saved.run.lora,
                    [this, exchange, answer, text = path.text()](const Version& version) {
                      tasks_->run([this, exchange, answer, text, version] {
                        try {
                          const Kept kept = kept_.keep(version);
                          versions_[text] = kept;
                          answer(text, kept);
                        } catch (...) {
                          answer_error(*exchange, error_of(std::current_exception()));
                        }
                      });
                    },
                    [this, exchange](const std::exception_ptr& error) {
                      tasks_->run([exchange, error] { answer_error(*exchange, error_of(error)); });
                    }),
                ++last_queue_);
}

void Service::get_sampler(const Held& exchange, const std::string& id) {
  const SamplingSession& found = sampler(id);
  Json out = {{"sampler_id", found.id}, {"base_model", options_.model_name}};
  if (!found.model_path.empty()) out["model_path"] = found.model_path;
  exchange->answer(json_answer(out));
}

void Service::asample(const Held& exchange, const std::string&) {
  require_running();
  const Fields fields(exchange->request.body);
  SamplingSession& from = sampler(fields.text("sampling_session_id"));
  const std::int64_t seq = fields.whole("seq_id");
  const auto run = std::make_shared<SampleRun>();
  run->future = from.id + ":" + std::to_string(seq);
  run->session = from.session;
  read_sample(fields,
              {.max_context = max_context(),
               .seed = options_.seed,
               .session = from.number,
               .seq = seq,
               .stop_ids = options_.stop_ids,
               .ends_with_stop = options_.ends_with_stop},
              *run);
  model_.require_ids(run->prompt);
  Json ids = Json::array();
  for (std::int64_t i = 0; i < run->samples; ++i) ids.push_back(run->future + ":" + std::to_string(i));
  const HttpAnswer answer = json_answer({{"request_id", run->future}, {"sample_sequence_ids", ids}});
  if (!futures_.knows(run->future)) {
    const std::size_t bytes = exchange->request.body.size();
    if (futures_.pending() > 0 && (futures_.pending() >= options_.waiting_requests ||
                                   futures_.pending_bytes() + bytes > options_.waiting_bytes))
      throw ApiError{429, "too many requests wait: send this one again", 1};
    const std::optional<Version> version = kept_.use(from.version);
    if (!version)
      throw ApiError{429, "the memory for weights is full of those that samples are drawn from", 1};
    run->version = *version;  // bound now: later weights do not matter to it
    from.last_seq = std::max(from.last_seq, seq);
    futures_.open(run->future, from.id, true, bytes);
    start(run);
  }
  exchange->answer(answer);
}

void Service::start(const std::shared_ptr<SampleRun>& run) {
  running_[run->future] = run;
  run->completions.resize(static_cast<std::size_t>(run->samples));
  run->outstanding = run->completions.size();
  for (std::size_t i = 0; i < run->completions.size(); ++i) {
    rollout::DrawKey key = run->key;
    key.sample += i;
    SampleJob job = {
        .request = {.ids = run->prompt,
                    .options = run->options,
                    .key = key,
                    .where = "the prompt",
                    .adapter = run->version},
        .on_token =
            [this, run, i](const rollout::Completion& completion, const SampleFacts& facts, bool ended) {
              if (!ended) return;
              tasks_->run([this, run, i, completion, cached = facts.cached] {
                run->completions[i] = completion;
                run->answer.cache_hit_tokens = std::max(run->answer.cache_hit_tokens, cached);
                part_done(run);
              });
            },
        .on_error =
            [this, run](const std::exception_ptr& error) {
              tasks_->run([this, run, error] { part_failed(run, error); });
            }};
    run->jobs.push_back(compute_.sample(std::move(job)));
  }
  score_prompt_of(run);
}

void Service::part_failed(const std::shared_ptr<SampleRun>& run, const std::exception_ptr& error) {
  if (!std::exchange(run->has_failed, true)) {
    fail(run->future, error);
    for (const JobId job : run->jobs) compute_.cancel(job);
  }
  part_done(run);
}

// A job or a score is done.
void Service::part_done(const std::shared_ptr<SampleRun>& run) {
  run->outstanding -= 1;
  if (run->outstanding > 0) return;
  if (run->has_failed) {
    running_.erase(run->future);
  } else if (run->answer.sequences.empty()) {
    sampled(run);
  } else {
    running_.erase(run->future);
    futures_.finish_protobuf(run->future, write_sample(run->answer));
  }
}

void Service::score(const std::shared_ptr<SampleRun>& run, ScoreJob job,
                    std::function<void(const PromptScores&)> take) {
  run->outstanding += 1;
  job.version = run->version;
  job.on_done = [this, run, take = std::move(take)](const PromptScores& scores) {
    tasks_->run([this, run, take, scores] {
      take(scores);
      part_done(run);
    });
  };
  job.on_error = [this, run](const std::exception_ptr& error) {
    tasks_->run([this, run, error] { part_failed(run, error); });
  };
  compute_.work(score_prompt(model_, std::move(job)), /*queue=*/0);
}

void Service::score_prompt_of(const std::shared_ptr<SampleRun>& run) {
  if (!run->prompt_logprobs && run->prompt_top == 0) return;
  const std::size_t tokens = run->prompt.size();
  if (run->prompt_logprobs)
    run->answer.prompt_logprobs.assign(tokens, std::numeric_limits<float>::quiet_NaN());
  if (run->prompt_top > 0) run->answer.prompt_top = empty_top(tokens, run->prompt_top);
  if (tokens < 2) return;
  score(run,
        {.ids = run->prompt,
         .from = run->scored_from,
         .top = run->prompt_top,
         .version = {},
         .on_done = {},
         .on_error = {}},
        [run](const PromptScores& scores) {
          const auto from = static_cast<std::size_t>(run->scored_from);
          if (run->prompt_logprobs)
            std::copy(scores.logprobs.begin(), scores.logprobs.end(),
                      run->answer.prompt_logprobs.begin() + run->scored_from);
          if (run->prompt_top > 0) put_top(scores.top, from, run->answer.prompt_top);
        });
}

// All samples are drawn.
void Service::sampled(const std::shared_ptr<SampleRun>& run) {
  for (const rollout::Completion& one : run->completions) {
    const bool is_length = one.finish_reason == rollout::FinishReason::kLength ||
                           one.finish_reason == rollout::FinishReason::kCancelled;
    run->answer.sequences.push_back({.is_length = is_length, .tokens = one.ids, .logprobs = one.logprobs});
  }
  run->outstanding = 1;  // this
  for (std::size_t i = 0; run->sample_top > 0 && i < run->completions.size(); ++i) {
    const std::vector<std::int32_t>& drawn = run->completions[i].ids;
    if (drawn.empty()) continue;
    std::vector<std::int32_t> ids = run->prompt;
    ids.insert(ids.end(), drawn.begin(), drawn.end());
    run->answer.sequences[i].top = empty_top(drawn.size(), run->sample_top);
    score(run,
          {.ids = std::move(ids),
           .from = static_cast<std::int64_t>(run->prompt.size()),
           .top = run->sample_top,
           .version = {},
           .on_done = {},
           .on_error = {}},
          [run, i](const PromptScores& scores) { put_top(scores.top, 0, run->answer.sequences[i].top); });
  }
  part_done(run);
}

}  // namespace hone::serve
