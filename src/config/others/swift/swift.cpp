#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <span>

#include "base/files/file.h"
#include "base/strings/split.h"
#include "config/others/text_template.h"
#include "config/others/translation.h"
#include "config/write_plan.h"

namespace hone::config::swift {
namespace {

using base::Json;

void add_method(Translation& t) {
  const std::string verb = t.has("swift_verb") ? t.text("swift_verb") : t.has("rlhf_type") ? "rlhf" : "sft";
  const std::string type = t.text("rlhf_type");
  Method& method = t.run().method;
  method = Method::kSft;
  if (verb == "pt") t.note("swift_verb", "pt trains every token of the text: hone sft on a column of text");
  if (verb != "rlhf") return;
  if (type == "grpo") {
    method = Method::kGrpo;
  } else if (type.empty() || type == "dpo") {
    method = Method::kDpo;
  } else if (type == "kto") {
    method = Method::kKto;
  } else if (type == "orpo") {
    method = Method::kOrpo;
  } else if (type == "cpo" || type == "simpo") {
    method = Method::kCpo;
  } else if (type == "rm") {
    method = Method::kReward;
  } else {
    t.refuse("rlhf_type", fmt::format("hone has no {}", type),
             "it is grpo, dpo, kto, cpo, simpo, orpo or rm here");
  }
  if (type == "simpo") t.set("loss_type", "simpo", "rlhf_type");
  if (t.number("rpo_alpha").value_or(0) != 0)
    t.refuse("rpo_alpha", "a share of SFT in the loss of pairs",
             "write loss_type: [sigmoid, sft] in hone's own file");
}

// A file of version 2.
bool is_v2(const Translation& t) {
  return t.has("sft_type") || t.has("model_id_or_path");
}

// A file of version 3, or 2: names that today's are not, or a launcher's of then.
bool is_old(const Translation& t) {
  return t.has("train_type") || is_v2(t);
}

// What version 2 did where the file says nothing, before the table's defaults, which are today's.
void add_old_defaults(Translation& t) {
  if (!is_v2(t)) return;
  constexpr auto kOf = "of version 2";
  t.set_default("num_train_epochs", 1, kOf);
  if (!t.has("warmup_ratio") && t.number("warmup_steps").value_or(0) <= 0)
    t.set_default("warmup_steps", 0.05, kOf);
  t.set_default("max_length", 2048, kOf);
}

// What a completion is drawn from, and what of it is trained: after what the file sets.
void add_policy(Translation& t) {
  const std::string estimator = t.text("advantage_estimator");
  if (!estimator.empty() && estimator != "grpo")
    t.refuse("advantage_estimator", fmt::format("{}: other advantages than GRPO's", estimator), "write grpo");
  t.set_default("loss_type", "grpo");
  for (const char* name : {"response_length", "max_new_tokens"}) {
    if (t.has(name)) t.set("max_completion_length", t.value(name), name);
  }
  // -1 and 0 are all tokens
  if (t.has("top_k")) t.set("top_k", t.number("top_k").value_or(0) < 0 ? Json(0) : t.value("top_k"), "top_k");
  if (t.has("top_p")) t.set("top_p", t.value("top_p"), "top_p");
  if (is_old(t)) {
    t.set_default("top_k", 50, "of version 3");
    t.set_default("top_p", 0.9, "of version 3");
  } else if (!t.has("top_k") || !t.has("top_p")) {
    t.note(
        "rlhf_type",
        "4.6 draws from all tokens; version 3 from the first 50 and 0.9 of the probability: write top_k, top_p");
  }
  t.set_default("top_k", 0, "-1: all tokens");
  t.set_default("top_p", 1);
}

// Defaults of beta and of the loss: after what the file sets.
void add_loss(Translation& t) {
  const std::string type = t.text("rlhf_type");
  Json loss = t.value("loss_type");
  if (loss.is_array() && loss.size() == 1 && t.run().method != Method::kDpo) loss = loss[0];
  if (!loss.is_null()) t.set("loss_type", loss, "loss_type");
  if (t.flag("enable_dft_loss") && t.run().method == Method::kSft)
    t.set("loss_type", "dft", "enable_dft_loss");
  if (t.has("acc_strategy") && t.text("acc_strategy") != "token")
    t.refuse("acc_strategy", "each row counts alike, however long it is", "write token");
  if (t.has("ref_model") && t.text("ref_model") != t.text("model"))
    t.refuse("ref_model", "another model is the reference", "hone's reference is the model at its start");
  if (t.run().method == Method::kDpo && is_old(t) && !t.has("rpo_alpha"))
    t.note("rlhf_type", "versions of ms-swift before 3.8 add a share of SFT to the loss: rpo_alpha 1");
  if (t.run().method == Method::kGrpo) add_policy(t);
  if (t.has("max_completion_length"))
    t.set("max_completion_length", t.value("max_completion_length"), "max_completion_length");
  t.set_default("max_completion_length", 512);
  if (t.run().method == Method::kGrpo) t.set_default("beta", 0.04);
  if (t.run().method == Method::kDpo) t.set_default("beta", 0.1);
  if (t.run().method != Method::kCpo) return;
  if (type == "simpo") t.set_default("beta", 2);
  if (type == "simpo") t.set_default("simpo_gamma", 1);
  t.set_default("cpo_alpha", 1);
}

// What version 2 adapts where the file names no modules; null: its list for this model is not known here.
Json old_targets_of(const Translation& t) {
  std::string name = t.text("model_id_or_path") + " " + t.text("model") + " " + t.text("model_type");
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::span<const OldTargets> rows = old_targets();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const OldTargets& one) {
    return name.find(one.word) != std::string::npos;
  });
  if (row == rows.end() || row->targets.empty()) return {};
  return base::split_text(std::string(row->targets), ' ');
}

