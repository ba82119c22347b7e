// The rows of a script, what is trained of them, and its rewards.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "config/others/json_members.h"
#include "config/others/script.h"

namespace hone::config::script {
namespace {

using base::Json;

// The calls by which a script changes a set that it loads, from the outside in.
struct Rows {
  const Json* loaded = nullptr;   // load_dataset(...)
  const Json* changed = nullptr;  // the first call that makes other rows
  const Json* split = nullptr;    // train_test_split(...)
  const Json* key = nullptr;      // ["train"] of the set
  const Json* touched = nullptr;  // what code that is not read may have changed
  std::int64_t first = 0;         // select(range(n))
};

// "select" of range(n), which hone reads as the first n.
std::int64_t first_rows(const Json& call) {
  const Json* of = argument(call, "indices", 0);
  if (of != nullptr && of->contains("range")) {
    const Json& range = of->at("range");
    return range[0] == 0 && range[2] == 1 && range[1].is_number_integer() ? range[1].get<std::int64_t>() : 0;
  }
  const auto json = of == nullptr ? std::nullopt : known(*of);
  if (!json || !json->is_array() || json->empty()) return 0;
  for (std::size_t i = 0; i < json->size(); ++i) {
    if ((*json)[i] != Json(i)) return 0;
  }
  return static_cast<std::int64_t>(json->size());
}

// train_test_split(test_size=...)["train"] of all rows is hone's test_split_size.
bool is_plain_split(const Json& call, const Rows& outside) {
  const Json& args = call.at("args");
  const bool only = std::all_of(args.items().begin(), args.items().end(), [](const auto& one) {
    return one.key() == "test_size" || one.key() == "seed";
  });
  return only && call.at("plain").size() <= 1 && argument(call, "test_size", 0) != nullptr &&
         outside.key != nullptr && text_of(*outside.key) == "train" && outside.first == 0;
}

Rows rows_of(const Json* value) {
  Rows out;
  for (int depth = 0; value != nullptr && depth < 40; ++depth) {
    const std::string name = made_by(*value);
    if (value->contains("touched") && out.touched == nullptr) out.touched = value;
    if (name == "datasets.load_dataset" || name == "load_dataset" || name.ends_with(".load_from_disk")) {
      out.loaded = value;
      return out;
    }
    const std::int64_t first = name == ".select" ? first_rows(*value) : 0;
    if (name == "[]" && out.key == nullptr && !text_of(value->at("plain").at(0)).empty()) {
      out.key = &value->at("plain").at(0);
    } else if (name == ".train_test_split" && out.split == nullptr && is_plain_split(*value, out)) {
      out.split = value;
      out.key = nullptr;
    } else if (name == ".shuffle" && out.first == 0) {
      // the order of the rows is the run's own
    } else if (first > 0 && out.first == 0) {
      out.first = first;
    } else {
      out.changed = value;
      if (name.empty() || !name.starts_with(".")) return out;
    }
    if (!value->contains("base")) return out;
    value = &value->at("base");
  }
  return out;
}

void set_member(Script& script, Json& entry, const char* member, const Json* value, bool& complete) {
  if (value == nullptr) return;
  const auto json = known(*value);
  if (json)
    entry[member] = *json;
  else
    complete = false;
  if (!json) script.unknown(*value, member, why_unknown(*value), "the rows", "give rows: --data FILE");
}

// A name that says how the rows are read from their files, such as field or delimiter; "": there is none.
std::string other_argument(const Json& call) {
  constexpr std::string_view kRead[] = {"path",  "name",     "data_dir",    "data_files",
                                        "split", "revision", "dataset_path"};
  constexpr std::string_view kHow[] = {
      "cache_dir", "token",         "use_auth_token", "trust_remote_code", "num_proc",   "streaming",
      "features",  "download_mode", "keep_in_memory", "verification_mode", "save_infos", "storage_options"};
  for (const auto& [name, value] : call.at("args").items()) {
    if (std::find(std::begin(kRead), std::end(kRead), name) == std::end(kRead) &&
        std::find(std::begin(kHow), std::end(kHow), name) == std::end(kHow))
      return name;
  }
  return call.at("plain").size() > 5 ? "sixth argument" : "";
}

// A call of load_dataset as an entry of hone's datasets; null: it is not known, and told.
Json entry_of(Script& script, const Rows& rows, const char* argument_name) {
  const Json& call = *rows.loaded;
  const Json* path = argument(call, made_by(call).ends_with("load_from_disk") ? "dataset_path" : "path", 0);
  if (path == nullptr || text_of(*path).empty()) {
    script.unknown(path == nullptr ? call : *path, argument_name,
                   path == nullptr ? "load_dataset is called without a name" : why_unknown(*path), "the rows",
                   "give rows: --data FILE");
    return nullptr;
  }
  if (const std::string other = other_argument(call); !other.empty()) {
    script.unknown(call, argument_name, fmt::format("hone reads no {} of load_dataset", other), "the rows",
                   "give rows: --data FILE");
    return nullptr;
  }
  bool complete = true;
  Json entry = Json::object({{"path", text_of(*path)}});
  set_member(script, entry, "name", argument(call, "name", 1), complete);
  set_member(script, entry, "data_files", argument(call, "data_files", 3), complete);
  set_member(script, entry, "split", argument(call, "split", 4), complete);
  set_member(script, entry, "revision", argument(call, "revision"), complete);
  set_member(script, entry, "data_dir", argument(call, "data_dir", 2), complete);
  if (!complete) return nullptr;
  const std::string kind = entry["path"].get<std::string>();
  const bool is_file = is_file_reader(kind) && entry.contains("data_files");
  if (is_file && entry.contains("data_dir")) {
    script.unknown(call, argument_name, "a file below data_dir", "the rows", "give rows: --data FILE");
    return nullptr;
  }
  if (is_file) {
    const std::string part = rows.key != nullptr ? text_of(*rows.key) : entry.value("split", "train");
    Json file = entry["data_files"];
    const bool named = file.is_object() && file.contains(part);
    if (named) file = Json(entry["data_files"][part]);
    if (!file.is_string() || (part != "train" && !named)) {
      script.unknown(call, argument_name, "several files, or a part of one", "the rows",
                     "give rows: --data FILE");
      return nullptr;
    }
    entry = Json::object({{"path", file}});
  } else if (rows.key != nullptr && !entry.contains("split")) {
    entry["split"] = text_of(*rows.key);
  }
  if (entry.value("split", Json()) == "train") entry.erase("split");
  if (rows.first > 0) entry["first"] = rows.first;
  return entry;
}

void tell_changed(Script& script, const Json& changed, const char* name) {
  script.unknown(
      changed, name,
      fmt::format("its rows are made by the script's code, {}() in {}", made_by(changed), line_of(changed)),
      "the form of the rows", "write the rows as the code makes them, and give them: --data FILE");
}

void add_training_rows(Script& script) {
  const Json* set = argument(*script.trainer, "train_dataset");
  if (set == nullptr) {
    script.unknown(*script.trainer, "train_dataset", "the trainer is made without it", "the rows",
                   "give rows: --data FILE");
    return;
  }
  const Rows rows = rows_of(set);
  if (rows.loaded == nullptr) {
    script.unknown(*set, "train_dataset",
                   rows.changed != nullptr && !made_by(*rows.changed).empty()
                       ? fmt::format("its rows come from {} in {}",
                                     made_by(*rows.changed) == "[]" ? "an entry of a set that is not known"
                                                                    : made_by(*rows.changed) + "()",
                                     line_of(*rows.changed))
                       : why_unknown(*set),
                   "the rows", "give rows: --data FILE");
    return;
  }
  const Json entry = entry_of(script, rows, "train_dataset");
  if (rows.touched != nullptr)
    script.unknown(*rows.touched, "train_dataset", why_touched(*rows.touched), "the form of the rows",
                   "write the rows as the code makes them, and give them: --data FILE");
  if (rows.changed != nullptr) tell_changed(script, *rows.changed, "train_dataset");
  if (entry.is_null()) return;
  if (entry.size() == 1)
    script.set_json("dataset_name", entry["path"], "train_dataset", *rows.loaded);
  else
    script.set_json("datasets", Json::array({entry}), "train_dataset", *rows.loaded);
  if (rows.split != nullptr) {
    if (const Json* size = argument(*rows.split, "test_size", 0))
      script.set("test_split_size", *size, "test_size");
  }
}

void add_evaluation_rows(Script& script) {
  const Json* set = argument(*script.trainer, "eval_dataset");
  if (set == nullptr) return;
  const Rows rows = rows_of(set);
  // the other part of the training rows
  if (script.has("test_split_size") && rows.changed != nullptr &&
      made_by(*rows.changed) == ".train_test_split")
    return;
  Json entry = rows.loaded == nullptr ? Json() : entry_of(script, rows, "eval_dataset");
  if (entry.is_null()) {
    script.unknown(*set, "eval_dataset", why_unknown(*set), "eval_datasets",
                   "write eval_datasets into hone's own file");
    return;
  }
  if (rows.changed != nullptr || rows.touched != nullptr) {
    script.unknown(*set, "eval_dataset", "its rows are made by the script's code", "eval_datasets",
                   "write eval_datasets into hone's own file");
    return;
  }
  if (!entry.contains("split") && rows.key != nullptr) entry["split"] = text_of(*rows.key);
  script.set_json("eval_datasets", Json::array({entry}), "eval_dataset", *rows.loaded);
}

// A collator is an object of a class, or transformers.default_data_collator, which is a function.
std::string collator_name(const Json& collator) {
  if (!made_by(collator).empty()) return class_of(collator);
  const std::string whole = collator.value("name", "");
  return whole.substr(whole.rfind('.') + 1);
}

// Sets the options that say which tokens are trained.
void add_mask(Script& script) {
  const Json* last = &script.folded.at("last");
  if (class_of(*last) == "train_on_responses_only")
    script.unknown(
        *last, "train_on_responses_only",
        "its markers are looked for as exact tokens in the text; where one is not found nothing is trained",
        "which tokens are trained", "hone's own is assistant_only_loss, on rows of messages");
  const Json* collator = argument(*script.trainer, "data_collator");
  if (collator != nullptr) {
    const std::string name = collator_name(*collator);
    if (name == "DataCollatorForCompletionOnlyLM")
      script.unknown(*collator, name,
                     "its template is looked for as exact tokens in the text; TRL of today does not have it",
                     "which tokens are trained",
                     "hone's own are completion_only_loss and assistant_only_loss");
    else if (name == "DataCollatorForLanguageModeling" || name == "DataCollatorForSeq2Seq" ||
             name == "DataCollatorWithPadding" || name == "default_data_collator")
      script.note(*collator, name, "hone never pads; the labels are those of the rows");
    else
      script.refuse(*collator, "data_collator", "a collator of the script's own: " + why_unknown(*collator),
                    "leave it out");
  }
  if (const Json* function = argument(*script.trainer, "formatting_func"))
    script.unknown(*function, "formatting_func", "it makes the text of a row: " + why_unknown(*function),
                   "the form of the rows", "write the rows as it makes them, and give them: --data FILE");
  if (script.out.method == Method::kSft && class_of(*last) != "train_on_responses_only" &&
      collator == nullptr)
    script.note(*script.trainer, class_of(*script.trainer),
                "of a row of text every token is trained, the prompt's too");
}

void add_tokenizer(Script& script) {
  for (const char* name : {"processing_class", "tokenizer"}) {
    const Json* one = argument(*script.trainer, name);
    if (one == nullptr) continue;
    if (std::string(name) == "tokenizer")
      script.note(*one, name, "an argument of older versions: today's is processing_class");
    if (class_of(*one) == "from_pretrained") {
      if (const Json* path = argument(*one, "pretrained_model_name_or_path", 0)) {
        const Json* loaded = loaded_model(argument(*script.trainer, "model", 0));
        const Json* model = loaded == nullptr ? argument(*script.trainer, "model", 0)
                                              : argument(*loaded, "pretrained_model_name_or_path", 0);
        const bool same = model != nullptr && !text_of(*path).empty() && text_of(*path) == text_of(*model);
        if (!same && !text_of(*path).empty()) script.set("tokenizer_name_or_path", *path, name);
      }
    }
    if (const std::string why = why_touched(*one); !why.empty())
      script.unknown(*one, name, why, "the tokenizer", "add its tokens to the model's folder, and give that");
    if (made_by(*one).empty()) continue;
    if (class_of(*one) == "get_chat_template" && script.out.trainer == Trainer::kUnsloth) {
      const Json* asked = argument(*one, "chat_template", 1);
      script.out.text_name = asked == nullptr ? "" : text_of(*asked);
    }
    if (one->at("args").contains("chat_template") || class_of(*one) == "get_chat_template")
      script.unknown(*one, name, "the script gives the tokenizer another chat template", "chat_template",
                     "write chat_template into hone's own file");
  }
}

void add_reference(Script& script) {
  const Json* reference = argument(*script.trainer, "ref_model", script.out.method == Method::kDpo ? 1 : -1);
  if (reference == nullptr || script.out.method == Method::kSft) return;
  const auto name_of = [](const Json* model) {
    if (model == nullptr) return std::string();
    const Json* loaded = loaded_model(model);
    const Json* name = loaded == nullptr ? model : argument(*loaded, "pretrained_model_name_or_path", 0);
    return name == nullptr ? std::string() : text_of(*name);
  };
  const std::string theirs = name_of(reference), ours = name_of(argument(*script.trainer, "model", 0));
  if (theirs.empty() || ours.empty())
    script.unknown(*reference, "ref_model", why_unknown(*reference), "the reference",
                   "hone's reference is the model at its start");
  else if (theirs != ours)
    script.refuse(*reference, "ref_model", fmt::format("another model, {}, is the reference", theirs),
                  "hone's reference is the model at its start");
}

// The teacher of a distillation: the trainer's argument, else the name in the config.
void add_teacher(Script& script) {
  const Json* teacher =
      argument(*script.trainer, "teacher_model", script.out.method == Method::kDistill ? 1 : -1);
  if (script.out.method != Method::kDistill) {
    if (teacher != nullptr)
      script.refuse(*teacher, "teacher_model", "distillation from a teacher",
                    "hone distill reads DistillationTrainer");
    return;
  }
  const Json* config = argument(*script.trainer, "args", 2);
  if (teacher == nullptr && config != nullptr && !made_by(*config).empty())
    teacher = argument(*config, "teacher_model_name_or_path");
  if (teacher == nullptr) {
    script.unknown(*script.trainer, "teacher_model", "the trainer is made without a teacher",
                   "teacher_model_name_or_path");
    return;
  }
  const Json* loaded = loaded_model(teacher);
  const Json* name = loaded == nullptr ? teacher : argument(*loaded, "pretrained_model_name_or_path", 0);
  if (name == nullptr) name = teacher;
  script.set("teacher_model_name_or_path", *name, "teacher_model");
  if (loaded == nullptr) return;
  for (const char* dtype : {"dtype", "torch_dtype"}) {
    const Json* one = argument(*loaded, dtype);
    const auto json = one == nullptr ? std::nullopt : known(*one);
    if (json) script.set_json("teacher_model_init_kwargs", Json::object({{"dtype", *json}}), dtype, *one);
    if (one != nullptr && !json) script.set("teacher_model_init_kwargs", *one, dtype);
  }
  if (const Json* quantized = argument(*loaded, "quantization_config"))
    script.unknown(*quantized, "quantization_config", "the teacher is quantized as that says",
                   "teacher_quantization");
}

}  // namespace

void add_rows(Script& script) {
  add_training_rows(script);
  add_evaluation_rows(script);
  add_mask(script);
  add_tokenizer(script);
  add_reference(script);
  add_teacher(script);
}

void add_rewards(Script& script) {
  if (!samples(script.out.method) || script.out.method == Method::kDistill) return;
  const Json* value =
      argument(*script.trainer, "reward_funcs", script.out.method == Method::kOnlineDpo ? -1 : 1);
  if (value == nullptr) {
    script.unknown(*script.trainer, "reward_funcs", "the trainer is made without them", "reward_funcs");
    return;
  }
  const Json one = Json::array({*value});
  std::vector<std::string> own;
  Json ready = Json::array();
  for (const Json& reward : value->contains("list") ? value->at("list") : one) {
    const std::string name = reward.value("name", "");
    if (name.starts_with("trl.rewards."))
      ready.push_back(name.substr(12));
    else
      own.push_back(reward.contains("function") ? reward["function"].get<std::string>()
                    : name.empty()              ? why_unknown(reward)
                                                : name);
  }
  if (own.empty() && !ready.empty()) {
    script.set_json("reward_funcs", ready, "reward_funcs", *value);
    return;
  }
  script.unknown(*value, "reward_funcs",
                 fmt::format("they are programs, which reading does not run: {}", fmt::join(own, ", ")),
                 "reward_funcs", "write them into a file of their own, and reward_funcs: [file.py:function]");
}

}  // namespace hone::config::script
