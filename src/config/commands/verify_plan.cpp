#include "config/commands/verify_plan.h"

#include "base/error.h"
#include "base/files/file.h"
#include "base/json.h"
#include "config/parse.h"
#include "config/reading/first_word.h"
#include "config/settings.h"
#include "python/http_calls.h"

namespace hone::config {

namespace {

void require_address(std::string& url, const std::string& where) {
  url = python::server_root(url);
  const std::size_t host = url.starts_with("http://") ? 7 : url.starts_with("https://") ? 8 : 0;
  const bool is_whole = host > 0 && url.size() > host && url.find_first_of("@?# ") == std::string::npos;
  if (is_whole) return;
  throw base::UserError({.where = where,
                         .expected = "the address of a server: http://127.0.0.1:8000",
                         .found = url.empty() ? "none" : "'" + url + "'",
                         .cause = "a key is given by --api_key_env, not in the address",
                         .fix = "write hone verify-served http://HOST:PORT --adapter FOLDER"});
}

// The base that the adapter names, where none is given.
void take_base(Settings& settings, VerifyPlan& plan) {
  if (!plan.base.empty()) return;
  const std::string path = (base::fs::path(plan.adapter) / "adapter_config.json").string();
  const base::Json config = base::parse_json(base::read_text(path), path);
  const auto named = config.is_object() ? config.find("base_model_name_or_path") : config.end();
  if (named != config.end() && named->is_string()) plan.base = named->get<std::string>();
  if (!plan.base.empty()) {
    settings.put("base", plan.base, path + ", base_model_name_or_path");
    return;
  }
  throw base::UserError({.where = path,
                         .expected = "base_model_name_or_path to name the base",
                         .found = "no name",
                         .fix = "name it: --base FOLDER, or its name on the hub"});
}

}  // namespace

const Schema& verify_schema() {
  static const Schema schema = [] {
    Schema out{
        .command = "verify-served",
        .options = {
            {"url", "address of the server; the first word", &VerifyPlan::url},
            {"adapter", "folder of the adapter that it should apply", &VerifyPlan::adapter},
            {"base", "the model below it; null: the one that adapter_config.json names", &VerifyPlan::base},
            {"other_base", "another model that may be served by mistake", &VerifyPlan::other_base},
            {"server", "what answers there; auto: by its own words", &VerifyPlan::server,
             choice("auto hone vllm sglang llama-server ollama other")},
            {"served_model_name", "the adapter's name there; null: by the server's list",
             &VerifyPlan::served_model_name},
            {"api_key_env", "the variable that holds the key", &VerifyPlan::api_key_env},
            {"chat_template_path", "a chat template that replaces the tokenizer's",
             &VerifyPlan::chat_template_path},
            {"prompts", ".jsonl with a `prompt` column; null: built-in questions", &VerifyPlan::prompts},
            {"count", "prompts that are asked", &VerifyPlan::count, Range{.least = 1, .most = 128}},
            {"tokens", "tokens behind each prompt", &VerifyPlan::tokens, Range{.least = 4, .most = 256}},
            {"limit", "mean difference of log-probabilities that rounding explains; 0.3 for 4 bits",
             &VerifyPlan::limit, Range{.least = 0, .most = 2, .least_open = true}},
            {"timeout", "seconds of a request", &VerifyPlan::timeout, Range{.least = 1, .most = 600}},
            {"bf16", "compute in bfloat16, which halves the memory", &VerifyPlan::bf16},
            {"threads", "threads; 0: the processors of this process", &VerifyPlan::threads,
             Range{.least = 0, .most = kMaxThreads}},
            {"device", "cpu, or a GPU: cuda:0", &VerifyPlan::device},
            {"python", "the interpreter of your Python, which speaks HTTP", &VerifyPlan::python},
            {"json", "the result as JSON", &VerifyPlan::json}}};
    for (Option& row : out.options) row.group = "options";
    return out;
  }();
  return schema;
}

VerifyPlan parse_verify(const std::vector<std::string>& arguments) {
  Settings settings = read_first_word(verify_schema(), arguments, "--url");
  VerifyPlan plan;
  plan.notes = settings.check();
  settings.fill(plan);
  require_address(plan.url, settings.is_set("url") ? settings.where("url") : "hone verify-served");
  if (plan.adapter.empty()) {
    throw base::UserError({.where = "hone verify-served",
                           .expected = "option --adapter, the folder of the adapter",
                           .found = "it is not set",
                           .fix = "write hone verify-served " + plan.url + " --adapter FOLDER"});
  }
  require_adapter_path(plan.adapter, "adapter", settings.where("adapter"));
  take_base(settings, plan);
  find_model(plan.base, "", "base", settings.where("base"), plan.downloads);
  if (!plan.other_base.empty())
    find_model(plan.other_base, "", "other_base", settings.where("other_base"), plan.downloads);
  if (!plan.prompts.empty()) require_file(plan.prompts, "prompts", settings.where("prompts"));
  if (!plan.chat_template_path.empty())
    require_file(plan.chat_template_path, "chat_template_path", settings.where("chat_template_path"));
  return plan;
}

}  // namespace hone::config
