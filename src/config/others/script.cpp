// A script as a run: its trainer, and the options of its configuration.
#include "config/others/script.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "config/others/fold_script.h"
#include "config/others/other_plan.h"
#include "config/settings.h"
#include "config/write_plan.h"

namespace hone::config::script {
namespace {

using base::Json;

struct TrainerClass {
  std::string_view name;
  Method method;
};
constexpr TrainerClass kTrainers[] = {{"SFTTrainer", Method::kSft},
                                      {"DPOTrainer", Method::kDpo},
                                      {"GRPOTrainer", Method::kGrpo},
                                      {"RLOOTrainer", Method::kRloo},
                                      {"KTOTrainer", Method::kKto},
                                      {"RewardTrainer", Method::kReward},
                                      {"ORPOTrainer", Method::kOrpo},
                                      {"CPOTrainer", Method::kCpo},
                                      {"OnlineDPOTrainer", Method::kOnlineDpo},
                                      {"DistillationTrainer", Method::kDistill},
                                      {"UnslothTrainer", Method::kSft},
                                      {"Trainer", Method::kSft}};

// Behind train_on_responses_only(trainer, ...), which gives the trainer back.
const Json* unwrapped(const Json* trainer) {
  while (trainer != nullptr && class_of(*trainer) == "train_on_responses_only")
    trainer = argument(*trainer, "trainer", 0);
  return trainer;
}

// Code of the script's own in a trainer: its losses and steps are not read.
void refuse_own_class(Script& script) {
  const Json& trainer = *script.trainer;
  if (!trainer.contains("own")) return;
  std::vector<std::string> methods;
  for (const Json& one : trainer["own"]["methods"]) {
    const auto name = one.get<std::string>();
    if (name != "__init__" && name != "log" && name != "evaluate" && name != "save_model")
      methods.push_back(name);
  }
  const auto of = trainer["own"]["class"].get<std::string>();
  if (methods.empty())
    script.note(trainer, of,
                fmt::format("a class of the script, on {}; only what {} does is read", class_of(trainer),
                            class_of(trainer)));
  else
    script.refuse(trainer, of,
                  fmt::format("a trainer of the script's own, with its own {}", fmt::join(methods, ", ")),
                  fmt::format("train with {} itself", class_of(trainer)));
}

// The defaults of TrainingArguments, of Unsloth's configs, and of TRL's, which are hone's.
struct ConfigDefault {
  std::string_view option, transformers, unsloth;  // JSON; empty: TRL's
};
constexpr ConfigDefault kDefaults[] = {
    {"per_device_train_batch_size", "8", "4"},
    {"gradient_accumulation_steps", "1", "2"},
    {"num_train_epochs", "3", "3"},
    {"learning_rate", "5e-5", "5e-5"},
    {"lr_scheduler_type", "\"linear\"", "\"linear\""},
    {"warmup_steps", "0", "0.1"},
    {"weight_decay", "0", "0.001"},
    {"optim", "\"adamw_torch_fused\"", "\"adamw_8bit\""},
    {"max_grad_norm", "1", "1"},
    {"seed", "42", "3407"},
    {"logging_steps", "500", ""},
    {"beta", "", ""},
    {"num_generations", "", "8"},
    {"max_completion_length", "", ""},
    {"temperature", "", ""},
};

// What Unsloth's GRPOConfig sets by itself, and for the loss of DAPO.
void add_group_defaults(Script& script) {
  const OtherValue* loss = script.out.find("loss_type");
  const bool dapo = loss != nullptr && loss->value == "dapo";
  script.set_default("loss_type", "bnpo");
  script.set_default("beta", 0.001);
  if (!dapo) return;
  script.set_default("mask_truncated_completions", true);
  script.set_default("epsilon_high", 0.28);
}

void add_defaults(Script& script, bool transformers_own) {
  const Schema& schema = method_schema(script.out.method);
  const bool unsloth = script.out.trainer == Trainer::kUnsloth && !transformers_own;
  if (unsloth && script.out.method == Method::kGrpo) add_group_defaults(script);
  for (const ConfigDefault& one : kDefaults) {
    const Option* option = schema.find(one.option);
    if (option == nullptr) continue;
    std::string text(transformers_own ? one.transformers : unsloth ? one.unsloth : std::string_view());
    if (one.option == "num_train_epochs" && script.out.find("max_steps") != nullptr) continue;
    if (text.empty()) text = option->default_text;
    script.set_default(one.option, Json::parse(text), transformers_own ? "TrainingArguments'" : "");
  }
}

// optimizers=(optimizer, scheduler): what the config says of the one that is given has no effect.
void add_own_optimizer(Script& script) {
  const Json* given = argument(*script.trainer, "optimizers");
  if (given == nullptr) return;
  const auto is_given = [&](std::size_t place) {
    const auto list = given->find("list");
    return list == given->end() || list->size() <= place || known((*list)[place]) != Json();
  };
  const auto hide = [&](std::string_view option) {
    auto& all = script.out.options;
    all.erase(
        std::remove_if(all.begin(), all.end(), [&](const OtherValue& one) { return one.option == option; }),
        all.end());
    script.unknown(*given, "optimizers", "the script makes it itself", std::string(option));
  };
  if (is_given(0)) {
    for (const char* option : {"optim", "learning_rate", "weight_decay"}) hide(option);
  }
  if (is_given(1)) {
    for (const char* option : {"lr_scheduler_type", "warmup_steps"}) hide(option);
  }
}

// The lesser of the limit max_seq_length of the config, or the trainer's, and of Unsloth's model. Its SFT does not read max_length where
// the model has a limit.
void add_length(Script& script, const Json* config) {
  if (method_schema(script.out.method).find("max_length") == nullptr) return;
  const Json* limit = nullptr;
  std::string from;
  for (const Json* holder : {script.trainer, config}) {
    for (const char* name : {"max_length", "max_seq_length"}) {
      if (holder == nullptr || made_by(*holder).empty() || limit != nullptr ||
          !holder->at("args").contains(name))
        continue;
      limit = &holder->at("args").at(name);
      from = name;
    }
  }
  const Json* loaded =
      script.out.trainer == Trainer::kUnsloth ? loaded_model(argument(*script.trainer, "model", 0)) : nullptr;
  if (loaded != nullptr && class_of(*loaded) == "from_pretrained") {
    const Json* models = argument(*loaded, "max_seq_length");
    const auto of_model = models == nullptr ? Json(2048) : known(*models).value_or(Json());
    const auto of_config = limit == nullptr ? of_model : known(*limit).value_or(Json());
    const bool of_model_alone = script.out.method == Method::kSft && from == "max_length";
    if (models != nullptr && limit != nullptr)
      script.note(*limit, from,
                  fmt::format("{} here and max_seq_length {} of the model: {}", base::dump_json(of_config),
                              base::dump_json(of_model),
                              of_model_alone ? "Unsloth takes that of the model" : "the lesser counts"));
    if (models != nullptr && (limit == nullptr || of_model_alone || !of_model.is_number() ||
                              (of_config.is_number() && of_model < of_config))) {
      limit = models;
      from = "max_seq_length";
    } else if (models == nullptr && limit == nullptr) {
      script.set_default("max_length", 2048, "max_seq_length of the model");
    }
  }
  if (limit != nullptr && from == "max_seq_length" && script.out.trainer != Trainer::kUnsloth)
    script.note(*limit, from, "an argument of older versions: today's is max_length of the config");
  if (limit == nullptr && class_of(*script.trainer) == "Trainer")
    script.unknown(*script.trainer, "Trainer", "rows are cut where the script makes tokens of them",
                   "max_length");
  else if (limit == nullptr)
    script.set_default("max_length",
                       Json::parse(method_schema(script.out.method).find("max_length")->default_text));
  if (limit == nullptr) return;
  const auto json = known(*limit);
  if (json && json->is_null())
    script.out.options.push_back({"max_length", nullptr, from, script.where(*limit)});
  else
    script.set("max_length", *limit, from);
}

void add_precision(Script& script, const Json& config, bool transformers_own) {
  const Json *bf16 = argument(config, "bf16"), *fp16 = argument(config, "fp16");
  if (bf16 != nullptr) script.set("bf16", *bf16, "bf16");
  if (is_true(fp16) && !is_true(bf16))
    script.refuse(*fp16, "fp16", "NUM-03: float16 overflows in training and needs loss scaling",
                  "write bf16=True");
  else if (fp16 != nullptr && !known(*fp16) && bf16 == nullptr)
    script.unknown(*fp16, "fp16", why_unknown(*fp16), "bf16");
  if (script.out.trainer == Trainer::kUnsloth)
    script.set_default("bf16", true, "the model's own dtype on a GPU of today");
  else
    script.set_default("bf16", !transformers_own, transformers_own ? "TrainingArguments'" : "");
}

void add_warmup(Script& script, const Json& config) {
  const Json *steps = argument(config, "warmup_steps"), *ratio = argument(config, "warmup_ratio");
  const auto number = steps == nullptr ? std::nullopt : known(*steps);
  const bool no_steps = steps == nullptr || (number && *number == 0);
  if (!no_steps) {
    script.set("warmup_steps", *steps, "warmup_steps");
    if (ratio != nullptr) script.note(*ratio, "warmup_ratio", "warmup_steps wins");
  } else if (ratio != nullptr) {
    script.set("warmup_steps", *ratio, "warmup_ratio");
  } else if (steps != nullptr) {
    script.set("warmup_steps", *steps, "warmup_steps");
  }
}

// Unsloth makes whole groups of completions: where a step has none, its batch becomes num_generations.
void widen_batch(Script& script) {
  const auto count = [&](std::string_view option, std::int64_t fallback) {
    const OtherValue* one = script.out.find(option);
    if (one == nullptr) return script.has(option) ? std::int64_t{0} : fallback;
    return one->value.is_number_integer() ? one->value.get<std::int64_t>() : std::int64_t{0};
  };
  constexpr std::int64_t kMost = 1 << 20;
  const std::int64_t batch = count("per_device_train_batch_size", 4),
                     accumulation = count("gradient_accumulation_steps", 2),
                     group = count("num_generations", 8);
  for (const std::int64_t one : {batch, accumulation, group}) {
    if (one < 1 || one > kMost) return;
  }
  const bool own = script.out.find("steps_per_generation") != nullptr ||
                   script.out.find("generation_batch_size") != nullptr;
  if (own || batch * accumulation % group == 0) return;
  const auto given =
      std::find_if(script.out.options.begin(), script.out.options.end(),
                   [](const OtherValue& one) { return one.option == "per_device_train_batch_size"; });
  script.out.notes.push_back(
      {given == script.out.options.end() ? "" : given->where, "per_device_train_batch_size",
       fmt::format("{} x {} completions of a step are no whole groups of {}: Unsloth makes the batch {}",
                   batch, accumulation, group, group)});
  if (given == script.out.options.end())
    script.set_default("per_device_train_batch_size", group, "num_generations");
  else
    given->value = group;
}

}  // namespace

void add_method(Script& script) {
  const Json& trainer = *script.trainer;
  const std::string name = class_of(trainer);
  const auto found = std::find_if(std::begin(kTrainers), std::end(kTrainers),
                                  [&](const auto& one) { return one.name == name; });
  script.out.method = found == std::end(kTrainers) ? Method::kSft : found->method;
  if (found == std::end(kTrainers)) {
    script.refuse(trainer, made_by(trainer), "hone has no such trainer",
                  "it is TRL's SFT, DPO, GRPO, RLOO, KTO, Reward, ORPO, CPO, OnlineDPO or Distillation here");
  } else if (name == "Trainer") {
    script.note(trainer, "Trainer", "it trains on the labels of the rows and of the collator: hone sft");
  }
  if (trainer.contains("touched"))
    script.unknown(trainer, "trainer", trainer["touched"].get<std::string>(), "what that code changes",
                   "read it");
  refuse_own_class(script);
}

void add_config(Script& script) {
  const bool third =
      samples(script.out.method) || script.out.method == Method::kDpo || script.out.method == Method::kKto;
  const int place = third ? 2 : 1;  // behind reward_funcs or ref_model
  const Json* config = argument(*script.trainer, "args", place);
  script.take(script.trainer->at("args"), trainer_names(), class_of(*script.trainer));
  const Json none = Json::object({{"at", script.trainer->value("at", "")},
                                  {"made", ""},
                                  {"args", Json::object()},
                                  {"plain", Json::array()}});
  const std::string of = config == nullptr ? "" : class_of(*config);
  if (config != nullptr && !of.ends_with("Config") && !of.ends_with("Arguments")) {
    script.unknown(*config, "args", why_unknown(*config), "batch, steps, rates and all that it sets",
                   "write the config into this file, or into hone's own");
    return;
  }
  if (config == nullptr) config = &none;
  // UnslothTrainingArguments is Unsloth's form of SFTConfig
  const bool transformers_own =
      (of.find("TrainingArguments") != std::string::npos && of != "UnslothTrainingArguments") ||
      (of.empty() && class_of(*script.trainer) == "Trainer");
  if (config->contains("touched"))
    script.unknown(*config, of, config->at("touched").get<std::string>(), "what that code changes",
                   "read it");
  if (!config->at("plain").empty() && !config->at("args").contains("output_dir"))
    script.set("output_dir", config->at("plain").at(0), "output_dir");
  if (config->at("args").contains("(command line)"))
    script.note(*config, of,
                "its values come from the command line: those that the script does not set are defaults");
  add_length(script, config);
  add_warmup(script, *config);
  script.take(config->at("args"), config_names(), of);
  add_precision(script, *config, transformers_own);
  if (script.out.method == Method::kGrpo && script.out.trainer == Trainer::kUnsloth) widen_batch(script);
  add_own_optimizer(script);
  add_defaults(script, transformers_own);
}

namespace {

void add_told(Script& script, const Json& folded) {
  for (const Json& one : folded.value("notes", Json::array())) script.note(one, "", one.value("text", ""));
  if (const std::string ended = folded.value("ended", ""); !ended.empty())
    script.unknown(Json::object({{"at", ""}}), "", ended, "what the script sets behind that",
                   "shorten it, or write hone's own file");
  if (const int left = folded.value("left_out", 0); left > 0)
    script.out.notes.push_back(
        {"", "",
         fmt::format("{} {} of the notebook {} left out", left,
                     left == 1 ? "shell or magic line" : "shell and magic lines", left == 1 ? "is" : "are")});
  const Json& trainers = folded.at("trainers");
  if (trainers.size() > 1) {
    std::vector<std::string> all;
    for (const Json& one : trainers)
      all.push_back(fmt::format("{} (line {})", one.value("name", ""), one.value("at", "")));
    script.note(*script.trainer, class_of(*script.trainer),
                fmt::format("the last trainer that trains counts, of {}", fmt::join(all, ", ")));
  }
  if (folded.at("trained").empty())
    script.note(*script.trainer, class_of(*script.trainer), "train() is not called in this file");
}

// Whose the script is by what it imports, where --as does not say it: words of a text are no import.
void take_label(const Json& folded, OtherRun& out) {
  const bool unsloth = folded.value("unsloth", out.trainer == Trainer::kUnsloth);
  if (out.recognized.starts_with("--as") || unsloth == (out.trainer == Trainer::kUnsloth)) return;
  out.trainer = unsloth ? Trainer::kUnsloth : Trainer::kTrl;
  out.recognized = unsloth ? "an import of unsloth" : "no import of unsloth in its code";
}

}  // namespace

void translate(const std::string& text, const std::vector<std::string>& words, OtherRun& out) {
  const Json folded = fold_script(text, out.file, words);
  Script script{.folded = folded, .trainer = nullptr, .out = out};
  const Json& last = folded.at("last");
  take_label(folded, out);
  script.trainer = last.is_null() ? nullptr : unwrapped(&last);
  const bool known_trainer = script.trainer != nullptr && class_of(*script.trainer).ends_with("Trainer");
  std::vector<std::string> kinds;
  for (const Json& one : folded.at("trainers")) kinds.push_back(one.value("name", ""));
  if (known_trainer && folded.at("trained").empty() &&
      std::adjacent_find(kinds.begin(), kinds.end(), std::not_equal_to<>()) != kinds.end()) {
    script.refuse(last, "trainer",
                  fmt::format("the file makes {}, and does not say which one trains", fmt::join(kinds, ", ")),
                  "give the file that calls train()");
    return;
  }
  if (!known_trainer) {
    const std::string ended = folded.value("ended", "");
    const std::string why = !ended.empty()   ? ended
                            : last.is_null() ? "no trainer is made in this file"
                                             : why_unknown(last);
    script.refuse(last.is_null() ? Json::object({{"at", ""}}) : last, "trainer", why,
                  "give the file that makes the trainer, or write hone's own file");
    return;
  }
  add_method(script);
  add_told(script, folded);
  add_rows(script);
  add_model(script);
  add_config(script);
  add_model_defaults(script);
  add_rewards(script);
}

}  // namespace hone::config::script
