#include "config/parse.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/json_tools.h"
#include "config/datasets/recipe_mixtures.h"
#include "config/derived/adapter_parts.h"
#include "config/derived/best_plan.h"
#include "config/derived/finish_recipe.h"
#include "config/derived/finish_report.h"
#include "config/derived/finish_samples.h"
#include "config/derived/finish_streaming.h"
#include "config/derived/full_plan.h"
#include "config/derived/init_kwargs.h"
#include "config/derived/optim_args.h"
#include "config/derived/reference_plan.h"
#include "config/derived/schedule_kwargs.h"
#include "config/methods.h"
#include "config/methods/recipe_rewards.h"
#include "config/option_secrets.h"
#include "config/options/idle_options.h"
#include "config/placement.h"
#include "config/sharding/sharding.h"
#include "config/write_plan.h"

namespace hone::config {
namespace {

using base::Json;
using base::UserError;

constexpr std::string_view kPissaNiter = "pissa_niter_";
constexpr const char* kDtypeFloat16 = "float16";

LoraInit lora_init(const std::string& word) {
  if (word == "gaussian") return LoraInit::kGaussian;
  if (word.starts_with("pissa")) return LoraInit::kPissa;
  return word == "false" ? LoraInit::kFalse : LoraInit::kTrue;
}

void require_set(const Settings& settings, const std::string& name, const std::string& example) {
  if (!settings.text(name).empty()) return;
  throw UserError(
      {.where = fmt::format("hone {}", settings.schema().command),
       .expected = fmt::format("option {}", name),
       .found = "it is not set",
       .fix = fmt::format("write {}: {} in the YAML file, or --{} {}", name, example, name, example)});
}

// An interval in steps: a whole number, or a share below 1 (TrainingArguments._validate_args).
void check_interval(const Settings& settings, const std::string& name, const std::string& strategy) {
  if (settings.text(strategy) != "steps") return;
  const double steps = settings.number(name);
  if (steps > 0 && (steps < 1 || steps == std::floor(steps))) return;
  conflict(settings, name,
           fmt::format("{} a whole number of steps, or a fraction of all steps below 1", name),
           base::short_json(settings.value(name)), steps == 0 ? fmt::format("{} is steps", strategy) : "",
           steps == 0 ? fmt::format("write {}: \"no\" to switch it off", strategy) : "");
}

void check_packing(const Settings& settings) {
  if (settings.schema().find("packing") == nullptr || !settings.value("max_length").is_null()) return;
  for (const char* name : {"packing", "eval_packing"}) {
    if (!settings.flag(name)) continue;
    conflict(settings, name, fmt::format("max_length with {}", name), "max_length: null",
             "a packed row is max_length tokens long", fmt::format("set max_length, or {}: false", name));
  }
}

void check_targets(const Settings& settings) {
  if (!idle_reason(settings, *settings.schema().find("lora_target_modules")).empty()) return;
  for (const char* name : {"lora_target_modules", "lora_exclude_modules"}) {
    for (const std::string& item : settings.list(name)) {
      if (item.empty()) conflict(settings, name, fmt::format("names in {}", name), "an empty name");
    }
  }
  const Json& targets = settings.value("lora_target_modules");
  if (!targets.is_array() || !targets.empty()) return;
  conflict(settings, "lora_target_modules", "at least one name in lora_target_modules", "an empty list",
           "an adapter without modules trains nothing", "write all-linear, or remove it for PEFT's choice");
}

void check_steps(const Settings& settings) {
  if (settings.integer("max_steps") == 0) {
    conflict(settings, "max_steps", "max_steps above 0, or -1", "0", "a run of no steps trains nothing",
             "write -1 to train num_train_epochs");
  }
  const double warmup = settings.number("warmup_steps");
  if (!idle_reason(settings, *settings.schema().find("warmup_steps")).empty()) return;
  if (warmup <= 1 || warmup == std::floor(warmup)) return;
  conflict(settings, "warmup_steps",
           "warmup_steps a whole number of steps, or a fraction of all steps below "
           "1",
           base::short_json(settings.value("warmup_steps")));
}

void check_recompute(const Settings& settings) {
  const std::string level = settings.text("recompute");
  if (settings.text("layer_form") != "plain" || (level != "cheap" && level != "layer")) return;
  conflict(settings, "recompute", "recompute: none or auto with layer_form: plain", level,
           "the autograd layer (plain) keeps all activations; only the fused layer (explicit) recomputes",
           "remove layer_form: plain, or recompute");
}

void check_seed(const Settings& settings, const char* name) {
  if (settings.schema().find(name)->option_class == OptionClass::kIgnored) return;
  if (!settings.value(name).is_number() || settings.integer(name) >= 0) return;
  conflict(settings, name, fmt::format("{} at least 0", name), base::short_json(settings.value(name)));
}

void check_combinations(Settings& settings) {
  settings.collect([&] { check_packing(settings); });
  settings.collect([&] { check_recompute(settings); });
  settings.collect([&] { check_interval(settings, "logging_steps", "logging_strategy"); });
  settings.collect([&] { check_interval(settings, "save_steps", "save_strategy"); });
  settings.collect([&] { check_interval(settings, "eval_steps", "eval_strategy"); });
  settings.collect([&] { check_steps(settings); });
  settings.collect([&] { check_best(settings); });
  settings.collect([&] { check_accelerate(settings); });
  settings.collect([&] { check_seed(settings, "seed"); });
  settings.collect([&] { check_seed(settings, "data_seed"); });
  settings.collect([&] { check_targets(settings); });
}

// What transformers resolves after parsing, so that plan.yaml shows what is used.
void resolve_defaults(Settings& settings) {
  if (settings.text("output_dir").empty()) settings.replace("output_dir", "trainer_output");
  if (settings.value("bf16").is_null()) settings.replace("bf16", true);
  if (settings.value("model_revision").is_null()) settings.replace("model_revision", "main");
  const bool has_switch = settings.schema().find("disable_dropout") != nullptr;
  if (has_switch && settings.flag("disable_dropout")) settings.replace("lora_dropout", 0.0);
  const bool by_steps = settings.text("eval_strategy") == "steps";
  const Json& eval_steps = settings.value("eval_steps");
  if (by_steps && (eval_steps.is_null() || eval_steps.get<double>() == 0)) {
    settings.replace("eval_steps", settings.value("logging_steps"));
  }
  resolve_best(settings);
}

void fill_token_indices(Plan& plan, const Settings& settings) {
  constexpr const char* kIndices = "trainable_token_indices";
  const Json& value = settings.value(kIndices);
  if (value.is_null()) return;
  const Json& ids = value.is_object() ? value.begin().value() : value;
  plan.trainable_token_indices = ids.get<std::vector<std::int64_t>>();
  if (!value.is_object()) return;
  plan.trainable_token_module = value.begin().key();
  const std::string& module = plan.trainable_token_module;
  if (module == "embed_tokens" || module == "model.embed_tokens") return;
  conflict(settings, kIndices, "embed_tokens: a list of token ids", fmt::format("'{}'", module),
           "rows of the embedding are trained, and of a head that is tied to it; an untied head "
           "has no trainable rows yet",
           "write only a list of token ids");
}

// Settings that are right and yet do nothing in this run.
void note_idle_settings(const Settings& settings, std::vector<std::string>& notes) {
  const auto changed = [&](std::string_view name) { return settings.changed(name); };
  if (changed("adapter_name_or_path")) {
    for (const std::string& name : split_words(kOfNewAdapters)) {
      if (changed(name)) notes.push_back(fmt::format("{}: not used, the adapter has its own", name));
    }
  }
  // TRL's autocast rounds each weight to bfloat16 for its product. A bfloat16 that became a float16 becomes the same one again.
  if (settings.text("dtype") == kDtypeFloat16) {
    notes.push_back("dtype float16: the weights are read as bfloat16, which is what bf16: true multiplies");
  }
  if (changed("eval_dataset") && settings.text("eval_strategy") == "no" && !settings.flag("eval_on_start")) {
    notes.push_back("eval_dataset: not used, eval_strategy is no");
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
  const bool adds_up = plan.trainable_token_indices.empty() && plan.lora_modules_to_save.empty() &&
                       plan.bias == TrainedBias::kNone;
  if (!adds_up && plan.method != Method::kReward) {
    notes.push_back(
        fmt::format("{}; to merge all into one model: hone merge --adapter_name_or_path {} "
                    "--output DIR",
                    note, plan.output_dir));
    return;
  }
  notes.push_back(plan.method == Method::kReward
                      ? note
                      : fmt::format("{}; to combine all into one adapter: hone merge --adapters {} {} "
                                    "--combination cat --output DIR",
                                    note, below, plan.output_dir));
}

// init_lora_weights, use_dora, base_adapters and lora_dropout say together how the adapter begins.
void finish_adapter(Plan& plan, const Settings& settings) {
  fill_token_indices(plan, settings);
  finish_adapter_parts(plan, settings);
  const std::string init = settings.text("init_lora_weights");
  plan.init_lora_weights = lora_init(init);
  if (init.starts_with(kPissaNiter)) plan.pissa_niter = std::stoll(init.substr(kPissaNiter.size()));
  if (plan.use_dora && plan.init_lora_weights == LoraInit::kPissa) {
    conflict(settings, "init_lora_weights", "use_dora or init_lora_weights: pissa, not both", init,
             "PiSSA's adapter is converted when it is saved, which is not possible with a magnitude",
             "leave one of them out");
  }
  const bool continues = !plan.adapter_name_or_path.empty();
  if (plan.use_dora && !continues && !plan.base_adapters.empty()) {
    conflict(settings, "base_adapters", "use_dora or base_adapters, not both", "use_dora: true",
             "in PEFT, DoRA's magnitudes refer only to the base, not to adapters below",
             "merge the base_adapters into the base first (hone merge), and train on that model");
  }
  const bool asked = plan.disable_dropout || settings.is_set("lora_dropout");
  if (continues && asked) plan.continued_dropout = plan.lora_dropout;
}

// What the fields of the rows do not say by themselves.
void finish_fields(Plan& plan, const Settings& settings) {
  plan.precision = resolve_precision(settings);
  plan.use_bnb_nested_quant = settings.flag("load_in_4bit") && settings.flag("use_bnb_nested_quant");
  // grpo and rloo never cut a row
  if (settings.schema().find("max_length") == nullptr) plan.max_length = 0;
  const bool keeps_all = plan.recompute == RecomputeMode::kAuto && !settings.flag("gradient_checkpointing");
  if (keeps_all) plan.recompute = RecomputeMode::kNone;
  std::string& resume = plan.resume_from_checkpoint;
  if (resume == "True") resume = "true";
  if (resume == "false" || resume == "False") resume.clear();
}

void finish_plan(Plan& plan, Settings& settings) {
  settings.collect([&] { finish_fields(plan, settings); });
  settings.collect([&] { plan.quantized_base = quantized_base(settings); });
  settings.collect([&] { require_quantized_base(settings); });
  if (plan.use_peft) settings.collect([&] { finish_adapter(plan, settings); });
  settings.collect([&] { finish_full(plan, settings); });
  settings.collect([&] { finish_reference(plan, settings); });
  settings.collect([&] { finish_placement(plan, settings); });
  settings.collect([&] { finish_report(plan, settings); });
  settings.collect([&] { finish_recipe(plan, settings); });
  note_idle_settings(settings, plan.notes);
  settings.collect([&] { read_schedule_kwargs(plan, settings, plan.notes); });
  settings.collect([&] { read_optim_args(plan, settings, plan.notes); });
  note_base_adapters(plan, plan.notes);
  for (std::string& note : settings.unused()) plan.notes.push_back(std::move(note));
  plan.row_options = settings.of_some_rows();
  settings.collect([&] { method_row(plan.method).finish(plan, settings); });
  settings.collect([&] { finish_streaming(plan, settings); });
  settings.collect([&] { finish_samples(plan, settings); });
}

void fill(Plan& plan, const Settings& settings) {
  settings.fill<ModelPlan>(plan);
  settings.fill<AdapterPlan>(plan);
  settings.fill<FullPlan>(plan);
  settings.fill<DataPlan>(plan);
  settings.fill<BatchPlan>(plan);
  settings.fill<OptimizerPlan>(plan);
  settings.fill<LoggingPlan>(plan);
  settings.fill<EvaluationPlan>(plan);
  settings.fill<SamplesPlan>(plan);
  settings.fill<SavingPlan>(plan);
  settings.fill<MachinePlan>(plan);
  settings.fill<WatchPlan>(plan);
  settings.fill<ReferencePlan>(plan);
  settings.fill<RecipePlan>(plan);
  settings.fill<LoggerPlan>(plan);
  settings.fill<HubPlan>(plan);
  settings.fill(plan.policy);
  settings.fill(plan.acting);
  settings.fill<learn::PolicyLossParameters>(plan.policy);
  settings.fill(plan.sft);
  settings.fill<learn::SftLossParameters>(plan.sft);
  settings.fill(plan.preference);
  settings.fill<learn::PreferenceLossParameters>(plan.preference);
  settings.fill(plan.online);
  settings.fill(plan.reward);
  settings.fill(plan.kto);
  settings.fill<learn::KtoLossParameters>(plan.kto);
  settings.fill(plan.cpo);
  settings.fill<learn::CpoLossParameters>(plan.cpo);
  settings.fill<learn::OrpoLossParameters>(plan.orpo);
  settings.fill(plan.distill);
}

// One spelling a value: 10 and 10.0 are the same number, and a list of one is its element (as TRL collapses
// it).
std::string resolved_text(const Option& option, const Json& value) {
  if (option.kind == Kind::kFloat && value.is_number()) return fmt::format("{}", value.get<double>());
  if (option.kind == Kind::kList && value.is_array() && value.size() == 1) return yaml_text(value[0]);
  return yaml_text(value);
}

}  // namespace

Precision resolve_precision(const Settings& settings) {
  if (settings.text("dtype") == kDtypeFloat16 && !settings.maybe_flag("bf16").value_or(true)) {
    conflict(settings, "dtype", "float32, bfloat16 or auto without bf16", kDtypeFloat16,
             "NUM-03: float16 overflows in training and needs loss scaling",
             "write dtype: bfloat16, or bf16: true, which multiplies in bfloat16");
  }
  if (settings.text("dtype") != "float32") return Precision::kBFloat16;
  return settings.maybe_flag("bf16").value_or(true) ? Precision::kAutocast : Precision::kFloat32;
}

QuantizedBase quantized_base(const Settings& settings) {
  const bool four = settings.flag("load_in_4bit"), eight = settings.flag("load_in_8bit");
  if (four && eight) {
    conflict(settings, "load_in_8bit", "load_in_4bit or load_in_8bit", "both", "", "remove one of them");
  }
  if (eight) return QuantizedBase::kInt8;
  if (!four) return QuantizedBase::kNone;
  return settings.text("bnb_4bit_quant_type") == "fp4" ? QuantizedBase::kFp4 : QuantizedBase::kNf4;
}

void require_quantized_base(const Settings& settings) {
  const bool quantized = settings.flag("load_in_4bit") || settings.flag("load_in_8bit");
  if (!settings.flag("quantize_moe_experts") || quantized) return;
  conflict(settings, "quantize_moe_experts", "load_in_4bit: true or load_in_8bit: true with it", "neither",
           "", "add one of them, or remove it");
}

namespace {

// The plan as far as the mistakes let it be made: whether it is whole enough to look at its files.
bool collect_plan(Plan& plan, Method method, Settings& settings) {
  plan.method = method;
  plan.ranks = settings.ranks();
  std::vector<std::string> mixed;
  settings.collect([&] { mixed = resolve_mixtures(settings); });
  std::vector<std::string> keywords;
  settings.collect([&] { keywords = apply_init_kwargs(settings); });
  mixed.insert(mixed.end(), keywords.begin(), keywords.end());
  for (std::string& note : apply_script_rewards(settings)) mixed.push_back(std::move(note));
  apply_script_prompts(settings);
  const std::vector<std::string> sharding = apply_sharding(settings);
  mixed.insert(mixed.end(), sharding.begin(), sharding.end());
  plan.notes = settings.collect_values();
  plan.notes.insert(plan.notes.end(), mixed.begin(), mixed.end());
  settings.collect([&] { require_set(settings, "model_name_or_path", "path/to/model"); });
  const bool replays = samples(method) && !settings.text("replay").empty();
  const bool mixes = !settings.value("datasets").empty();
  if (!replays && !mixes) settings.collect([&] { require_set(settings, "dataset_name", "train.jsonl"); });
  resolve_defaults(settings);
  settings.collect([&] { resolve_full(settings); });
  settings.collect([&] { resolve_placement(settings); });
  const bool resolved = settings.collect([&] { method_row(method).resolve(settings); });
  check_combinations(settings);
  if (!resolved || !settings.collect([&] { fill(plan, settings); })) return false;
  plan.policy.steps_per_generation *= plan.ranks;
  finish_plan(plan, settings);
  return true;
}

void write_resolved(Plan& plan, const Settings& settings) {
  for (const Option& option : settings.schema().options) {
    const bool told = option.option_class == OptionClass::kIgnored && settings.is_set(option.name);
    if (option.option_class != OptionClass::kSupported && !told) continue;
    // The adapter's own counts, and plan.yaml must give the same run again.
    if (option.name == "lora_dropout" && !plan.adapter_name_or_path.empty() && !plan.continued_dropout)
      continue;
    plan.resolved.emplace_back(
        option.name, resolved_text(option, redact_secrets(option.name, settings.value(option.name))));
  }
}

}  // namespace

Plan make_plan(Method method, Settings settings) {
  Plan plan;
  collect_plan(plan, method, settings);
  settings.throw_mistakes();
  write_resolved(plan, settings);
  return plan;
}

ReadRun read_run(Method method, const std::vector<std::string>& arguments, std::int64_t ranks) {
  ReadRun out{.plan = {}, .settings = Settings(method_schema(method))};
  out.settings.set_ranks(ranks);
  out.settings.read_arguments(arguments);
  const bool whole = collect_plan(out.plan, method, out.settings);
  if (whole) collect_files(out.plan, out.settings);
  if (out.settings.mistakes().empty()) write_resolved(out.plan, out.settings);
  return out;
}

Plan parse_run(Method method, const std::vector<std::string>& arguments, std::int64_t ranks) {
  ReadRun out = read_run(method, arguments, ranks);
  out.settings.throw_mistakes();
  return std::move(out.plan);
}

Plan parse_run_text(Method method, const std::string& yaml, const std::string& file_name) {
  Settings settings(method_schema(method));
  settings.read_yaml_text(yaml, file_name);
  Plan plan;
  if (collect_plan(plan, method, settings)) collect_files(plan, settings);
  settings.throw_mistakes();
  write_resolved(plan, settings);
  return plan;
}

}  // namespace hone::config
