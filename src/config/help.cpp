#include "config/help.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/suggest.h"
#include "config/settings.h"

namespace hone::config {
namespace {

using base::Json;

std::string shown_default(const Option& option) {
  return yaml_text(option.default_value());
}

// "  --lora_r int             rank of the adapter  [16]"
std::string help_line(const Option& option) {
  const std::string head = fmt::format("--{} {}", option.name, kind_name(option.kind));
  std::string out =
      head.size() > 38 ? fmt::format("  {}\n  {:<38} ", head, "") : fmt::format("  {:<38} ", head);
  out += fmt::format("{}  [{}]\n", option.meaning, shown_default(option));
  if (option.kind == Kind::kChoice) {
    out += fmt::format("  {:<38} one of: {}\n", "", fmt::join(split_words(option.values), ", "));
  }
  return out;
}

std::string wrapped(const std::vector<std::string>& words, std::string_view indent) {
  std::string out;
  std::string line(indent);
  for (const std::string& word : words) {
    if (line.size() + word.size() + 1 > 110) {
      out += line + "\n";
      line = indent;
    }
    line += (line.size() > indent.size() ? " " : "") + word;
  }
  return out + line + "\n";
}

std::vector<std::string> names_of(const Schema& schema, OptionClass option_class) {
  std::vector<std::string> out;
  for (const Option& option : schema.options) {
    if (option.option_class == option_class) out.emplace_back(option.name);
  }
  return out;
}

std::string usage_of(const std::string& command) {
  if (command == "sft") {
    return "hone sft --config run.yaml [--option value ...]\n\n"
           "Supervised fine-tuning of a LoRA adapter. Options have TRL's names and defaults; the command "
           "line wins\n"
           "over the file. A bool may stand alone (--packing) or be negated (--no_packing).\n";
  }
  if (command == "grpo" || command == "rloo") {
    return fmt::format(
        "hone {0} --config run.yaml [--option value ...]\n\n"
        "Trains a LoRA adapter on completions that the model samples itself and rewards score ({1}). Options "
        "have\n"
        "TRL's names and defaults; the command line wins over the file. Batch sizes count completions.\n",
        command, command == "grpo" ? "GRPO" : "RLOO");
  }
  if (command == "dpo") {
    return "hone dpo --config run.yaml [--option value ...]\n\n"
           "Trains a LoRA adapter on pairs of a chosen and a rejected completion (DPO and its relatives). "
           "Options have\n"
           "TRL's names and defaults; the command line wins over the file. Batch sizes count pairs.\n";
  }
  if (command == "online-dpo") {
    return "hone online-dpo --config run.yaml [--option value ...]\n\n"
           "Trains a LoRA adapter on pairs of completions that the model samples itself; rewards or a judge "
           "say which\n"
           "is the better (Online DPO). Options have TRL's names and defaults; the command line wins over "
           "the file.\n"
           "Batch sizes count prompts.\n";
  }
  if (command == "reward") {
    return "hone reward --config run.yaml [--option value ...]\n\n"
           "Trains a reward model on pairs of a chosen and a rejected completion: a LoRA adapter with a "
           "score head,\n"
           "which grpo takes as a reward. Options have TRL's names and defaults; the command line wins over "
           "the file.\n"
           "Batch sizes count pairs.\n";
  }
  if (command == "kto") {
    return "hone kto --config run.yaml [--option value ...]\n\n"
           "Trains a LoRA adapter on completions that are marked desirable or not (KTO). Options have TRL's "
           "names and\n"
           "defaults; the command line wins over the file. Batch sizes count rows.\n";
  }
  if (command == "reward-test") {
    return "hone reward-test --reward_funcs NAME ... --dataset_name FILE.jsonl [--option value ...]\n\n"
           "Tries rewards on the answers of the data and on empty, junk, cut and repeated ones.\n";
  }
  if (command == "generate") {
    return "hone generate --model_name_or_path DIR --prompt 'TEXT' [--adapter_name_or_path DIR] [--option "
           "value ...]\n\n"
           "Completes prompts; with --adapters A B by each adapter in turn.\n";
  }
  if (command == "chat") {
    return "hone chat MODEL [--adapter_name_or_path DIR] [--option value ...]\n\n"
           "A conversation with the model, in its chat template. /reset begins anew, /exit or Ctrl-D leaves, "
           "Ctrl-C\n"
           "stops an answer. Reads a pipe too: one message a line. With --adapters NAME=DIR NAME=DIR the "
           "model is\n"
           "loaded once: /adapter NAME or /adapter none switches, /adapters lists; the conversation stays.\n";
  }
  if (command == "doctor") {
    return "hone doctor [METHOD] run.yaml [--deep] [--strict] [--json] [--fix] [-v] [--option value ...]\n\n"
           "Examines a run before its first step and trains nothing. The method is the word, or the one "
           "whose options the\n"
           "file has; options of the run may follow, as in the training commands. Ends with 0, with 1 for "
           "warnings under\n"
           "--strict, with 2 for a failure.\n";
  }
  if (command == "faults") {
    return "hone faults [CODE] [--json]\n\n"
           "The classes of fault that the doctor knows, or the page of one.\n";
  }
  if (command == "bisect") {
    return "hone bisect good.yaml bad.yaml [--steps 3] [--method sft|grpo|rloo] [--json]\n\n"
           "Finds the smallest set of options, of those in which the two differ, that makes a run fail: each "
           "try is a run of a\n"
           "few steps in a child process. Ends with 0 when it was found, 1 when it was not, or is flaky.\n";
  }
  if (command == "lr-find") {
    return "hone lr-find run.yaml [--steps 40] [--output lr-find] [--json]\n\n"
           "Proposes a learning rate: a short run in memory whose rate rises from step to step. Nothing is "
           "written to\n"
           "output_dir. Ends with 1 when no rate of the range lowers the loss.\n";
  }
  if (command == "convert") {
    return "hone convert --input model.gguf --output DIR\n\n"
           "Writes a GGUF file, or a model folder, as a Hugging Face folder.\n";
  }
  if (command == "export") {
    return "hone export --model_name_or_path DIR --output model.gguf [--adapter_name_or_path DIR] [--outtype "
           "q4_k_m]\n\n"
           "Writes a model, with an adapter merged into it, as one file for llama.cpp: weights, tokenizer "
           "and chat template.\n";
  }
  return "hone merge --adapter_name_or_path DIR --output DIR\n\n"
         "Adds a LoRA adapter to a copy of its base model, in float32. With --adapters A B [--weights 0.7 "
         "0.3]\n"
         "[--combination linear|cat|svd|ties|...] several adapters of one base become one adapter.\n";
}

Json split_json(std::string_view words) {
  Json out = Json::array();
  for (const std::string& word : split_words(words)) out.push_back(word);
  return out;
}

Json row_json(const Option& option) {
  Json row;
  row["name"] = option.name;
  row["type"] = kind_name(option.kind);
  row["default"] = option.default_value();
  row["meaning"] = option.meaning;
  row["class"] = option_class_name(option.option_class);
  if (!option.reason.empty()) row["reason"] = option.reason;
  if (option.kind == Kind::kChoice) {
    row["values"] = split_json(option.values);
    if (!option.same_values.empty()) row["same_values"] = split_json(option.same_values);
    if (!option.not_yet.empty()) row["refused_values"] = split_json(option.not_yet);
  }
  if (!option.range.describe().empty()) row["range"] = option.range.describe();
  row["from"] = option.origin;
  row["methods"] = option.methods;
  row["group"] = option.group;
  return row;
}

}  // namespace

std::string program_help() {
  return "hone: post-trains language models, with TRL's option names, on Hugging Face files\n"
         "\n"
         "usage: hone COMMAND [--option value ...]\n"
         "\n"
         "  sft          train a LoRA adapter on examples        hone sft --config run.yaml\n"
         "  grpo         train a LoRA adapter by rewards         hone grpo --config run.yaml\n"
         "  rloo         the same with RLOO                      hone rloo --config run.yaml\n"
         "  dpo          train a LoRA adapter on pairs           hone dpo --config run.yaml\n"
         "  online-dpo   the same on pairs that it samples        hone online-dpo --config run.yaml\n"
         "  kto          train a LoRA adapter on marked answers  hone kto --config run.yaml\n"
         "  reward       train a reward model on pairs           hone reward --config run.yaml\n"
         "  reward-test  try a reward on good and bad answers    hone reward-test --reward_funcs NAME "
         "--dataset_name FILE\n"
         "  generate     complete prompts                        hone generate --model_name_or_path DIR "
         "--prompt 'TEXT'\n"
         "  chat         talk with a model                       hone chat DIR\n"
         "  convert      GGUF or folder -> Hugging Face folder   hone convert --input model.gguf --output "
         "DIR\n"
         "  merge        base + adapter -> model folder          hone merge --adapter_name_or_path DIR "
         "--output DIR\n"
         "  export       model + adapter -> GGUF for llama.cpp   hone export --model_name_or_path DIR "
         "--output model.gguf\n"
         "  doctor       examine a run before its first step     hone doctor run.yaml\n"
         "  faults       what can go wrong, and what hone does   hone faults [CODE]\n"
         "  bisect       which options make a run fail           hone bisect good.yaml bad.yaml\n"
         "  lr-find      propose a learning rate                 hone lr-find run.yaml\n"
         "  explain      why a run ended                         hone explain OUTPUT_DIR\n"
         "  options      every option, and what is done with it  hone options [grpo] [--json] [NAME]\n"
         "  env          versions and the machine\n"
         "  version      the version\n"
         "  help         this text; hone COMMAND --help for a command's options\n";
}

std::string command_help(const Schema& schema) {
  std::string out = "usage: " + usage_of(schema.command);
  out += fmt::format("\n  {:<38} {}\n", "--config FILE", "a YAML file of options");
  std::string_view group;
  for (const Option& option : schema.options) {
    if (option.option_class != OptionClass::kSupported) continue;
    if (option.group != group) {
      group = option.group;
      out += fmt::format("\n{}\n", group);
    }
    out += help_line(option);
  }
  const std::vector<std::string> ignored = names_of(schema, OptionClass::kIgnored);
  if (!ignored.empty()) {
    out += "\nanswered: accepted with a note, since they have no meaning here\n" + wrapped(ignored, "  ");
  }
  const std::vector<std::string> refused = names_of(schema, OptionClass::kRefused);
  if (!refused.empty()) {
    out += "\nrefused: an error when set to anything but the default, since the result would differ\n" +
           wrapped(refused, "  ");
  }
  if (!ignored.empty()) out += fmt::format("\n`hone options NAME` says why.\n");
  return out;
}

std::string options_text(const Schema& schema) {
  std::string out;
  for (const Option& option : schema.options) {
    out += fmt::format("{:<42} {:<7} {:<10} {:<22} {}\n", option.name, kind_name(option.kind),
                       option_class_name(option.option_class), shown_default(option),
                       option.option_class == OptionClass::kSupported ? option.meaning : option.reason);
  }
  return out;
}

std::string options_json(const Schema& schema) {
  Json rows = Json::array();
  for (const Option& option : schema.options) rows.push_back(row_json(option));
  return base::dump_json(rows, 2) + "\n";
}

std::string option_text(const Schema& schema, std::string_view name) {
  const Option* option = schema.find(name);
  if (option == nullptr) throw_unknown(schema, name, "hone options", false);
  std::string out = fmt::format("{}: {}\n", option->name, option->meaning);
  const auto line = [&out](std::string_view label, const std::string& text) {
    if (!text.empty()) out += fmt::format("  {:<9} {}\n", label, text);
  };
  line("type", std::string(kind_name(option->kind)));
  line("default", shown_default(*option));
  line("values", fmt::format("{}", fmt::join(split_words(option->values), ", ")));
  line("same", fmt::format("{}", fmt::join(split_words(option->same_values), ", ")));
  line("refused", fmt::format("{}", fmt::join(split_words(option->not_yet), ", ")));
  line("range", option->range.describe());
  line("class", std::string(option_class_name(option->option_class)));
  line("why", std::string(option->reason));
  line("from", std::string(option->origin));
  return out;
}

std::string run_options(const std::vector<std::string>& arguments) {
  const Schema* schema = &sft_schema();
  bool json = false;
  std::string name;
  for (std::size_t at = 0; at < arguments.size(); ++at) {
    const std::string& word = arguments[at];
    if (word == "--json") {
      json = true;
    } else if (word == "--method" || word.starts_with("--method=")) {
      const bool joined = word != "--method";
      const std::string method = joined ? word.substr(9) : (at + 1 < arguments.size() ? arguments[++at] : "");
      schema = schema_for(method);
      if (schema == nullptr) {
        std::vector<std::string> known;
        for (const Schema* one : all_schemas()) known.push_back(one->command);
        throw base::UserError({.where = "hone options --method",
                               .expected = fmt::format("one of {}", fmt::join(known, ", ")),
                               .found = fmt::format("'{}'.{}", method, base::did_you_mean(method, known)),
                               .cause = {},
                               .fix = {}});
      }
    } else if (at == 0 && schema_for(word) != nullptr && schema->find(word) == nullptr) {
      schema = schema_for(word);  // hone options grpo
    } else if (const std::string bare = option_name(word);
               !word.starts_with("--") || schema->find(bare) != nullptr) {
      name = bare;
    } else {
      const std::vector<std::string> known = {"--json", "--method"};
      throw base::UserError({.where = "hone options",
                             .expected = "[--method NAME] [--json] [NAME]",
                             .found = fmt::format("'{}'.{}", word, base::did_you_mean(word, known)),
                             .cause = {},
                             .fix = {}});
    }
  }
  if (name.empty()) return json ? options_json(*schema) : options_text(*schema);
  if (!json) return option_text(*schema, name);
  const Option* option = schema->find(name);
  if (option == nullptr) throw_unknown(*schema, name, "hone options", false);
  return base::dump_json(row_json(*option), 2) + "\n";
}

}  // namespace hone::config
