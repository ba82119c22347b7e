// Weights that clients save: to files, and as versions that requests sample from.
#include <utility>

#include "base/error.h"
#include "serve/tinker/sample_run.h"
#include "serve/tinker/service.h"
#include "serve/tinker/steps.h"

namespace hone::serve {

using base::Json;

namespace {

// For the server's own output, so whole.
std::string sentence_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& wrong) {
    return wrong.what();
  }
}

constexpr std::int64_t kLongestTtl = std::int64_t{10} * 366 * 24 * 3600;

}  // namespace

SavedFacts Service::saved_facts(const ModelState& model, const Fields& fields, WeightsKind kind,
                                std::int64_t seq) const {
  SavedFacts out;
  out.path = {.run = model.id,
              .kind = kind,
              .name = fields.maybe_text("path").value_or("seq-" + std::to_string(seq))};
  require_path_name(out.path.name, "path");
  out.time = now_seconds();
  if (fields.has("ttl_seconds")) out.expires_at = out.time + fields.whole("ttl_seconds", 1, kLongestTtl);
  out.run = model.facts;
  out.user_metadata = fields.texts("user_metadata");
  return out;
}

void Service::save(ModelState& model, const std::string& future, const SavedFacts& facts, bool overwrite) {
  const bool is_training = facts.path.kind == WeightsKind::kTraining;
  const auto version = std::make_shared<Version>();
  work(
      model, future,
      [this, facts, overwrite, is_training, version](Runtime& runtime) {
        const TrainedModel& trained = made(runtime);
        SavedFacts now = facts;
        now.steps = trained.steps();
        store_.save(now, overwrite, [&](const base::fs::path& folder) { trained.save(folder, is_training); });
        if (!is_training) *version = trained.snapshot();
        if (is_training) runtime.saved_steps = trained.steps();
        return false;
      },
      [this, future, is_training, version, id = model.id, path = facts.path.text()] {
        versions_.erase(path);  // of what it replaced
        if (!is_training) {
          const Kept kept = kept_.keep(std::exchange(*version, nullptr));
          versions_[path] = kept;
          if (const auto found = models_.find(id); found != models_.end()) found->second->newest = kept;
        }
        futures_.finish(
            future, {{"path", path}, {"type", is_training ? "save_weights" : "save_weights_for_sampler"}});
      });
}

void Service::autosave(const std::function<void(Autosaved)>& done) {
  struct Saving {
    std::size_t outstanding = 1;  // this call
    Autosaved all;
  };
  const auto saving = std::make_shared<Saving>();
  const auto one_less = [saving, done] {
    if (--saving->outstanding == 0) done(saving->all);
  };
  for (const auto& [id, model] : models_) {
    if (model->is_failed) continue;
    SavedFacts facts;
    facts.path = {.run = id, .kind = WeightsKind::kTraining, .name = "autosave"};
    facts.time = now_seconds();
    facts.run = model->facts;
    saving->outstanding += 1;
    const auto is_written = std::make_shared<bool>(false);
    compute_.work(std::make_unique<Steps>(
                      model->runtime,
                      [this, facts, is_written](Runtime& runtime) {
                        if (!runtime.model || runtime.model->steps() == runtime.saved_steps) return false;
                        SavedFacts now = facts;
                        now.steps = runtime.model->steps();
                        store_.save(now, /*overwrite=*/true, [&](const base::fs::path& folder) {
                          runtime.model->save(folder, /*moments=*/true);
                        });
                        *is_written = true;
                        return false;
                      },
                      here([saving, is_written, one_less, path = facts.path.text()] {
                        if (*is_written) saving->all.paths.push_back(path);
                        one_less();
                      }),
                      [saving, one_less, this, id](const std::exception_ptr& error) {
                        tasks_->run([saving, one_less, id, why = sentence_of(error)] {
                          saving->all.failures.push_back(id + ": " + why);
                          one_less();
                        });
                      }),
                  model->queue);
  }
  one_less();
}

void Service::save_weights(const Held& exchange, const std::string&) {
  const Fields fields(exchange->request.body);
  const std::int64_t seq = fields.whole("seq_id", 1);
  in_turn(exchange, fields.text("model_id"), seq,
          [this, fields, seq](ModelState& model, const std::string& future) {
            fields.only({"model_id", "seq_id", "path", "ttl_seconds", "overwrite", "user_metadata", "type"});
            save(model, future, saved_facts(model, fields, WeightsKind::kTraining, seq),
                 fields.flag_or("overwrite", false));
          });
}

void Service::new_sampler(ModelState& model, const std::string& future, std::int64_t number) {
  const auto version = std::make_shared<Version>();
  work(
      model, future,
      [version](Runtime& runtime) {
        *version = made(runtime).snapshot();
        return false;
      },
      [this, future, number, version, id = model.id, owner = model.session] {
        if (!sessions_.contains(owner)) return;  // it has ended meanwhile, and nobody waits
        const Kept kept = kept_.keep(std::exchange(*version, nullptr));
        SamplingSession& sampler = add_sampler(owner, number);
        sampler.version = kept;
        if (const auto found = models_.find(id); found != models_.end()) found->second->newest = kept;
        futures_.finish(future, {{"sampling_session_id", sampler.id}, {"type", "save_weights_for_sampler"}});
      });
}

void Service::save_weights_for_sampler(const Held& exchange, const std::string&) {
  const Fields fields(exchange->request.body);
  const std::int64_t seq = fields.whole("seq_id", 1);
  in_turn(exchange, fields.text("model_id"), seq,
          [this, fields, seq](ModelState& model, const std::string& future) {
            fields.only({"model_id", "seq_id", "path", "ttl_seconds", "sampling_session_seq_id", "kind",
                         "user_metadata", "overwrite", "type"});
            const std::string kind = fields.maybe_text("kind").value_or("snapshot");
            if (kind != "snapshot")
              fields.fail("kind", "'snapshot'", "'" + kind + "', which hone does not have");
            if (fields.has("sampling_session_seq_id")) {
              if (fields.has("path")) fields.fail("path", "a path or sampling_session_seq_id", "both");
              return new_sampler(model, future, fields.whole("sampling_session_seq_id"));
            }
            save(model, future, saved_facts(model, fields, WeightsKind::kSampler, seq),
                 fields.flag_or("overwrite", false));
          });
}

}  // namespace hone::serve
