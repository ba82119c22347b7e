// torchtune's YAML: components, and references between values.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "config/others/json_members.h"
#include "config/others/translation.h"
#include "config/reading/environment_text.h"
#include "config/settings.h"

namespace hone::config::torchtune {
namespace {

using base::Json;

constexpr int kMostReferences = 64;
constexpr std::size_t kMostText = std::size_t{4}
                                  << 20;  // of all values, where a reference repeats a long one

// "lora_llama3_2_1b" of "torchtune.models.llama3_2.lora_llama3_2_1b".
std::string component(const Json& map) {
  const std::string whole = text_of(map, "_component_");
  return whole.substr(whole.rfind('.') == std::string::npos ? 0 : whole.rfind('.') + 1);
}

bool is_true(const Json& value) {
  return value == true || value == "True" || value == "true";
}

// The value that "model.lora_rank" names in the file; null: none, or no plain one.
std::string value_at(const OtherFile& file, const std::string& path) {
  const std::size_t dot = path.find('.');
  const OtherEntry* entry = file.find(path.substr(0, dot));
  if (entry == nullptr) return {};
  const Json* value = &entry->value;
  for (std::size_t begin = dot; begin != std::string::npos;) {
    const std::size_t end = path.find('.', begin + 1);
    value = &member(*value, path.substr(begin + 1, end == std::string::npos ? end : end - begin - 1));
    begin = end;
  }
  if (value->is_string()) return value->get<std::string>();
  return value->is_number() || value->is_boolean() ? base::dump_json(*value) : "";
}

// ${output_dir} and ${oc.env:NAME,default}; what cannot be put in stays, and Translation tells it.
std::string resolved_text(const OtherFile& file, std::string text) {
  std::size_t from = 0;
  for (int count = 0; count < kMostReferences; ++count) {
    const std::size_t begin = text.find("${", from),
                      end = text.find('}', begin == std::string::npos ? 0 : begin);
    if (begin == std::string::npos || end == std::string::npos || text.size() > 10000) return text;
    const std::string inside = text.substr(begin + 2, end - begin - 2);
    std::string value;
    if (inside.starts_with("oc.env:")) {
      const std::size_t comma = inside.find(',');
      const std::string name = inside.substr(7, comma == std::string::npos ? comma : comma - 7);
      const ExpandedText expanded = expand_environment("${" + name + "}");
      value = expanded.missing.empty() && expanded.references.empty() ? expanded.text
              : comma == std::string::npos                            ? ""
                                                                      : inside.substr(comma + 1);
    } else {
      value = value_at(file, inside);
    }
    if (value.empty())
      from = end;
    else
      text.replace(begin, end - begin + 1, value);
  }
  return text;
}

// "${lr}" alone is the value that it names, with its type.
Json typed(const OtherFile& file, const std::string& text, std::string resolved) {
  static const Option any("", "", Kind::kAny);
  const bool alone = text.starts_with("${") && text.find('}') == text.size() - 1;
  if (!alone) return resolved;
  const OtherEntry* whole = file.find(text.substr(2, text.size() - 3));
  if (whole != nullptr && whole->value.is_string()) return resolved;
  return convert_text(any, resolved, true, "");
}

// `left`: bytes that may still be written; 0 where there were too many.
void resolve(const OtherFile& file, Json& value, std::size_t& left) {
  if (value.is_string()) {
    const auto text = value.get<std::string>();
    if (left == 0 || text.find("${") == std::string::npos) return;
    std::string resolved = resolved_text(file, text);
    left -= std::min(left, resolved.size());
    if (left > 0) value = typed(file, text, std::move(resolved));
  } else if (value.is_structured()) {
    for (Json& one : value) resolve(file, one, left);
  }
}

// True of a value of the author's own name, which ${name} elsewhere puts in.
bool is_named(const OtherFile& file, const OtherEntry& entry) {
  const auto known = [&](const OtherName& one) { return one.name == entry.name; };
  if (entry.value.is_structured() || std::any_of(names().begin(), names().end(), known)) return false;
  const std::string mark = "${" + entry.name + "}";
  return std::any_of(file.entries.begin(), file.entries.end(), [&](const OtherEntry& one) {
    return base::dump_json(one.value).find(mark) != std::string::npos;
  });
}

void add_method(Translation& t) {
  const std::string loss = component(t.value("loss"));
  const Json& set = t.value("dataset");
  t.run().method = Method::kSft;
  if (loss == "DPOLoss" || component(set).find("preference") != std::string::npos) {
    t.run().method = Method::kDpo;
    const Json& of = t.value("loss");
    if (!member(of, "beta").is_null()) t.set("beta", member(of, "beta"), "loss");
    if (!member(of, "label_smoothing").is_null())
      t.set("label_smoothing", member(of, "label_smoothing"), "loss");
  }
  if (loss == "RSOLoss" || loss == "SimPOLoss" || loss == "PPOLoss" || loss == "GRPOLoss" ||
      loss.find("KD") != std::string::npos)
    t.refuse("loss", fmt::format("hone reads no {} of torchtune", loss), "write the run as hone's own file");
  t.note("model", fmt::format("the recipe is named on tune's command line: taken as {} by model and loss",
                              t.run().method == Method::kDpo ? "a DPO recipe" : "a fine-tuning recipe"));
}

void add_lora(Translation& t, const Json& model, bool quantized) {
  t.set("use_peft", true, "model");
  Json targets = Json::array();
  for (const Json& one : member(model, "lora_attn_modules"))
    targets.push_back(one == "output_proj" ? Json("o_proj") : one);
  if (is_true(member(model, "apply_lora_to_mlp"))) {
    for (const char* name : {"gate_proj", "down_proj", "up_proj"}) targets.emplace_back(name);
  }
  if (is_true(member(model, "apply_lora_to_output"))) targets.emplace_back("lm_head");
  if (targets.empty())
    t.unknown("model", "lora_attn_modules is not written", "lora_target_modules", "write lora_attn_modules");
  else
    t.set("lora_target_modules", targets, "model");
  for (const auto& [name, option] : {std::pair{"lora_rank", "lora_r"},
                                     {"lora_alpha", "lora_alpha"},
                                     {"lora_dropout", "lora_dropout"},
                                     {"use_dora", "use_dora"}}) {
    if (!member(model, name).is_null()) t.set(option, member(model, name), "model");
  }
  t.set_default("lora_r", 8);
  t.set_default("lora_alpha", 16);
  t.set_default("lora_dropout", 0);
  if (!quantized && !is_true(member(model, "quantize_base"))) return;
  t.set("load_in_4bit", true, "model");
  t.set_default("use_bnb_nested_quant", true, "NF4 with scales that are quantized again");
}

void add_model(Translation& t) {
  const Json& model = t.value("model");
  const std::string of = component(model);
  if (of.empty()) {
    t.unknown("model", "it has no _component_", "use_peft", "write the model's builder");
  } else if (!text_of(model, "_component_").starts_with("torchtune.models.")) {
    t.unknown("model", "its builder is not torchtune's", "use_peft", "write use_peft");
  } else if (of.starts_with("lora_") || of.starts_with("qlora_")) {
    add_lora(t, model, of.starts_with("qlora_"));
  } else {
    t.set("use_peft", false, "model");
    for (const auto& [name, value] : model.items()) {
      if (name.find("lora") != std::string::npos)
        t.refuse("model", fmt::format("{} has no {}", of, name), "name its lora_ builder");
    }
  }
  if (of.find("vision") != std::string::npos || of.find("clip") != std::string::npos)
    t.refuse("model", "a model of images and text: hone trains only on text", "name the text model");
  const std::string folder = text_of(t.value("checkpointer"), "checkpoint_dir");
  if (folder.empty())
    t.unknown("checkpointer", "checkpoint_dir is not written", "model_name_or_path", "write checkpoint_dir");
  else
    t.set("model_name_or_path", folder, "checkpointer");
  const std::string form = component(t.value("checkpointer"));
  if (form == "FullModelMetaCheckpointer")
    t.refuse("checkpointer", "weights in Meta's own form", "download the same model in Hugging Face's form");
  else if (form == "FullModelTorchTuneCheckpointer")
    t.refuse("checkpointer", "weights in torchtune's own form", "name the model in Hugging Face's form");
  else if (form == "DistributedCheckpointer")
    t.refuse("checkpointer", "weights in torch's distributed form", "name the model in Hugging Face's form");
  else if (form != "FullModelHFCheckpointer" && !form.empty())
    t.unknown("checkpointer", fmt::format("{} is no form of weights that hone knows", form),
              "the form of the model's files", "write torchtune.training.FullModelHFCheckpointer");
  if (!text_of(t.value("checkpointer"), "adapter_checkpoint").empty() || t.flag("resume_from_checkpoint"))
    t.unknown("resume_from_checkpoint",
              "the run goes on from torchtune's own files, which hone does not read", "where the run begins",
              "begin again");
  const Json& limit = member(t.value("tokenizer"), "max_seq_len");
  if (limit.is_null())
    t.set_default("max_length", nullptr, "tokenizer.max_seq_len: no limit");
  else
    t.set("max_length", limit, "tokenizer");
  t.note("tokenizer",
         "torchtune writes its own tags for the turns; hone examines with the model's own template");
}

// The part of a row that is trained, and its columns.
void add_form(Translation& t, const Json& set) {
  const std::string of = component(set);
  const Json& train = member(set, "train_on_input");
  const Json& columns = member(set, "column_map");
  if (!text_of(set, "new_system_prompt").empty()) {
    t.set("dataset_system_prompt", member(set, "new_system_prompt"), "dataset");
    t.note("dataset", "new_system_prompt takes the place of a row's own system turn; hone's does not");
  }
  if (of == "chat_dataset" && t.run().method == Method::kSft) {
    t.set("assistant_only_loss", !is_true(train), "dataset");
    const std::string style = text_of(set, "conversation_style"),
                      column = text_of(set, "conversation_column");
    if (style == "sharegpt") t.set("row_format", "sharegpt", "dataset");
    const std::string wanted = style == "sharegpt" ? "conversations" : "messages";
    if (!column.empty() && column != wanted)
      t.set("dataset_columns", Json::object({{column, wanted}}), "dataset");
    if (style != "sharegpt" && style != "openai")
      t.unknown("dataset", "conversation_style is not written", "the form of the rows",
                "write conversation_style");
  } else if (of == "instruct_dataset") {
    t.set("completion_only_loss", !is_true(train), "dataset");
    const std::string input = text_of(columns, "input"), output = text_of(columns, "output");
    t.set("dataset_columns",
          Json::object({{input.empty() ? "input" : input, "prompt"},
                        {output.empty() ? "output" : output, "completion"}}),
          "dataset");
    t.set("make_conversation", true, "dataset");
  } else if (of == "text_completion_dataset") {
    const std::string column = text_of(set, "column");
    t.set("dataset_text_field", column.empty() ? "text" : column, "dataset");
  } else {
    if (of.starts_with("alpaca") && !(train == false || train == "False"))
      t.note("dataset",
             fmt::format("{} trains on the prompt too by default: train_on_input: false masks it", of));
    t.unknown("dataset", fmt::format("{} makes its rows by code of torchtune's", of.empty() ? "it" : of),
              "the form of the rows", "write the rows as messages, or prompt and completion: --data FILE");
  }
}

void add_rows(Translation& t) {
  const Json& set = t.value("dataset");
  if (!set.is_object()) {
    t.unknown("dataset", set.is_array() ? "several sets are joined" : "it is not written", "the rows",
              "give rows: --data FILE");
    return;
  }
  const std::string of = component(set);
  std::string source = text_of(set, "source");
  if (source.empty() && of == "alpaca_dataset") source = "tatsu-lab/alpaca";
  if (source.empty() && of == "alpaca_cleaned_dataset") source = "yahma/alpaca-cleaned";
  const bool is_file = is_file_reader(source) && !text_of(set, "data_files").empty();
  Json entry = Json::object({{"path", is_file ? member(set, "data_files") : Json(source)}});
  if (!is_file) {
    for (const char* name : {"name", "data_files", "split"}) {
      if (!member(set, name).is_null()) entry[name] = member(set, name);
    }
    if (entry.value("split", Json()) == "train") entry.erase("split");
  }
  const std::string part = text_of(set, "split");
  if (is_file && !part.empty() && part != "train")
    t.unknown("dataset", fmt::format("{} of a file", part), "the rows", "give rows: --data FILE");
  else if (source.empty())
    t.unknown("dataset", fmt::format("{} names its source in torchtune's code", of.empty() ? "it" : of),
              "the rows", "write source, or --data FILE");
  else if (entry.size() == 1)
    t.set("dataset_name", entry["path"], "dataset");
  else
    t.set("datasets", Json::array({entry}), "dataset");
  if (is_true(member(set, "packed"))) t.set("packing", true, "dataset");
  add_form(t, set);
  if (t.has("dataset_val") || t.has("run_val_every_n_steps"))
    t.unknown("dataset_val", "rows of an evaluation in torchtune's form", "eval_datasets",
              "write eval_datasets into hone's own file");
}

void add_optimizer(Translation& t) {
  const Json& of = t.value("optimizer");
  const std::string name = component(of), whole = text_of(of, "_component_");
  if (!member(of, "lr").is_null()) t.set("learning_rate", member(of, "lr"), "optimizer");
  if (!member(of, "weight_decay").is_null()) t.set("weight_decay", member(of, "weight_decay"), "optimizer");
  if (!member(of, "eps").is_null()) t.set("adam_epsilon", member(of, "eps"), "optimizer");
  const Json& betas = member(of, "betas");
  if (betas.is_array() && betas.size() == 2) {
    t.set("adam_beta1", betas[0], "optimizer");
    t.set("adam_beta2", betas[1], "optimizer");
  }
  if (whole.starts_with("torch.optim.") && name == "AdamW") {
    t.set("optim", is_true(member(of, "fused")) ? "adamw_torch_fused" : "adamw_torch", "optimizer");
    t.set_default("weight_decay", 0.01, "torch.optim.AdamW's");
    t.set_default("learning_rate", 0.001, "torch.optim.AdamW's");
  } else if (whole.starts_with("bitsandbytes.optim.") &&
             (name == "AdamW8bit" || name == "PagedAdamW8bit" || name == "PagedAdamW")) {
    t.set("optim",
          name == "AdamW8bit"    ? "adamw_8bit"
          : name == "PagedAdamW" ? "paged_adamw_32bit"
                                 : "paged_adamw_8bit",
          "optimizer");
    t.set_default("weight_decay", 0.01, "bitsandbytes'");
  } else {
    t.refuse("optimizer",
             fmt::format("hone reads AdamW of torch and bitsandbytes here, not {}",
                         whole.empty() ? "none" : whole),
             "use torch.optim.AdamW");
  }
  const Json& schedule = t.value("lr_scheduler");
  const std::string schedule_name = component(schedule);
  if (schedule.is_null()) {
    t.set_default("lr_scheduler_type", "constant", "no lr_scheduler");
    t.set_default("warmup_steps", 0, "no lr_scheduler");
  } else if (schedule_name == "get_cosine_schedule_with_warmup") {
    t.set("lr_scheduler_type", "cosine", "lr_scheduler");
    t.set("warmup_steps",
          member(schedule, "num_warmup_steps").is_null() ? Json(0) : member(schedule, "num_warmup_steps"),
          "lr_scheduler");
  } else {
    t.refuse("lr_scheduler",
             fmt::format("hone reads get_cosine_schedule_with_warmup here, not {}", schedule_name),
             "use it, or leave it out");
  }
}

void add_numbers(Translation& t) {
  const std::string dtype = t.text("dtype");
  if (dtype == "bf16") {
    t.set("dtype", "bfloat16", "dtype");
    t.note(
        "dtype",
        "torchtune's weights and state are bf16 too, where small steps are lost (NUM-01); hone's trained weights stay float32");
  } else if (dtype == "fp32" || dtype.empty()) {
    t.set_default("dtype", "float32");
    t.set_default("bf16", false, "dtype fp32");
  } else {
    t.refuse("dtype", fmt::format("NUM-03: {} overflows in training", dtype), "write dtype: bf16");
  }
  if (t.has("clip_grad_norm"))
    t.set("max_grad_norm", t.value("clip_grad_norm"), "clip_grad_norm");
  else
    t.set_default("max_grad_norm", 0, "clip_grad_norm: none");
  if (t.has("seed"))
    t.set("seed", t.value("seed"), "seed");
  else
    t.note("seed", "none: torchtune draws another one for each run; hone's is 42");
  if (t.has("shuffle") && !t.flag("shuffle")) t.set("train_sampling_strategy", "sequential", "shuffle");
  if (t.has("max_steps_per_epoch"))
    t.unknown("max_steps_per_epoch",
              "each epoch ends after that many steps, or with its rows, whichever is first", "max_steps",
              "write max_steps into hone's own file, or null here");
  if (!t.has("batch_size"))
    t.unknown("batch_size", "it is not written, and torchtune asks for it", "per_device_train_batch_size",
              "write batch_size");
  if (!t.has("epochs"))
    t.unknown("epochs", "it is not written, and torchtune asks for it", "num_train_epochs", "write epochs");
}

}  // namespace

void translate(const OtherFile& file, OtherRun& out) {
  OtherFile whole = file;
  std::size_t left = kMostText;
  for (OtherEntry& one : whole.entries) resolve(file, one.value, left);
  for (const char* name : {"policy_model", "reward_and_value_model"}) {
    if (file.find(name) == nullptr) continue;
    out.refused.push_back({file.find(name)->where, name, "PPO", "hone grpo or hone rloo"});
    return;
  }
  std::erase_if(whole.entries, [&](const OtherEntry& one) { return is_named(file, one); });
  Translation t(whole, names(), out);
  if (left == 0)
    t.refuse("", fmt::format("its references repeat each other to more than {} MB", kMostText >> 20),
             "write the values themselves");
  add_method(t);
  t.apply_names();
  add_model(t);
  add_rows(t);
  add_optimizer(t);
  add_numbers(t);
  t.apply_defaults();
}

}  // namespace hone::config::torchtune
