#include "config/commands/tool_plans.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/files/file.h"
#include "base/json.h"
#include "base/strings/plural.h"
#include "base/strings/suggest.h"
#include "config/datasets/dataset_files.h"
#include "config/datasets/trained_on.h"
#include "config/method_of.h"
#include "config/methods/policy_plan.h"
#include "config/parse.h"
#include "config/reading/user_paths.h"

namespace hone::config {
namespace {

using base::UserError;

constexpr std::string_view kNoAdapter = "none";  // hone chat's word for the model alone

Settings read(const Schema& schema, const std::vector<std::string>& arguments) {
  Settings settings(schema);
  settings.read_arguments(arguments);
  settings.throw_mistakes();
  return settings;
}

void needed(const Settings& settings, const std::string& name) {
  if (!settings.text(name).empty()) return;
  throw UserError({.where = fmt::format("hone {}", settings.schema().command),
                   .expected = fmt::format("option --{}", name),
                   .found = "it is not set",
                   .fix = fmt::format("`hone {} --help` lists the options", settings.schema().command)});
}

// The output is a new folder: nothing of the user's is written over.
void require_new(const std::string& output, const std::string& where) {
  std::error_code ignored;
  if (!std::filesystem::exists(output, ignored)) return;
  if (std::filesystem::is_directory(output, ignored) && std::filesystem::is_empty(output, ignored)) return;
  throw UserError({.where = where,
                   .expected = "a new folder as output",
                   .found = fmt::format("'{}' exists", output),
                   .fix = "name another folder, or remove this one"});
}

// --weights 0.7 0.3: a number for each of `count` adapters; 1 each when not set.
std::vector<double> weights_of(const Settings& settings, std::size_t count) {
  if (!settings.is_set("weights")) return std::vector<double>(count, 1.0);
  std::vector<double> out;
  for (const std::string& word : settings.list("weights")) {
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error == std::errc() && end == word.data() + word.size() && std::isfinite(value))
      out.push_back(value);
  }
  if (out.size() == count || count == 0) return out;
  conflict(settings, "weights",
           base::counted(static_cast<std::int64_t>(count), "number") + ", one an adapter",
           fmt::format("{}", fmt::join(settings.list("weights"), " ")), "",
           "write --weights 0.7 0.3, or leave it out for 1 each");
}

// What ties, magnitude_prune and svd want to know besides.
void read_recipe(const Settings& settings, MergePlan& plan) {
  const bool svd = plan.combination.ends_with("svd"), ties = plan.combination.starts_with("ties");
  const bool prunes = ties || plan.combination.starts_with("magnitude_prune");
  if (!settings.value("density").is_null()) {
    plan.density = settings.number("density");
  } else if (prunes && !plan.adapters.empty()) {
    conflict(settings, "combination",
             fmt::format("density, the share of values that {} keeps", plan.combination), "it is not set", "",
             "write --density 0.5; 0.2 is what the TIES paper keeps");
  }
  const auto idle = [&](const char* name, bool used) {
    if (!used && settings.is_set(name) && !plan.adapters.empty())
      plan.notes.push_back(fmt::format("{}: has no effect with combination {}", name, plan.combination));
  };
  idle("density", prunes);
  idle("majority_sign_method", ties);
  idle("svd_rank", svd);
}

void check_sampling(const Settings& settings, const SamplingPlan& plan, std::vector<std::string>& notes) {
  if (plan.min_new_tokens > plan.max_new_tokens) {
    conflict(settings, "min_new_tokens",
             fmt::format("min_new_tokens of at most max_new_tokens, {}", plan.max_new_tokens),
             fmt::format("{}", plan.min_new_tokens), "", "raise max_new_tokens, or lower min_new_tokens");
  }
  for (const std::string& text : plan.stop_strings) {
    if (!text.empty()) continue;
    conflict(settings, "stop_strings", "texts that end a completion", "an empty text",
             "it is part of every completion", "leave it out");
  }
  for (const char* name : {"top_k", "top_p", "min_p"}) {
    if (plan.temperature > 0 || !settings.is_set(name)) continue;
    notes.push_back(
        fmt::format("{}: has no effect at temperature 0, which always takes the most likely token", name));
  }
}

bool nested_quant(const Settings& settings) {
  return settings.flag("load_in_4bit") && settings.flag("use_bnb_nested_quant");
}

ComparePlan compare_plan(const Settings& settings, std::vector<std::string>& notes) {
  ComparePlan plan;
  settings.fill(plan);
  plan.precision = resolve_precision(settings);
  // Products in bfloat16 would differ as much as a file in float16. The codes of a quantized base depend on
  // dtype, so there that stays.
  const bool codes_of_bf16 =
      quantized_base(settings) != QuantizedBase::kNone && plan.precision == Precision::kBFloat16;
  if (!codes_of_bf16 && !settings.maybe_flag("bf16").value_or(false)) plan.precision = Precision::kFloat32;
  if (!plan.prompts.empty()) require_file(plan.prompts, "prompts", settings.where("prompts"));
  if (plan.count == 0 && settings.is_set("device"))
    notes.push_back("device: has no effect without a comparison");
  return plan;
}

// Paths are looked at last: a mistake in a word is told first.
void require_adapters(const Settings& settings, const std::string& adapter) {
  if (!adapter.empty())
    require_adapter_path(adapter, "adapter_name_or_path", settings.where("adapter_name_or_path"));
  require_base_adapters(settings, adapter);
}

// NAME=FOLDER, or a folder, whose last part is the name. A folder may have '=' in its own name.
NamedAdapter named_adapter(const std::string& word, const std::string& where) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const std::size_t equals = word.find('=');
  NamedAdapter out{.name = {}, .folder = word};
  if (equals != std::string::npos && !fs::exists(word, ignored) &&
      word.rfind('/', equals) == std::string::npos) {
    out = {.name = word.substr(0, equals), .folder = word.substr(equals + 1)};
  } else {
    const fs::path path = fs::path(word).lexically_normal();
    out.name = (path.has_filename() ? path : path.parent_path()).filename().string();
  }
  if (!out.name.empty() && out.name != kNoAdapter && !out.folder.empty()) return out;
  throw UserError({.where = where,
                   .expected = "NAME=FOLDER, or the folder of an adapter",
                   .found = fmt::format("'{}'", word),
                   .cause = out.name == kNoAdapter ? "none is the model without an adapter" : "",
                   .fix = "write --adapters first=runs/first second=runs/second"});
}