// Which linears have adapters. Version 2 splits one word at its commas, and has words for lists of its own.
void add_targets(Translation& t) {
  constexpr auto kOwnList = "version 2 has a list of its own for each family of models";
  for (const char* from : {"target_modules", "lora_target_modules"}) {
    if (!t.has(from)) continue;
    Json value = t.value(from);
    if (value.is_string()) value = Json::array({value});
    if (value.is_array() && value.size() == 1 && value[0].is_string()) {
      const std::string word = value[0].get<std::string>();
      if (word.find(',') != std::string::npos && !is_v2(t)) {
        t.refuse(from, fmt::format("{} is one name to ms-swift, which no model has", word),
                 "write the names apart");
        return;
      }
      if (word == "ALL") value = Json::array({"all-linear"});
      if (word == "DEFAULT" || word == "AUTO" || word == "EMBEDDING") {
        t.unknown(from, fmt::format("{}: {}", word, kOwnList), "lora_target_modules", "write the names");
        return;
      }
      if (word.find(',') != std::string::npos) {
        value = Json::array();
        for (const std::string& one : base::split_text(word, ',')) value.push_back(one);
      }
    }
    t.set("lora_target_modules", value, from);
  }
  if (t.is_set("lora_target_modules")) return;
  if (const Json own = is_v2(t) ? old_targets_of(t) : Json(); !own.is_null())
    t.set_default("lora_target_modules", own, "of version 2");
  else if (is_v2(t))
    t.unknown(t.has("sft_type") ? "sft_type" : "model_id_or_path", kOwnList, "lora_target_modules",
              "write lora_target_modules");
  else
    t.set_default("lora_target_modules", Json::array({"all-linear"}));
}

// EMBEDDING and LN are version 2's words for modules of the model.
void add_saved_modules(Translation& t, const char* from) {
  Json value = t.value(from);
  if (value.is_string()) value = Json::array({value});
  for (const Json& one : value) {
    if (one == "EMBEDDING" || one == "LN") {
      t.unknown(from,
                fmt::format("{}: version 2 looks for these modules in the model", one.get<std::string>()),
                "lora_modules_to_save", "write the names");
      return;
    }
  }
  t.set("lora_modules_to_save", value, from);
}

