#include "hone/data.h"

#include "data/forms/tokenize.h"
#include "hone/error.h"
#include "library/parts.h"

namespace hone {
namespace {

Example example_of(const data::RecordView& record) {
  Example out;
  const std::size_t count = record.ids.size() - 1;
  out.tokens.assign(record.ids.begin(), record.ids.end() - 1);
  for (std::size_t i = 1; i <= count; ++i) {
    const bool trains = record.supervised[i] != 0;
    out.targets.push_back(trains ? record.label(i) : record.ids[i]);
    out.weights.push_back(trains ? 1 : 0);
  }
  return out;
}

}  // namespace

std::vector<Example> read_examples(const Model& model, const std::string& path, const ReadOptions& options) {
  const Model::Parts& parts = model.parts();
  const data::Rows rows = data::read_rows(base::fs::path(path), "text");
  const data::Dataset read = data::tokenize_rows(rows, parts.text.tokenizer, parts.text.chat_template.get(),
                                                 {.max_length = options.max_length,
                                                  .completion_only_loss = {},
                                                  .assistant_only_loss = options.assistant_only_loss,
                                                  .vocab_size = model.vocabulary()});
  std::vector<Example> out;
  read.records.for_each([&out](const data::RecordView& record) {
    if (record.ids.size() > 1) out.push_back(example_of(record));
  });
  return out;
}

Example make_example(const std::vector<std::int32_t>& prompt, const std::vector<std::int32_t>& completion) {
  if (prompt.empty() || completion.empty()) {
    throw UserError({.where = "hone::make_example",
                     .expected = "a prompt and a completion of one token or more",
                     .found = prompt.empty() ? "an empty prompt" : "an empty completion",
                     .cause = "the first token of a sequence is predicted by nothing",
                     .fix = {}});
  }
  Example out;
  out.tokens = prompt;
  out.tokens.insert(out.tokens.end(), completion.begin(), completion.end() - 1);
  out.targets.assign(prompt.begin() + 1, prompt.end());
  out.targets.insert(out.targets.end(), completion.begin(), completion.end());
  out.weights.assign(prompt.size() - 1, 0);
  out.weights.insert(out.weights.end(), completion.size(), 1);
  return out;
}

}  // namespace hone