std::string first_adapter(const Settings& settings) {
  const std::vector<std::string> several = settings.list("adapters");
  return several.empty() ? settings.text("adapter_name_or_path")
                         : named_adapter(several.front(), settings.where("adapters")).folder;
}

// The base that the adapter was trained on, where none is named.
void take_base_of(Settings& settings, const std::string& adapter, std::vector<std::string>& notes) {
  if (settings.is_set("model_name_or_path") || adapter.empty()) return;
  const std::string option = settings.is_set("adapters") ? "adapters" : "adapter_name_or_path";
  require_adapter_path(adapter, option, settings.where(option));
  const std::string path = (std::filesystem::path(adapter) / "adapter_config.json").string();
  const base::Json config = base::parse_json(base::read_text(path), path);
  const auto base = config.is_object() ? config.find("base_model_name_or_path") : config.end();
  if (base == config.end() || !base->is_string() || base->get<std::string>().empty()) return;
  settings.put("model_name_or_path", *base, path + ", base_model_name_or_path");
  notes.push_back(fmt::format("model_name_or_path: {}, the base of {}", base->get<std::string>(), adapter));
}

bool is_adapter_folder(const std::string& word) {
  const std::filesystem::path folder = word;
  std::error_code ignored;
  return std::filesystem::exists(folder / "adapter_config.json", ignored) &&
         !std::filesystem::exists(folder / "config.json", ignored);
}

