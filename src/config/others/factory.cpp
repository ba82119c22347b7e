#include "config/others/factory.h"

#include <fmt/format.h>

#include "base/files/file.h"
#include "base/strings/split.h"

namespace hone::config::factory {
namespace {

using base::Json;

void add_method(Translation& t) {
  const std::string stage = t.has("stage") ? t.text("stage") : "sft";
  const std::string loss = t.has("pref_loss") ? t.text("pref_loss") : "sigmoid";
  Method& method = t.run().method;
  method = Method::kSft;
  if (stage == "dpo") {
    method = loss == "orpo" ? Method::kOrpo : loss == "simpo" ? Method::kCpo : Method::kDpo;
  } else if (stage == "rm") {
    method = Method::kReward;
  } else if (stage == "kto") {
    method = Method::kKto;
  } else if (stage != "sft" && stage != "pt") {
    t.refuse("stage", fmt::format("hone has no stage {}", stage), "it is sft, pt, dpo, rm or kto here");
  }
  if (method == Method::kDpo && t.has("pref_loss")) t.set("loss_type", Json::array({loss}), "pref_loss");
  if (method == Method::kCpo) {
    t.set("loss_type", "simpo", "pref_loss");
    if (t.has("simpo_gamma")) t.set("simpo_gamma", t.value("simpo_gamma"), "simpo_gamma");
    t.set_default("simpo_gamma", 0.5);
    t.set_default("cpo_alpha", 0, "its simpo has no likelihood of the chosen answer");
  }
  if (method == Method::kOrpo || method == Method::kCpo)
    t.note("pref_loss", fmt::format("{} has no reference: hone {}", loss, loss == "orpo" ? "orpo" : "cpo"));
  if (method != Method::kSft && method != Method::kReward) {
    if (t.has("pref_beta")) t.set("beta", t.value("pref_beta"), "pref_beta");
    t.set_default("beta", 0.1);
  }
  if (t.has("mix_strategy") && t.text("mix_strategy") != "concat")
    t.refuse("mix_strategy", "sets are drawn in turns, not joined", "it is concat here");
  if (t.number("pref_ftx").value_or(0) != 0)
    t.refuse("pref_ftx", "a share of SFT in the loss of pairs",
             "write loss_type: [sigmoid, sft] in hone's own file");
}

void add_lora(Translation& t) {
  t.set_default("use_peft", true, "finetuning_type: lora");
  if (t.has("adapter_name_or_path")) {
    t.set("adapter_name_or_path", t.value("adapter_name_or_path"), "adapter_name_or_path");
    if (t.flag("create_new_adapter")) {
      t.refuse("create_new_adapter", "it merges the adapter into the base, then begins a new one",
               "hone merge first, and train on the result");
    } else {
      t.note("adapter_name_or_path",
             "the adapter goes on: its own rank and targets count, lora_rank is not read");
    }
    if (t.run().method == Method::kDpo)
      t.note(
          "adapter_name_or_path",
          "LLaMA-Factory's reference is the model with adapters off, so the base; hone's and TRL's is the adapter "
          "at its start (PREF-04)");
    return;
  }
  const double rank = t.number("lora_rank").value_or(8);
  if (t.has("lora_rank")) t.set("lora_r", t.value("lora_rank"), "lora_rank");
  t.set_default("lora_r", 8);
  if (t.has("lora_alpha")) t.set("lora_alpha", t.value("lora_alpha"), "lora_alpha");
  if (rank > 0 && rank < 1e6)
    t.set_default("lora_alpha", static_cast<std::int64_t>(2 * rank), "2 x lora_rank");
  if (t.has("lora_dropout")) t.set("lora_dropout", t.value("lora_dropout"), "lora_dropout");
  t.set_default("lora_dropout", 0);
  const std::string target = t.text("lora_target");
  if (target == "all") {
    t.set("lora_target_modules", Json::array({"all-linear"}), "lora_target");
  } else if (t.value("lora_target").is_array()) {
    t.set("lora_target_modules", t.value("lora_target"), "lora_target");
  } else if (!target.empty()) {
    Json names = Json::array();
    for (std::string name : base::split_text(target, ',')) {
      std::erase(name, ' ');
      if (!name.empty()) names.push_back(name);
    }
    t.set("lora_target_modules", names, "lora_target");
  } else {
    t.set_default("lora_target_modules", Json::array({"all-linear"}),
                  "lora_target: all, every linear but the head");
  }
  if (t.has("additional_target"))
    t.set("lora_modules_to_save", t.value("additional_target"), "additional_target");
  if (t.flag("use_rslora")) t.set("use_rslora", true, "use_rslora");
  if (t.flag("use_dora")) t.set("use_dora", true, "use_dora");
  if (t.flag("pissa_init")) t.set("init_lora_weights", "pissa", "pissa_init");
}

void add_adapter(Translation& t) {
  const std::string type = t.has("finetuning_type") ? t.text("finetuning_type") : "lora";
  if (type == "lora") {
    if (t.has("finetuning_type")) t.set("use_peft", true, "finetuning_type");
    add_lora(t);
  } else if (type == "full") {
    t.set("use_peft", false, "finetuning_type");
    for (const char* name : {"lora_rank", "lora_alpha", "lora_target"}) {
      if (t.has(name)) t.note(name, "finetuning_type is full: it does nothing");
    }
  } else if (type == "freeze") {
    t.set("use_peft", false, "finetuning_type");
    t.unknown("finetuning_type",
              fmt::format("freeze trains the last {} layers, whose numbers the model's own config.json gives",
                          t.has("freeze_trainable_layers") ? t.text("freeze_trainable_layers") : "2"),
              "unfrozen_parameters", "write unfrozen_parameters in hone's own file");
    if (t.has("freeze_trainable_modules") && t.text("freeze_trainable_modules") != "all")
      t.refuse("freeze_trainable_modules", "which parts of a layer are trained",
               "write unfrozen_parameters in hone's own file");
  } else {
    t.refuse("finetuning_type", fmt::format("hone has no {}", type), "it is lora, full or freeze here");
  }
  const double bits = t.number("quantization_bit").value_or(0);
  if (bits == 4 || bits == 8) {
    t.set(bits == 4 ? "load_in_4bit" : "load_in_8bit", true, "quantization_bit");
    const std::string method = t.text("quantization_method");
    if (!method.empty() && method != "bnb" && method != "bitsandbytes")
      t.refuse("quantization_method", fmt::format("hone quantizes as bitsandbytes does, not by {}", method),
               "write quantization_method: bnb");
    if (bits == 4) {
      if (t.has("quantization_type"))
        t.set("bnb_4bit_quant_type", t.value("quantization_type"), "quantization_type");
      if (t.has("double_quantization"))
        t.set("use_bnb_nested_quant", t.value("double_quantization"), "double_quantization");
      t.set_default("use_bnb_nested_quant", true);
    }
  } else if (bits != 0) {
    t.refuse("quantization_bit", "hone has 4 and 8 bits", "write 4 or 8");
  }
}

void add_numbers(Translation& t) {
  if (t.has("warmup_steps") && t.number("warmup_steps").value_or(0) > 0) {
    t.set("warmup_steps", t.value("warmup_steps"), "warmup_steps");
    if (t.has("warmup_ratio")) t.note("warmup_ratio", "warmup_steps wins");
  } else if (t.has("warmup_ratio")) {
    t.set("warmup_steps", t.value("warmup_ratio"), "warmup_ratio");
  } else {
    t.set_default("warmup_steps", 0);
  }
  if (t.flag("pure_bf16")) {
    t.set("dtype", "bfloat16", "pure_bf16");
    t.note("pure_bf16",
           "trained weights are bf16 too, where small steps are lost (NUM-01); hone's stay float32");
  } else if (t.flag("fp16") && !t.flag("bf16")) {
    t.refuse("fp16", "NUM-03: float16 overflows in training and needs loss scaling", "write bf16: true");
  } else if (!t.has("bf16")) {
    t.set_default("bf16", false);
  }
  if (t.flag("group_by_length")) t.set("train_sampling_strategy", "group_by_length", "group_by_length");
  if (t.flag("use_dft_loss")) t.set("loss_type", "dft", "use_dft_loss");
  if (t.has("gradient_checkpointing") && !t.flag("gradient_checkpointing"))
    t.note("gradient_checkpointing",
           "false does nothing in LLaMA-Factory: disable_gradient_checkpointing turns it off");
  const std::string file = t.text("deepspeed");
  if (file.empty()) return;
  if (base::fs::is_regular_file(file))
    t.set("deepspeed", file, "deepspeed");
  else
    t.note("deepspeed", file + " is not here: its keys are not read");
}

void add_evaluation(Translation& t) {
  const double size = t.number("val_size").value_or(0);
  const bool has_rows = size > 0 || t.has("eval_dataset");
  if (size > 0) t.set("test_split_size", t.value("val_size"), "val_size");
  const std::string name = t.has("eval_strategy") ? "eval_strategy" : "evaluation_strategy";
  const std::string strategy = t.text(name);
  if (!has_rows) {
    for (const char* asked :
         {"eval_strategy", "evaluation_strategy", "eval_steps", "load_best_model_at_end"}) {
      const std::string value = t.text(asked);
      if (!value.empty() && value != "no" && value != "false")
        t.note(asked,
               "evaluation is asked for, but there is no set to evaluate: neither val_size nor eval_dataset");
    }
    return;
  }
  if (!strategy.empty()) t.set("eval_strategy", strategy, name);
  if (strategy.empty() || strategy == "no")
    t.note(size > 0 ? "val_size" : "eval_dataset",
           "rows are held back, but eval_strategy is no: nothing is evaluated");
  if (t.has("eval_steps")) t.set("eval_steps", t.value("eval_steps"), "eval_steps");
  if (t.has("load_best_model_at_end"))
    t.set("load_best_model_at_end", t.value("load_best_model_at_end"), "load_best_model_at_end");
}

}  // namespace

void translate(const OtherFile& file, const OtherFile* sets, OtherRun& out) {
  Translation t(file, names(), out);
  add_method(t);
  if (t.has("do_train") && !t.flag("do_train"))
    t.refuse("do_train", "false: LLaMA-Factory trains nothing", "write do_train: true");
  t.apply_names();
  add_adapter(t);
  add_numbers(t);
  t.note_processes();
  add_data(t, sets);
  add_evaluation(t);
  t.apply_defaults();
}

}  // namespace hone::config::factory