void add_adapter(Translation& t) {
  if (t.has("learning_rate")) t.set("learning_rate", t.value("learning_rate"), "learning_rate");
  const char* name = t.has("tuner_type") ? "tuner_type" : t.has("train_type") ? "train_type" : "sft_type";
  const std::string type = t.has(name) ? t.text(name) : "lora";
  if (type == "full") {
    t.set("use_peft", false, name);
    t.set_default("learning_rate", 1e-5, "1e-5 for full");
    return;
  }
  if (type != "lora") {
    t.refuse(name, fmt::format("hone has no {}", type), "it is lora or full here");
    return;
  }
  if (t.has(name)) t.set("use_peft", true, name);
  t.set_default("use_peft", true, "lora");
  t.set_default("learning_rate", 1e-4, "1e-4 for lora");
  if (std::string_view(name) == "sft_type" && t.has(name))
    t.note(name, "a name of ms-swift 2, which 4.6 refuses: today's is tuner_type");
  for (const char* from : {"adapters", "ckpt_dir"}) {
    Json value = t.value(from);
    if (value.is_array() && value.size() == 1) value = value[0];
    if (value.is_array() && value.size() > 1)
      t.refuse(from, "several adapters go on together", "name one");
    else if (!value.empty())
      t.set("adapter_name_or_path", value, from);
  }
  if (t.is_set("adapter_name_or_path")) return;
  if (t.has("lora_rank")) t.set("lora_r", t.value("lora_rank"), "lora_rank");
  t.set_default("lora_r", 8);
  if (t.has("lora_alpha")) t.set("lora_alpha", t.value("lora_alpha"), "lora_alpha");
  t.set_default("lora_alpha", 32);
  for (const char* from : {"lora_dropout", "lora_dropout_p"}) {
    if (t.has(from)) t.set("lora_dropout", t.value(from), from);
  }
  t.set_default("lora_dropout", 0.05);
  add_targets(t);
  for (const char* from : {"use_rslora", "use_dora"}) {
    if (t.flag(from)) t.set(from, true, from);
  }
  for (const char* from : {"modules_to_save", "lora_modules_to_save"}) {
    if (t.has(from) && !t.value(from).empty()) add_saved_modules(t, from);
  }
}

// The base as it is loaded, and what of it is trained on.
void add_quantization(Translation& t) {
  if (t.has("task_type") && t.text("task_type") != "causal_lm")
    t.refuse("task_type", "the model has another head than that of text", "it is causal_lm here");
  if (t.number("train_dataset_sample").value_or(-1) >= 0)
    t.refuse("train_dataset_sample", "so many rows are drawn of all sets", "write #N behind a set");
  const char* name = t.has("quant_bits") ? "quant_bits" : "quantization_bit";
  const double bits = t.number(name).value_or(0);
  if (const std::string type = t.text("dtype"); type == "bf16" || type == "fp32")
    t.set("dtype", type == "bf16" ? "bfloat16" : "float32", "dtype");
  else if (type == "fp16")
    t.refuse("dtype", "NUM-03: a model in float16 overflows in training", "write bf16");
  if (bits == 0) return;
  const std::string method = t.text("quant_method");
  if ((bits != 4 && bits != 8) || (!method.empty() && method != "bnb"))
    t.refuse(name, "hone quantizes to 4 and 8 bits, as bitsandbytes does",
             "write 4 or 8, with quant_method: bnb");
  else
    t.set(bits == 4 ? "load_in_4bit" : "load_in_8bit", true, name);
  if (bits == 4) t.set_default("use_bnb_nested_quant", true);
}

void add_truncation(Translation& t, const std::string& strategy) {
  const bool is_left = strategy == "left" || strategy == "truncation_left";
  if (!is_left && strategy != "right")
    t.refuse("truncation_strategy", fmt::format("ms-swift has no {}", strategy),
             "write delete, left or right");
  else if (t.run().method == Method::kSft || t.run().method == Method::kDpo)
    t.set("truncation_mode", is_left ? "keep_end" : "keep_start", "truncation_strategy");
  else
    t.note(
        "truncation_strategy",
        fmt::format("ms-swift cuts a row above max_length at its {}; hone's {} leaves it out or cuts its end",
                    is_left ? "beginning" : "end", method_name(t.run().method)));
}

// truncation_strategy delete.
void add_dropping(Translation& t) {
  constexpr auto kDrops = "ms-swift drops each row above max_length (truncation_strategy delete)";
  const bool same = t.run().method == Method::kSft || t.run().method == Method::kDpo;
  t.note("max_length",
         same ? std::string(kDrops) + ", and so does hone" : std::string(kDrops) + "; hone would cut it");
  if (same) t.set_default("truncation_mode", "drop", "truncation_strategy: delete");
}