// All of `adapters` speak from one base.
void note_other_bases(const DecodingPlan& plan, std::vector<std::string>& notes) {
  for (const NamedAdapter& one : plan.adapters) {
    const TrainedOn own = trained_on(one.folder);
    if (own.base == QuantizedBase::kNone && plan.quantized_base == QuantizedBase::kNone) continue;
    if (own == TrainedOn{.base = plan.quantized_base,
                         .nested = plan.use_bnb_nested_quant,
                         .experts = plan.quantize_moe_experts})
      continue;
    notes.push_back(
        fmt::format("adapters: {} was trained on a base with other load_in_4bit and load_in_8bit options "
                    "than the base used here",
                    one.name));
  }
}

void read_decoding(const Settings& settings, DecodingPlan& plan) {
  needed(settings, "model_name_or_path");
  settings.fill<DecodingPlan>(plan);
  settings.fill<SamplingPlan>(plan);
  for (const std::string& word : settings.list("adapters"))
    plan.adapters.push_back(named_adapter(word, settings.where("adapters")));
  if (!plan.adapters.empty() && !plan.adapter_name_or_path.empty()) {
    conflict(settings, "adapters", "adapter_name_or_path, for one, or adapters, to switch between several",
             "both", "", "name all of them in adapters; those that are always on go into base_adapters");
  }
  const base::Json& variables = settings.value("chat_template_kwargs");
  if (!variables.is_null() && !variables.empty()) plan.chat_template_kwargs = base::dump_json(variables);
  plan.precision = resolve_precision(settings);
  plan.quantized_base = quantized_base(settings);
  plan.use_bnb_nested_quant = nested_quant(settings);
  require_quantized_base(settings);
}

void require_model(const Settings& settings, DecodingPlan& plan) {
  find_model(plan.model_name_or_path, "", "model_name_or_path", settings.where("model_name_or_path"),
             plan.downloads);
  require_adapters(settings, plan.adapter_name_or_path);
  for (const NamedAdapter& one : plan.adapters) {
    require_adapter_path(one.folder, "adapters", settings.where("adapters"));
    require_base_adapters(settings, one.folder);
  }
}

}  // namespace

GeneratePlan parse_generate(const std::vector<std::string>& arguments) {
  Settings settings = read(generate_schema(), arguments);
  GeneratePlan plan;
  plan.notes = settings.check();
  inherit_base_options(settings, first_adapter(settings), plan.notes);
  take_base_of(settings, first_adapter(settings), plan.notes);
  read_decoding(settings, plan);
  note_other_bases(plan, plan.notes);
  settings.fill(plan);
  if (plan.prompts.empty() && plan.prompts_file.empty()) {
    throw UserError({.where = "hone generate",
                     .expected = "a prompt to complete",
                     .found = "neither --prompt nor --prompts",
                     .fix = "write --prompt 'TEXT', or --prompts FILE.jsonl with a prompt column"});
  }
  check_sampling(settings, plan, plan.notes);
  if (plan.num_return_sequences > 1 && plan.temperature == 0) {
    conflict(settings, "num_return_sequences", "a temperature above 0 for several completions of a prompt",
             "temperature 0", "greedy completions of a prompt are all the same",
             "set temperature, or leave num_return_sequences at 1");
  }
  if (plan.logprobs && plan.output.empty()) {
    plan.notes.push_back("logprobs: has no effect without output, a .jsonl file to write them to");
  }
  require_model(settings, plan);
  if (!plan.prompts_file.empty()) require_file(plan.prompts_file, "prompts", settings.where("prompts"));
  return plan;
}

