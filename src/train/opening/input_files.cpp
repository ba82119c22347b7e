#include "train/opening/input_files.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/files/crc32c.h"
#include "base/files/file.h"
#include "base/json_tools.h"
#include "config/named_word.h"
#include "config/write_plan.h"
#include "train/saves/run_folder.h"

namespace hone::train {

namespace fs = base::fs;
using base::Json;

namespace {

constexpr std::size_t kPiece = 1 << 16, kPieces = 64;

// Kinds of files, in the words of messages.
constexpr const char *kBase = "the base model", *kReference = "the reference model",
                     *kTokenizer = "the tokenizer", *kTemplate = "the chat template", *kReward = "the reward";

Json print_of(std::span<const std::byte> bytes) {
  if (bytes.size() <= kPiece * (kPieces + 2)) return {bytes.size(), base::crc32c(bytes)};
  std::uint32_t crc = base::crc32c(bytes.first(kPiece));
  const std::size_t stride = (bytes.size() - kPiece) / (kPieces + 1);
  for (std::size_t i = 1; i <= kPieces; ++i) crc = base::crc32c(bytes.subspan(i * stride, kPiece), crc);
  return {bytes.size(), base::crc32c(bytes.last(kPiece), crc)};
}

void add_file(Json& out, const char* kind, const fs::path& file) {
  std::error_code none;
  if (!fs::is_regular_file(file, none)) return;
  out[kind][file.filename().string()] = file_print(file);
}

void add_model(Json& out, const char* kind, const fs::path& model) {
  if (!fs::is_directory(model)) return add_file(out, kind, model);
  add_file(out, kind, model / "config.json");
  for (const auto& entry : fs::directory_iterator(model)) {
    if (entry.path().extension() == ".safetensors") add_file(out, kind, entry.path());
  }
}

// path/to/file.py:function; what is no file is a built-in one, a package's, an address or a folder.
fs::path reward_file(const std::string& word) {
  const std::size_t colon = word.rfind(".py:");
  return colon == std::string::npos ? fs::path() : fs::path(word.substr(0, colon + 3));
}

std::string list_of(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

}  // namespace

Json file_print(const fs::path& file) {
  return print_of(base::MappedFile::open(file).bytes());
}

Json input_files(const config::Plan& plan, const OpenedText& text) {
  Json files = Json::object();
  add_model(files, kBase, plan.model_name_or_path);
  if (!plan.ref_model.empty()) add_model(files, kReference, plan.ref_model);
  const fs::path place =
      plan.tokenizer_name_or_path.empty() ? plan.model_name_or_path : plan.tokenizer_name_or_path;
  for (const char* const name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"})
    add_file(files, kTokenizer, place / name);
  if (const auto& source = text.tokenizer.chat_template())
    files[kTemplate]["its text"] = print_of(std::as_bytes(std::span(*source)));
  for (const auto* const words :
       {&plan.policy.reward_funcs, &plan.eval_reward_funcs, &plan.acting.tools, &plan.acting.environment}) {
    for (const std::string& word : *words) {
      if (const fs::path file = reward_file(config::split_named(word).second); !file.empty())
        add_file(files, kReward, file);
    }
  }
  if (const fs::path file = reward_file(plan.acting.rollout); !file.empty()) add_file(files, kReward, file);
  return {{"method", config::method_name(plan.method)}, {"files", files}};
}

Json adapter_inputs(const fs::path& adapter) {
  if (Json inputs = base::read_object(adapter / kInputsFile); !inputs.empty()) return inputs;
  const Json run = base::read_object(adapter / kHoneStateFile).value("run", Json());
  Json inputs = run.is_object() ? run.value("inputs", Json()) : Json();
  return inputs.is_object() ? inputs : Json::object();
}

BaseComparison compare_base(const fs::path& adapter, const fs::path& model) {
  const Json noted = adapter_inputs(adapter).value("files", Json());
  const Json before = noted.is_object() ? noted.value(kBase, Json()) : Json();
  Json now = Json::object();
  add_model(now, kBase, model);
  BaseComparison out;
  if (!before.is_object() || !now.contains(kBase)) return out;
  for (const auto& [name, print] : now[kBase].items()) {
    if (name == "config.json" || !before.contains(name))
      continue;  // every folder has one; the weights decide
    out.known = true;
    if (before[name] != print) out.changed.push_back(name);
  }
  return out;
}

std::vector<std::string> changed_inputs(const Json& before, const Json& now) {
  std::vector<std::string> out;
  const Json had = before.value("files", Json::object()), has = now.value("files", Json::object());
  if (!had.is_object() || !has.is_object()) return out;
  for (const auto& [kind, files] : had.items()) {
    if (!has.contains(kind) || !files.is_object() || !has[kind].is_object())
      continue;  // another option names another
    std::vector<std::string> changed;
    for (const auto& [name, print] : files.items()) {
      const Json found = has[kind].value(name, Json());
      if (found == print) continue;
      changed.push_back(found.is_null() ? name + " is gone" : name + " has other contents");
    }
    if (!changed.empty()) out.push_back(kind + " changed: " + list_of(changed));
  }
  return out;
}

void require_same_reference(const Json& before, const Json& now, std::string_view option) {
  const auto prints = [](const Json& inputs) {
    const Json files = inputs.is_object() ? inputs.value("files", Json()) : Json();
    return files.is_object() ? files.value(kReference, Json::object()) : Json::object();
  };
  const Json had = prints(before), has = prints(now);
  if (!before.is_object() || before.empty() || had == has) return;
  const std::string name(option);
  const auto words = [&](const Json& files) {
    return files.empty() ? "no " + name : "a " + name + " with other files";
  };
  throw base::UserError(
      {.where = "option " + name,
       .expected = had.empty() ? "no " + name + ", as when the run began (CKPT-05)"
                               : "the reference model that the run began with (CKPT-05)",
       .found = words(has),
       .cause = "the loss is a distance from the reference: with another one it is another run",
       .fix = "set " + name + " as in plan.yaml of that run, or begin a new run from its adapter"});
}

void require_same_method(const fs::path& checkpoint, const config::Plan& plan) {
  const fs::path file = checkpoint / kHoneStateFile;
  const Json state = base::parse_json(base::read_text(file), file.string());
  const Json inputs = state.value("run", Json::object()).value("inputs", Json::object());
  const Json saved = inputs.is_object() ? inputs.value("method", Json()) : Json();
  const std::string now(config::method_name(plan.method));
  if (!saved.is_string() || saved == now) return;
  const auto began = saved.get<std::string>();
  throw base::UserError({.where = "resume_from_checkpoint",
                         .expected = "a checkpoint of a run of " + now + " (CKPT-05)",
                         .found = checkpoint.string() + " is of a run of " + began,
                         .cause = "that run was begun with `hone " + began + "`",
                         .fix = "resume it with `hone " + began + "`, or begin a run of " + now +
                                " from its adapter: adapter_name_or_path: " + checkpoint.string() +
                                " and another output_dir"});
}

}  // namespace hone::train