void add_numbers(Translation& t) {
  const double batch =
      t.number(t.has("batch_size") ? "batch_size" : "per_device_train_batch_size").value_or(1);
  if (t.has("gradient_accumulation_steps")) {
    t.set("gradient_accumulation_steps", t.value("gradient_accumulation_steps"),
          "gradient_accumulation_steps");
  } else if (t.run().method == Method::kGrpo && is_old(t)) {
    t.unknown(
        "rlhf_type",
        "the default is 1 since 3.7.3, and was 16 / batch / processes before: a file of version 3 may be of "
        "either",
        "gradient_accumulation_steps", "write gradient_accumulation_steps");
  } else if (t.run().method == Method::kGrpo) {
    t.set_default("gradient_accumulation_steps", 1, "of GRPO");
  } else if (batch >= 1 && batch < 1e6) {
    const double processes = std::max(t.number("processes").value_or(1), 1.0);
    if (t.has("processes") && !t.number("processes"))
      t.unknown(
          "processes",
          "it is known only to the shell that runs the script, and the default is 16 / batch / processes",
          "gradient_accumulation_steps", "write gradient_accumulation_steps");
    t.set_default("gradient_accumulation_steps", static_cast<std::int64_t>(std::ceil(16 / batch / processes)),
                  processes > 1 ? "16 / batch / processes" : "16 / batch, of one process");
  }
  t.note_processes();
  if (t.number("warmup_steps").value_or(0) > 0)
    t.set("warmup_steps", t.value("warmup_steps"), "warmup_steps");
  else if (t.has("warmup_ratio"))
    t.set("warmup_steps", t.value("warmup_ratio"), "warmup_ratio");
  if (!is_v2(t)) t.set_default("warmup_steps", 0);
  if (t.flag("fp16") && !t.flag("bf16"))
    t.refuse("fp16", "NUM-03: float16 overflows in training and needs loss scaling", "write bf16: true");
  if (t.has("max_length"))
    t.set("max_length", t.value("max_length"), "max_length");
  else if (!is_v2(t) && t.run().method != Method::kGrpo)
    t.unknown("max_length", "the default is the model's own limit, which its config.json says", "max_length",
              "write max_length");
  const std::string strategy = t.has("truncation_strategy") ? t.text("truncation_strategy") : "delete";
  if (t.run().method == Method::kGrpo) {
    // its rows are prompts, which hone never cuts
  } else if (strategy == "delete" || strategy == "ignore") {
    add_dropping(t);
  } else if (strategy == "split") {
    t.note("max_length", "ms-swift splits a text above max_length into several rows; hone would cut it");
  } else {
    add_truncation(t, strategy);
  }
  for (const char* from : {"init_weights", "init_lora_weights"}) {
    if (t.has(from) && t.text(from) != "true") t.set("init_lora_weights", t.value(from), from);
  }
  if (t.has("packing_length")) t.note("packing_length", "hone packs rows of max_length");
  const char* deepspeed = t.has("deepspeed") ? "deepspeed" : "deepspeed_config_path";
  const std::string file = t.text(deepspeed);
  if (!file.empty())
    t.note(deepspeed, fmt::format("{}: the stage divides the state among ranks (docs/ranks.md)", file));
}

