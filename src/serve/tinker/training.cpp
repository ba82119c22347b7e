// Models: made, loaded, trained.
#include <utility>

#include "base/error.h"
#include "model/config/families.h"
#include "serve/tinker/datums.h"
#include "serve/tinker/sample_run.h"
#include "serve/tinker/service.h"

namespace hone::serve {

using base::Json;

namespace {

// An object of texts of any JSON object: other values as their JSON.
Json metadata_of(const Fields& fields) {
  const auto object = fields.maybe_object("user_metadata");
  if (!object) return nullptr;
  Json out = Json::object();
  for (const auto& [key, value] : fields.find("user_metadata")->items())
    out[key] = value.is_string() ? value : Json(base::dump_json(value));
  return out;
}

void require_adamw(const Fields& fields) {
  const auto config = fields.maybe_object("optimizer_config");
  if (!config) return;
  config->only({"type", "version"});
  const std::string type = config->maybe_text("type").value_or("adamw");
  if (type != "adamw") config->fail("type", "'adamw'", "'" + type + "'");
}

// Of the request that made the model.
std::string first_future(const std::string& model) {
  return model + ":0";
}

LoraChoice lora_choice(const Fields& fields, std::uint64_t absent_seed) {
  const auto lora = fields.maybe_object("lora_config");
  if (!lora) fields.fail("lora_config", "a LoRA: this server trains adapters on its one base", "nothing");
  lora->only({"rank", "seed", "train_unembed", "train_mlp", "train_attn"});
  LoraChoice out;
  out.rank = lora->whole("rank", 1);
  out.seed = static_cast<std::uint64_t>(lora->whole_or("seed", static_cast<std::int64_t>(absent_seed), 0,
                                                       std::numeric_limits<std::int64_t>::max()));
  out.attention = lora->flag_or("train_attn", true);
  out.mlp = lora->flag_or("train_mlp", true);
  out.unembed = lora->flag_or("train_unembed", true);
  return out;
}

}  // namespace

TrainedModel& made(Runtime& runtime) {
  if (runtime.model) return *runtime.model;
  throw ApiError{400, "the model was not made: the future of create_model says why"};
}

ModelState* Service::begin_model(const Held& exchange, const Fields& fields) {
  const std::string owner = session(fields.text("session_id")).id;
  const std::string id = owner + ":train:" + std::to_string(fields.whole("model_seq_id"));
  ModelState* out = nullptr;
  if (!models_.contains(id)) {
    auto model = std::make_unique<ModelState>();
    model->id = model->facts.id = id;
    model->session = owner;
    model->queue = ++last_queue_;
    model->last_request = now_seconds();
    out = (models_[id] = std::move(model)).get();
    futures_.open(first_future(id), id, false, 0);
  }
  exchange->answer(json_answer({{"request_id", first_future(id)}, {"model_id", id}}));
  return out;
}

void Service::create_model(const Held& exchange, const std::string&) {
  const Fields fields(exchange->request.body);
  ModelState* const begun = begin_model(exchange, fields);
  if (begun == nullptr) return;
  ModelState& model = *begun;
  const std::string future = first_future(model.id);
  try {
    fields.only({"session_id", "model_seq_id", "base_model", "user_metadata", "lora_config",
                 "optimizer_config", "type"});
    require_base(fields.text("base_model"));
    require_adamw(fields);
    model.facts.base_model = options_.model_name;
    model.facts.user_metadata = metadata_of(fields);
    model.facts.lora =
        lora_choice(fields, options_.seed + static_cast<std::uint64_t>(fields.whole("model_seq_id")));
  } catch (...) {
    model.is_failed = true;
    return fail(future, std::current_exception());
  }
  work(
      model, future,
      [this, lora = model.facts.lora](Runtime& runtime) {
        runtime.model = TrainedModel::create(model_, lora);
        if (options_.datum_room) runtime.model->add_in_bins(options_.datum_room);
        return false;
      },
      [this, future, id = model.id] {
        futures_.finish(future, {{"model_id", id}, {"type", "create_model"}});
      });
}

void Service::load_into(ModelState& model, const std::string& future, const TinkerPath& path, bool moments) {
  const SavedFacts saved = store_.read(path);
  require_base(saved.run.base_model);
  if (moments && path.kind == WeightsKind::kSampler)
    throw ApiError{400, path.text() + " has no optimizer: save_weights_for_sampler saves weights alone"};
  model.facts.lora = saved.run.lora;
  model.facts.base_model = options_.model_name;
  work(
      model, future,
      [this, lora = saved.run.lora, folder = store_.folder(path), moments](Runtime& runtime) {
        runtime.model = TrainedModel::load(model_, folder, lora, moments);
        if (options_.datum_room) runtime.model->add_in_bins(options_.datum_room);
        runtime.saved_steps = runtime.model->steps();
        return false;
      },
      [this, future, text = path.text(), id = model.id] {
        futures_.finish(future, {{"path", text}, {"model_id", id}, {"type", "load_weights"}});
      });
}

void Service::load_weights(const Held& exchange, const std::string&) {
  const Fields fields(exchange->request.body);
  const auto check = [fields] {
    fields.only({"session_id", "model_seq_id", "model_id", "seq_id", "path", "optimizer", "base_model",
                 "user_metadata", "optimizer_config", "weights_access_token", "type"});
    if (fields.has("weights_access_token"))
      fields.fail("weights_access_token", "nothing: all weights of this server are its user's", "a token");
    require_adamw(fields);
    return parse_tinker_path(fields.text("path"));
  };
  if (fields.has("model_id")) {
    return in_turn(exchange, fields.text("model_id"), fields.whole("seq_id", 1),
                   [this, fields, check](ModelState& model, const std::string& future) {
                     const TinkerPath path = check();
                     load_into(model, future, path, fields.flag_or("optimizer", false));
                   });
  }
  ModelState* const begun = begin_model(exchange, fields);
  if (begun == nullptr) return;
  ModelState& model = *begun;
  const std::string future = first_future(model.id);
  try {
    const TinkerPath path = check();
    require_base(fields.maybe_text("base_model"));
    model.facts.user_metadata = metadata_of(fields);
    load_into(model, future, path, fields.flag_or("optimizer", false));
  } catch (...) {
    model.is_failed = true;
    fail(future, std::current_exception());
  }
}

void Service::get_info(const Held& exchange, const std::string&) {
  const Fields fields(exchange->request.body);
  fields.only({"model_id", "type"});
  const ModelState& found = model(fields.text("model_id"));
  exchange->answer(json_answer({{"type", "get_info"},
                                {"model_id", found.id},
                                {"is_lora", true},
                                {"lora_rank", found.facts.lora.rank},
                                {"model_name", options_.model_name},
                                {"model_data",
                                 {{"arch", model::traits_of(model_.config().family).model_type},
                                  {"model_name", options_.model_name},
                                  {"tokenizer_id", options_.model_name}}},
                                {"optimizer_config", {{"type", "adamw"}}},
                                {"train_attn", found.facts.lora.attention},
                                {"train_mlp", found.facts.lora.mlp},
                                {"train_unembed", found.facts.lora.unembed}}));
}

namespace {

// A forward_backward as it goes through the model, a datum a pass.
struct Training {
  std::vector<Datum> datums;
  LossSpec loss;
  bool trains = true;
  std::size_t next = 0;
  std::vector<DatumLogprobs> outputs = {};
  double total = 0;

