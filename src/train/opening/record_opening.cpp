#include "train/opening/record_opening.h"

#include <algorithm>

#include "data/forms/token_cache.h"
#include "data/records/preview.h"
#include "data/records/shuffle.h"
#include "train/notes/eval_overlap.h"
#include "train/notes/row_notes.h"
#include "train/opening/read_eval.h"

namespace hone::train {

namespace {

// A text as it is trained; of two sequences the first: its prompt, then what is to become more likely.
std::vector<ColoredPiece> example_of(const data::RecordView& record, const text::Tokenizer& tokenizer) {
  std::vector<ColoredPiece> out;
  if (record.sequences.empty()) {
    for (const auto& piece : data::preview(record, tokenizer))
      out.push_back({.text = piece.text, .supervised = piece.supervised});
    return out;
  }
  const data::ScoredSequence first = data::sides_of(record).first;
  out.push_back({.text = tokenizer.decode(first.context, false), .supervised = false});
  out.push_back({.text = tokenizer.decode(first.scored, false), .supervised = true});
  return out;
}

// Rows that are all there. As TRL, they are shuffled before packing, so that chunks of 1,000 are not the
// file's, and the rows that come of it again.
void shuffle_and_pack(RecordData& data, const config::Plan& plan, const RecordMaking& making) {
  const auto shuffle = [&plan](auto& what) {
    if (!plan.shuffle_dataset) return;
    what.reorder(
        data::dataset_shuffle(static_cast<std::int64_t>(what.size()), static_cast<std::uint64_t>(plan.seed)));
  };
  if (making.pack) {
    shuffle(data.records);
    data::RecordBlock packed = making.pack(std::move(data.records));
    data.records = std::move(packed.records);
    data.rows = std::move(packed.rows);
  }
  shuffle(data.rows);
}

// The first facts of the start page. A row is a record, or what packing made of several.
void describe(OpenedRun& run, const data::RowCounts& counts, const RecordData& train, const RecordData* eval,
              bool packs) {
  StartFacts& start = run.start;
  start.streamed = run.plan.dataset_streaming;
  start.train_rows = packs ? static_cast<std::int64_t>(train.rows.size()) : counts.kept;
  start.mean_length = static_cast<double>(counts.tokens) / static_cast<double>(counts.kept);
  start.conversational = counts.conversational;
  if (eval != nullptr) start.overlap = eval_overlap(train, *eval, run.plan.dataset_test);
}

}  // namespace

std::unique_ptr<OpenedRun> open_records(const config::Plan& asked, const RecordOpening& opening) {
  auto run = open_source(asked);
  const config::Plan& plan = run->plan;
  run->text->training = open_training_template(plan, *run->text, run->start.notes);
  const RowText text =
      row_text(plan, *run->text, run->text->training.get(), run->source->config().vocab_size);
  const RecordMaking making = opening.making(text);
  RecordInput input = training_records(*run, making);
  run->start.example = example_of(input.data.records[0], text.tokenizer);
  note_records(*run, input.seen, input.facts);
  if (!plan.dataset_streaming) shuffle_and_pack(input.data, plan, making);
  const RecordMaking eval_making = opening.eval_making ? opening.eval_making(text, input.facts) : making;
  std::optional<RecordData> eval = read_eval(plan, [&](const base::RowFiles& files) {
    RecordData set = read_records(*run, files, eval_making).data;
    shuffle_and_pack(set, plan, eval_making);
    return set;
  });
  const data::RowCounts counts = data::counts_of(input.facts);
  Attached attached = attach(*run, input.file, counts.longest, opening.attach);
  const RecordData& train = run->data.emplace<RecordData>(std::move(input.data));
  const OpenedRecords records = {.facts = input.facts,
                                 .train = train,
                                 .eval = eval ? &*eval : nullptr,
                                 .program_bytes = attached.program_bytes};
  describe(*run, counts, train, records.eval, making.pack != nullptr);
  plan_run_memory(*run, opening.begin(*run, records));
  run->method = opening.method({.plan = plan,
                                .model = *run->model,
                                .train = train,
                                .eval = std::move(eval),
                                .form = pass_form(run->start.memory),
                                .reference = std::move(attached.reference),
                                .resumed_at = run->resume_state->state.step});
  end_start_page(*run);
  return run;
}

// ---- records of two sequences

RecordMaking pair_making(const RowText& text, const std::string& what, data::ImplicitPrompts prompts,
                         data::PairMaker::MakePairs make, data::PairOptions options) {
  options.max_length = text.plan.max_length;
  options.vocab_size = text.vocab_size;
  options.threads = static_cast<int>(text.plan.threads);
  return {.options = data::token_options(what, options),
          .begin = passes_of(data::preference_rows(prompts),
                             data::PairMaker(make, text.tokenizer, text.chat_template, options))};
}

LongestBatch longest_records(const RecordData& data, std::int64_t batch_size,
                             const std::function<RowSize(const data::RecordView&)>& size_of) {
  if (data.stream != nullptr && data.longest_row > 0) {
    const std::int64_t tokens = 2 * batch_size * data.longest_row;
    return {.tokens = tokens, .scored = tokens, .segment = data.longest_row};
  }
  std::vector<RowSize> sizes;
  data.records.for_each([&](const data::RecordView& record) { sizes.push_back(size_of(record)); });
  return largest_batch(sizes, batch_size);
}

MemoryInputs pair_memory(const OpenedRun& run, const OpenedRecords& records, std::int64_t longest_prompt,
                         HeadTokens head_tokens) {
  const config::Plan& plan = run.plan;
  const bool share = may_share(plan), scores = run.model->score_head().defined();
  const auto size_of = [&](const data::RecordView& record) {
    const data::SequencePair pair = data::sides_of(record);
    const auto prompt = head_tokens == HeadTokens::kCompletions ? 0 : std::ssize(pair.first.context) - 1;
    const auto scored = std::ssize(pair.first.scored) + std::ssize(pair.second.scored);
    return RowSize{.tokens = pair.tokens(share),
                   .scored = scores ? 2 : prompt + scored,
                   .segment = std::max(pair.first.tokens(), pair.second.tokens())};
  };
  const auto longest = [&](const RecordData& data, std::int64_t batch_size) {
    LongestBatch out = longest_records(data, batch_size, size_of);
    if (scores) out.scored = std::min(out.scored, 2 * batch_size);
    return out;
  };
  MemoryInputs out = memory_inputs(
      *run.model, plan, records.program_bytes, longest(records.train, plan.per_device_train_batch_size),
      records.eval == nullptr ? LongestBatch() : longest(*records.eval, plan.per_device_eval_batch_size));
  if (scores) out.adapter_parameters += run.model->config().hidden_size;
  if (plan.dataset_streaming && plan.max_length > 0) longest_prompt = plan.max_length;
  if (share)
    count_shared_prompts(out, *run.model, longest_prompt, scores ? out.train.tokens : out.train.scored);
  return out;
}

}  // namespace hone::train