namespace {

// Options of a command whose first word may be its model, or an adapter of it.
Settings read_model_first(const Schema& schema, std::vector<std::string> words, const std::string& command,
                          const std::string& wish, std::vector<std::string>& notes) {
  if (!words.empty() && !words[0].starts_with("-")) {
    words[0] = user_path(words[0], command);
    words.insert(words.begin(),
                 is_adapter_folder(words[0]) ? "--adapter_name_or_path" : "--model_name_or_path");
  }
  Settings settings = read(schema, words);
  notes = settings.check();
  inherit_base_options(settings, first_adapter(settings), notes);
  take_base_of(settings, first_adapter(settings), notes);
  if (settings.is_set("model_name_or_path")) return settings;
  throw UserError(
      {.where = command,
       .expected = wish,
       .found = "none",
       .fix = "write " + command +
              " MODEL, a folder in Hugging Face format, a .gguf file, or the folder of an adapter"});
}

}  // namespace

ChatPlan parse_chat(const std::vector<std::string>& arguments) {
  ChatPlan plan;
  Settings settings =
      read_model_first(chat_schema(), arguments, "hone chat", "a model to talk with", plan.notes);
  read_decoding(settings, plan);
  note_other_bases(plan, plan.notes);
  settings.fill(plan);
  check_sampling(settings, plan, plan.notes);
  require_model(settings, plan);
  if (!plan.chat_template_path.empty()) {
    require_file(plan.chat_template_path, "chat_template_path", settings.where("chat_template_path"));
  }
  for (const std::string& word : plan.tools) require_function(word, "tools", settings.where("tools"));
  return plan;
}

