// datasets, chat_template and special_tokens of axolotl.
#include <fmt/format.h>

#include <algorithm>

#include "config/others/axolotl.h"
#include "config/others/json_members.h"
#include "config/others/text_template.h"
#include "config/write_plan.h"

namespace hone::config::axolotl {
namespace {

using base::Json;

// Renamed columns: {question: prompt}; equal names are none.
void set_columns(Translation& t, const Json& wanted) {
  Json columns = Json::object();
  for (const auto& [name, as] : wanted.items()) {
    if (as != name) columns[name] = as;
  }
  if (!columns.empty()) t.set("dataset_columns", columns, "datasets");
}

void add_conversation(Translation& t, const Json& set, bool sharegpt) {
  const Json mapping = set.value("message_property_mappings", Json::object());
  const std::string old_role = text_of(set, "message_field_role"),
                    old_text = text_of(set, "message_field_content");
  std::string role = text_of(mapping, "role", old_role.empty() ? "role" : old_role);
  std::string content = text_of(mapping, "content", old_text.empty() ? "content" : old_text);
  if (sharegpt) {
    role = text_of(set, "field_human", "from");
    role = "from";
    content = "value";
  }
  const std::string column = text_of(set, "field_messages", sharegpt ? "conversations" : "messages");
  if (role == "from" && content == "value") {
    t.set("row_format", "sharegpt", "datasets");
    set_columns(t, Json::object({{column, "conversations"}}));
  } else if (role == "role" && content == "content") {
    set_columns(t, Json::object({{column, "messages"}}));
  } else {
    t.refuse("datasets", fmt::format("turns have {} and {} for role and content", role, content),
             "hone reads role and content, or from and value: write the rows so, or use row_function");
  }
  t.set("assistant_only_loss", !t.flag("train_on_inputs"),
        t.has("train_on_inputs") ? "train_on_inputs" : "datasets");
  if (!sharegpt)
    t.note(
        "datasets",
        "axolotl finds each turn's text in the rendered whole; a turn that is not found is not trained, with one "
        "warning");
  const std::string eos = text_of(set, "train_on_eos", "turn");
  if (eos != "turn")
    t.refuse("datasets", fmt::format("train_on_eos: {} trains other end tokens than hone", eos), "remove it");
  for (const char* name : {"message_field_training", "message_field_training_detail"}) {
    if (!text_of(set, name).empty())
      t.refuse("datasets", fmt::format("{} chooses the trained turns row by row", name), "remove it");
  }
  if (set.contains("roles_to_train") && set["roles_to_train"].is_array() &&
      set["roles_to_train"] != Json::array({"assistant"}) && set["roles_to_train"] != Json::array({"gpt"}))
    t.refuse("datasets", "roles_to_train names other turns than the assistant's", "remove it");
}

// {system_prompt, field_instruction, format, ...}: the author's own prompt.
void add_own_prompt(Translation& t, const Json& type) {
  const std::string format = text_of(type, "format");
  if (format.empty()) {
    t.unknown("datasets", "its type has no format: axolotl takes the text of its own", "prompt_template",
              "write format into the type");
    return;
  }
  // The system's text goes before the rest where no {system} places it.
  const std::string system = text_of(type, "system_prompt"), own_system = text_of(type, "field_system");
  std::string prompt;
  if (format.find("{system}") == std::string::npos && (!system.empty() || !own_system.empty())) {
    prompt = text_of(type, "system_format", "{system}");
    const std::size_t place = prompt.find("{system}");
    if (place != std::string::npos)
      prompt.replace(place, 8, own_system.empty() ? system : "{" + own_system + "}");
  }
  if (!own_system.empty() && !system.empty())
    t.note("datasets",
           fmt::format("a row without {} takes system_prompt; hone writes prompt_template for each row",
                       own_system));
  for (std::size_t at = 0; at < format.size();) {
    bool found = false;
    for (const char* name : {"instruction", "input", "system"}) {
      const std::string place = fmt::format("{{{}}}", name);
      if (format.compare(at, place.size(), place) != 0) continue;
      const std::string field = text_of(type, ("field_" + std::string(name)).c_str(), name);
      prompt += name == std::string("system") && !text_of(type, "system_prompt").empty() &&
                        text_of(type, "field_system").empty()
                    ? text_of(type, "system_prompt")
                    : "{" + field + "}";
      at += place.size();
      found = true;
      break;
    }
    if (!found) prompt += format[at++];
  }
  t.set("prompt_template", prompt, "datasets");
  set_columns(t, Json::object({{text_of(type, "field_output", "output"), "completion"}}));
  t.note("datasets",
         fmt::format(
             "a row without {} takes no_input_format, which is `{}`, and not format; hone writes format for "
             "each row",
             text_of(type, "field_input", "input"), text_of(type, "no_input_format", "{instruction} ")));
}

// What of a set says the form of its rows, without what only says where they are.
Json form_of(Json set) {
  for (const char* name : {"path", "name", "split", "train_on_split", "data_files", "ds_type", "revision",
                           "shards", "shards_idx", "preprocess_shards", "trust_remote_code"})
    set.erase(name);
  if (text_of(set, "field_messages") == "messages") set.erase("field_messages");
  if (set.contains("type") && set["type"].is_null()) set.erase("type");
  return set;
}

constexpr std::string_view kTags = "it writes ChatML's tags, whatever the model's template is";

// The ready types of preferences, as columns of prompt, chosen, rejected.
bool add_pairs(Translation& t, const Json& set, const std::string& type) {
  if (type == "chat_template.default" || type == "chat_template.argilla_chat") {
    set_columns(t, Json::object({{text_of(set, "field_messages", "messages"), "prompt"},
                                 {text_of(set, "field_chosen", "chosen"), "chosen"},
                                 {text_of(set, "field_rejected", "rejected"), "rejected"}}));
    return true;
  }
  if (type == "chat_template.argilla" && t.run().method == Method::kOrpo) {
    t.note("datasets", "chosen and rejected are whole conversations, whose last answers differ");
    return true;
  }
  const std::size_t dot = type.find('.');
  const std::string family = type.substr(0, dot), form = dot == std::string::npos ? "" : type.substr(dot + 1);
  if (family != "chatml" && family != "llama3") return false;
  if (form == "intel") {
    set_columns(t, Json::object({{"question", "prompt"}}));
  } else if (form == "argilla" || form == "icr") {
    set_columns(t, form == "argilla" ? Json::object({{"instruction", "prompt"},
                                                     {"chosen_response", "chosen"},
                                                     {"rejected_response", "rejected"}})
                                     : Json::object({{"input", "prompt"}}));
  } else if (form != "ultra" && form != "prompt_pairs" && form != "argilla_chat") {
    return false;
  }
  t.set("make_conversation", form != "argilla_chat" && form != "ultra", "datasets");
  t.note("datasets", family == "chatml" ? std::string(kTags)
                                        : "it writes Llama 3's tags, whatever the model's template is");
  if (form != "argilla_chat" && form != "ultra")
    t.note("datasets", "a row's column system is its system turn in axolotl; hone does not read that column");
  return true;
}

// KTO's ready types: prompt, completion and label, each of one text.
bool add_answers(Translation& t, const std::string& type) {
  const std::size_t dot = type.find('.');
  const std::string family = type.substr(0, dot), form = dot == std::string::npos ? "" : type.substr(dot + 1);
  if (family != "chatml" && family != "llama3") return false;
  if (form == "argilla" || form == "intel")
    set_columns(t, Json::object({{form == "argilla" ? "instruction" : "question", "prompt"}}));
  else if (form != "ultra" && form != "prompt_pairs")
    return false;
  t.set("make_conversation", true, "datasets");
  t.note("datasets", family == "chatml" ? std::string(kTags)
                                        : "it writes Llama 3's tags, whatever the model's template is");
  t.note("datasets", "a row's column system is its system turn in axolotl; hone does not read that column");
  return true;
}

void add_form(Translation& t, const Json& set) {
  const Json type = set.value("type", Json());
  if (type.is_object()) {
    add_own_prompt(t, type);
    return;
  }
  std::string name = type.is_string() ? type.get<std::string>() : "";
  if (t.run().method == Method::kDpo || t.run().method == Method::kOrpo || t.run().method == Method::kCpo ||
      t.run().method == Method::kReward) {
    if (add_pairs(t, set, name)) return;
    t.unknown("datasets",
              fmt::format("hone does not know the columns of type {}", name.empty() ? "(none)" : name),
              "the form of the rows", "give rows with prompt, chosen and rejected: --data FILE");
    return;
  }
  if (t.run().method == Method::kKto && add_answers(t, name)) return;
  if (t.run().method != Method::kSft) {
    t.unknown("datasets",
              fmt::format("the columns of type {} are not known here", name.empty() ? "(none)" : name),
              "the form of the rows", "give rows in TRL's form: --data FILE");
    return;
  }
  const std::string whole = name;
  name = name.substr(0, name.find_first_of(".:"));
  if (name == "alpaca" && (whole == "alpaca" || whole.starts_with("alpaca:"))) {
    t.set("row_format", "alpaca_line", "datasets");  // a line break is behind "### Response:"
    t.set("completion_only_loss", !t.flag("train_on_inputs"),
          t.has("train_on_inputs") ? "train_on_inputs" : "datasets");
    if (t.has("chat_template"))
      t.note("chat_template", "it has no effect on rows of type alpaca, which take Stanford Alpaca's text");
  } else if (name == "sharegpt") {
    add_conversation(t, set, true);
    t.refuse("datasets",
             "axolotl 0.21 refuses type sharegpt, which it removed in 2024; hone reads it as 0.4 did",
             "write type: chat_template with message_property_mappings: {role: from, content: value} and "
             "field_messages: conversations");
    t.note("datasets",
           fmt::format("axolotl 0.4 wrote FastChat's text of conversation: {}, not the model's template",
                       text_of(set, "conversation", "vicuna_v1.1")));
  } else if (name == "chat_template" || (name.empty() && type.is_null())) {
    add_conversation(t, set, false);
  } else if (name == "completion" || name == "pretrain") {
    if (set.contains("field")) t.set("dataset_text_field", text_of(set, "field", "text"), "datasets");
    t.set_default("dataset_text_field", text_of(set, "field", "text"), "the field of type completion");
    t.note("datasets",
           "type completion trains every token, whatever train_on_inputs says, and splits long texts");
  } else {
    t.unknown("datasets", fmt::format("hone does not have the text of type {}", whole),
              "the form of the rows", "give rows in TRL's form: --data FILE");
  }
}

void add_sets(Translation& t) {
  const bool streams = t.has("pretraining_dataset");
  const std::string name = streams ? "pretraining_dataset" : "datasets";
  Json sets = t.value(name);
  if (sets.is_string()) sets = Json::array({Json::object({{"path", sets}, {"type", "completion"}})});
  if (sets.is_object()) sets = Json::array({sets});
  Json entries = Json::array();
  Json form;
  if (sets.is_array()) {
    for (const Json& set : sets) {
      if (!set.is_object() || text_of(set, "path").empty()) continue;
      Json type = set.value("type", Json());
      if (streams && type.is_null()) type = "completion";
      if (!form.is_null() && form.value("type", Json()) != type)
        t.refuse(name, "sets with several types: hone reads one form of rows in a run", "write one type");
      Json typed = set;
      typed["type"] = type;
      if (!form.is_null() && form.value("type", Json()) == type && form_of(form) != form_of(typed))
        t.refuse(name, "sets with several columns or roles: hone reads one form of rows in a run",
                 "write their rows in one form");
      if (form.is_null()) {
        form = set;
        form["type"] = type;
      }
      entries.push_back(set_entry(set));
    }
  }
  if (entries.empty()) {
    t.unknown(name, "no set is written with a path", "the rows", "give rows: --data FILE");
    return;
  }
  for (const Json& entry : entries) {
    const std::string path = entry["path"].get<std::string>();
    if (!path.starts_with("<")) continue;
    t.unknown(name, fmt::format("{} is a place to fill in, not a name", path), "the rows",
              "write the name, or --data FILE");
    add_form(t, form);
    return;
  }
  const bool split = t.number("val_set_size").value_or(0) > 0;
  if (entries.size() == 1 && entries[0].size() == 1 && !split) {
    t.set("dataset_name", entries[0]["path"], name);
  } else {
    t.set("datasets", entries, name);
  }
  if (streams) t.set("dataset_streaming", true, name);
  if (streams && !t.has("max_steps")) t.refuse(name, "it streams, and needs max_steps", "write max_steps");
  if (entries.size() > 1) t.note(name, "axolotl joins the sets and shuffles them with seed");
  add_form(t, form);
}

// Rows of conversations, which the template writes; those of other types have texts of their own.
bool takes_template(Translation& t) {
  const Json& sets = t.value("datasets");
  return t.run().method == Method::kSft && sets.is_array() &&
         std::all_of(sets.begin(), sets.end(), [](const Json& set) {
           const Json type = set.is_object() ? set.value("type", Json()) : Json();
           return type.is_null() || type == "chat_template";
         });
}

// What a set of conversations may say of its text beside the file, and hone does not have.
void refuse_set_texts(Translation& t) {
  for (const Json& set : t.value("datasets")) {
    for (const char* key : {"drop_system_message", "split_thinking", "train_on_eot", "chat_template_jinja"}) {
      if (!set.is_object() || !set.contains(key) || set[key].is_null() || set[key] == false) continue;
      t.refuse("datasets", fmt::format("{} of a set changes its text or what is trained of it", key),
               "leave it out, or make such rows");
    }
  }
}

// A template of the sets' own wins over the file's; add_sets refuses sets that differ.
std::string template_of_sets(Translation& t) {
  const Json& sets = t.value("datasets");
  return takes_template(t) && !sets.empty() ? text_of(sets[0], "chat_template") : "";
}

// One of axolotl's own texts, by its name.
void name_text(Translation& t, const std::string& name) {
  t.run().text_name = name;
  const TrainerText* const text = trainer_text(Trainer::kAxolotl, name);
  if (text != nullptr && takes_template(t)) {
    TextUse use;
    for (const Json& one : t.value("eot_tokens")) {
      if (one.is_string()) use.trained_ends.push_back(one.get<std::string>());
    }
    t.set("chat_template", template_of(*text, use), "chat_template");
    const bool is_end = text_of(t.value("special_tokens"), "eos_token") == text->end;
    if (use.trained_ends.empty() && !text->end.empty() && !is_end)
      t.note("chat_template",
             fmt::format(
                 "axolotl trains {} behind an answer only where it is the tokenizer's eos_token, or among "
                 "eot_tokens: else the model does not learn to stop (DATA-03)",
                 text->end));
    t.note("chat_template",
           fmt::format("{} is axolotl's own text, which hone renders; a server renders the model's template",
                       name));
    return;
  }
  t.note("chat_template",
         fmt::format("{} is axolotl's own text, not the model's template; hone examines with the "
                     "model's own, which a server renders too",
                     name));
}

void add_template(Translation& t) {
  const std::string of_sets = template_of_sets(t);
  const std::string name = of_sets.empty() ? t.text("chat_template") : of_sets;
  refuse_set_texts(t);
  if (of_sets.empty() && !t.text("chat_template_jinja").empty()) {
    t.set("chat_template", t.value("chat_template_jinja"), "chat_template_jinja");
  } else if (!name.empty() && !name.starts_with("tokenizer_default")) {
    const bool text = name.find("{%") != std::string::npos || name.find("{{") != std::string::npos;
    if (text)
      t.set("chat_template", name, "chat_template");
    else
      name_text(t, name);
  }
  if (t.has("default_system_message"))
    t.set("dataset_system_prompt", t.value("default_system_message"), "default_system_message");
}

void add_tokens(Translation& t) {
  const Json& tokens = t.value("special_tokens");
  if (tokens.is_object()) {
    if (tokens.contains("eos_token") && !tokens["eos_token"].is_null()) {
      const bool has_option = method_schema(t.run().method).find("eos_token") != nullptr;
      if (has_option) t.set("eos_token", tokens["eos_token"], "special_tokens");
      t.note("special_tokens",
             "an eos_token that is not the tokenizer's is in no generation_config, and is trained only with "
             "lora_modules_to_save");
    } else if (!tokens.empty()) {
      t.note("special_tokens", "usually what the tokenizer has already; hone never pads");
    }
  }
  if (!t.value("tokens").empty())
    t.refuse("tokens", "new tokens of the vocabulary",
             "use tokens that the tokenizer has, or add them to the model's folder first");
}

}  // namespace

Json set_entry(const Json& set) {
  Json out = Json::object();
  out["path"] = text_of(set, "path");
  for (const char* name : {"name", "data_files", "split"}) {
    if (set.contains(name) && !set[name].is_null()) out[name] = set[name];
  }
  if (const std::string split = text_of(set, "train_on_split"); !split.empty()) out["split"] = split;
  const std::string path = out["path"].get<std::string>();
  if ((path == "json" || path == "parquet" || path == "csv" || path == "text") &&
      out.contains("data_files") && out["data_files"].is_string()) {
    out["path"] = out["data_files"];
    out.erase("data_files");
  }
  return out;
}

void add_data(Translation& t) {
  add_sets(t);
  add_template(t);
  add_tokens(t);
}

}  // namespace hone::config::axolotl
