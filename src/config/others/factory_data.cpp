// dataset, dataset_info.json and template of LLaMA-Factory.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/files/file.h"
#include "base/strings/split.h"
#include "base/strings/suggest.h"
#include "config/others/factory.h"
#include "config/others/json_members.h"
#include "config/others/text_template.h"

namespace hone::config::factory {
namespace {

using base::Json;

std::vector<std::string> names_of(const Json& value) {
  std::vector<std::string> out;
  if (value.is_array()) {
    for (const Json& one : value) {
      if (one.is_string()) out.push_back(one.get<std::string>());
    }
  } else if (value.is_string()) {
    for (std::string name : base::split_text(value.get<std::string>(), ',')) {
      name.erase(
          0, name.find_first_not_of(' ') == std::string::npos ? name.size() : name.find_first_not_of(' '));
      while (name.ends_with(' ')) name.pop_back();
      if (!name.empty()) out.push_back(name);
    }
  }
  return out;
}

// A described set as an entry of hone's datasets; its path is relative to the folder of dataset_info.json.
Json entry_of(const Json& described, const std::string& info) {
  Json out = Json::object();
  const std::string file = text_of(described, "file_name");
  if (!file.empty()) {
    const base::fs::path folder = base::fs::path(info).parent_path();
    out["path"] = base::fs::path(file).is_absolute() ? file : (folder / file).lexically_normal().string();
    return out;
  }
  out["path"] = text_of(described, "hf_hub_url");
  if (const std::string name = text_of(described, "subset"); !name.empty()) out["name"] = name;
  if (const std::string split = text_of(described, "split"); !split.empty()) out["split"] = split;
  if (const std::string folder = text_of(described, "folder"); !folder.empty()) out["data_dir"] = folder;
  return out;
}

// The column of `role`: as `columns` says; where there is no `columns`, LLaMA-Factory's default name; empty:
// off.
std::string column_of(const Json& described, const char* role, const char* fallback) {
  if (!described.contains("columns") || !described["columns"].is_object()) return fallback;
  return text_of(described["columns"], role);
}

void set_columns(Translation& t, const Json& wanted) {
  Json columns = Json::object();
  for (const auto& [name, as] : wanted.items()) {
    if (!name.empty() && as != name) columns[name] = as;
  }
  if (!columns.empty()) t.set("dataset_columns", columns, "dataset");
}

bool is_ranking(Method method) {
  return method == Method::kDpo || method == Method::kOrpo || method == Method::kCpo ||
         method == Method::kReward;
}

void add_alpaca(Translation& t, const Json& described, const std::string& set) {
  const bool maps = described.contains("columns") && described["columns"].is_object();
  const std::string prompt = column_of(described, "prompt", "instruction"),
                    query = column_of(described, "query", "input"),
                    response = column_of(described, "response", "output");
  if (maps && query.empty() && t.text("stage") != "pt")
    t.note("dataset",
           fmt::format("set {} has columns without query: a column input would be dropped in silence", set));
  if (t.run().method == Method::kKto) {
    set_columns(t, Json::object({{prompt, "prompt"},
                                 {response, "completion"},
                                 {column_of(described, "kto_tag", ""), "label"}}));
    t.set("make_conversation", true, "dataset");
    if (!query.empty())
      t.note("dataset", fmt::format("LLaMA-Factory puts {} behind the prompt, where a row has it", query));
    return;
  }
  if (t.run().method != Method::kSft) {
    set_columns(t, Json::object({{prompt, "prompt"},
                                 {column_of(described, "chosen", "chosen"), "chosen"},
                                 {column_of(described, "rejected", "rejected"), "rejected"}}));
    t.set("make_conversation", true, "dataset");
    if (!query.empty())
      t.note("dataset", fmt::format("LLaMA-Factory puts {} behind the prompt, where a row has it", query));
    return;
  }
  if (t.text("stage") == "pt") {
    t.set("dataset_text_field", prompt.empty() ? "text" : prompt, "dataset");
    return;
  }
  t.set("row_format", "alpaca", "dataset");
  set_columns(t, Json::object({{prompt, "instruction"},
                               {query, "input"},
                               {response, "output"},
                               {column_of(described, "system", ""), "system"},
                               {column_of(described, "history", ""), "history"}}));
  // instruction and input are the user's turn in the template, as make_conversation has it
  t.set("make_conversation", true, "dataset");
  // The answers in history are trained too, unless mask_history; with train_on_prompt everything is.
  const bool history = !column_of(described, "history", "").empty() && !t.flag("mask_history");
  const char* from = t.has("train_on_prompt") ? "train_on_prompt" : "dataset";
  if (history) t.set("assistant_only_loss", !t.flag("train_on_prompt"), from);
  t.set("completion_only_loss", !history && !t.flag("train_on_prompt"), from);
}

void add_sharegpt(Translation& t, const Json& described) {
  const Json tags = described.value("tags", Json::object());
  const std::string role = text_of(tags, "role_tag", "from"), content = text_of(tags, "content_tag", "value");
  const std::string messages = column_of(described, "messages", "conversations");
  const std::string system = column_of(described, "system", "");
  const bool from_value = role == "from" && content == "value";
  if (from_value || (role == "role" && content == "content")) {
    // row_format sharegpt reads turns of role and content too, and a column of the system's text
    const bool pairs = is_ranking(t.run().method);
    if ((t.run().method == Method::kSft && (from_value || !system.empty())) || pairs)
      t.set("row_format", "sharegpt", "dataset");
    if (pairs)
      set_columns(t, Json::object({{messages, "prompt"},
                                   {column_of(described, "chosen", "chosen"), "chosen"},
                                   {column_of(described, "rejected", "rejected"), "rejected"},
                                   {system, "system"}}));
    if (t.run().method == Method::kSft)
      set_columns(t,
                  Json::object({{messages, from_value ? "conversations" : "messages"}, {system, "system"}}));
  } else {
    t.refuse("dataset", fmt::format("turns have {} and {} for role and content", role, content),
             "hone reads role and content, or from and value: write the rows so, or use row_function");
  }
  if (t.run().method == Method::kKto)
    t.unknown(
        "dataset",
        "its answers are the last turns of the conversations: hone kto reads prompt, completion and label",
        "the form of the rows", "give rows with prompt, completion and label: --data FILE");
  if (t.run().method == Method::kSft)
    t.set("assistant_only_loss", !t.flag("train_on_prompt"),
          t.has("train_on_prompt") ? "train_on_prompt" : "dataset");
  t.note(
      "dataset",
      "a conversation whose turns do not alternate, or that ends with the user, is dropped with one warning (DATA-01)");
}

void add_form(Translation& t, const Json& described, const std::string& set) {
  const std::string form = text_of(described, "formatting", "alpaca");
  const Json columns = described.value("columns", Json::object());
  for (const char* role : {"images", "videos", "audios"}) {
    if (!text_of(columns, role).empty())
      t.refuse("dataset", fmt::format("set {} has {}: hone trains only on text", set, role),
               "use a set of texts");
  }
  for (const char* role : {"system", "history", "tools"}) {
    const std::string column = text_of(columns, role);
    const bool tools = std::string_view(role) == "tools";
    const bool alpaca_turns = form == "alpaca" && t.text("stage") == "sft" && !tools;
    const bool system_text = form == "sharegpt" && std::string_view(role) == "system";
    // tools is hone's own name too, of rows of messages
    if (column.empty() || (form == "sharegpt" && tools && column == "tools") || alpaca_turns || system_text)
      continue;
    t.unknown("dataset",
              fmt::format("column {} of set {} is its {}, which hone does not read from a column of its own",
                          column, set, role),
              "the form of the rows", "write it into the messages, and give them: --data FILE");
  }
  if (is_ranking(t.run().method) && !described.value("ranking", Json(false)).is_boolean())
    t.note("dataset", fmt::format("ranking of set {} is no bool", set));
  if (form == "sharegpt") {
    add_sharegpt(t, described);
  } else if (form == "alpaca") {
    add_alpaca(t, described, set);
  } else {
    t.unknown("dataset", fmt::format("formatting {} of set {} is not known here", form, set),
              "the form of the rows", "it is alpaca or sharegpt, or give --data FILE");
  }
}

void add_sets(Translation& t, const OtherFile* sets) {
  const std::vector<std::string> names = names_of(t.value("dataset"));
  if (names.empty()) {
    t.unknown("dataset", "it is not written", "the rows", "write dataset, or --data FILE");
    return;
  }
  std::vector<std::string> known;
  if (sets != nullptr) {
    for (const OtherEntry& one : sets->entries) known.push_back(one.name);
  }
  Json entries = Json::array();
  Json form;
  for (const std::string& name : names) {
    if (name.starts_with("<")) {
      t.unknown("dataset", fmt::format("{} is a place to fill in, not a name", name), "the rows",
                "write the name of the set, or --data FILE");
      continue;
    }
    const OtherEntry* described = sets == nullptr ? nullptr : sets->find(name);
    if (described == nullptr || !described->value.is_object()) {
      const std::string dir = t.has("dataset_dir") ? t.text("dataset_dir") : "data";
      t.unknown(
          "dataset",
          sets == nullptr
              ? fmt::format("data set {} is described in {}/dataset_info.json, which is not here", name, dir)
              : fmt::format("{} does not describe a data set {}.{}", sets->path, name,
                            base::did_you_mean(name, known)),
          "the rows", "give --dataset_info FILE, or --data FILE");
      continue;
    }
    Json entry = entry_of(described->value, sets->path);
    if (entry["path"].get<std::string>().empty()) {
      t.unknown("dataset",
                fmt::format("{}: set {} has neither file_name nor hf_hub_url", described->where, name),
                "the rows", "give --data FILE");
      continue;
    }
    const auto first = [&]() -> std::optional<std::int64_t> {
      const Json described_count = described->value.value("num_samples", Json());
      std::optional<std::int64_t> count;
      if (described_count.is_number_integer() && described_count > 0)
        count = described_count.get<std::int64_t>();
      if (const auto own = t.number("max_samples"); own && *own > 0)
        count = std::min(count.value_or(INT64_MAX), static_cast<std::int64_t>(*own));
      return count;
    }();
    if (described->value.contains("num_samples"))
      t.note("dataset",
             fmt::format("num_samples of set {} draws so many rows at random; hone takes the first", name));
    if (first) entry["first"] = *first;
    if (form.is_null())
      add_form(t, described->value, name);
    else if (text_of(form, "formatting", "alpaca") != text_of(described->value, "formatting", "alpaca") ||
             form.value("columns", Json()) != described->value.value("columns", Json()))
      t.refuse("dataset", "sets with several forms or columns: hone reads one form of rows in a run",
               "train on one");
    if (form.is_null()) form = described->value;
    entries.push_back(std::move(entry));
  }
  if (entries.empty()) return;
  if (t.has("max_samples")) t.note("max_samples", "so many rows of each set");
  const bool split = t.number("val_size").value_or(0) > 0;
  if (entries.size() == 1 && entries[0].size() == 1 && !split)
    t.set("dataset_name", entries[0]["path"], "dataset");
  else
    t.set("datasets", entries, "dataset");
}

// Names that are written for templates and are none.
bool is_no_template(const std::string& name) {
  return name == "sharegpt" || name == "qwen25" || name == "qwen2.5";
}

bool is_reasoning_off(const Translation& t) {
  return t.has("enable_thinking") && !t.flag("enable_thinking");
}

// The text of that name as the run's template; where hone does not have it, the model's own.
void use_text(Translation& t, const std::string& name) {
  t.run().text_name = name;
  const TrainerText* const text = trainer_text(Trainer::kFactory, name);
  if (text == nullptr || t.text("stage") == "pt") {
    t.note("template",
           fmt::format(
               "{} is LLaMA-Factory's own text, not the model's template; hone examines with the model's "
               "own, which a server renders too",
               name));
    return;
  }
  const bool pairs = t.run().method != Method::kSft;
  const bool last_only = t.flag("mask_history") && !pairs;
  t.set("chat_template",
        template_of(*text, {.trains_last_only = last_only,
                            .strips_history = (last_only || pairs) && !t.flag("preserve_thinking"),
                            .thinks = !is_reasoning_off(t),
                            .default_system = t.text("default_system")}),
        "template");
  t.note("template",
         fmt::format("{} is LLaMA-Factory's own text, which hone renders; a server renders the model's "
                     "template",
                     name));
}

void add_template(Translation& t) {
  const std::string name = t.text("template");
  if (name.empty()) {
    t.note(
        "template",
        "none: LLaMA-Factory makes a text of its own out of the tokenizer's template, by trying it on single "
        "turns, and not always the same text; hone renders the template: write the name of one");
    return;
  }
  if (is_no_template(name)) {
    t.refuse("template", fmt::format("LLaMA-Factory has no template {}", name),
             "write the name of one, such as qwen");
    return;
  }
  use_text(t, name);
  const std::string model = t.text("model_name_or_path");
  const bool newer = model.find("Qwen3") != std::string::npos || model.find("qwen3") != std::string::npos;
  if (name == "qwen" && newer)
    t.note(
        "template",
        "qwen puts Qwen2.5's default system turn before rows without one: wrong for Qwen3, whose template has none");
  if (name == "qwen3" && model.find("Instruct-2507") != std::string::npos)
    t.note("template",
           "qwen3 trains an empty think block; this model never thinks: qwen3_nothink is the right one");
}

void add_lengths(Translation& t) {
  const std::string limit = t.has("cutoff_len") ? t.text("cutoff_len") : "2048";
  const bool joins = t.text("stage") == "pt" && (!t.has("packing") || t.flag("packing"));
  if (joins)
    t.set_default("packing_strategy", "wrapped", "stage pt: texts are joined, and cut at cutoff_len");
  if (joins)
    t.note(
        "stage",
        "not the same pieces: LLaMA-Factory joins texts without the tokenizer's beginning of a text, and drops the "
        "rest behind the last whole piece; hone trains both");
  if (!joins)
    t.note("cutoff_len",
           fmt::format(
               "LLaMA-Factory cuts prompt and answer in proportion at {} tokens, and a short answer keeps "
               "all; hone cuts the row's end",
               limit));
  const bool pt = t.text("stage") == "pt";
  const bool packs = t.has("packing") ? t.flag("packing") : t.flag("neat_packing");
  if (packs) {
    t.set("packing", true, t.has("packing") ? "packing" : "neat_packing");
    if (t.run().method != Method::kSft) t.note("packing", "read in stages sft and pt only");
    if (!t.flag("neat_packing") && !pt)
      t.note("packing",
             "without neat_packing the rows of LLaMA-Factory see each other (DATA-07); hone's never do");
    if (!pt) t.note("packing", "rows above cutoff_len are dropped when packing");
  } else if (!t.has("packing")) {
    t.set_default("packing", pt, pt ? "stage pt" : "");
  } else {
    t.set("packing", false, "packing");
  }
  if (pt) t.note("stage", "pt trains every token of the text: hone sft on a column of text");
  if (t.flag("mask_history") && !t.is_set("chat_template"))
    t.refuse("mask_history", "only the last answer of a conversation is trained",
             "write rows that end with it, as prompt and completion");
}

}  // namespace

void add_data(Translation& t, const OtherFile* sets) {
  add_sets(t, sets);
  add_template(t);
  add_lengths(t);
  if (!t.has("eval_dataset")) return;
  Json entries = Json::array();
  for (const std::string& name : names_of(t.value("eval_dataset"))) {
    const OtherEntry* described = sets == nullptr ? nullptr : sets->find(name);
    if (described == nullptr || !described->value.is_object()) {
      t.unknown("eval_dataset", fmt::format("data set {} is not described here", name),
                "the rows of evaluation", "give --dataset_info FILE");
    } else {
      entries.push_back(entry_of(described->value, sets->path));
    }
  }
  if (!entries.empty()) t.set("eval_datasets", entries, "eval_dataset");
}

}  // namespace hone::config::factory