namespace {

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace

Settings read_served(const Schema& schema, const std::vector<std::string>& arguments,
                     const std::string& command, const std::string& wish, ServePlan& plan) {
  Settings settings = read_model_first(schema, arguments, command, wish, plan.notes);
  read_decoding(settings, plan);
  note_other_bases(plan, plan.notes);
  settings.fill(plan);
  if (!is_loopback(plan.host) && plan.api_key_env.empty()) {
    conflict(settings, "host", "127.0.0.1, or api_key_env with another address",
             fmt::format("'{}' without a key", plan.host), "everybody who reaches the address could use it",
             "write --api_key_env NAME, the variable that holds the key, or leave host out");
  }
  require_model(settings, plan);
  if (!plan.chat_template_path.empty())
    require_file(plan.chat_template_path, "chat_template_path", settings.where("chat_template_path"));
  return settings;
}

ServePlan parse_serve(const std::vector<std::string>& arguments) {
  ServePlan plan;
  read_served(serve_schema(), arguments, "hone serve", "a model to serve", plan);
  return plan;
}

ConvertPlan parse_convert(const std::vector<std::string>& arguments) {
  const Settings settings = read(convert_schema(), arguments);
  ConvertPlan plan;
  plan.notes = settings.check();
  needed(settings, "input");
  needed(settings, "output");
  settings.fill(plan);
  plan.quantize = quantized_base(settings);
  plan.use_bnb_nested_quant = nested_quant(settings);
  require_model_path(plan.input, "input", settings.where("input"));
  require_new(plan.output, settings.where("output"));
  return plan;
}

MergePlan parse_merge(const std::vector<std::string>& arguments) {
  Settings settings = read(merge_schema(), arguments);
  MergePlan plan;
  plan.notes = settings.check();
  inherit_base_options(settings, settings.text("adapter_name_or_path"), plan.notes);
  settings.fill(plan);
  if (plan.adapters.empty()) needed(settings, "adapter_name_or_path");
  needed(settings, "output");
  plan.trained_on = quantized_base(settings);
  plan.use_bnb_nested_quant = nested_quant(settings);
  require_quantized_base(settings);
  plan.weights = weights_of(settings, plan.adapters.size());
  read_recipe(settings, plan);
  if (!plan.adapters.empty() && !plan.adapter_name_or_path.empty()) {
    conflict(settings, "adapters",
             "adapter_name_or_path, to merge one into the base, or adapters, to combine several", "both", "",
             "combine first, then merge the combined adapter");
  }
  for (const std::string& adapter : plan.adapters)
    require_adapter_path(adapter, "adapters", settings.where("adapters"));
  if (!plan.adapters.empty() && !plan.base_adapters.empty()) {
    conflict(settings, "base_adapters",
             "adapters, to make one of several, or base_adapters below the one to merge", "both", "",
             "write all of them after adapters: combined they are one adapter");
  }
  if (!plan.adapters.empty()) {
    for (const char* name :
         {"compare", "prompts", "max_new_tokens", "dtype", "bf16", "load_in_4bit", "load_in_8bit",
          "bnb_4bit_quant_type", "use_bnb_nested_quant", "quantize_moe_experts", "device"}) {
      if (settings.is_set(name))
        plan.notes.push_back(
            fmt::format("{}: has no effect with adapters, which are combined without a base", name));
    }
    plan.compare.threads = settings.integer("threads");
  }
  if (plan.adapters.empty()) {
    require_adapters(settings, plan.adapter_name_or_path);
    for (const char* name : {"weights", "combination", "density", "majority_sign_method", "svd_rank"}) {
      if (settings.is_set(name))
        plan.notes.push_back(fmt::format("{}: has no effect without adapters", name));
    }
    plan.compare = compare_plan(settings, plan.notes);
  }
  if (!plan.model_name_or_path.empty()) {
    find_model(plan.model_name_or_path, "", "model_name_or_path", settings.where("model_name_or_path"),
               plan.downloads);
  }
  require_new(plan.output, settings.where("output"));
  return plan;
}

namespace {

// The adapter's own file: nothing is merged, so what a merge needs has no effect.
void finish_adapter_only(const Settings& settings, ExportPlan& plan) {
  if (plan.adapter_name_or_path.empty()) needed(settings, "adapter_name_or_path");
  if (!plan.base_adapters.empty()) {
    conflict(
        settings, "base_adapters", "an adapter that stands on its base directly, with adapter_only",
        fmt::format("{} below it", fmt::join(plan.base_adapters, ", ")),
        "llama.cpp adds adapters, and this one was trained above others",
        "combine them first: hone merge --adapters A B --combination cat (exact), or leave out adapter_only");
  }
  if (!settings.is_set("outtype")) plan.outtype = GgufOutType::kF32;
  if (plan.outtype == GgufOutType::kQ8_0 || plan.outtype == GgufOutType::kQ4_K_M) {
    conflict(settings, "outtype", "f32, f16 or bf16 with adapter_only",
             fmt::format("'{}'", settings.text("outtype")), "the rows of an adapter are shorter than a block",
             "leave it out: the file is small");
  }
  for (const char* name : {"compare", "device"}) {
    if (settings.is_set(name))
      plan.notes.push_back(fmt::format("{}: has no effect with adapter_only, which merges nothing", name));
  }
}

}  // namespace

ExportPlan parse_export(const std::vector<std::string>& arguments) {
  Settings settings = read(export_schema(), arguments);
  ExportPlan plan;
  plan.notes = settings.check();
  inherit_base_options(settings, settings.text("adapter_name_or_path"), plan.notes);
  settings.fill(plan);
  if (plan.model_name_or_path.empty() && plan.adapter_name_or_path.empty())
    needed(settings, "model_name_or_path");
  if (!plan.adapter_name_or_path.empty() || !settings.list("base_adapters").empty()) {
    plan.trained_on = quantized_base(settings);
    plan.use_bnb_nested_quant = nested_quant(settings);
    require_quantized_base(settings);
  } else if (quantized_base(settings) != QuantizedBase::kNone) {
    plan.notes.push_back(fmt::format("{}: has no effect without an adapter that was trained on such a base",
                                     settings.flag("load_in_4bit") ? "load_in_4bit" : "load_in_8bit"));
  }
  needed(settings, "output");
  plan.compare = compare_plan(settings, plan.notes);
  require_adapters(settings, plan.adapter_name_or_path);
  if (!plan.model_name_or_path.empty()) {
    find_model(plan.model_name_or_path, "", "model_name_or_path", settings.where("model_name_or_path"),
               plan.downloads);
  }
  if (plan.adapter_only) finish_adapter_only(settings, plan);
  std::error_code ignored;
  const bool exists = std::filesystem::exists(plan.output, ignored);
  if (exists || std::filesystem::path(plan.output).extension() != ".gguf") {
    conflict(settings, "output", "a new file whose name ends with .gguf",
             fmt::format("'{}'{}", plan.output, exists ? ", which exists" : ""), "",
             exists ? "name another file, or remove this one" : "write --output model.gguf");
  }
  return plan;
}

RewardTestPlan parse_reward_test(const std::vector<std::string>& arguments) {
  const Settings settings = read(reward_test_schema(), arguments);
  RewardTestPlan plan;
  plan.notes = settings.check();
  plan.reward_funcs = reward_specs(settings);
  if (plan.reward_funcs.empty()) {
    throw UserError({.where = "hone reward-test",
                     .expected = "option --reward_funcs",
                     .found = "it is not set",
                     .fix = "write --reward_funcs accuracy_reward, or rewards.py:my_function"});
  }
  needed(settings, "dataset_name");
  settings.fill(plan);
  check_reward_files(settings);
  find_reward_models(plan.reward_funcs, "reward_funcs", plan.downloads);
  plan.rows.sets.push_back(find_rows({.path = plan.dataset_name,
                                      .config = "",
                                      .data_dir = "",
                                      .data_files = nullptr,
                                      .split = "train",
                                      .split_name = "dataset_name",
                                      .option = "dataset_name",
                                      .where = settings.where("dataset_name")}));
  return plan;
}

BisectPlan parse_bisect(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = arguments;
  if (words.size() > 1 && !words[1].starts_with("-")) words.insert(words.begin() + 1, "--bad");
  if (!words.empty() && !words[0].starts_with("-")) words.insert(words.begin(), "--good");
  const Settings settings = read(bisect_schema(), words);
  BisectPlan plan;
  plan.notes = settings.check();
  needed(settings, "good");
  needed(settings, "bad");
  settings.fill(plan);
  require_file(plan.good, "good", settings.where("good"));
  require_file(plan.bad, "bad", settings.where("bad"));
  if (const std::string word = settings.text("method"); !word.empty()) {
    const std::optional<Method> method = find_method(word);
    if (!method) {
      const std::vector<std::string> known = method_names();
      conflict(settings, "method", fmt::format("one of {}", fmt::join(known, ", ")),
               fmt::format("'{}'.{}", word, base::did_you_mean(word, known)), "",
               "leave it out: it is inferred from the files' options");
    }
    plan.method = *method;
  } else {
    plan.method = method_of(base::read_text(plan.good) + "\n" + base::read_text(plan.bad));
  }
  return plan;
}

LrFindPlan parse_lr_find(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = arguments;
  if (!words.empty() && !words[0].starts_with("-")) words.insert(words.begin(), "--run");
  for (std::string& word : words) {
    if (word == "--config") word = "--run";  // as the training commands name it
  }
  const Settings settings = read(lr_find_schema(), words);
  LrFindPlan plan;
  plan.notes = settings.check();
  needed(settings, "run");
  needed(settings, "output");
  settings.fill(plan);
  if (plan.lowest >= plan.highest) {
    conflict(settings, "highest", fmt::format("highest above lowest, {}", plan.lowest),
             fmt::format("{}", plan.highest), "", "leave both out: 1e-6 to 0.1");
  }
  require_file(plan.run, "run", settings.where("run"));
  return plan;
}

}  // namespace hone::config
