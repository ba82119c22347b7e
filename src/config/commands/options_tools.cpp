// Rows of generate, chat, serve, convert, merge, export, reward-test, doctor, faults, bisect and lr-find.
#include <algorithm>

#include "base/error.h"
#include "config/commands/bug_report_plan.h"
#include "config/commands/doctor_plan.h"
#include "config/commands/gpu_check_plan.h"
#include "config/commands/tool_plans.h"
#include "config/option_table.h"

namespace hone::config {
namespace {

using Rows = std::vector<Option>;

constexpr std::string_view kFloat16 = "NUM-03: float16 overflows; use bfloat16";
constexpr Choices<StorageType, 3> kStorageWords = {{{"bfloat16", StorageType::kBFloat16},
                                                    {"float32", StorageType::kFloat32},
                                                    {"float16", StorageType::kFloat16}}};
constexpr Choices<GgufOutType, 5> kOutTypeWords = {{{"f16", GgufOutType::kF16},
                                                    {"q8_0", GgufOutType::kQ8_0},
                                                    {"q4_k_m", GgufOutType::kQ4_K_M},
                                                    {"bf16", GgufOutType::kBF16},
                                                    {"f32", GgufOutType::kF32}}};
constexpr Choices<bool, 2> kSignWords = {{{"total", false}, {"frequency", true}}};

Schema grouped(std::string command, const std::vector<Rows>& parts) {
  Schema schema{.command = std::move(command), .options = {}};
  for (const Rows& rows : parts) {
    for (const Option& row : rows) {
      schema.options.push_back(row);
      if (row.group.empty()) schema.options.back().group = "options";
    }
  }
  return schema;
}

Rows headed(std::string_view heading, Rows rows) {
  for (Option& row : rows) row.group = heading;
  return rows;
}

// The row of the training methods, for a command that has the same option.
Option as_in_training(std::string_view name) {
  const std::vector<Option>& all = method_options();
  const auto row = std::find_if(all.begin(), all.end(), [&](const Option& one) { return one.name == name; });
  base::require(row != all.end(), "config::as_in_training", "the name of a row");
  Option own = *row;
  own.group = {}, own.origin = kHone, own.changes = {}, own.methods = kAll;
  return own;
}
template <typename Part, typename Field>
Option as_in_training(std::string_view name, Field Part::* field) {
  Option own = as_in_training(name);
  const Kind kind = own.kind;
  own.set(field);
  own.kind = kind;  // a choice stays one
  return own;
}

// Names of transformers' GenerationConfig. The defaults are hone's own: nothing is drawn at random, or
// filtered, unless it is asked for.
Rows sampling_rows(std::string_view max_new_tokens, std::string_view temperature) {
  return headed(
      "sampling",
      {{"max_new_tokens", "longest completion", &SamplingPlan::max_new_tokens, max_new_tokens, at_least(1)},
       {"min_new_tokens", "tokens before an end of sequence may be sampled", &SamplingPlan::min_new_tokens,
        at_least(0)},
       {"temperature", "0: always the most likely token", &SamplingPlan::temperature, temperature,
        at_least(0)},
       {"top_k", "sample from the k most likely tokens; 0: all", &SamplingPlan::top_k, at_least(0)},
       {"top_p", "sample from the most likely tokens with this total probability", &SamplingPlan::top_p,
        Range{.least = 0, .most = 1, .least_open = true}},
       {"min_p", "sample from tokens at least min_p times as likely as the most likely one",
        &SamplingPlan::min_p, Range{.least = 0, .most = 1}},
       {"repetition_penalty", "above 1: tokens of prompt and completion become less likely",
        &SamplingPlan::repetition_penalty, above(0)},
       {"stop_strings", "texts that end a completion, of which they are part; may be repeated",
        &SamplingPlan::stop_strings, kRepeats},
       {"seed", "seed of the sampling", &SamplingPlan::seed, at_least(0)},
       as_in_training("drafts", &SamplingPlan::drafts)});
}

// Part has `threads`. The precision follows from dtype and bf16.
template <typename Part>
Rows machine_rows(std::string_view bf16) {
  return {
      {"dtype", "dtype of the weights", Kind::kChoice, "\"float32\"",
       choice("float32 bfloat16 auto", "", "float16", kFloat16)},
      {"bf16", bf16, Kind::kBool, "null"},
      {"threads", "threads; 0: as many as the processors this process may use", &Part::threads,
       Range{.least = 0, .most = kMaxThreads}},
      as_in_training("device", &Part::device),
  };
}
constexpr std::string_view kBf16 = "bfloat16 matrix products; null: true";

// How the base's linears are held: TRL's names.
Rows quantized_rows(std::string_view four, std::string_view eight) {
  return {
      {"load_in_4bit", four, Kind::kBool, "false"},
      {"load_in_8bit", eight, Kind::kBool, "false"},
      {"bnb_4bit_quant_type", "4-bit format", Kind::kChoice, "\"nf4\"", choice("nf4 fp4")},
      {"use_bnb_nested_quant", "quantize the 4-bit scales again", Kind::kBool, "false"},
  };
}

// ... of a model with experts; no program but hone reads them, so convert does not write them.
template <typename Part>
Rows expert_rows() {
  return {{"quantize_moe_experts", "the experts of the base too", &Part::quantize_moe_experts}};
}

// What was written, beside the model with its adapter.
Rows compare_rows() {
  Rows rows = {
      {"compare", "prompts whose greedy completions are compared; 0: none", &ComparePlan::count, at_least(0)},
      {"prompts", "a .jsonl file with a prompt column; null: built-in questions", &ComparePlan::prompts},
      {"max_new_tokens", "longest completion", &ComparePlan::max_new_tokens, at_least(1)},
  };
  for (const Option& row :
       machine_rows<ComparePlan>("bfloat16 products; null: float32, so that only the file differs"))
    rows.push_back(row);
  return headed("comparison with the unmerged adapter on its base", rows);
}

constexpr std::string_view kBelow = "frozen adapters that the adapter was trained above, in their order";
constexpr std::string_view kSwitched =
    "several to switch between, one on at a time: NAME=FOLDER, or folders, named by their last part";
constexpr std::string_view kFourBits = "store the layers' linears in 4 bits, as in the adapter's training";
constexpr std::string_view kEightBits = "store them in 8 bits";
constexpr std::string_view kTrainedOnFour =
    "the adapter was trained on this base in 4 bits: merge into the dequantized weights";
constexpr std::string_view kTrainedOnEight = "the same for 8 bits";

// generate's and chat's model, and what is on it.
Rows decoding_rows(std::string_view model) {
  return {
      {"model_name_or_path", model, &DecodingPlan::model_name_or_path},
      {"adapter_name_or_path", "LoRA adapter on it", &DecodingPlan::adapter_name_or_path},
      {"base_adapters", kBelow, &DecodingPlan::base_adapters},
      {"adapters", kSwitched, Kind::kList, "null"},
      {"chat_template_kwargs", "variables for the chat template, such as {enable_thinking: false}",
       Kind::kMap, "null"},
  };
}

}  // namespace

const Schema& generate_schema() {
  static const Schema schema =
      grouped("generate",
              {decoding_rows("model folder in Hugging Face format, or a .gguf file"),
               {{"prompt", "a prompt; may be repeated", &GeneratePlan::prompts, kRepeats},
                {"prompts", "a .jsonl file with a prompt column", &GeneratePlan::prompts_file},
                {"chat", "apply the chat template; null: when the tokenizer has one", &GeneratePlan::chat},
                {"num_return_sequences", "completions of each prompt", &GeneratePlan::num_return_sequences,
                 Range{.least = 1, .most = 65535}},
                {"output", "a .jsonl file for the completions; null: the terminal", &GeneratePlan::output},
                {"logprobs", "write the log-probability of each token to output", &GeneratePlan::logprobs}},
               sampling_rows("64", "0"),
               {{"max_batch_size", "maximum number of sequences that decode together",
                 &GeneratePlan::max_batch_size, Range{.least = 1, .most = 65536}},
                {"kv_memory", "memory for keys and values, such as 2GB; null: half of what is free",
                 bytes(&GeneratePlan::kv_memory)}},
               machine_rows<DecodingPlan>(kBf16),
               quantized_rows(kFourBits, kEightBits),
               expert_rows<DecodingPlan>()});
  return schema;
}

const Schema& chat_schema() {
  static const Schema schema = grouped(
      "chat",
      {decoding_rows(
           "model folder in Hugging Face format, or a .gguf file; may be given first, without the option "
           "name"),
       {{"system_prompt", "the system's message; null: none, or the template's own",
         &ChatPlan::system_prompt},
        {"chat_template_path", "a .jinja file; null: the tokenizer's chat template",
         &ChatPlan::chat_template_path},
        as_in_training("tools", &ChatPlan::tools)},
       sampling_rows("512", "0.7"),
       machine_rows<DecodingPlan>(kBf16),
       quantized_rows(kFourBits, kEightBits),
       expert_rows<DecodingPlan>()});
  return schema;
}

const Schema& serve_schema() {
  static const Schema schema = grouped(
      "serve",
      {decoding_rows(
           "model folder in Hugging Face format, or a .gguf file; may be given first, without the option "
           "name"),
       {{"chat_template_path", "a .jinja file; null: the tokenizer's chat template",
         &ServePlan::chat_template_path},
        {"served_model_name", "the model's name in requests; null: the name that it has",
         &ServePlan::served_model_name},
        {"seed", "seed of requests that name none", &SamplingPlan::seed, at_least(0)},
        {"logprobs_mode", "log-probabilities at temperature 1 (raw), or at the request's (sampled)",
         &ServePlan::logprobs_mode, choice("raw sampled")},
        {"root", "folder of what clients of the Tinker API save, made when it is needed", &ServePlan::root}},
       headed(
           "network",
           {{"host", "address to listen on", &ServePlan::host},
            {"port", "port to listen on; 0: any that is free", &ServePlan::port,
             Range{.least = 0, .most = 65535}},
            {"api_key_env", "name of the environment variable that holds the key of requests; null: none",
             &ServePlan::api_key_env},
            {"host_names", "names that a Host header may have beside the host's", &ServePlan::host_names},
            {"max_waiting", "requests that wait for their answers; more are refused with 429",
             &ServePlan::max_waiting, at_least(1)},
            {"drain", "seconds that running requests have after SIGTERM", &ServePlan::drain, at_least(0)}}),
       headed(
           "computing",
           {{"max_batch_size", "maximum number of sequences that decode together", &ServePlan::max_batch_size,
             Range{.least = 1, .most = 65536}},
            {"prefill_tokens", "tokens of prompts that are read in one step, beside those that decode",
             &ServePlan::prefill_tokens, at_least(1)},
            {"kv_memory", "memory for keys and values, such as 2GB; null: half of what is free",
             bytes(&ServePlan::kv_memory)},
            {"adapter_memory",
             "memory for weights that clients of the Tinker API sample from, such as 1GB; the others are on disk "
             "below root; null: an eighth of what is free",
             bytes(&ServePlan::adapter_memory)},
            {"training_share", "share of the time for scores and training while requests decode",
             &ServePlan::training_share, Range{.least = 0.01, .most = 0.99}},
            {"gradient_sums",
             "order of the sums of a step of the Tinker API: by arrival, or in the bins of hone grpo, whose bits a loop "
             "then has for one more forward pass",
             &ServePlan::gradient_sums, choice("arrival bins")},
            as_in_training("drafts", &SamplingPlan::drafts)}),
       machine_rows<DecodingPlan>(kBf16),
       quantized_rows(kFourBits, kEightBits),
       expert_rows<DecodingPlan>()});
  return schema;
}

const Schema& convert_schema() {
  static const Schema schema = grouped(
      "convert",
      {{{"input", "a .gguf file, or a model folder", &ConvertPlan::input},
        {"output", "the new model folder", &ConvertPlan::output},
        {"dtype", "type of the written weights", into(&ConvertPlan::dtype, kStorageWords)}},
       quantized_rows("write the layers' linears in 4 bits per weight, as bitsandbytes and transformers do",
                      "write them in 8 bits per weight")});
  return schema;
}

const Schema& merge_schema() {
  static const Schema schema = grouped(
      "merge",
      {{{"adapter_name_or_path", "the LoRA adapter", &MergePlan::adapter_name_or_path},
        {"base_adapters", "frozen adapters that it was trained above: they are merged too",
         &MergePlan::base_adapters},
        {"model_name_or_path", "its base; null: the one that adapter_config.json names",
         &MergePlan::model_name_or_path},
        {"output", "the new model folder; with adapters the new adapter", &MergePlan::output},
        {"adapters", "two adapters or more to combine into one, instead of merging one",
         &MergePlan::adapters},
        {"weights", "a weight for each of adapters; null: 1", Kind::kList, "null"},
        {"combination",
         "PEFT's add_weighted_adapter: linear adds A and B, cat is exact, svd the best of its rank",
         &MergePlan::combination,
         choice(
             "linear cat svd ties ties_svd magnitude_prune magnitude_prune_svd", "",
             "dare_linear dare_ties dare_linear_svd dare_ties_svd",
             "it drops values at random, so that two merges give different adapters; magnitude_prune keeps "
             "the largest")},
        {"density", "the share of values that ties and magnitude_prune keep, the largest", Kind::kFloat,
         "null", Range{.least = 0, .most = 1, .least_open = true}},
        {"majority_sign_method", "how ties elects a sign: by the sum of the values, or by their number",
         into(&MergePlan::elects_by_frequency, kSignWords)},
        {"svd_rank", "rank of the result of the svd forms; null: the largest rank of adapters",
         &MergePlan::svd_rank, "null", at_least(1)}},
       quantized_rows(kTrainedOnFour, kTrainedOnEight),
       expert_rows<MergePlan>(),
       compare_rows()});
  return schema;
}

const Schema& export_schema() {
  static const Schema schema = grouped(
      "export",
      {{{"model_name_or_path", "model folder, or a .gguf file; null: the adapter's base",
         &ExportPlan::model_name_or_path},
        {"adapter_name_or_path", "LoRA adapter to merge into it", &ExportPlan::adapter_name_or_path},
        {"base_adapters", "frozen adapters that it was trained above: merged too",
         &ExportPlan::base_adapters},
        {"output", "the new .gguf file", &ExportPlan::output},
        {"to", "the format: llama.cpp's", Kind::kChoice, "\"gguf\"", choice("gguf")},
        {"adapter_only", "write only the adapter, as a LoRA file that llama.cpp loads onto the base",
         &ExportPlan::adapter_only},
        {"outtype", "type of the matrices, by llama.cpp's names", into(&ExportPlan::outtype, kOutTypeWords)}},
       quantized_rows(kTrainedOnFour, kTrainedOnEight),
       expert_rows<ExportPlan>(),
       compare_rows()});
  return schema;
}

const Schema& reward_test_schema() {
  static const Schema schema =
      grouped("reward-test",
              {{as_in_training("reward_model_name_or_path"),
                as_in_training("reward_funcs"),
                as_in_training("python", &RewardTestPlan::python),
                as_in_training("reward_workers", &RewardTestPlan::reward_workers),
                as_in_training("reward_timeout", &RewardTestPlan::reward_timeout),
                {"dataset_name", "a .jsonl file with a prompt column, or a folder that holds train.jsonl",
                 &RewardTestPlan::dataset_name},
                {"max_completion_length", "where completions are cut", &RewardTestPlan::max_completion_length,
                 Range{.least = 1, .most = 1e9}},
                {"limit", "rows of the data to try", &RewardTestPlan::limit, at_least(1)},
                as_in_training("device", &RewardTestPlan::device)}});
  return schema;
}

namespace {
// of another trainer's file
constexpr std::string_view
    kAs = "whose names the file has, as of hone check; null: recognized by them",
    kData = "another trainer's file: rows in the place of those that it names",
    kTable = "LLaMA-Factory's table of data sets; null: dataset_info.json of its dataset_dir",
    kRun =
        "a script: execute it until its train(), and examine the very options, rows and rewards that it made",
    kOnline = "with run: the script has the network", kLimit = "with run: seconds until train()",
    kKeep = "with run: a new folder in which its options and rows stay";
}  // namespace

const Schema& doctor_schema() {
  static const Schema schema = grouped(
      "doctor",
      {{{"deep", "sample, overfit a batch, save and load, resume; the expected duration is printed first",
         &DoctorPlan::deep},
        {"strict", "exit code 1 for warnings", &DoctorPlan::strict},
        {"json", "one JSON object", &DoctorPlan::json},
        {"fix", "write repairs that lose nothing into the YAML file", &DoctorPlan::fix},
        {"verbose", "every verdict, and what cannot happen by construction; also -v", &DoctorPlan::verbose},
        {"as", kAs, &DoctorPlan::as},
        {"data", kData, &DoctorPlan::data},
        {"dataset_info", kTable, &DoctorPlan::dataset_info},
        {"run", kRun, &DoctorPlan::run},
        {"online", kOnline, &DoctorPlan::online},
        {"run_limit", kLimit, &DoctorPlan::run_limit, kWhole, above(0)},
        {"keep", kKeep, &DoctorPlan::keep}}});
  return schema;
}

const Schema& plan_schema() {
  constexpr double kMostCores = 4096, kMostMicroseconds = 1e7, kMostGigabits = 1e5;
  static const Schema schema = grouped(
      "plan",
      {{{"nproc", "ranks on each host: 4, or several numbers: 1,2,4 or 1,2,...,256", &RanksPlan::nproc},
        {"hosts", "hosts of the run, in the same forms", &RanksPlan::hosts},
        {"memory", "memory of a host: 64GB, 900MiB or bytes; null: what is free here",
         bytes(&RanksPlan::memory)},
        {"cores", "processors of a host; 0: as many as here", &RanksPlan::cores,
         Range{.least = 0, .most = kMostCores}},
        {"latency", "microseconds of a message between hosts", &RanksPlan::latency, kWhole,
         Range{.least = 0, .most = kMostMicroseconds}},
        {"bandwidth", "Gbit/s between a host and the others", &RanksPlan::bandwidth, kWhole,
         Range{.least = 0, .most = kMostGigabits, .least_open = true}},
        {"step_seconds", "seconds of a step of one process here; 0: measured by a short pass",
         &RanksPlan::step_seconds, kWhole, count_from_zero()},
        {"measured", "folder of an earlier run of one process, whose metrics.jsonl says the seconds",
         &RanksPlan::measured},
        {"keep_batch", "divide gradient_accumulation_steps by the ranks, so that a step keeps its rows",
         &RanksPlan::keep_batch},
        {"json", "one JSON object", &DoctorPlan::json},
        {"as", kAs, &DoctorPlan::as},
        {"data", kData, &DoctorPlan::data},
        {"dataset_info", kTable, &DoctorPlan::dataset_info},
        {"run", kRun, &DoctorPlan::run},
        {"online", kOnline, &DoctorPlan::online},
        {"run_limit", kLimit, &DoctorPlan::run_limit, kWhole, above(0)},
        {"keep", kKeep, &DoctorPlan::keep}}});
  return schema;
}

const Schema& bisect_schema() {
  static const Schema schema = grouped(
      "bisect",
      {{{"good", "the configuration that works; may be given first, without the option name",
         &BisectPlan::good},
        {"bad", "the one that fails; may be given second, without the option name", &BisectPlan::bad},
        {"method", "the command that they are for; null: the one that has their options", Kind::kString,
         "null"},
        {"steps", "steps of each try", &BisectPlan::steps, Range{.least = 1, .most = kMaxSteps}},
        {"timeout", "seconds after which a try counts as failed", &BisectPlan::timeout, kWhole, above(0)},
        {"json", "one JSON object instead of text", &BisectPlan::json}}});
  return schema;
}

const Schema& faults_schema() {
  static const Schema schema = grouped(
      "faults",
      {{{"code", "a class, such as GRAD-02; may be given first, without the option name", &FaultsPlan::code},
        {"json", "JSON", &FaultsPlan::json},
        {"markdown", "docs/faults.md", &FaultsPlan::markdown},
        {"shown", "with markdown: a file of test results", &FaultsPlan::shown}}});
  return schema;
}

const Schema& gpu_check_schema() {
  static const Schema schema = grouped(
      "gpu-check",
      {{{"device", "the GPU: cuda (the first) or cuda:N", &GpuCheckPlan::device},
        {"output", "a .jsonl file, to which the report is appended", &GpuCheckPlan::output},
        {"stages", "only these stages, by the names that a whole check prints", &GpuCheckPlan::stages}}});
  return schema;
}

const Schema& bug_report_schema() {
  static const Schema schema = grouped(
      "bug-report",
      {{{"run", "the output_dir of a run; may be given first, without the option name", &BugReportPlan::run},
        {"output", "the file that is written", &BugReportPlan::output}}});
  return schema;
}

const Schema& lr_find_schema() {
  static const Schema schema = grouped(
      "lr-find", {{{"run", "the configuration of the run; may be given first, without the option name",
                    &LrFindPlan::run},
                   {"steps", "steps of the range test", &LrFindPlan::steps, Range{.least = 10, .most = 1000}},
                   {"lowest", "learning rate of the first step", &LrFindPlan::lowest, above(0)},
                   {"highest", "of the last one", &LrFindPlan::highest, above(0)},
                   {"output", "file name of the curve; .json and .svg are appended", &LrFindPlan::output},
                   {"json", "print the JSON instead of text", &LrFindPlan::json}}});
  return schema;
}

}  // namespace hone::config
