#include "train/notes/row_exam.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "adapters/saved_vocabulary.h"
#include "data/forms/prompts.h"
#include "model/files/weight_source.h"
#include "train/methods/methods.h"
#include "train/notes/row_notes.h"
#include "train/opening/prompt_form.h"
#include "train/opening/record_opening.h"
#include "train/opening/reward_opening.h"

namespace hone::train {
namespace {

// The base as a run that begins opens it; nothing where that fails, which the run says: here the rows are
// looked at.
std::unique_ptr<model::WeightSource> base_of(const config::Plan& plan) {
  std::vector<base::fs::path> adapters(plan.base_adapters.begin(), plan.base_adapters.end());
  if (plan.use_peft && !plan.adapter_name_or_path.empty()) adapters.emplace_back(plan.adapter_name_or_path);
  try {
    return adapters::open_base(plan.model_name_or_path, adapters);
  } catch (const base::UserError&) {
    return nullptr;
  }
}

// 0: not known, and no id is checked.
std::int64_t vocab_size(const config::Plan& plan, const OpenedText& text) {
  const auto source = base_of(plan);
  if (!source) return 0;
  const std::int64_t own = source->config().vocab_size;
  return text.added.empty() ? own : std::max(own, text.tokenizer.vocab_size());  // the run adds rows
}

class Examiner {
 public:
  Examiner(const config::Plan& plan, const OpenedText& text)
      : plan_(plan),
        text_(text),
        source_(data::RowSource(rows_for(text.tokenizer, plan, plan.train_rows)), kExaminedRows),
        vocab_size_(vocab_size(plan, text)) {}

  RowExam run() {
    try {
      read();
    } catch (const base::UserError& error) {
      const bool of_all = error.text().where == source_.path().string();
      if (!of_all || out_.rows < kExaminedRows) out_.refused = error;
    }
    return std::move(out_);
  }

 private:
  void read() {
    const RecordOpening* const records = method_opening(plan_.method).records;
    if (records == nullptr) return read_prompts();
    const std::unique_ptr<text::ChatTemplate> training = open_training_template(plan_, text_, out_.notes);
    const RecordMaking making = records->making(row_text(plan_, text_, training.get(), vocab_size_));
    const std::unique_ptr<data::RecordPass> pass = making.begin(source_, making.block);
    out_.notes.clear();  // the page names the template
    while (pass->next([](const data::Record&) {})) {
      out_.rows = file_rows(pass->facts());
      out_.notes = record_notes(plan_, pass->seen(), pass->facts());
    }
  }

  void read_prompts() {
    data::SeenRows seen;
    const std::vector<data::PromptRow> rows = data::read_prompt_rows(source_, prompt_form(plan_), &seen);
    out_.rows = static_cast<std::int64_t>(rows.size());
    out_.notes = notes_of_rows(plan_, seen, prompt_reading(rows.front().prompt.is_array()));
    (void)data::tokenize_prompts(rows, text_.tokenizer, text_.chat_template.get(), template_kwargs(plan_),
                                 vocab_size_);
  }

  const config::Plan& plan_;
  const OpenedText& text_;
  data::RowSource source_;
  std::int64_t vocab_size_;
  RowExam out_;
};

}  // namespace

base::fs::path tokenizer_of_run(const config::Plan& plan) {
  const auto source = base_of(plan);
  return source ? source->tokenizer_path() : base::fs::path();
}

RowExam examine_rows(const config::Plan& plan, const OpenedText& text) {
  return Examiner(plan, text).run();
}

}  // namespace hone::train