// "id:subset#500": its parts.
Json entry_of(std::string text) {
  Json out = Json::object();
  if (const std::size_t hash = text.rfind('#'); hash != std::string::npos) {
    const std::string count = text.substr(hash + 1);
    const bool digits = !count.empty() && count.size() < 10 &&
                        std::all_of(count.begin(), count.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (digits) {
      out["first"] = std::stoll(count);
      text.resize(hash);
    }
  }
  for (const char* hub : {"HF::", "MS::", "hf::", "ms::"}) {
    if (text.starts_with(hub)) text.erase(0, 4);
  }
  if (const std::size_t colon = text.rfind(':'); colon != std::string::npos && colon > 1) {
    out["name"] = text.substr(colon + 1);
    text.resize(colon);
  }
  out["path"] = text;
  return out;
}

Json entries_of(const Json& value) {
  Json out = Json::array();
  if (value.is_string()) return Json::array({entry_of(value.get<std::string>())});
  if (!value.is_array()) return out;
  for (const Json& one : value) {
    if (one.is_string() && !one.get<std::string>().empty()) out.push_back(entry_of(one.get<std::string>()));
  }
  return out;
}

// "last_round" of "last_round+ignore_empty_think": which turns are trained.
std::string base_scale(const Translation& t) {
  const std::string whole = t.text("loss_scale");
  const std::string first = whole.substr(0, whole.find('+'));
  return first == "last_round" || first == "all" ? first : "default";
}

// What is not written is as checkpoints have it. Without evaluation ms-swift holds out no rows.
std::string evaluation_of(const Translation& t) {
  for (const char* name : {"eval_strategy", "evaluation_strategy", "save_strategy"}) {
    if (t.has(name)) return t.text(name);
  }
  return "steps";
}

// ms-swift's names of columns by hone's. Rows with several turns of their own columns are read_form's to understand.
void add_columns(Translation& t) {
  const Method method = t.run().method;
  const bool pairs = method != Method::kSft && method != Method::kKto && !samples(method);
  Json columns = Json::object();
  bool has_texts = false;
  for (const auto& [column, name] : t.value("columns").items()) {
    const std::string wanted = name.is_string() ? name.get<std::string>() : "";
    if (wanted == "query") {
      columns[column] = "prompt";
      has_texts = true;
    } else if (wanted == "response") {
      columns[column] = pairs ? "chosen" : "completion";
    } else if (wanted == "rejected_response") {
      columns[column] = "rejected";
    } else if (wanted == "system" || wanted == "history") {
      t.unknown(
          "columns",
          fmt::format("{} takes the place of {}, which ms-swift puts before the prompt", column, wanted),
          "the form of the rows", "write rows of messages");
    } else {
      columns[column] = name;
    }
  }
  t.set("dataset_columns", columns, "columns");
  const bool has_turns = std::any_of(columns.begin(), columns.end(), [](const Json& name) {
    return name == "messages" || name == "conversations";
  });
  if (has_turns && method == Method::kSft && t.text("swift_verb") != "pt")
    t.set("assistant_only_loss", base_scale(t) != "all", "columns");
  if (has_texts) t.set("make_conversation", true, "columns");
}

void add_data(Translation& t) {
  const char* name = t.has("custom_train_dataset_path") ? "custom_train_dataset_path" : "dataset";
  const Json entries = entries_of(t.value(name));
  const std::string strategy = evaluation_of(t);
  const bool split = t.number("split_dataset_ratio").value_or(0) > 0 && strategy != "no";
  bool placeholder = false;
  for (const Json& one : entries) placeholder |= one["path"].get<std::string>().starts_with("<");
  if (entries.empty() || placeholder) {
    const bool told = std::any_of(t.run().unknown.begin(), t.run().unknown.end(),
                                  [&](const OtherUnknown& one) { return one.name == name; });
    if (!told)
      t.unknown(name, placeholder ? "its value is a place to fill in" : "it is not written", "the rows",
                "write dataset, or --data FILE");
  } else if (entries.size() == 1 && entries[0].size() == 1 && !split) {
    t.set("dataset_name", entries[0]["path"], name);
  } else {
    t.set("datasets", entries, name);
  }
  const bool ordered = t.has("dataset_shuffle") && !t.flag("dataset_shuffle");
  if (ordered)
    t.note(
        "dataset_shuffle",
        "the file's order is kept, but each epoch is drawn at random still: train_dataloader_shuffle decides");
  if (t.has("train_dataloader_shuffle") && !t.flag("train_dataloader_shuffle"))
    t.set("train_sampling_strategy", "sequential", "train_dataloader_shuffle");
  for (const Json& one : entries) {
    if (one.contains("first") && !ordered)
      t.note(name, fmt::format("#{} draws so many rows of {}; hone takes the first",
                               one["first"].get<std::int64_t>(), one["path"].get<std::string>()));
  }
  const char* evaluation = t.has("val_dataset") ? "val_dataset" : "custom_val_dataset_path";
  const Json evaluated = entries_of(t.value(evaluation));
  if (!evaluated.empty()) t.set("eval_datasets", evaluated, evaluation);
  if (split) t.set("test_split_size", t.value("split_dataset_ratio"), "split_dataset_ratio");
  const bool has_rows = split || (!evaluated.empty() && strategy != "no");
  if (has_rows) {
    t.set("eval_strategy", strategy, "eval_strategy");
    if (strategy == "steps" && t.has("eval_steps")) t.set("eval_steps", t.value("eval_steps"), "eval_steps");
    if (strategy == "steps" && t.has("save_steps")) t.set_default("eval_steps", t.value("save_steps"));
  } else {
    if (t.has("sft_type") || t.has("train_type"))
      t.note(name,
             "versions of ms-swift before 3.6 hold out 1 % of the rows for evaluation; hone trains on all");
    for (const char* asked : {"eval_steps", "load_best_model_at_end"}) {
      if (t.has(asked) && t.value(asked) != false)
        t.note(
            asked,
            "evaluation is asked for, but there is no set to evaluate: neither val_dataset nor split_dataset_ratio");
    }
  }
  if (t.value("columns").is_object()) add_columns(t);
  if (t.run().method == Method::kSft && t.text("swift_verb") != "pt" && base_scale(t) == "default")
    t.note("loss_scale",
           "sft trains every answer of a conversation: assistant_only_loss on rows of messages");
}

// The text that the file names as the run's template; where hone does not have it, the model's own.
void use_template(Translation& t, bool sft) {
  const char* name = t.has("template") ? "template" : "template_type";
  const std::string word = t.text(name);
  if (word.empty() || word == "AUTO") {
    if (sft)
      t.note("template",
             "not written: ms-swift takes a text of its own by the model's type, hone the model's template");
    return;
  }
  t.run().text_name = word;
  const TrainerText* const text = trainer_text(Trainer::kSwift, word);
  if (text == nullptr || t.text("swift_verb") == "pt" || samples(t.run().method)) {
    t.note(
        name,
        fmt::format("{} is ms-swift's own text, not the model's template; hone examines with the model's own",
                    word));
    return;
  }
  const bool last_only = !sft || base_scale(t) == "last_round";
  TrainerText used = *text;
  if (t.has("add_non_thinking_prefix") && !t.flag("add_non_thinking_prefix")) used.empty_think = {};
  t.set("chat_template",
        template_of(used, {.trains_last_only = sft && last_only, .strips_history = last_only}), name);
  t.note(name,
         fmt::format("{} is ms-swift's own text, which hone renders; a server renders the model's template",
                     word));
  if (word == "chatml")
    t.note(name, "it begins with what the tokenizer puts before a text; hone writes its bos_token");
}

void add_text(Translation& t) {
  if (t.has("system")) t.set("dataset_system_prompt", t.value("system"), "system");
  for (const std::string& one : base::split_text(t.text("loss_scale"), '+')) {
    if (!one.empty() && one != "default" && one != "last_round" && one != "all" &&
        one != "ignore_empty_think")
      t.refuse("loss_scale", fmt::format("{} weights some tokens otherwise than 0 and 1", one),
               "write default");
  }
  const bool sft = t.run().method == Method::kSft && t.text("swift_verb") != "pt";
  use_template(t, sft);
  if (sft && base_scale(t) == "last_round" && !t.is_set("chat_template"))
    t.refuse("loss_scale", "only the last answer of a conversation is trained",
             "write rows that end with it, as prompt and completion");
  if (sft && base_scale(t) == "all") {
    t.set("assistant_only_loss", false, "loss_scale");
    t.set("completion_only_loss", false, "loss_scale");
  }
  const std::string model = t.text(t.has("model") ? "model" : "model_id_or_path");
  if (model.find("Qwen3") != std::string::npos && model.find("2507") == std::string::npos)
    t.note("model",
           "ms-swift puts an empty think block before answers that have none (Qwen3); 4.6 does not train it");
  if (!t.flag("use_hf") && !model.empty() && !model.starts_with("/") && !model.starts_with("."))
    t.note("model", "ms-swift's hub is ModelScope: hone looks for the same name in Hugging Face's cache");
  if (t.run().method != Method::kGrpo) return;
  // dynamic_sample draws at first, and up to max_resample_times (3) more.
  if (t.flag("dynamic_sample"))
    t.set("max_num_gen_batches", 1 + static_cast<std::int64_t>(t.number("max_resample_times").value_or(3)),
          t.has("max_resample_times") ? "max_resample_times" : "dynamic_sample");
  Json rewards = t.value("reward_funcs");
  if (rewards.is_string()) rewards = Json::array({rewards});
  if ((rewards.is_array() && !rewards.empty()) || !t.value("reward_model").empty())
    t.unknown(
        "reward_funcs",
        "the rewards are ms-swift's, or classes of external_plugins, which hone does not run by these names",
        "reward_funcs", "write reward_funcs as file.py:Class in hone's own file");
}

}  // namespace

void translate(const OtherFile& file, OtherRun& out) {
  if (file.entries.empty() && !out.refused.empty()) return;  // a command of another program
  Translation t(file, names(), out);
  add_method(t);
  t.apply_names();
  add_loss(t);
  add_adapter(t);
  add_quantization(t);
  add_numbers(t);
  add_data(t);
  add_text(t);
  add_old_defaults(t);
  t.apply_defaults();
}

}  // namespace hone::config::swift
