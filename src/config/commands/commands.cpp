#include "config/commands/commands.h"

#include <algorithm>

#include "config/commands/bug_report_plan.h"
#include "config/commands/doctor_plan.h"
#include "config/commands/eval_plan.h"
#include "config/commands/explain_plan.h"
#include "config/commands/gpu_check_plan.h"
#include "config/commands/launch_plan.h"
#include "config/commands/report_plans.h"
#include "config/commands/send_plans.h"
#include "config/commands/tool_plans.h"
#include "config/commands/verify_plan.h"
#include "config/parse.h"
#include "config/write_plan.h"

namespace hone::config {

namespace {

using Words = std::vector<std::string>;

template <Method Which>
const Schema& run_schema() {
  return method_schema(Which);
}

template <Method Which>
void check_run(const Words& words) {
  parse_run(Which, words);
}

// clang-format off
// In the order of `hone help`.
constexpr CommandRow kCommands[] = {
    {.name = "sft",
     .what = "train a LoRA adapter on examples",
     .example = "hone sft --config run.yaml",
     .usage = "hone sft --config run.yaml [--option value ...]\n"
           "\n"
           "Supervised fine-tuning of a LoRA adapter. Options have TRL's names and defaults; the command line overrides\n"
           "the file. A bool may be given without a value (--packing) or negated (--no_packing).\n",
     .schema = &run_schema<Method::kSft>,
     .check = &check_run<Method::kSft>},
    {.name = "grpo",
     .what = "train a LoRA adapter by rewards",
     .example = "hone grpo --config run.yaml",
     .usage = "hone grpo --config run.yaml [--option value ...]\n"
           "\n"
           "Trains a LoRA adapter on completions that the model samples itself and rewards score (GRPO). Options have\n"
           "TRL's names and defaults; the command line overrides the file. Batch sizes count completions.\n",
     .schema = &run_schema<Method::kGrpo>,
     .check = &check_run<Method::kGrpo>},
    {.name = "rloo",
     .what = "the same with RLOO",
     .example = "hone rloo --config run.yaml",
     .usage = "hone rloo --config run.yaml [--option value ...]\n"
           "\n"
           "Trains a LoRA adapter on completions that the model samples itself and rewards score (RLOO). Options have\n"
           "TRL's names and defaults; the command line overrides the file. Batch sizes count completions.\n",
     .schema = &run_schema<Method::kRloo>,
     .check = &check_run<Method::kRloo>},
    {.name = "dpo",
     .what = "train a LoRA adapter on pairs",
     .example = "hone dpo --config run.yaml",
     .usage = "hone dpo --config run.yaml [--option value ...]\n"
           "\n"
           "Trains a LoRA adapter on pairs of a chosen and a rejected completion (DPO and its relatives). Options have\n"
           "TRL's names and defaults; the command line overrides the file. Batch sizes count pairs.\n",
     .schema = &run_schema<Method::kDpo>,
     .check = &check_run<Method::kDpo>},
    {.name = "online-dpo",
     .what = "the same on pairs that it samples",
     .example = "hone online-dpo --config run.yaml",
     .usage = "hone online-dpo --config run.yaml [--option value ...]\n"
           "\n"
           "Trains a LoRA adapter on pairs of completions that the model samples itself; rewards or a judge decide which\n"
           "is better (Online DPO). Options have TRL's names and defaults; the command line overrides the file.\n"
           "Batch sizes count prompts.\n",
     .schema = &run_schema<Method::kOnlineDpo>,
     .check = &check_run<Method::kOnlineDpo>},
    {.name = "distill",
     .what = "train a LoRA adapter towards a teacher",
     .example = "hone distill --config run.yaml",
     .usage = "hone distill --config run.yaml [--option value ...]\n"
           "\n"
           "Trains a LoRA adapter on completions that the model samples itself, towards the distributions of a larger\n"
           "model, the teacher (on-policy distillation). Options have TRL's names and defaults; the command line\n"
           "overrides the file. Batch sizes count prompts.\n",
     .schema = &run_schema<Method::kDistill>,
     .check = &check_run<Method::kDistill>},
    {.name = "reward",
     .what = "train a reward model on pairs",
     .example = "hone reward --config run.yaml",
     .usage = "hone reward --config run.yaml [--option value ...]\n"
           "\n"
           "Trains a reward model on pairs of a chosen and a rejected completion: a LoRA adapter with a score head,\n"
           "which grpo can use as a reward. Options have TRL's names and defaults; the command line overrides the file.\n"
           "Batch sizes count pairs.\n",
     .schema = &run_schema<Method::kReward>,
     .check = &check_run<Method::kReward>},
    {.name = "kto",
     .what = "train a LoRA adapter on marked answers",
     .example = "hone kto --config run.yaml",
     .usage = "hone kto --config run.yaml [--option value ...]\n"
           "\n"
           "Trains a LoRA adapter on completions that are marked desirable or not (KTO). Options have TRL's names and\n"
           "defaults; the command line overrides the file. Batch sizes count rows.\n",
     .schema = &run_schema<Method::kKto>,
     .check = &check_run<Method::kKto>},
    {.name = "cpo",
     .what = "train a LoRA adapter on pairs, no reference",
     .example = "hone cpo --config run.yaml",
     .usage = "hone cpo --config run.yaml [--option value ...]\n"
           "\n"
           "Trains a LoRA adapter on pairs of a chosen and a rejected completion, without a reference (CPO, SimPO,\n"
           "AlphaPO). Options have TRL's names and defaults; the command line overrides the file. Batch sizes count\n"
           "pairs.\n",
     .schema = &run_schema<Method::kCpo>,
     .check = &check_run<Method::kCpo>},
    {.name = "orpo",
     .what = "the same with ORPO",
     .example = "hone orpo --config run.yaml",
     .usage = "hone orpo --config run.yaml [--option value ...]\n"
           "\n"
           "Trains a LoRA adapter on pairs of a chosen and a rejected completion, without a reference (ORPO). Options\n"
           "have TRL's names and defaults; the command line overrides the file. Batch sizes count pairs.\n",
     .schema = &run_schema<Method::kOrpo>,
     .check = &check_run<Method::kOrpo>},
    {.name = "reward-test",
     .what = "test a reward on good and bad answers",
     .example = "hone reward-test --reward_funcs NAME --dataset_name FILE",
     .usage = "hone reward-test --reward_funcs NAME ... --dataset_name FILE.jsonl [--option value ...]\n"
           "\n"
           "Tests rewards on the data's answers and on empty, junk, cut and repeated ones.\n",
     .schema = &reward_test_schema,
     .check = [](const Words& words) { parse_reward_test(words); }},
    {.name = "generate",
     .what = "complete prompts",
     .example = "hone generate --model_name_or_path DIR --prompt 'TEXT'",
     .usage = "hone generate --model_name_or_path DIR --prompt 'TEXT' [--adapter_name_or_path DIR] [--option value ...]\n"
           "\n"
           "Completes prompts; with --adapters A B by each of them, in one batch.\n",
     .schema = &generate_schema,
     .check = [](const Words& words) { parse_generate(words); }},
    {.name = "chat",
     .what = "chat with a model",
     .example = "hone chat DIR",
     .usage = "hone chat MODEL [--adapter_name_or_path DIR] [--option value ...]\n"
           "\n"
           "A conversation with the model, in its chat template. /help lists the commands, /reset starts again, /exit or\n"
           "Ctrl-D leaves, Ctrl-C stops an answer. MODEL may be the folder of an adapter, whose base is then found.\n"
           " Reads a pipe too: one message per line. With --adapters NAME=DIR NAME=DIR the model is\n"
           "loaded once: /adapter NAME or /adapter none switches, /adapters lists; the conversation stays.\n"
           "With --tools tools.py:search,calc the model may call these functions; calls (->) and results (<-) are shown.\n",
     .schema = &chat_schema,
     .check = [](const Words& words) { parse_chat(words); }},
    {.name = "serve",
     .what = "serve a model over HTTP",
     .example = "hone serve DIR",
     .usage = "hone serve MODEL [--adapters NAME=DIR ...] [--port 8000] [--option value ...]\n"
           "\n"
           "Answers OpenAI's API over HTTP: completions, chat, log-probabilities of prompts, streams. Each adapter is a model\n"
           "of its own name. Answers the Tinker API too: clients train LoRAs on the model and sample from them.\n"
           "SIGTERM or Ctrl-C lets running requests end.\n",
     .schema = &serve_schema,
     .check = [](const Words& words) { parse_serve(words); }},
    {.name = "eval",
     .what = "evaluate a model with lm-eval",
     .example = "hone eval DIR --tasks arc_easy",
     .usage = "hone eval MODEL --tasks arc_easy,gsm8k [--adapter_name_or_path DIR] [--option value ...]\n"
           "\n"
           "Serves the model on a free port of this machine, asks it with the harness lm-eval of your Python, and prints and\n"
           "files the table. MODEL may be the folder of an adapter: where it is a run's, the table is on the run's page too.\n",
     .schema = &eval_schema,
     .check = [](const Words& words) { parse_eval(words); }},
    {.name = "verify-served",
     .what = "does a server apply an adapter",
     .example = "hone verify-served http://127.0.0.1:8000 --adapter DIR",
     .usage = "hone verify-served URL --adapter DIR [--base MODEL] [--option value ...]\n"
           "\n"
           "Whether a server applies an adapter: what its kind does with each tensor, and then, by log-probabilities,\n"
           "which weights it answers with: the adapter's, the base's, a half of the adapter, another scale, another\n"
           "base, or none of these; and whether it renders conversations as the tokenizer does. Asks hone serve, vLLM,\n"
           "SGLang, llama-server and Ollama. The exit code is 0 where the adapter is applied, else 2.\n",
     .schema = &verify_schema,
     .check = [](const Words& words) { parse_verify(words); }},
    {.name = "convert",
     .what = "GGUF or folder -> Hugging Face folder",
     .example = "hone convert --input model.gguf --output DIR",
     .usage = "hone convert --input model.gguf --output DIR\n"
           "\n"
           "Writes a GGUF file, or a model folder, as a Hugging Face folder.\n",
     .schema = &convert_schema,
     .check = [](const Words& words) { parse_convert(words); }},
    {.name = "merge",
     .what = "base + adapter -> model folder",
     .example = "hone merge --adapter_name_or_path DIR --output DIR",
     .usage = "hone merge --adapter_name_or_path DIR --output DIR\n"
           "\n"
           "Adds a LoRA adapter to a copy of its base model, in float32. With --adapters A B [--weights 0.7 0.3]\n"
           "[--combination linear|cat|svd|ties|...] several adapters of one base become one adapter.\n",
     .schema = &merge_schema,
     .check = [](const Words& words) { parse_merge(words); }},
    {.name = "export",
     .what = "model + adapter -> GGUF for llama.cpp",
     .example = "hone export --model_name_or_path DIR --output model.gguf",
     .usage = "hone export --model_name_or_path DIR --output model.gguf [--adapter_name_or_path DIR] [--outtype q4_k_m]\n"
           "\n"
           "Writes a model, with an adapter merged into it, as one file for llama.cpp: weights, tokenizer and chat template.\n",
     .schema = &export_schema,
     .check = [](const Words& words) { parse_export(words); }},
    {.name = "report",
     .what = "the page of a run, or of several",
     .example = "hone report RUN",
     .usage = "hone report RUN [RUN ...] [--output FILE] [--serve [--port N]]\n"
           "\n"
           "Writes report.html from the files of a run: curves, completions, the doctor's verdicts, the options. A run\n"
           "writes it itself while it goes on; this makes it again, or puts several runs beside each other. With --serve\n"
           "it is shown at an address of this machine instead, which only who knows it can open, until Ctrl-C.\n",
     .schema = &report_schema,
     .check = [](const Words& words) { parse_report(words); }},
    {.name = "compare",
     .what = "how two runs differ",
     .example = "hone compare RUN RUN",
     .usage = "hone compare RUN RUN\n"
           "\n"
           "The options of two runs that differ, and their results beside each other.\n",
     .schema = &compare_schema,
     .check = [](const Words& words) { parse_compare(words); }},
    {.name = "log",
     .what = "send a run's metrics to a logger",
     .example = "hone log RUN --to wandb",
     .usage = "hone log RUN --to wandb|trackio|mlflow|comet_ml|swanlab [--option value ...]\n"
           "\n"
           "Sends the metrics of a run, and its completions, to a logger, with the package and the account of your Python.\n"
           "What the logger has already had of this run is not sent again. Options that are not set are those of the run.\n",
     .schema = &log_schema,
     .check = [](const Words& words) { parse_log(words); }},
    {.name = "push",
     .what = "upload an adapter to the hub",
     .example = "hone push RUN --hub_model_id owner/name",
     .usage = "hone push RUN [--hub_model_id owner/name] [--option value ...]\n"
           "\n"
           "Uploads the adapter of a run, its tokenizer and a model card, with the huggingface_hub and the token of your\n"
           "Python. Options that are not set are those of the run. A README.md that is there is uploaded as it is.\n",
     .schema = &push_schema,
     .check = [](const Words& words) { parse_push(words); }},
    {.name = "launch",
     .what = "train in several processes",
     .example = "hone launch --nproc 2 -- sft --config run.yaml",
     .usage = "hone launch --nproc N [--option value ...] -- COMMAND [--option value ...]\n"
           "\n"
           "Trains in N processes of this host (ranks), which share each step. torchrun, srun and mpirun start hone's\n"
           "commands as well. Prints what rank 0 prints, and the errors of others. The exit code is 0, that of the first\n"
           "rank that ended with an error, or 75 when a rank was lost: starting the run again may help.\n",
     .schema = &launch_schema,
     .check = [](const Words& words) { parse_launch(words); }},
    {.name = "check",
     .what = "what every line of a file becomes",
     .example = "hone check run.yaml",
     .usage = "hone check [METHOD] run.yaml [--fix] [--option value ...]\n"
           "hone check FILE [--as TRAINER] [--data ROWS] [--dataset_info FILE] [--json] [--write run.yaml] [-- SCRIPT ARGUMENTS]\n"
           "hone check SCRIPT.py --run [--online] [--run_limit SECONDS] [--keep FOLDER] [-- SCRIPT ARGUMENTS]\n"
           "\n"
           "Tells what each option of a file becomes (kept, renamed, ignored with the reason, refused with what to do),\n"
           "all mistakes at once, and the first row as the model reads it. Loads no weights and writes nothing but, with\n"
           "--fix, the file. The exit code is 0, or 2 when the run would be refused.\n"
           "FILE may be another trainer's: YAML of axolotl, LLaMA-Factory and torchtune, args.json and scripts of\n"
           "ms-swift, Python of TRL, Unsloth and transformers. A script is read; --run executes it until its train().\n",
     .schema = &check_schema,
     .check = [](const Words& words) { parse_check(words); }},
    {.name = "doctor",
     .what = "examine a run before its first step",
     .example = "hone doctor run.yaml",
     .usage = "hone doctor [METHOD] run.yaml [--deep] [--strict] [--json] [--fix] [-v] [--option value ...]\n"
           "hone doctor SCRIPT.py --run [--online] [--run_limit SECONDS] [--keep FOLDER] [-- SCRIPT ARGUMENTS]\n"
           "\n"
           "Examines a run before its first step and trains nothing. The method is given by name, or inferred from the\n"
           "options in the file; options of the run may follow, as in the training commands. The exit code is 0, 1 for\n"
           "warnings with --strict, or 2 for a failure. The file may be another trainer's, as of hone check.\n"
           "With --run a script of TRL, Unsloth or transformers is executed until its train(), in a child with limits.\n",
     .schema = &doctor_schema,
     .check = [](const Words& words) { parse_doctor(words); }},
    {.name = "plan",
     .what = "memory and time on more processes or hosts",
     .example = "hone plan run.yaml --nproc 1,2,4",
     .usage = "hone plan [METHOD] run.yaml [--nproc N] [--hosts H] [--memory SIZE] [--json] [--option value ...]\n"
           "\n"
           "What a run would need and take on other numbers of processes (ranks): memory of each and of a host, bytes that\n"
           "they send, seconds of a step, efficiency; where it stops to fit, and the cheapest setting that does. Reads the\n"
           "model and the data here, measures a short pass and this host's loopback, and trains nothing. The file may be\n"
           "another trainer's, as of hone check; with --run a script is executed until its train().\n",
     .schema = &plan_schema,
     .check = [](const Words& words) { parse_ranks_plan(words); }},
    {.name = "faults",
     .what = "what can go wrong, and what hone does",
     .example = "hone faults [CODE]",
     .usage = "hone faults [CODE] [--json]\n"
           "\n"
           "The classes of fault that the doctor knows, or the page of one class.\n",
     .schema = &faults_schema,
     .check = [](const Words& words) { parse_faults(words); }},
    {.name = "bisect",
     .what = "which options make a run fail",
     .example = "hone bisect good.yaml bad.yaml",
     .usage = "hone bisect good.yaml bad.yaml [--steps 3] [--method sft|grpo|rloo] [--json]\n"
           "\n"
           "Finds the smallest set of options, among those that differ, that makes a run fail. Each try is a run of a few\n"
           "steps in a child process. The exit code is 0 when it was found, 1 when it was not or is flaky.\n",
     .schema = &bisect_schema,
     .check = [](const Words& words) { parse_bisect(words); }},
    {.name = "lr-find",
     .what = "propose a learning rate",
     .example = "hone lr-find run.yaml",
     .usage = "hone lr-find run.yaml [--steps 40] [--output lr-find] [--json]\n"
           "\n"
           "Proposes a learning rate: a short run in memory whose rate rises from step to step. Nothing is written to\n"
           "output_dir. The exit code is 1 when no rate of the range lowers the loss.\n",
     .schema = &lr_find_schema,
     .check = [](const Words& words) { parse_lr_find(words); }},
    {.name = "explain",
     .what = "why a run ended",
     .example = "hone explain OUTPUT_DIR",
     .usage = "hone explain REPORT|FOLDER\n"
           "\n"
           "Why a run ended early: hone-crash-PID.json, hone-fault.json, or a run's output_dir. What was found,\n"
           "where, what it is not, the last healthy checkpoint, and how to continue.\n",
     .check = [](const Words& words) { parse_explain(words); }},
    {.name = "bug-report",
     .what = "the machine and a run in one file, for a report",
     .example = "hone bug-report OUTPUT_DIR",
     .usage = "hone bug-report [OUTPUT_DIR] [--output hone-bug-report.md]\n"
           "\n"
           "Writes one file for a report to hone's authors: `hone env`, why the run ended, the options that are not the\n"
           "defaults, what the doctor said, and the last lines of metrics.jsonl. It has no rows of the data, no\n"
           "completions, no secrets of addresses and environment, and ~ for the home folder. Nothing is sent.\n",
     .schema = &bug_report_schema,
     .check = [](const Words& words) { parse_bug_report(words); }},
    {.name = "options",
     .what = "every option and its class",
     .example = "hone options [grpo] [--json] [NAME]"},
    {.name = "env",
     .what = "versions and the machine"},
    {.name = "gpu-check",
     .what = "try a GPU, and write a report",
     .example = "hone gpu-check",
     .usage = "hone gpu-check [--device cuda:N] [--output FILE] [--stages NAME ...]\n"
           "\n"
           "Compares what a GPU of NVIDIA computes with the CPU: each operator, products and attention of real models,\n"
           "steps of a tiny model, sampling, checkpoints, memory; then measures. Each stage runs in a process of its own\n"
           "and is a line of the report as soon as it ends. Needs no model and no network, and 5 to 15 minutes. The exit\n"
           "code is 0, or 1 when a stage failed. docs/limits.md says where to send the report.\n",
     .schema = &gpu_check_schema,
     .check = [](const Words& words) { parse_gpu_check(words); }},
    {.name = "version",
     .what = "the version"},
    {.name = "help",
     .what = "this text; hone COMMAND --help for a command's options"},
    {.name = "probe-hardware"},  // of hone's own children
    {.name = "gpu-check-stage"},
};
// clang-format on

}  // namespace

std::span<const CommandRow> command_rows() {
  return kCommands;
}

const CommandRow* find_command(std::string_view name) {
  const auto* const row = std::find_if(std::begin(kCommands), std::end(kCommands),
                                       [&](const CommandRow& one) { return one.name == name; });
  return row == std::end(kCommands) ? nullptr : row;
}

const std::vector<const Schema*>& all_schemas() {
  static const std::vector<const Schema*> all = [] {
    std::vector<const Schema*> out;
    for (const CommandRow& row : kCommands) {
      if (row.schema != nullptr) out.push_back(&row.schema());
    }
    return out;
  }();
  return all;
}

const Schema* schema_for(std::string_view command) {
  const CommandRow* const row = find_command(command);
  return row == nullptr || row->schema == nullptr ? nullptr : &row->schema();
}

}  // namespace hone::config
