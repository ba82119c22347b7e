#include "report/model_card.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/strings/lines.h"

namespace hone::report {

using base::Json;

namespace {

// A method's name, and the paper that it is from.
struct MethodPaper {
  std::string_view method, name, title, arxiv, bibtex;
  bool scores = false;  // a model that gives a number
};

constexpr std::array<MethodPaper, 10> kPapers = {{
    {.method = "sft", .name = "SFT"},
    {.method = "reward", .name = "reward modeling", .scores = true},
    {.method = "grpo",
     .name = "GRPO",
     .title = "DeepSeekMath: Pushing the Limits of Mathematical Reasoning in Open Language Models",
     .arxiv = "2402.03300",
     .bibtex =
         "author = {Zhihong Shao and Peiyi Wang and Qihao Zhu and Runxin Xu and Junxiao Song and Mingchuan Zhang and "
         "Y. K. Li and Y. Wu and Daya Guo},\n  year = {2024}"},
    {.method = "rloo",
     .name = "RLOO",
     .title =
         "Back to Basics: Revisiting REINFORCE-Style Optimization for Learning from Human Feedback in LLMs",
     .arxiv = "2402.14740",
     .bibtex =
         "author = {Arash Ahmadian and Chris Cremer and Matthias Gall{\\'{e}} and Marzieh Fadaee and Julia Kreutzer and "
         "Olivier Pietquin and Ahmet {\\\"{U}}st{\\\"{u}}n and Sara Hooker},\n  year = {2024}"},
    {.method = "dpo",
     .name = "DPO",
     .title = "Direct Preference Optimization: Your Language Model is Secretly a Reward Model",
     .arxiv = "2305.18290",
     .bibtex =
         "author = {Rafael Rafailov and Archit Sharma and Eric Mitchell and Christopher D. Manning and Stefano Ermon and "
         "Chelsea Finn},\n  year = {2023}"},
    {.method = "online-dpo",
     .name = "Online DPO",
     .title = "Direct Language Model Alignment from Online AI Feedback",
     .arxiv = "2402.04792",
     .bibtex =
         "author = {Shangmin Guo and Biao Zhang and Tianlin Liu and Tianqi Liu and Misha Khalman and Felipe Llinares and "
         "Alexandre Rame and Thomas Mesnard and Yao Zhao and Bilal Piot and Johan Ferret and Mathieu Blondel},\n  "
         "year = {2024}"},
    {.method = "distill",
     .name = "on-policy distillation",
     .title = "On-Policy Distillation of Language Models: Learning from Self-Generated Mistakes",
     .arxiv = "2306.13649",
     .bibtex =
         "author = {Rishabh Agarwal and Nino Vieillard and Yongchao Zhou and Piotr Stanczyk and Sabela Ramos Garea and "
         "Matthieu Geist and Olivier Bachem},\n  year = {2024}"},
    {.method = "kto",
     .name = "KTO",
     .title = "KTO: Model Alignment as Prospect Theoretic Optimization",
     .arxiv = "2402.01306",
     .bibtex =
         "author = {Kawin Ethayarajh and Winnie Xu and Niklas Muennighoff and Dan Jurafsky and Douwe Kiela},\n  "
         "year = {2024}"},
    {.method = "cpo",
     .name = "CPO",
     .title =
         "Contrastive Preference Optimization: Pushing the Boundaries of LLM Performance in Machine Translation",
     .arxiv = "2401.08417",
     .bibtex =
         "author = {Haoran Xu and Amr Sharaf and Yunmo Chen and Weiting Tan and Lingfeng Shen and Benjamin Van Durme and "
         "Kenton Murray and Young Jin Kim},\n  year = {2024}"},
    {.method = "orpo",
     .name = "ORPO",
     .title = "ORPO: Monolithic Preference Optimization without Reference Model",
     .arxiv = "2403.07691",
     .bibtex = "author = {Jiwoo Hong and Noah Lee and James Thorne},\n  year = {2024}"},
}};

const MethodPaper* paper_of(std::string_view method) {
  const auto* const found = std::ranges::find(kPapers, method, &MethodPaper::method);
  return found == kPapers.end() ? nullptr : found;
}

bool scores(const ModelCard& card) {
  const MethodPaper* const paper = paper_of(card.method);
  return paper != nullptr && paper->scores;
}

// The options that a reader of the card wants first.
constexpr std::array<const char*, 16> kShownOptions = {"loss_type",
                                                       "learning_rate",
                                                       "lr_scheduler_type",
                                                       "warmup_steps",
                                                       "num_train_epochs",
                                                       "max_steps",
                                                       "per_device_train_batch_size",
                                                       "gradient_accumulation_steps",
                                                       "max_length",
                                                       "max_completion_length",
                                                       "num_generations",
                                                       "beta",
                                                       "lora_r",
                                                       "lora_alpha",
                                                       "optim",
                                                       "seed"};

std::string short_name(const std::string& name) {
  return name.substr(name.rfind('/') + 1);
}

std::string metadata(const ModelCard& card) {
  std::string out = "---\n";
  if (!card.base_model.empty()) out += fmt::format("base_model: {}\n", base::dump_json(card.base_model));
  if (!card.dataset.empty()) out += fmt::format("datasets:\n- {}\n", base::dump_json(card.dataset));
  out += card.full ? "library_name: transformers\n" : "library_name: peft\n";
  out += fmt::format("model_name: {}\n", base::dump_json(short_name(card.name)));
  out += fmt::format("pipeline_tag: {}\n", scores(card) ? "text-classification" : "text-generation");
  out += card.full ? "tags:\n- hone\n" : "tags:\n- hone\n- lora\n- transformers\n";
  if (!card.method.empty()) out += fmt::format("- {}\n", card.method);
  if (!card.base_model.empty()) {
    const char* const relation = card.full ? "base_model:finetune:" : "base_model:adapter:";
    out += fmt::format("- {}\n", base::dump_json(relation + card.base_model));
  }
  return out + "---\n\n";
}

std::string link_to(const std::string& id, std::string_view kind) {
  return fmt::format("[{}](https://huggingface.co/{}{})", id, kind, id);
}

std::string quick_start(const ModelCard& card) {
  const std::string id = base::dump_json(card.name);
  if (scores(card)) {
    const char* const imports =
        card.full ? "from transformers import AutoModelForSequenceClassification, AutoTokenizer\n\n"
                  : "from peft import AutoPeftModelForSequenceClassification\nfrom transformers import "
                    "AutoTokenizer\n\n";
    const char* const model =
        card.full ? "AutoModelForSequenceClassification" : "AutoPeftModelForSequenceClassification";
    return fmt::format(
        "```python\n{1}model = {2}.from_pretrained({0}, num_labels=1)\n"
        "tokenizer = AutoTokenizer.from_pretrained({0})\n"
        "score = model(**tokenizer(\"The capital of France is Paris.\", return_tensors=\"pt\")).logits[0, 0].item()\n```\n",
        id, imports, model);
  }
  const char* const prompt = card.chat
                                 ? "[{\"role\": \"user\", \"content\": \"What is the capital of France?\"}]"
                                 : "\"The capital of France is\"";
  return fmt::format(
      "```python\nfrom transformers import pipeline\n\ngenerator = pipeline(\"text-generation\", model={})\n"
      "print(generator({}, max_new_tokens=128, return_full_text=False)[0][\"generated_text\"])\n```\n",
      id, prompt);
}

std::string table(const char* head, const Json& values) {
  if (values.empty()) return "";
  std::string out = fmt::format("\n| {} | |\n| --- | ---: |\n", head);
  for (const auto& [name, value] : values.items()) {
    const std::string text = value.is_number_float() ? fmt::format("{:.5g}", value.get<double>())
                             : value.is_string()     ? value.get<std::string>()
                                                     : base::dump_json(value);
    out += fmt::format("| `{}` | {} |\n", name, text);
  }
  return out;
}

std::string citation(const ModelCard& card, const MethodPaper& paper) {
  return fmt::format(
      "\n## Citation\n\n```bibtex\n@misc{{{}{},\n  title = {{{{{}}}}},\n  {},\n  eprint = {{{}}},\n"
      "  archivePrefix = {{arXiv}}\n}}\n```\n",
      card.method, paper.arxiv.substr(0, 4), paper.title, paper.bibtex, paper.arxiv);
}

}  // namespace

std::string model_card(const ModelCard& card) {
  const MethodPaper* const paper = paper_of(card.method);
  std::string out = metadata(card);
  out +=
      fmt::format("# {}\n\n{}", short_name(card.name), card.full ? "A fine-tuned version" : "A LoRA adapter");
  if (!card.base_model.empty()) out += " of " + link_to(card.base_model, "");
  if (!card.dataset.empty()) out += ", trained on " + link_to(card.dataset, "datasets/");
  out += ". It was trained with hone.\n\n## Quick start\n\n" + quick_start(card);
  out += "\n## Training\n";
  if (paper != nullptr && !paper->title.empty()) {
    out += fmt::format("\nMethod: {}, introduced in [{}](https://huggingface.co/papers/{}).\n", paper->name,
                       paper->title, paper->arxiv);
  } else if (paper != nullptr) {
    out += fmt::format("\nMethod: {}.\n", paper->name);
  }
  Json options = Json::object();
  for (const char* name : kShownOptions) {
    const auto found = card.options.find(name);
    if (found == card.options.end() || found->is_null()) continue;
    if (std::string_view(name) == "max_steps" && *found == -1) continue;
    if (card.full && std::string_view(name).starts_with("lora_")) continue;
    options[name] = *found;
  }
  out += table("option", options) + table("metric at the end", card.logged);
  if (paper != nullptr && !paper->title.empty()) out += citation(card, *paper);
  return out;
}

Json last_metrics(std::string_view metrics) {
  Json out = Json::object();
  for (const std::string& line : base::lines_of(metrics)) {
    const Json record = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object()) continue;
    for (const auto& [name, value] : record.items()) {
      const bool told = name.ends_with("_runtime") || name.ends_with("_per_second") ||
                        name.ends_with("num_tokens") || name == "total_flos" || name == "learning_rate";
      if (value.is_number() && !told) out[name] = value;
    }
  }
  return out;
}

}  // namespace hone::report
