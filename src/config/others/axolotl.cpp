#include "config/others/axolotl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/files/file.h"
#include "config/others/json_members.h"

namespace hone::config::axolotl {
namespace {

using base::Json;

Method method_of_rl(Translation& t, const std::string& rl) {
  if (t.flag("reward_model") || rl == "reward_model") return Method::kReward;
  if (rl.empty()) return Method::kSft;
  if (rl == "dpo" || rl == "ipo") return Method::kDpo;
  if (rl == "kto") return Method::kKto;
  if (rl == "orpo") return Method::kOrpo;
  if (rl == "simpo") return Method::kCpo;
  if (rl == "grpo") return Method::kGrpo;
  t.refuse("rl", fmt::format("hone has no method {}", rl), "it is dpo, ipo, kto, orpo, simpo or grpo here");
  return Method::kSft;
}

// "rewards.correct": a function of a module beside the file, rewards.py:correct.
void add_rewards(Translation& t, const Json& names) {
  const Json all = names.is_array() ? names : Json::array({names});
  const base::fs::path folder = base::fs::path(t.file().path).parent_path();
  Json found = Json::array();
  for (const Json& one : all) {
    const std::string name = one.is_string() ? one.get<std::string>() : base::dump_json(one);
    if (name.starts_with("trl.rewards.")) {
      found.push_back(name.substr(12));
      continue;
    }
    const std::size_t dot = name.rfind('.');
    std::string module = name.substr(0, dot);
    std::replace(module.begin(), module.end(), '.', '/');
    base::fs::path file = folder / (module + ".py");
    if (!base::fs::is_regular_file(file)) file = module + ".py";
    if (dot == std::string::npos || !base::fs::is_regular_file(file)) {
      t.unknown("trl",
                fmt::format("reward {} is a function of a module that is not here, or a reward model", name),
                "reward_funcs", fmt::format("put {}.py beside this file", module));
      return;
    }
    found.push_back(file.string() + ":" + name.substr(dot + 1));
  }
  t.set("reward_funcs", found, "trl");
}

void add_method(Translation& t) {
  const std::string rl = t.text("rl");
  t.run().method = method_of_rl(t, rl);
  if (rl == "ipo") t.set("loss_type", Json::array({"ipo"}), "rl");
  if (rl == "simpo") t.set("loss_type", "simpo", "rl");
  if (rl == "dpo" && !t.has("adapter")) t.note("rl", "without adapter the whole model is trained");
  if (t.has("orpo_alpha")) t.set("beta", t.value("orpo_alpha"), "orpo_alpha");
  if (t.has("dpo_beta")) t.note("dpo_beta", "axolotl does not read it any more: rl_beta is today's name");
  if (t.has("rpo_alpha"))
    t.refuse("rpo_alpha", "axolotl 0.21 refuses it", "write dpo_loss_type: [sigmoid, sft] with weights");
  if (t.has("max_prompt_len") && !rl.empty())
    t.note("max_prompt_len", "axolotl's limit of a prompt; hone has one limit, max_length, for both");
  if (rl == "simpo" && !t.has("simpo_gamma"))
    t.unknown("rl", "simpo_gamma is not written: axolotl gives none to the loss, which fails", "simpo_gamma",
              "write simpo_gamma");
  const Json& more = t.value("trl");
  if (!more.is_object()) return;
  for (const auto& [name, value] : more.items()) {
    if (!value.is_null() && name != "reward_funcs") t.set(name, value, "trl");
  }
  if (!member(more, "reward_funcs").empty()) add_rewards(t, member(more, "reward_funcs"));
}

void add_shard(Translation& t) {
  if (t.number("dataset_shard_num").value_or(0) > 1 && t.has("dataset_shard_idx"))
    t.refuse("dataset_shard_num", "one part of the rows is trained on", "write split");
}

void add_adapter(Translation& t) {
  const std::string adapter = t.text("adapter");
  const bool four = t.flag("load_in_4bit"), eight = t.flag("load_in_8bit");
  if (adapter.empty()) {
    t.set_default("use_peft", false, "no adapter: the whole model is trained");
    for (const char* name : {"load_in_4bit", "load_in_8bit"}) {
      if (t.flag(name))
        t.refuse(name, "a quantized base cannot be trained whole", "write adapter: qlora, or remove it");
    }
    return;
  }
  if (adapter != "lora" && adapter != "qlora") {
    t.refuse("adapter", fmt::format("hone has no adapter {}", adapter), "it is lora or qlora here");
    return;
  }
  t.set("use_peft", true, "adapter");
  if (adapter == "qlora" && !four)
    t.refuse("adapter", "axolotl refuses qlora without load_in_4bit: true", "write load_in_4bit: true");
  if (adapter == "qlora" && eight)
    t.refuse("load_in_8bit", "axolotl refuses qlora with load_in_8bit: true", "write load_in_8bit: false");
  if (adapter == "lora" && four) t.note("adapter", "lora with load_in_4bit is the same as qlora");
  if (four) t.set("load_in_4bit", true, "load_in_4bit");
  if (four) t.set_default("use_bnb_nested_quant", true);
  if (four && t.has("bnb_4bit_use_double_quant"))
    t.note(
        "bnb_4bit_use_double_quant",
        "axolotl does not read it, and always quantizes the scales too: bnb_config_kwargs would change it");
  if (eight) t.set("load_in_8bit", true, "load_in_8bit");
  if (t.has("lora_model_dir")) t.set("adapter_name_or_path", t.value("lora_model_dir"), "lora_model_dir");
  const bool linear = t.flag("lora_target_linear");
  if (linear) {
    t.set("lora_target_modules", Json::array({"all-linear"}), "lora_target_linear");
    for (const Json& one : t.value("lora_target_modules")) {
      if (one == "lm_head" || one == "embed_tokens" || one == "embed_in" || one == "embed_out")
        t.refuse("lora_target_modules",
                 fmt::format("{} beside lora_target_linear: hone's all-linear has neither head nor embedding",
                             one.get<std::string>()),
                 "write the names of all linears and no lora_target_linear");
    }
    if (!t.value("lora_target_modules").empty())
      t.note("lora_target_linear", "it adds every linear but the head to lora_target_modules");
  } else if (!t.value("lora_target_modules").empty()) {
    t.set("lora_target_modules", t.value("lora_target_modules"), "lora_target_modules");
  } else if (!t.has("lora_model_dir")) {
    t.unknown("adapter", "neither lora_target_modules nor lora_target_linear is written",
              "lora_target_modules", "write lora_target_linear: true, or the names");
  }
  if (t.has("lora_dropout")) t.set("lora_dropout", t.value("lora_dropout"), "lora_dropout");
  t.set_default("lora_dropout", 0);
  for (const char* name : {"lora_r", "lora_alpha"}) {
    if (!t.has(name) && !t.has("lora_model_dir"))
      t.unknown("adapter", fmt::format("{} is not written", name), name, fmt::format("write {}", name));
  }
}

void add_precision(Translation& t) {
  const std::string bf16 = t.text("bf16");
  const bool on = t.flag("bf16") || bf16 == "auto" || bf16 == "full" || t.flag("bfloat16");
  if (bf16 == "auto") t.note("bf16", "auto asks the GPU: taken as true, as a GPU of today answers");
  if (t.flag("bfloat16") || bf16 == "full")
    t.set("dtype", "bfloat16", t.flag("bfloat16") ? "bfloat16" : "bf16");
  for (const char* name : {"fp16", "float16"}) {
    if (!t.flag(name)) continue;
    if (on)
      t.note(name, "with bf16 it is not used");
    else
      t.refuse(name, "NUM-03: float16 overflows in training and needs loss scaling", "write bf16: true");
  }
  if (t.has("bf16"))
    t.set("bf16", on, "bf16");
  else if (!t.flag("fp16"))
    t.set_default("bf16", true, "auto: what a GPU of today answers");
}

// 3 % of the steps, rounded down, and at most 100.
void add_default_warmup(Translation& t) {
  constexpr double kShare = 0.03, kMost = 100;
  const char* const why = "3 % of the steps, at most 100";
  const double steps = t.number("max_steps").value_or(0);
  if (steps > 0) {
    t.set_default("warmup_steps", static_cast<std::int64_t>(std::min(std::floor(kShare * steps), kMost)),
                  why);
    return;
  }
  t.set_default("warmup_steps", kShare, why);
  t.note(
      "num_epochs",
      "a run above 3,333 steps warms up for 100 of them in axolotl; hone for 3 %: write warmup_steps: 100");
}

void add_schedule(Translation& t) {
  const std::string schedule = t.text("lr_scheduler");
  if (schedule == "one_cycle" || schedule == "rex") {
    t.refuse("lr_scheduler", fmt::format("{} is axolotl's own schedule", schedule), "use cosine");
  }
  if (t.has("cosine_min_lr_ratio") && (schedule.empty() || schedule == "cosine")) {
    t.run().options.push_back(
        {"lr_scheduler_type", "cosine_with_min_lr", "cosine_min_lr_ratio", t.where("cosine_min_lr_ratio")});
    t.set("lr_scheduler_kwargs", Json::object({{"min_lr_rate", t.value("cosine_min_lr_ratio")}}),
          "cosine_min_lr_ratio");
  }
  if (t.has("lr_scheduler_kwargs"))
    t.set("lr_scheduler_kwargs", t.value("lr_scheduler_kwargs"), "lr_scheduler_kwargs");
  if (t.has("warmup_steps")) {
    t.set("warmup_steps", t.value("warmup_steps"), "warmup_steps");
    if (t.has("warmup_ratio"))
      t.refuse("warmup_ratio", "axolotl refuses warmup_steps together with warmup_ratio", "remove one");
  } else if (t.has("warmup_ratio")) {
    t.set("warmup_steps", t.value("warmup_ratio"), "warmup_ratio");
    t.note("warmup_ratio", "axolotl rounds the steps down, and a warm-up of 1 step becomes 2");
  } else {
    add_default_warmup(t);
  }
  if (!t.has("learning_rate"))
    t.unknown("learning_rate", "it is not written, and axolotl asks for it", "learning_rate",
              "write learning_rate");
}

void add_batch(Translation& t) {
  const auto whole = t.number("batch_size"), micro = t.number("micro_batch_size");
  t.set_default("per_device_eval_batch_size",
                t.has("micro_batch_size") ? t.value("micro_batch_size") : Json(1));
  if (!whole) return;
  if (t.has("gradient_accumulation_steps")) {
    t.note("batch_size", "gradient_accumulation_steps says the same: it counts");
  } else if (micro && *micro > 0 && std::fmod(*whole, *micro) == 0) {
    t.set("gradient_accumulation_steps", static_cast<std::int64_t>(*whole / *micro), "batch_size");
  } else {
    t.unknown("batch_size", "batch_size / micro_batch_size is no whole number", "gradient_accumulation_steps",
              "write gradient_accumulation_steps");
  }
}

// True where each set is of raw text, which axolotl cuts into pieces.
bool has_only_text(const Translation& t) {
  if (t.has("pretraining_dataset")) return true;
  const Json& sets = t.value("datasets");
  return sets.is_array() && !sets.empty() && std::all_of(sets.begin(), sets.end(), [](const Json& one) {
           return one.is_object() &&
                  (one.value("type", Json()) == "completion" || one.value("type", Json()) == "pretrain");
         });
}

// What axolotl does with long rows, and with packing.
void add_lengths(Translation& t) {
  const std::string strategy = t.text("excess_length_strategy");
  const std::string limit = t.has("sequence_len") ? t.text("sequence_len") : "512";
  if (samples(t.run().method)) {
    // its rows are prompts, and stay whole
  } else if (has_only_text(t)) {
    t.note("sequence_len",
           fmt::format("axolotl splits a text above {} tokens into several rows; hone would cut it", limit));
  } else if (strategy == "truncate") {
    t.note("excess_length_strategy", "long rows are cut, as hone does");
  } else if (strategy == "raise") {
    t.note("excess_length_strategy",
           fmt::format("axolotl stops at a row above {} tokens; hone cuts it", limit));
  } else {
    const bool same = t.run().method == Method::kSft || t.run().method == Method::kDpo;
    if (same) t.set_default("truncation_mode", "drop", "excess_length_strategy: drop");
    t.note("sequence_len", fmt::format("axolotl drops each row above {} tokens{}", limit,
                                       same ? ", and so does hone" : "; hone would cut it"));
  }
  if (t.flag("sample_packing")) {
    t.note(
        "sample_packing",
        "axolotl fills bins of micro_batch_size x sequence_len tokens and leaves out the last: as many tokens "
        "a step as here, in other bins, so its count of steps differs a little");
    if (t.run().method != Method::kSft) t.refuse("sample_packing", "axolotl refuses it with rl", "remove it");
  }
  if (t.flag("group_by_length")) t.set("train_sampling_strategy", "group_by_length", "group_by_length");
}

}  // namespace

void translate(const OtherFile& file, OtherRun& out) {
  Translation t(file, names(), out);
  add_method(t);
  add_schedule(t);
  t.apply_names();
  add_batch(t);
  add_shard(t);
  add_adapter(t);
  add_precision(t);
  add_lengths(t);
  add_data(t);
  add_runs(t);
  t.apply_defaults();
}

}  // namespace hone::config::axolotl
