#include "config/others/trainer_texts.h"

#include <algorithm>

namespace hone::config {

namespace {

constexpr std::string_view kThink = "<think>\n\n</think>\n\n";
constexpr std::string_view kQwenSystem =
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";
constexpr std::string_view kAlpacaSystem =
    "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n";

// ChatML, and Llama 3's headers.
constexpr std::string_view kMarkSystem = "<|im_start|>system\n{text}<|im_end|>\n";
constexpr std::string_view kMarkUser = "<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n";
constexpr std::string_view kMarkAnswer = "{text}<|im_end|>";
constexpr std::string_view kMarkAnswerLine = "{text}<|im_end|>\n";
constexpr std::string_view kHeadSystem = "<|start_header_id|>system<|end_header_id|>\n\n{text}<|eot_id|>";
constexpr std::string_view kHeadUser =
    "<|start_header_id|>user<|end_header_id|>\n\n{text}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n";
constexpr std::string_view kHeadAnswer = "{text}<|eot_id|>";
constexpr std::string_view kGemmaUser = "<start_of_turn>user\n{text}<end_of_turn>\n<start_of_turn>model\n";

constexpr TrainerText kTrainerTexts[] = {
    // LLaMA-Factory 0.9: the line break behind the end of a turn is trained too.
    {Trainer::kFactory,
     "chatml",
     "",
     kMarkSystem,
     kMarkUser,
     kMarkAnswerLine,
     "",
     {},
     {},
     false,
     false,
     false,
     true},
    {Trainer::kFactory, "qwen", "", kMarkSystem, kMarkUser, kMarkAnswerLine, "", kQwenSystem},
    {Trainer::kFactory, "qwen3", "", kMarkSystem, kMarkUser, kMarkAnswerLine, "", {}, kThink},
    {Trainer::kFactory, "qwen3_nothink", "", kMarkSystem, kMarkUser, kMarkAnswerLine, ""},
    {Trainer::kFactory, "llama3", "{bos}", kHeadSystem, kHeadUser, kHeadAnswer, ""},
    {Trainer::kFactory, "gemma", "{bos}", "", kGemmaUser, "{text}<end_of_turn>\n", ""},
    {Trainer::kFactory,
     "mistral",
     "{bos}",
     "{text}\n\n",
     "[INST] {text}[/INST]",
     " {text}{eos}",
     "",
     {},
     {},
     true},
    {Trainer::kFactory, "phi", "", "<|system|>\n{text}<|end|>\n", "<|user|>\n{text}<|end|>\n<|assistant|>\n",
     "{text}<|end|>\n", ""},
    {Trainer::kFactory,
     "alpaca",
     "",
     "{text}",
     "### Instruction:\n{text}\n\n### Response:\n",
     "{text}{eos}\n\n",
     "",
     kAlpacaSystem,
     {},
     false,
     false,
     false,
     true},
    // axolotl 0.21: train_on_eos is turn, so that the token behind the answer is trained, and a line break is not.
    {Trainer::kAxolotl, "chatml", "", kMarkSystem, kMarkUser, kMarkAnswer, "\n"},
    {Trainer::kAxolotl, "llama3", "{bos}", kHeadSystem, kHeadUser, kHeadAnswer, "", {}, {}, false, true},
    {Trainer::kAxolotl, "gemma", "{bos}", "", kGemmaUser, "{text}<end_of_turn>", "\n", {}, {}, false, true},
    {Trainer::kAxolotl, "phi_3", "{bos}", "<|system|>\n{text}<|end|>\n",
     "<|user|>\n{text}<|end|>\n<|assistant|>\n", "{text}<|end|>", "\n"},
    // Unsloth's get_chat_template: the tokenizer that is saved has the text; every token of the row is trained.
    {Trainer::kUnsloth,
     "chatml",
     "",
     kMarkSystem,
     kMarkUser,
     kMarkAnswerLine,
     "",
     {},
     {},
     false,
     false,
     true,
     true},
    {Trainer::kUnsloth,
     "llama-3",
     "{bos}",
     kHeadSystem,
     kHeadUser,
     kHeadAnswer,
     "",
     {},
     {},
     false,
     true,
     true,
     true},
    {Trainer::kUnsloth,
     "llama3",
     "{bos}",
     kHeadSystem,
     kHeadUser,
     kHeadAnswer,
     "",
     {},
     {},
     false,
     true,
     true,
     true},
};

std::string with_texts(std::string_view piece, const std::string& text, const std::string& bos,
                       const std::string& eos) {
  std::string out;
  while (!piece.empty()) {
    const auto take = [&](std::string_view mark, const std::string& value) {
      if (!piece.starts_with(mark)) return false;
      out += value;
      piece.remove_prefix(mark.size());
      return true;
    };
    if (take("{text}", text) || take("{bos}", bos) || take("{eos}", eos)) continue;
    out += piece.front();
    piece.remove_prefix(1);
  }
  return out;
}

struct Turn {
  std::string role, text;
};

std::optional<std::vector<Turn>> turns_of(const base::Json& messages, bool trims) {
  std::vector<Turn> out;
  if (!messages.is_array()) return std::nullopt;
  for (const base::Json& one : messages) {
    if (!one.is_object() || one.contains("tool_calls")) return std::nullopt;
    const auto role = one.find("role"), content = one.find("content");
    if (role == one.end() || content == one.end() || !role->is_string() || !content->is_string())
      return std::nullopt;
    std::string text = content->get<std::string>();
    if (trims) {
      const std::size_t begin = text.find_first_not_of(" \t\r\n"), end = text.find_last_not_of(" \t\r\n");
      text = begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
    }
    out.push_back({role->get<std::string>(), std::move(text)});
  }
  return out;
}

}  // namespace

std::span<const TrainerText> trainer_texts() {
  return kTrainerTexts;
}

const TrainerText* trainer_text(Trainer trainer, std::string_view name) {
  const auto found = std::ranges::find_if(
      kTrainerTexts, [&](const TrainerText& one) { return one.trainer == trainer && one.name == name; });
  return found == std::end(kTrainerTexts) ? nullptr : found;
}

std::optional<SpelledTurns> spell_turns(const TrainerText& text, const base::Json& messages,
                                        const std::string& bos, const std::string& eos) {
  const auto turns = turns_of(messages, text.trims);
  if (!turns || turns->empty()) return std::nullopt;
  SpelledTurns out{.text = with_texts(text.start, "", bos, eos), .trained = {}};
  std::size_t at = 0;
  std::string system(text.default_system);
  const bool own = turns->front().role == "system";
  if (own) {
    if (text.system.empty()) return std::nullopt;
    if (!turns->front().text.empty()) system = turns->front().text;
    at = 1;
  }
  std::string inside;
  if (!system.empty()) (text.system_in_user ? inside : out.text) += with_texts(text.system, system, bos, eos);
  if ((turns->size() - at) % 2 != 0 || turns->size() == at) return std::nullopt;
  for (; at < turns->size(); at += 2) {
    const Turn &user = (*turns)[at], &answer = (*turns)[at + 1];
    if (user.role != "user" || answer.role != "assistant") return std::nullopt;
    out.text += with_texts(text.user, inside + user.text, bos, eos);
    inside.clear();
    const std::size_t begin = out.text.size();
    const bool thinks = answer.text.find("<think>") != std::string::npos;
    if (!thinks) out.text += text.empty_think;
    out.text += with_texts(text.assistant, answer.text, bos, eos);
    out.trained.emplace_back(begin, out.text.size());
    out.text += text.behind;
  }
  if (text.trains_all) out.trained = {{0, out.text.size()}};
  return out;
}

}  // namespace hone::config
