#include "train/row_notes.h"

namespace hone::train {

void note_plain_texts(OpenedRun& run) {
  if (run.text->chat_template == nullptr) return;
  run.start.notes.emplace_back(
      "prompts and completions are texts, so the model's chat template is not used; make_conversation: true makes "
      "turns of them");
}

void note_sharegpt_roles(OpenedRun& run, std::int64_t count) {
  if (count == 0) return;
  run.start.notes.push_back(
      std::to_string(count) +
      " conversations have the roles human or gpt, which TRL does not rename and most templates "
      "pass over; row_format: sharegpt makes them user and assistant");
}

}  // namespace hone::train