  bool step(TrainedModel& model) {
    try {
      if (next == 0 && trains) model.begin();
      const Datum& datum = datums[next];
      ScoredDatum scored = model.forward_backward(datum, loss, trains);
      outputs.push_back({.values = std::move(scored.logprobs), .columns = datum.is_flat ? 0 : datum.columns});
      total += scored.loss;
      next += 1;
      if (next < datums.size()) return true;
      if (trains) model.done();
      return false;
    } catch (const base::UserError& error) {
      if (trains) model.undo();
      base::ErrorText text = error.text();
      text.where = "datum " + std::to_string(next) + ", " + text.where;
      throw base::UserError(text);
    } catch (...) {
      if (trains) model.undo();
      throw;
    }
  }
};

std::shared_ptr<Training> training_of(std::string_view body) {
  const ForwardBackward request = read_forward_backward(body);
  auto out = std::make_shared<Training>();
  out->loss = read_loss(request.loss_fn, request.config);
  out->trains = !request.forward_only;
  if (request.data.empty()) throw ApiError{400, "forward_backward without a datum"};
  for (std::size_t i = 0; i < request.data.size(); ++i)
    out->datums.push_back(datum_of(request.data[i], out->loss, out->trains, "datum " + std::to_string(i)));
  return out;
}

}  // namespace

void Service::forward_backward(const Held& exchange, const std::string&) {
  const std::string_view type = exchange->request.header("content-type");
  if (type != "application/x-protobuf")
    throw ApiError{400, "forward_backward needs application/x-protobuf, not '" + std::string(type) +
                            "': the tinker SDK sends it from 0.25 on"};
  if (const auto coding = exchange->request.header("content-encoding");
      !coding.empty() && coding != "identity")
    throw ApiError{400, "content-encoding is not supported: client/config says proto_compress_fwdbwd false"};
  const ForwardBackwardHead head = read_forward_backward_head(exchange->request.body);
  in_turn(exchange, head.model_id, head.seq_id,
          [this, exchange](ModelState& model, const std::string& future) {
            const auto training = training_of(exchange->request.body);
            work(
                model, future, [training](Runtime& runtime) { return training->step(made(runtime)); },
                [this, training, future] {
                  futures_.finish_protobuf(
                      future, write_forward_backward(training->outputs, {{"loss:sum", training->total}}));
                });
          });
}

void Service::optim_step(const Held& exchange, const std::string&) {
  const Fields fields(exchange->request.body);
  in_turn(exchange, fields.text("model_id"), fields.whole("seq_id", 1),
          [this, fields](ModelState& model, const std::string& future) {
            fields.only({"model_id", "seq_id", "type", "adam_params", "optimizer_params"});
            if (fields.has("optimizer_params"))
              fields.fail("optimizer_params", "adam_params: the optimizer is AdamW", "those of another");
            const auto adam = fields.maybe_object("adam_params");
            AdamParams params;
            if (adam) {
              adam->only({"learning_rate", "beta1", "beta2", "eps", "weight_decay", "grad_clip_norm"});
              params = {.learning_rate = adam->number_or("learning_rate", params.learning_rate),
                        .beta1 = adam->number_or("beta1", params.beta1),
                        .beta2 = adam->number_or("beta2", params.beta2),
                        .epsilon = adam->number_or("eps", params.epsilon),
                        .weight_decay = adam->number_or("weight_decay", params.weight_decay),
                        .grad_clip_norm = adam->number_or("grad_clip_norm", params.grad_clip_norm)};
            }
            check(params);
            const auto report = std::make_shared<StepReport>();
            work(
                model, future,
                [params, report](Runtime& runtime) {
                  if (made(runtime).add_gradient()) return true;
                  *report = made(runtime).optim_step(params);
                  return false;
                },
                [this, report, future] {
                  futures_.finish(future, {{"metrics",
                                            {{"unclipped_grad_l2:mean", report->gradient_l2},
                                             {"update_l2:mean", report->update_l2},
                                             {"param_l2:mean", report->param_l2},
                                             {"step:max", report->step}}}});
                });
          });
}

}  // namespace hone::serve
