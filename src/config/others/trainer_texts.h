// The texts that trainers write around the turns of a conversation, as data: what stands before and behind each turn, and
// what of it is trained. They are facts of the trainers, described in pieces; a name that is not here is not compared.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/others/other_run.h"

namespace hone::config {

// {text} is a turn's content; {bos} and {eos} are the tokenizer's tokens.
struct TrainerText {
  Trainer trainer = Trainer::kAxolotl;
  std::string_view name;                 // as the trainer's file has it
  std::string_view other_name = {};      // the same text under another name
  std::string_view start = {};           // before the first turn
  std::string_view system = {};          // empty: rows with a system turn are not compared
  std::string_view user;                 // with what opens the answer
  std::string_view assistant;            // all of it is trained
  std::string_view end = {};             // behind it, trained where it is the tokenizer's end of a text
  std::string_view behind = {};          // behind the answer, not trained
  std::string_view between = {};         // behind each answer but the last, not trained
  std::string_view default_system = {};  // of rows without a system turn
  std::string_view empty_think = {};     // before an answer without a think block; it is trained
  bool think_in_prompt = false;          // the empty block is not trained
  bool system_in_user = false;           // the system's text stands inside the first user's turn
  bool trims = false;                    // blanks around each content are cut off
  bool trains_all = false;               // every token of the row is trained
  bool is_saved = false;                 // the trainer saves this text as the tokenizer's template
};

// Null: no text of that name is known.
const TrainerText* trainer_text(Trainer trainer, std::string_view name);
std::span<const TrainerText> trainer_texts();

struct SpelledTurns {
  std::string text;
  std::vector<std::pair<std::size_t, std::size_t>> trained;  // byte ranges, one behind the other
};

// `messages`: [{role, content}], a system turn at most, then user and assistant in turn, an answer last. Nothing: they
// are otherwise, or hold what is no text.
std::optional<SpelledTurns> spell_turns(const TrainerText& text, const base::Json& messages,
                                        const std::string& bos, const std::string& eos);

}  // namespace hone::config
