#include "config/parse.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/suggest.h"
#include "config/kto_plan.h"
#include "config/online_dpo_plan.h"
#include "config/policy_plan.h"
#include "config/preference_plan.h"
#include "config/reward_model_plan.h"
#include "config/secret_words.h"
#include "config/size.h"
#include "config/write_plan.h"

namespace hone::config {
namespace {

using base::Json;
using base::UserError;

Every every(const std::string& word) {
  if (word == "no") return Every::kNo;
  return word == "epoch" ? Every::kEpoch : Every::kSteps;
}

Scheduler scheduler(const std::string& word) {
  static const std::map<std::string, Scheduler> names = {
      {"linear", Scheduler::kLinear},
      {"cosine", Scheduler::kCosine},
      {"constant", Scheduler::kConstant},
      {"constant_with_warmup", Scheduler::kConstantWithWarmup}};
  return names.at(word);
}

constexpr std::string_view kPissaNiter = "pissa_niter_";

LoraInit lora_init(const std::string& word) {
  if (word == "gaussian") return LoraInit::kGaussian;
  if (word.starts_with("pissa")) return LoraInit::kPissa;
  return word == "false" ? LoraInit::kFalse : LoraInit::kTrue;
}

Recompute recompute(const Settings& settings) {
  static const std::map<std::string, Recompute> names = {{"auto", Recompute::kAuto},
                                                         {"none", Recompute::kNone},
                                                         {"cheap", Recompute::kCheap},
                                                         {"layer", Recompute::kLayer}};
  const Recompute asked = names.at(settings.text("recompute"));
  const bool keep_all = asked == Recompute::kAuto && !settings.flag("gradient_checkpointing");
  return keep_all ? Recompute::kNone : asked;
}

LayerForm layer_form(const std::string& word) {
  if (word == "explicit") return LayerForm::kExplicit;
  return word == "plain" ? LayerForm::kPlain : LayerForm::kAuto;
}

OnFault on_fault(const std::string& word) {
  if (word == "warn") return OnFault::kWarn;
  return word == "stop" ? OnFault::kStop : OnFault::kPause;
}

void require_set(const Settings& settings, const std::string& name, const std::string& example) {
  if (!settings.text(name).empty()) return;
  throw UserError(
      {.where = fmt::format("hone {}", settings.schema().command),
       .expected = fmt::format("option {}", name),
       .found = "it is not set",
       .cause = {},
       .fix = fmt::format("write {}: {} in the YAML file, or --{} {}", name, example, name, example)});
}

// An interval in steps: a whole number, or a share below 1 (TrainingArguments._validate_args).
void check_interval(const Settings& settings, const std::string& name, const std::string& strategy) {
  if (settings.text(strategy) != "steps") return;
  const double steps = settings.number(name);
  if (steps > 0 && (steps < 1 || steps == std::floor(steps))) return;
  throw UserError(
      {.where = settings.where(name),
       .expected = fmt::format("{} a whole number of steps, or a share of all steps below 1", name),
       .found = base::short_json(settings.value(name)),
       .cause = steps == 0 ? fmt::format("{} is steps", strategy) : "",
       .fix = steps == 0 ? fmt::format("write {}: \"no\" to switch it off", strategy) : ""});
}

double num_cycles(const Settings& settings) {
  const Json& kwargs = settings.value("lr_scheduler_kwargs");
  if (kwargs.is_null() || kwargs.empty()) return Plan().lr_num_cycles;
  const std::string where = settings.where("lr_scheduler_kwargs");
  const std::vector<std::string> known = {"num_cycles"};
  for (const auto& [key, value] : kwargs.items()) {
    if (key != known[0]) {
      throw UserError({.where = where,
                       .expected = "num_cycles in lr_scheduler_kwargs",
                       .found = fmt::format("unknown key '{}'.{}", key, base::did_you_mean(key, known)),
                       .cause = "other keys belong to schedules that hone does not have yet",
                       .fix = {}});
    }
    if (!value.is_number()) {
      throw UserError({.where = where,
                       .expected = "a number for lr_scheduler_kwargs.num_cycles",
                       .found = base::short_json(value),
                       .cause = {},
                       .fix = {}});
    }
  }
  if (settings.text("lr_scheduler_type") != "cosine") {
    throw UserError({.where = where,
                     .expected = "lr_scheduler_type: cosine with lr_scheduler_kwargs.num_cycles",
                     .found = settings.text("lr_scheduler_type"),
                     .cause = "num_cycles has a meaning for cosine alone",
                     .fix = "set lr_scheduler_type: cosine, or remove lr_scheduler_kwargs"});
  }
  return kwargs.at("num_cycles").get<double>();
}

bool tensorboard(const Settings& settings, std::vector<std::string>& notes) {
  bool on = false;
  static const std::vector<std::string> trackers = {
      "none",    "all",     "tensorboard", "wandb",   "trackio",    "mlflow",   "comet_ml", "neptune",
      "clearml", "dagshub", "dvclive",     "swanlab", "codecarbon", "azure_ml", "flyte",    "kubeflow"};
  for (const std::string& name : settings.list("report_to")) {
    if (std::find(trackers.begin(), trackers.end(), name) == trackers.end()) {
      throw UserError({.where = settings.where("report_to"),
                       .expected = "tensorboard or none for report_to",
                       .found = fmt::format("'{}'.{}", name, base::did_you_mean(name, trackers)),
                       .cause = {},
                       .fix = {}});
    }
    on = on || name == "tensorboard" || name == "all";
    if (name != "none" && name != "tensorboard") {
      notes.push_back(
          fmt::format("report_to: {}: hone writes metrics.jsonl and TensorBoard files alone", name));
    }
  }
  return on;
}

void check_combinations(const Settings& settings) {
  if (!settings.flag("use_peft")) {
    throw UserError({.where = settings.where("use_peft"),
                     .expected = "use_peft: true",
                     .found = "use_peft: false, which trains every weight of the model",
                     .cause = "full fine-tuning is not yet there",
                     .fix = "set use_peft: true to train a LoRA adapter"});
  }
  const bool packs = settings.schema().find("packing") != nullptr;
  if (packs && settings.flag("packing") && settings.value("max_length").is_null()) {
    throw UserError({.where = settings.where("packing"),
                     .expected = "max_length with packing",
                     .found = "max_length: null",
                     .cause = "a packed row is max_length tokens long",
                     .fix = "set max_length, or packing: false"});
  }
  if (packs && settings.flag("eval_packing") && settings.value("max_length").is_null()) {
    throw UserError({.where = settings.where("eval_packing"),
                     .expected = "max_length with eval_packing",
                     .found = "max_length: null",
                     .cause = "a packed row is max_length tokens long",
                     .fix = "set max_length, or eval_packing: false"});
  }
  const std::string level = settings.text("recompute");
  if (settings.text("layer_form") == "plain" && (level == "cheap" || level == "layer")) {
    throw UserError(
        {.where = settings.where("recompute"),
         .expected = "recompute: none or auto with layer_form: plain",
         .found = level,
         .cause = "the plain layer keeps all that autograd keeps; only the explicit one recomputes",
         .fix = "remove layer_form: plain, or recompute"});
  }
  check_interval(settings, "logging_steps", "logging_strategy");
  check_interval(settings, "save_steps", "save_strategy");
  check_interval(settings, "eval_steps", "eval_strategy");
  if (settings.integer("max_steps") == 0) {
    throw UserError({.where = settings.where("max_steps"),
                     .expected = "max_steps above 0, or -1",
                     .found = "0",
                     .cause = "a run of no steps trains nothing",
                     .fix = "write -1 to train num_train_epochs"});
  }
  const double warmup = settings.number("warmup_steps");
  if (warmup > 1 && warmup != std::floor(warmup)) {
    throw UserError({.where = settings.where("warmup_steps"),
                     .expected = "warmup_steps a whole number of steps, or a share of all steps below 1",
                     .found = base::short_json(settings.value("warmup_steps")),
                     .cause = {},
                     .fix = {}});
  }
  for (const char* name : {"seed", "data_seed"}) {
    if (settings.value(name).is_number() && settings.integer(name) < 0) {
      throw UserError({.where = settings.where(name),
                       .expected = fmt::format("{} at least 0", name),
                       .found = base::short_json(settings.value(name)),
                       .cause = {},
                       .fix = {}});
    }
  }
  for (const char* name : {"lora_target_modules", "lora_exclude_modules"}) {
    const bool empty = settings.value(name).is_array() && settings.value(name).empty();
    for (const std::string& item : settings.list(name)) {
      if (item.empty())
        throw UserError({.where = settings.where(name),
                         .expected = fmt::format("names in {}", name),
                         .found = "an empty name",
                         .cause = {},
                         .fix = {}});
    }
    if (empty && std::string_view(name) == "lora_target_modules") {
      throw UserError({.where = settings.where(name),
                       .expected = "at least one name in lora_target_modules",
                       .found = "an empty list",
                       .cause = "an adapter on nothing learns nothing",
                       .fix = "write all-linear, or remove it for PEFT's choice"});
    }
  }
}

// What transformers resolves after parsing, so that plan.yaml shows what is used.
void resolve_defaults(Settings& settings) {
  if (settings.text("output_dir").empty()) settings.replace("output_dir", "trainer_output");
  if (settings.value("bf16").is_null()) settings.replace("bf16", true);
  const bool by_steps = settings.text("eval_strategy") == "steps";
  const Json& eval_steps = settings.value("eval_steps");
  if (by_steps && (eval_steps.is_null() || eval_steps.get<double>() == 0)) {
    settings.replace("eval_steps", settings.value("logging_steps"));
  }
}

void fill_token_indices(Plan& plan, const Settings& settings) {
  constexpr const char* kName = "trainable_token_indices";
  const Json& value = settings.value(kName);
  if (value.is_null()) return;
  const Json& ids = value.is_object() ? value.begin().value() : value;
  plan.trainable_token_indices = ids.get<std::vector<std::int64_t>>();
  if (!value.is_object()) return;
  plan.trainable_token_module = value.begin().key();
  const std::string& module = plan.trainable_token_module;
  if (module == "embed_tokens" || module == "model.embed_tokens") return;
  throw UserError({.where = settings.where(kName),
                   .expected = "embed_tokens: a list of token ids",
                   .found = fmt::format("'{}'", module),
                   .cause =
                       "rows of the embedding are trained, and of the head where it is tied to it; a head "
                       "of its own has no trainable rows yet",
                   .fix = "write a list of token ids alone"});
}

void fill_adapter(Plan& plan, const Settings& settings) {
  plan.use_peft = settings.flag("use_peft");
  plan.lora_r = settings.integer("lora_r");
  plan.lora_alpha = settings.number("lora_alpha");
  plan.lora_dropout = settings.number("lora_dropout");
  plan.lora_target_modules = settings.list("lora_target_modules");
  plan.lora_exclude_modules = settings.list("lora_exclude_modules");
  fill_token_indices(plan, settings);
  plan.use_rslora = settings.flag("use_rslora");
  plan.use_dora = settings.flag("use_dora");
  const std::string init = settings.text("init_lora_weights");
  plan.init_lora_weights = lora_init(init);
  if (init.starts_with(kPissaNiter)) plan.pissa_niter = std::stoll(init.substr(kPissaNiter.size()));
  if (plan.use_dora && plan.init_lora_weights == LoraInit::kPissa) {
    throw UserError(
        {.where = settings.where("init_lora_weights"),
         .expected = "use_dora or pissa, not both",
         .found = init,
         .cause = "PiSSA's adapter is converted when it is saved, and a magnitude has no such form",
         .fix = "leave one of them out"});
  }
  plan.adapter_name_or_path = settings.text("adapter_name_or_path");
  const bool continues = !plan.adapter_name_or_path.empty();
  plan.base_adapters = settings.list("base_adapters");
  if (plan.use_dora && !continues && !plan.base_adapters.empty()) {
    throw UserError({.where = settings.where("base_adapters"),
                     .expected = "use_dora or base_adapters, not both",
                     .found = "use_dora: true",
                     .cause = "DoRA's magnitudes are of the base alone in PEFT, not of what lies below it",
                     .fix = "hone merge the base_adapters into the base first, and train on that model"});
  }
  const bool off = plan.method != Method::kSft && settings.flag("disable_dropout");
  if (continues && (off || settings.is_set("lora_dropout"))) plan.continued_dropout = plan.lora_dropout;
}

void fill_data(Plan& plan, const Settings& settings) {
  plan.dataset_name = settings.text("dataset_name");
  plan.dataset_test = settings.text("eval_dataset");
  const bool cuts = settings.schema().find("max_length") != nullptr;  // grpo and rloo never cut a prompt
  plan.max_length = cuts ? settings.maybe_integer("max_length").value_or(0) : 0;
  if (settings.schema().find("chat_template_path") != nullptr) {
    plan.eos_token = settings.text("eos_token");
    plan.chat_template_path = settings.text("chat_template_path");
  }
  if (settings.schema().find("shuffle_dataset") != nullptr)
    plan.shuffle_dataset = settings.flag("shuffle_dataset");
  if (plan.method != Method::kSft) return;
  plan.dataset_text_field = settings.text("dataset_text_field");
  plan.packing = settings.flag("packing");
  plan.eval_packing = settings.maybe_flag("eval_packing");
  plan.completion_only_loss = settings.maybe_flag("completion_only_loss");
  plan.assistant_only_loss = settings.flag("assistant_only_loss");
}

void fill_training(Plan& plan, const Settings& settings) {
  plan.output_dir = settings.text("output_dir");
  plan.per_device_train_batch_size = settings.integer("per_device_train_batch_size");
  plan.per_device_eval_batch_size = settings.integer("per_device_eval_batch_size");
  plan.gradient_accumulation_steps = settings.integer("gradient_accumulation_steps");
  plan.num_train_epochs = settings.number("num_train_epochs");
  plan.max_steps = settings.integer("max_steps");
  plan.learning_rate = settings.number("learning_rate");
  plan.lr_scheduler_type = scheduler(settings.text("lr_scheduler_type"));
  plan.lr_num_cycles = num_cycles(settings);
  plan.warmup_steps = settings.number("warmup_steps");
  plan.weight_decay = settings.number("weight_decay");
  plan.adam_beta1 = settings.number("adam_beta1");
  plan.adam_beta2 = settings.number("adam_beta2");
  plan.adam_epsilon = settings.number("adam_epsilon");
  plan.max_grad_norm = settings.number("max_grad_norm");
  plan.seed = settings.integer("seed");
  if (plan.method != Method::kGrpo && plan.method != Method::kRloo) {
    plan.data_seed = settings.maybe_integer("data_seed");
    plan.shuffle_rows = settings.text("train_sampling_strategy") == "random";
    plan.dataloader_drop_last = settings.flag("dataloader_drop_last");
  } else {  // TRL's RepeatSampler
    plan.shuffle_rows = plan.shuffle_dataset;
    plan.dataloader_drop_last = true;
  }
  plan.threads = settings.integer("threads");
  plan.recompute = recompute(settings);
  plan.layer_form = layer_form(settings.text("layer_form"));
  plan.skip_doctor = settings.flag("skip_doctor");
  plan.on_fault = on_fault(settings.text("on_fault"));
  plan.memory_limit = size_in_bytes(settings.text("memory_limit"), settings.where("memory_limit"));
}

void fill_run(Plan& plan, const Settings& settings) {
  plan.logging_strategy = every(settings.text("logging_strategy"));
  plan.logging_steps = settings.number("logging_steps");
  plan.logging_first_step = settings.flag("logging_first_step");
  plan.eval_strategy = every(settings.text("eval_strategy"));
  plan.eval_steps = settings.value("eval_steps").is_null() ? 0 : settings.number("eval_steps");
  plan.eval_on_start = settings.flag("eval_on_start");
  plan.save_strategy = every(settings.text("save_strategy"));
  plan.save_steps = settings.number("save_steps");
  plan.save_total_limit = settings.maybe_integer("save_total_limit").value_or(0);
  plan.resume_from_checkpoint = settings.text("resume_from_checkpoint");
  if (plan.resume_from_checkpoint == "True") plan.resume_from_checkpoint = "true";
  if (plan.resume_from_checkpoint == "false" || plan.resume_from_checkpoint == "False")
    plan.resume_from_checkpoint.clear();
}

// Settings that are right and yet do nothing in this run.
void note_idle_settings(const Settings& settings, std::vector<std::string>& notes) {
  const auto changed = [&](const char* name) {
    return settings.value(name) != settings.schema().find(name)->default_value();
  };
  if (changed("adapter_name_or_path")) {
    for (const char* name : {"lora_r", "lora_alpha", "lora_target_modules", "lora_exclude_modules",
                             "trainable_token_indices", "use_rslora", "use_dora", "init_lora_weights"}) {
      if (changed(name)) notes.push_back(fmt::format("{}: not used, the adapter brings its own", name));
    }
  }
  if (changed("eval_dataset") && settings.text("eval_strategy") == "no" && !settings.flag("eval_on_start")) {
    notes.push_back("eval_dataset: not used, eval_strategy is no");
  }
  if (changed("warmup_steps") && settings.text("lr_scheduler_type") == "constant") {
    notes.push_back(
        "warmup_steps: not used by lr_scheduler_type constant; constant_with_warmup has a warm-up");
  }
}

// What the adapter that comes of the run needs beside it, and how it becomes one with that.
void note_base_adapters(const Plan& plan, std::vector<std::string>& notes) {
  if (plan.base_adapters.empty()) return;
  const std::string below = fmt::format("{}", fmt::join(plan.base_adapters, " "));
  const std::string note = fmt::format(
      "base_adapters: {} below the trained adapter, frozen, as part of the base; the adapter in {} needs "
      "them",
      below, plan.output_dir);
  if (!plan.trainable_token_indices.empty() && plan.method != Method::kReward) {
    notes.push_back(fmt::format("{}; one model of all: hone merge --adapter_name_or_path {} --output DIR",
                                note, plan.output_dir));
    return;
  }
  notes.push_back(plan.method == Method::kReward
                      ? note
                      : fmt::format("{}; one adapter of all: hone merge --adapters {} {} --combination cat "
                                    "--output DIR",
                                    note, below, plan.output_dir));
}

// One spelling a value: 10 and 10.0 are the same number, and a list of one is its element (as TRL collapses
// it).
std::string resolved_text(const Option& option, const Json& value) {
  if (option.kind == Kind::kFloat && value.is_number()) return fmt::format("{}", value.get<double>());
  if (option.kind == Kind::kList && value.is_array() && value.size() == 1) return yaml_text(value[0]);
  return yaml_text(value);
}

Plan parse_settings(Method method, const Settings& settings) {
  Plan plan = make_plan(method, settings);
  check_files(plan, settings);
  return plan;
}

}  // namespace

Precision resolve_precision(const Settings& settings) {
  if (settings.text("dtype") != "float32") return Precision::kBFloat16;
  return settings.maybe_flag("bf16").value_or(true) ? Precision::kAutocast : Precision::kFloat32;
}

QuantisedBase quantised_base(const Settings& settings) {
  const bool four = settings.flag("load_in_4bit"), eight = settings.flag("load_in_8bit");
  if (four && eight) {
    throw UserError({.where = settings.where("load_in_8bit"),
                     .expected = "load_in_4bit or load_in_8bit",
                     .found = "both",
                     .cause = {},
                     .fix = "remove one of them"});
  }
  if (eight) return QuantisedBase::kInt8;
  if (!four) return QuantisedBase::kNone;
  return settings.text("bnb_4bit_quant_type") == "fp4" ? QuantisedBase::kFp4 : QuantisedBase::kNf4;
}

Plan make_plan(Method method, Settings settings) {
  Plan plan;
  plan.method = method;
  plan.notes = settings.check();
  require_set(settings, "model_name_or_path", "path/to/model");
  const bool replays = samples(method) && !settings.text("replay").empty();
  if (!replays) require_set(settings, "dataset_name", "train.jsonl");
  resolve_defaults(settings);
  if (method == Method::kGrpo || method == Method::kRloo) resolve_policy(settings);
  if (method == Method::kDpo) resolve_preference(settings);
  if (method == Method::kOnlineDpo) resolve_online_dpo(settings);
  if (method == Method::kReward) resolve_reward_model(settings);
  if (method == Method::kKto) resolve_kto(settings);
  check_combinations(settings);

  plan.model_name_or_path = settings.text("model_name_or_path");
  plan.precision = resolve_precision(settings);
  plan.quantised_base = quantised_base(settings);
  plan.use_bnb_nested_quant = settings.flag("load_in_4bit") && settings.flag("use_bnb_nested_quant");
  plan.base_model_name_for_adapter = settings.text("base_model_name_for_adapter");
  fill_adapter(plan, settings);
  fill_data(plan, settings);
  fill_training(plan, settings);
  fill_run(plan, settings);
  plan.tensorboard = tensorboard(settings, plan.notes);
  note_idle_settings(settings, plan.notes);
  note_base_adapters(plan, plan.notes);
  if (method == Method::kGrpo || method == Method::kRloo) {
    plan.policy = make_policy_plan(method, settings, plan.notes);
  }
  if (method == Method::kDpo) plan.preference = make_preference_plan(settings, plan.notes);
  if (method == Method::kOnlineDpo) fill_online_dpo(plan, settings);
  if (method == Method::kReward) plan.reward = make_reward_model_plan(settings, plan.notes);
  if (method == Method::kKto) plan.kto = make_kto_plan(settings, plan.notes);

  for (const Option& option : settings.schema().options) {
    const bool told = option.answer == Class::kAnswered && settings.is_set(option.name);
    if (option.answer != Class::kSupported && !told) continue;
    // The adapter's own counts, and plan.yaml must give the same run again.
    if (option.name == "lora_dropout" && !plan.adapter_name_or_path.empty() && !plan.continued_dropout)
      continue;
    plan.resolved.emplace_back(
        option.name, resolved_text(option, without_secrets(option.name, settings.value(option.name))));
  }
  return plan;
}

Plan parse_run(Method method, const std::vector<std::string>& arguments) {
  Settings settings(method_schema(method));
  settings.read_arguments(arguments);
  return parse_settings(method, settings);
}

Plan parse_run_text(Method method, const std::string& yaml, const std::string& file_name) {
  Settings settings(method_schema(method));
  settings.read_yaml_text(yaml, file_name);
  return parse_settings(method, settings);
}

}  // namespace hone::config
