#include "train/row_exam.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "adapters/saved_vocabulary.h"
#include "data/cpo_pairs.h"
#include "data/pair_maker.h"
#include "data/prompts.h"
#include "data/reward_pairs.h"
#include "data/tokenize.h"
#include "data/unpaired.h"
#include "model/files/weight_source.h"
#include "train/opening.h"
#include "train/prompt_form.h"
#include "train/reward_opening.h"
#include "train/row_notes.h"

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
    using enum config::Method;
    if (plan_.method == kSft) return read_examples();
    if (plan_.method == kKto) return read_unpaired();
    if (config::samples(plan_.method)) return read_prompts();
    read_pairs();
  }

  const text::ChatTemplate* chat_template() const { return text_.chat_template.get(); }

  void take(const data::SeenRows& seen, const RowReading& reading) {
    for (std::string& note : notes_of_rows(plan_, seen, reading)) out_.notes.push_back(std::move(note));
  }

  void read_examples() {
    const std::unique_ptr<text::ChatTemplate> training = open_training_template(plan_, text_, out_.notes);
    out_.notes.clear();  // the page names the template
    data::BlockTokenizer tokenizing(text_.tokenizer, training ? training.get() : chat_template(),
                                    example_options(plan_, vocab_size_, plan_.packing));
    const data::Rows rows = data::read_rows(source_, plan_.dataset_text_field);
    out_.rows = static_cast<std::int64_t>(rows.rows.size());
    tokenizing.add(rows, [](const data::Record&) {});
    for (std::string& note : example_notes(plan_, rows.names.seen(), tokenizing.facts()))
      out_.notes.push_back(std::move(note));
    if (out_.rows < kExaminedRows) (void)tokenizing.finish();
  }

  void read_pairs() {
    using enum config::Method;
    const bool reward = plan_.method == kReward;
    const data::PreferenceRows rows = data::read_all(
        source_,
        data::preference_rows(reward ? data::ImplicitPrompts::kKeep : data::ImplicitPrompts::kExtractMixed));
    const auto make = reward                 ? &data::make_reward_pairs
                      : plan_.method == kDpo ? &data::make_dpo_pairs
                                             : &data::make_cpo_pairs;
    examine(rows, data::PairMaker(make, text_.tokenizer, chat_template(),
                                  {.max_length = plan_.max_length,
                                   .max_prompt_length = plan_.max_prompt_length,
                                   .keep_end = plan_.truncation_mode == "keep_end",
                                   .vocab_size = vocab_size_}));
  }

  void read_unpaired() {
    examine(data::read_all(source_, data::UnpairedRows()),
            data::UnpairedMaker(text_.tokenizer, chat_template(),
                                {.max_length = plan_.max_length,
                                 .max_prompt_length = plan_.max_prompt_length,
                                 .batch_size = plan_.per_device_train_batch_size,
                                 .vocab_size = vocab_size_}));
  }

  template <typename RowsOfForm, typename Maker>
  void examine(const RowsOfForm& rows, Maker maker) {
    out_.rows = static_cast<std::int64_t>(rows.rows.size());
    if constexpr (requires { rows.paired; }) out_.rows /= rows.paired ? 2 : 1;
    take(rows.names.seen(), pair_reading(plan_.method, rows.names.seen(), rows.conversational));
    maker.add(rows, [](const data::Record&) {});
    (void)maker.finish([](const data::Record&) {});
  }

  void read_prompts() {
    data::SeenRows seen;
    const std::vector<data::PromptRow> rows = data::read_prompt_rows(source_, prompt_form(plan_), &seen);
    out_.rows = static_cast<std::int64_t>(rows.size());
    take(seen, prompt_reading(rows.front().prompt.is_array()));
    (void)data::tokenize_prompts(rows, text_.tokenizer, chat_template(), template_kwargs(plan_), vocab_size_);
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
