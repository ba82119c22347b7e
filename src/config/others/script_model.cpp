// The model of a script: what is loaded, how it is quantized, and the adapter.
#include <fmt/format.h>

#include <algorithm>

#include "config/others/script.h"

namespace hone::config::script {
namespace {

using base::Json;

constexpr std::string_view kToken = "a folder of a model, or its name on the hub";

bool is_unsloth(const Json& made) {
  const std::string name = made_by(made);
  return name.find("FastLanguageModel.") != std::string::npos ||
         name.find("FastModel.") != std::string::npos || name.find("FastVisionModel.") != std::string::npos;
}

void tell_model(Script& script, const Json& value) {
  script.unknown(value, "model", why_unknown(value), "model_name_or_path",
                 fmt::format("write {} into the script, or model_name_or_path into hone's own file", kToken));
}

void add_class(Script& script, const Json& loaded) {
  const std::string whole = made_by(loaded);
  const std::size_t end = whole.rfind('.');
  const std::string path = end == std::string::npos ? "" : whole.substr(0, end);
  const std::string of = path.substr(path.rfind('.') == std::string::npos ? 0 : path.rfind('.') + 1);
  const bool reward = script.out.method == Method::kReward;
  if (of.find("Vision") != std::string::npos || of.find("ConditionalGeneration") != std::string::npos ||
      of.find("ImageText") != std::string::npos) {
    script.refuse(loaded, of, "a model of images and text: hone trains only on text", "load the text model");
  } else if (of.ends_with("ForSequenceClassification") != reward && !of.starts_with("Fast")) {
    script.refuse(loaded, of,
                  reward ? "a reward model has one label" : "a model with another head than that of text",
                  reward ? "load AutoModelForSequenceClassification" : "load AutoModelForCausalLM");
  } else if (!of.ends_with("ForCausalLM") && !of.ends_with("ForSequenceClassification") &&
             !of.starts_with("Fast")) {
    script.unknown(loaded, of, "a class of models that hone does not know", "the model's head",
                   "load AutoModelForCausalLM");
  }
}

// load_in_4bit and its like, of a BitsAndBytesConfig or of from_pretrained itself.
void add_quantization(Script& script, const Json& loaded, bool full) {
  const Json* config = argument(loaded, "quantization_config");
  const bool unsloth = is_unsloth(loaded);
  if (config != nullptr && class_of(*config) == "BitsAndBytesConfig") {
    script.take(config->at("args"), quantization_names(), "BitsAndBytesConfig");
  } else if (config != nullptr) {
    script.unknown(*config, "quantization_config", why_unknown(*config), "load_in_4bit");
  }
  for (const char* name : {"load_in_4bit", "load_in_8bit"}) {
    const Json* one = argument(loaded, name);
    if (one == nullptr) continue;
    if (full && is_true(one))
      script.note(*one, name, "Unsloth turns it off where full_finetuning is true");
    else
      script.set(name, *one, name);
  }
  if (unsloth && !full && !is_true(argument(loaded, "load_in_8bit")))
    script.set_default("load_in_4bit", true, "FastLanguageModel.from_pretrained");
  const OtherValue* four = script.out.find("load_in_4bit");
  if (four == nullptr || four->value != true) return;
  script.set_default("bnb_4bit_quant_type", unsloth ? "nf4" : "fp4", unsloth ? "" : "BitsAndBytesConfig's");
  script.set_default("use_bnb_nested_quant", unsloth, unsloth ? "" : "BitsAndBytesConfig's");
}

void add_dtype(Script& script, const Json& loaded) {
  for (const char* name : {"dtype", "torch_dtype"}) {
    const Json* one = argument(loaded, name);
    if (one == nullptr) continue;
    const auto json = known(*one);
    if (json && *json == "float16")
      script.refuse(*one, name, "NUM-03: a model in float16 overflows in training", "load it in bfloat16");
    else
      script.set("dtype", *one, name);
    return;
  }
  if (is_unsloth(loaded))
    script.set_default("dtype", "bfloat16", "dtype=None: what a GPU of today has");
  else
    script.set_default("dtype", "auto", "from_pretrained: the dtype of the files");
}

void add_loaded(Script& script, const Json& loaded) {
  const Json* name = argument(loaded, is_unsloth(loaded) ? "model_name" : "pretrained_model_name_or_path", 0);
  add_class(script, loaded);
  if (name == nullptr) {
    script.unknown(loaded, "model", "from_pretrained is called without a name", "model_name_or_path");
    return;
  }
  script.set("model_name_or_path", *name, "model");
  const std::string text = text_of(*name);
  if (text.ends_with("-bnb-4bit"))
    script.note(
        *name, "model",
        "its files are quantized already: the base is the model without -bnb-4bit, which merging needs");
  const bool full = is_true(argument(loaded, "full_finetuning"));
  add_quantization(script, loaded, full);
  add_dtype(script, loaded);
  script.take(loaded.at("args"), model_names(), "from_pretrained");
  const Json* labels = argument(loaded, "num_labels");
  if (labels != nullptr && (script.out.method != Method::kReward || known(*labels) != Json(1)))
    script.refuse(*labels, "num_labels", "another head than that of text",
                  "hone reward trains a head of one label");
  if (full) script.set_json("use_peft", false, "full_finetuning", loaded);
}

// Names of PEFT's target_modules; embeddings and heads among them become full copies in Unsloth.
void add_targets(Script& script, const Json& args, bool unsloth) {
  const auto found = args.find("target_modules");
  const bool given = found != args.end() && !(found->contains("value") && found->at("value").is_null());
  Json saved = Json::array();
  if (given) {
    auto json = known(*found);
    if (json && json->is_array() && unsloth) {
      Json kept = Json::array();
      for (const Json& one : *json) (one == "embed_tokens" || one == "lm_head" ? saved : kept).push_back(one);
      if (!saved.empty())
        script.note(*found, "target_modules",
                    "embed_tokens and lm_head become full copies in Unsloth: lora_modules_to_save");
      *json = kept;
    }
    if (json && json->is_string()) *json = Json::array({*json});
    if (json)
      script.set_json("lora_target_modules", *json, "target_modules", *found);
    else
      script.set("lora_target_modules", *found, "target_modules");
  } else if (unsloth) {
    for (const char* name :
         {"finetune_language_layers", "finetune_attention_modules", "finetune_mlp_modules"}) {
      const auto part_of = args.find(name);
      if (part_of != args.end() && known(*part_of) != Json(true))
        script.unknown(*part_of, name, "a part of the linears only", "lora_target_modules",
                       "write target_modules");
    }
    script.set_default("lora_target_modules", Json::array({"q_proj", "k_proj", "v_proj", "o_proj",
                                                           "gate_proj", "up_proj", "down_proj"}));
  }
  const auto modules = args.find("modules_to_save");
  if (modules != args.end()) {
    const auto json = known(*modules);
    if (json && json->is_array()) saved.insert(saved.end(), json->begin(), json->end());
    if (!json) script.set("lora_modules_to_save", *modules, "modules_to_save");
  }
  if (!saved.empty())
    script.set_json("lora_modules_to_save", saved, "modules_to_save",
                    modules != args.end() ? *modules : *found);
}

// Arguments without a name: the first of LoraConfig is task_type, and not the rank; get_peft_model has the rank
// behind the model.
void tell_plain(Script& script, const Json& config, std::string_view of, bool unsloth) {
  const Json& plain = config.at("plain");
  if (unsloth && plain.size() > 1) script.set("lora_r", plain.at(1), "r");
  if (plain.size() > (unsloth ? 2U : 1U)) {
    script.unknown(config, of, "several arguments are given without their names", "the adapter",
                   "write them as name=value");
  } else if (!unsloth && !plain.empty() && text_of(plain.at(0)).empty() &&
             known(plain.at(0)) != Json("CAUSAL_LM")) {
    script.refuse(plain.at(0), of, "its first argument is task_type: PEFT refuses a number there",
                  "write r=16, by name");
  }
}

void add_lora(Script& script, const Json& config, std::string_view of, bool unsloth) {
  script.set_json("use_peft", true, of, config);
  if (config.contains("touched"))
    script.unknown(config, of, config["touched"].get<std::string>(), "what that code changes", "read it");
  add_targets(script, config.at("args"), unsloth);
  script.take(config.at("args"), lora_names(), of);
  tell_plain(script, config, of, unsloth);
  script.set_default("lora_r", unsloth ? 16 : 8, std::string(of) + "'s");
  script.set_default("lora_alpha", unsloth ? 16 : 8, std::string(of) + "'s");
  script.set_default("lora_dropout", 0, std::string(of) + "'s");
}

// The adapter of a model that is wrapped: get_peft_model, PeftModel.from_pretrained. True: there is one.
bool add_wrapped(Script& script, const Json& model) {
  if (class_of(model) == "get_peft_model") {
    if (is_unsloth(model)) {
      add_lora(script, model, "get_peft_model", true);
      return true;
    }
    const Json* config = argument(model, "peft_config", 1);
    if (config != nullptr && class_of(*config) == "LoraConfig")
      add_lora(script, *config, "LoraConfig", false);
    else
      script.unknown(model, "get_peft_model",
                     config == nullptr ? "it is called without a configuration" : why_unknown(*config),
                     "use_peft");
    return true;
  }
  const Json* inner = inner_model(model);
  return inner != nullptr && !made_by(*inner).empty() && add_wrapped(script, *inner);
}

// Code that is not read may have changed the model: its weights, which of them are trained, an adapter.
void tell_touched(Script& script, const Json& model, bool alone) {
  for (const Json* one = &model; one != nullptr && !made_by(*one).empty(); one = inner_model(*one)) {
    const std::string why = why_touched(*one);
    if (why.empty()) continue;
    const bool wrapped = class_of(model) == "get_peft_model";
    script.unknown(model, "model", why, alone && !wrapped ? "use_peft" : "what that code changes",
                   "write the run into hone's own file: --write run.yaml");
    return;
  }
}

}  // namespace

const Json* inner_model(const Json& made) {
  const std::string name = class_of(made);
  if (name == "get_peft_model" || name.starts_with("prepare_model_for")) return argument(made, "model", 0);
  const bool moves = made_by(made) == ".to" || made_by(made) == ".cuda" || made_by(made) == ".train" ||
                     made_by(made) == ".bfloat16" || made_by(made) == ".eval";
  return moves && made.contains("base") ? &made.at("base") : nullptr;
}

const Json* loaded_model(const Json* model) {
  for (int depth = 0; model != nullptr && depth < 12 && !made_by(*model).empty(); ++depth) {
    if (class_of(*model) == "from_pretrained" && made_by(*model).find("PeftModel") == std::string::npos)
      return model;
    model = inner_model(*model);
  }
  return nullptr;
}

void add_model(Script& script) {
  const Json* model = argument(*script.trainer, "model", 0);
  const Json* config = argument(*script.trainer, "peft_config");
  if (model == nullptr) {
    script.unknown(*script.trainer, "model", "the trainer is made without a model", "model_name_or_path");
  } else if (!text_of(*model).empty()) {
    script.set("model_name_or_path", *model, "model");
  } else if (made_by(*model).find("PeftModel") != std::string::npos) {
    script.unknown(*model, "model", "an adapter that exists goes on: its base and rank are in its own files",
                   "model_name_or_path",
                   "write model_name_or_path and adapter_name_or_path into hone's own file");
    return;
  } else if (const Json* loaded = loaded_model(model)) {
    tell_touched(script, *model, config == nullptr);
    const bool wrapped = add_wrapped(script, *model);
    add_loaded(script, *loaded);
    if (wrapped && config != nullptr) {
      script.refuse(*config, "peft_config", "the model has an adapter already: two would be trained",
                    "leave peft_config out");
      return;
    }
    if (wrapped) return;
  } else {
    tell_model(script, *model);
    if (class_of(*model) == "get_peft_model" && add_wrapped(script, *model)) return;
  }
  if (config == nullptr) {
    script.set_default("use_peft", false, "no peft_config: the whole model is trained");
  } else if (class_of(*config) == "LoraConfig") {
    add_lora(script, *config, "LoraConfig", false);
  } else {
    script.unknown(*config, "peft_config", why_unknown(*config), "use_peft");
  }
}

void add_model_defaults(Script& script) {
  const Json* model = argument(*script.trainer, "model", 0);
  if (model == nullptr || text_of(*model).empty()) return;
  const OtherValue* given = script.out.find("model_init_kwargs");
  if (given == nullptr && script.has("model_init_kwargs")) return;  // told as unknown
  const bool has_dtype = given != nullptr && given->value.is_object() &&
                         (given->value.contains("dtype") || given->value.contains("torch_dtype"));
  if (!has_dtype) script.set_default("dtype", "float32", "model_init_kwargs");
}

}  // namespace hone::config::script
