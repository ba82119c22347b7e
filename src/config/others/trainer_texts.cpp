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
constexpr std::string_view kPhiUser = "<|user|>\n{text}<|end|>\n<|assistant|>\n";
constexpr std::string_view kGemmaUser = "<start_of_turn>user\n{text}<end_of_turn>\n<start_of_turn>model\n";

constexpr TrainerText kTrainerTexts[] = {
    // LLaMA-Factory 0.9: the line break behind the end of a turn is trained too.
    {.trainer = Trainer::kFactory,
     .name = "chatml",
     .system = kMarkSystem,
     .user = kMarkUser,
     .assistant = kMarkAnswerLine,
     .is_saved = true},
    {.trainer = Trainer::kFactory,
     .name = "qwen",
     .system = kMarkSystem,
     .user = kMarkUser,
     .assistant = kMarkAnswerLine,
     .default_system = kQwenSystem},
    {.trainer = Trainer::kFactory,
     .name = "qwen3",
     .system = kMarkSystem,
     .user = kMarkUser,
     .assistant = kMarkAnswerLine,
     .empty_think = kThink},
    {.trainer = Trainer::kFactory,
     .name = "qwen3_nothink",
     .system = kMarkSystem,
     .user = kMarkUser,
     .assistant = kMarkAnswerLine},
    {.trainer = Trainer::kFactory,
     .name = "llama3",
     .start = "{bos}",
     .system = kHeadSystem,
     .user = kHeadUser,
     .assistant = kHeadAnswer},
    {.trainer = Trainer::kFactory,
     .name = "gemma",
     .start = "{bos}",
     .system = "{text}\n\n",
     .user = kGemmaUser,
     .assistant = "{text}<end_of_turn>\n",
     .system_in_user = true},
    {.trainer = Trainer::kFactory,
     .name = "mistral",
     .start = "{bos}",
     .system = "{text}\n\n",
     .user = "[INST] {text}[/INST]",
     .assistant = " {text}{eos}",
     .system_in_user = true},
    {.trainer = Trainer::kFactory,
     .name = "phi",
     .system = "<|system|>\n{text}<|end|>\n",
     .user = kPhiUser,
     .assistant = "{text}<|end|>\n"},
    {.trainer = Trainer::kFactory,
     .name = "alpaca",
     .system = "{text}",
     .user = "### Instruction:\n{text}\n\n### Response:\n",
     .assistant = "{text}{eos}\n\n",
     .default_system = kAlpacaSystem,
     .is_saved = true},
    // ms-swift 4.6: what ends a row is trained behind every answer.
    {.trainer = Trainer::kSwift,
     .name = "chatml",
     .start = "{bos}",
     .system = kMarkSystem,
     .user = kMarkUser,
     .assistant = kMarkAnswerLine},
    {.trainer = Trainer::kSwift,
     .name = "qwen",
     .system = kMarkSystem,
     .user = kMarkUser,
     .assistant = kMarkAnswerLine,
     .default_system = "You are a helpful assistant."},
    {.trainer = Trainer::kSwift,
     .name = "qwen2_5",
     .system = kMarkSystem,
     .user = kMarkUser,
     .assistant = kMarkAnswerLine,
     .default_system = kQwenSystem},
    {.trainer = Trainer::kSwift,
     .name = "qwen3",
     .system = kMarkSystem,
     .user = kMarkUser,
     .assistant = kMarkAnswerLine,
     .empty_think = kThink,
     .think_in_prompt = true},
    {.trainer = Trainer::kSwift,
     .name = "llama3",
     .start = "<|begin_of_text|>",
     .system = kHeadSystem,
     .user = kHeadUser,
     .assistant = kHeadAnswer},
    {.trainer = Trainer::kSwift,
     .name = "gemma",
     .start = "<bos>",
     .system = "<start_of_turn>system\n{text}<end_of_turn>\n",
     .user = kGemmaUser,
     .assistant = "{text}<end_of_turn>",
     .between = "\n"},
    // axolotl: the answer's own text is found and trained, and the token behind it only where it is the tokenizer's eos_token.
    {.trainer = Trainer::kAxolotl,
     .name = "chatml",
     .system = kMarkSystem,
     .user = kMarkUser,
     .assistant = "{text}",
     .end = "<|im_end|>",
     .behind = "\n"},
    {.trainer = Trainer::kAxolotl,
     .name = "llama3",
     .start = "{bos}",
     .system = kHeadSystem,
     .user = kHeadUser,
     .assistant = "{text}",
     .end = "<|eot_id|>",
     .trims = true},
    {.trainer = Trainer::kAxolotl,
     .name = "gemma",
     .start = "{bos}",
     .user = kGemmaUser,
     .assistant = "{text}",
     .end = "<end_of_turn>",
     .behind = "\n",
     .trims = true},
    {.trainer = Trainer::kAxolotl,
     .name = "phi_3",
     .start = "{bos}",
     .system = "<|system|>\n{text}<|end|>\n",
     .user = kPhiUser,
     .assistant = "{text}",
     .end = "<|end|>",
     .behind = "\n"},
    // Unsloth's get_chat_template: the tokenizer that is saved has the text; every token of the row is trained.
    {.trainer = Trainer::kUnsloth,
     .name = "chatml",
     .system = kMarkSystem,
     .user = kMarkUser,
     .assistant = kMarkAnswerLine,
     .trains_all = true,
     .is_saved = true},
    {.trainer = Trainer::kUnsloth,
     .name = "llama-3",
     .other_name = "llama3",
     .start = "{bos}",
     .system = kHeadSystem,
     .user = kHeadUser,
     .assistant = kHeadAnswer,
     .trims = true,
     .trains_all = true,
     .is_saved = true},
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
  const auto found = std::ranges::find_if(kTrainerTexts, [&](const TrainerText& one) {
    return one.trainer == trainer && !name.empty() && (one.name == name || one.other_name == name);
  });
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
    std::size_t begin = out.text.size();
    const bool thinks =
        answer.text.find("<think>") != std::string::npos || answer.text.find("</think>") != std::string::npos;
    if (!thinks) out.text += text.empty_think;
    if (text.think_in_prompt) begin = out.text.size();
    out.text += with_texts(text.assistant, answer.text, bos, eos);
    if (text.end == eos) out.text += text.end;
    out.trained.emplace_back(begin, out.text.size());
    if (text.end != eos) out.text += text.end;
    out.text += text.behind;
    if (at + 2 < turns->size()) out.text += text.between;
  }
  if (text.trains_all) out.trained = {{0, out.text.size()}};
  return out;
}

}  // namespace hone::config
