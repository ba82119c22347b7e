// DATA-09, DATA-10 and GRAD-06: the rows of the embedding, and of the head, that the data use.
#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "base/hash.h"
#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"
#include "model/config/families.h"
#include "train/opening/run_view.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

constexpr double kUntrained = 1e-16;  // Unsloth's test
constexpr std::int64_t kRowsAtOnce = 8192;
constexpr double kOften = 1e-4;  // of all tokens
constexpr std::size_t kNamed = 5;

// How often each id stands in the data, [vocabulary]; ids at which sampling stops count too.
std::vector<std::int64_t> uses_of(const train::RunView& run) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(run.model->config().vocab_size), 0);
  const auto add = [&out](std::span<const std::int32_t> ids) {
    for (const std::int32_t id : ids) {
      if (id >= 0 && static_cast<std::size_t>(id) < out.size()) out[static_cast<std::size_t>(id)] += 1;
    }
  };
  if (const auto* given = std::get_if<train::RecordData>(&run.data))
    given->records.for_each([&add](const data::RecordView& record) { add(record.ids); });
  if (const auto* sampled = std::get_if<train::SampledData>(&run.data)) {
    const train::PolicyPrompts* const prompts = &sampled->train_prompts;
    for (const data::TokenizedPrompt& prompt : prompts->tokens) add(prompt.ids);
    if (!prompts->tokens.empty()) {
      std::vector<std::int32_t> stops;
      for (const std::int64_t id : run.model->config().eos_token_ids)
        stops.push_back(static_cast<std::int32_t>(id));
      if (const auto eos = run.text->tokenizer.eos_id()) stops.push_back(static_cast<std::int32_t>(*eos));
      add(stops);
    }
  }
  return out;
}

// Of `ids`, those whose row of the embedding, or of a head of its own, is all zeros, and is not trained.
std::vector<std::int64_t> untrained(const model::CausalLm& model, const std::vector<std::int64_t>& ids) {
  std::vector<std::int64_t> out;
  // A reward model has no use for the head, and rows that are trained are no longer what they were.
  const bool own_head = !model.config().head_is_embedding();
  const model::TrainedParts& parts = model.trained_parts();
  if (parts.embedding.defined() && (!own_head || parts.head.defined())) return out;
  for (std::size_t begin = 0; begin < ids.size(); begin += kRowsAtOnce) {
    const std::size_t end = std::min(ids.size(), begin + kRowsAtOnce);
    const std::vector<std::int64_t> some(ids.begin() + static_cast<std::ptrdiff_t>(begin),
                                         ids.begin() + static_cast<std::ptrdiff_t>(end));
    at::Tensor largest = model.embed(some).abs().amax(1).to(at::kFloat).cpu();
    const auto& trained = model.token_rows().ids();
    if (own_head) {
      const at::Tensor rows = at::tensor(some, at::kLong).to(model.final_norm().device());
      const at::Tensor head = model.head().rows(rows).abs().amax(1).to(at::kFloat).cpu();
      largest = at::minimum(largest, head);
    }
    for (std::size_t i = 0; i < some.size(); ++i) {
      const bool is_trained = std::find(trained.begin(), trained.end(), some[i]) != trained.end();
      if (is_trained) largest[static_cast<std::int64_t>(i)] = 1;
    }
    largest = largest.contiguous();
    const float* const values = largest.const_data_ptr<float>();
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (values[i] <= kUntrained) out.push_back(some[i]);
    }
  }
  return out;
}

// Of `ids`, those whose row of the embedding is another one's bit for bit, and is not trained: no training
// leaves two so.
std::vector<std::int64_t> copied(const model::CausalLm& model, const std::vector<std::int64_t>& ids) {
  std::map<std::uint64_t, std::vector<std::int64_t>> by_row;
  if (model.trained_parts().embedding.defined()) return {};
  const auto& trained = model.token_rows().ids();
  for (std::size_t begin = 0; begin < ids.size(); begin += kRowsAtOnce) {
    const std::size_t end = std::min(ids.size(), begin + kRowsAtOnce);
    const std::vector<std::int64_t> some(ids.begin() + static_cast<std::ptrdiff_t>(begin),
                                         ids.begin() + static_cast<std::ptrdiff_t>(end));
    const at::Tensor rows = model.embed(some).to(at::kFloat).cpu().contiguous();
    const auto width = static_cast<std::size_t>(rows.size(1));
    const std::span<const float> values(rows.const_data_ptr<float>(), some.size() * width);
    for (std::size_t i = 0; i < some.size(); ++i) {
      const std::span<const float> row = values.subspan(i * width, width);
      const bool is_trained = std::find(trained.begin(), trained.end(), some[i]) != trained.end();
      const bool is_zero = std::all_of(row.begin(), row.end(), [](float one) { return one == 0; });
      if (!is_trained && !is_zero) by_row[base::hash64(std::as_bytes(row))].push_back(some[i]);
    }
  }
  std::vector<std::int64_t> out;
  for (const auto& [hash, same] : by_row) {
    if (same.size() > 1) out.insert(out.end(), same.begin(), same.end());
  }
  return out;
}

// DATA-09 of tokens that were added to a base and given one row: the mean, or another token's.
Verdict judge_copied(const train::RunView& run, const std::vector<std::int64_t>& uses,
                     const std::vector<std::int64_t>& found) {
  Verdict out{.code = "DATA-09", .level = Level::kWarn};
  out.what = format::counted(static_cast<std::int64_t>(found.size()), "token") +
             " of the data have the same embedding as another one, bit for bit";
  for (std::size_t i = 0; i < std::min(found.size(), kNamed); ++i) {
    out.evidence += (i == 0 ? "" : ", ") + format::token(run.text->tokenizer, found[i]) + " " +
                    format::counted(uses[static_cast<std::size_t>(found[i])], "time");
  }
  if (found.size() > kNamed) out.evidence += ", ...";
  out.cause =
      "suspected: tokens that were added to the base (by a mean of all rows, or a copy of one), and never trained";
  out.fix = "trainable_token_indices: [" + std::to_string(found[0]) + ", ...] trains these rows";
  out.cost = "the model cannot tell these tokens apart, nor learn to";
  return out;
}

Verdict check_untrained(const train::RunView& run, const std::vector<std::int64_t>& uses) {
  std::vector<std::int64_t> ids;
  std::int64_t total = 0;
  for (std::size_t id = 0; id < uses.size(); ++id) {
    if (uses[id] > 0) ids.push_back(static_cast<std::int64_t>(id));
    total += uses[id];
  }
  const std::vector<std::int64_t> found = untrained(*run.model, ids);
  Verdict out{.code = "DATA-09"};
  out.what = format::counted(static_cast<std::int64_t>(ids.size()), "token") +
             " of the vocabulary in the data, all with a trained embedding";
  if (found.empty()) {
    const std::vector<std::int64_t> same = copied(*run.model, ids);
    return same.empty() ? out : judge_copied(run, uses, same);
  }
  std::int64_t times = 0;
  bool stops = false;
  const auto& eos = run.model->config().eos_token_ids;
  for (const std::int64_t id : found) {
    times += uses[static_cast<std::size_t>(id)];
    stops = stops || std::find(eos.begin(), eos.end(), id) != eos.end() || run.text->tokenizer.eos_id() == id;
  }
  const bool often = static_cast<double>(times) > kOften * static_cast<double>(total);
  out.level = often || stops ? Level::kFail : Level::kWarn;
  out.what = format::counted(static_cast<std::int64_t>(found.size()), "token") + " of the data " +
             (found.size() == 1 ? "has" : "have") + " an untrained embedding";
  for (std::size_t i = 0; i < std::min(found.size(), kNamed); ++i) {
    out.evidence += (i == 0 ? "" : ", ") + format::token(run.text->tokenizer, found[i]) + " " +
                    format::counted(uses[static_cast<std::size_t>(found[i])], "time");
  }
  out.evidence +=
      found.size() > kNamed ? ", ...; their rows are 0" : "; the row of the embedding or the head is 0";
  out.cause =
      "special tokens that the base model was not trained on; LoRA on linears does not train them either";
  out.fix = "trainable_token_indices: [" + std::to_string(found[0]) + (found.size() > 1 ? ", ...]" : "]") +
            " trains these rows" +
            (run.model->config().head_is_embedding() ? "" : " of the embedding, not of the head") +
            "; or use the instruct model, or a template without these tokens (chat_template_path)";
  out.cost = "these tokens carry no information for the model, and it cannot learn to generate them";
  if (run.adapter->is_full()) {
    out.cause =
        "special tokens that the base model was not trained on, and the embedding or the head is frozen";
    out.fix =
        "train them: remove freeze_embeddings, or add model.embed_tokens and lm_head to unfrozen_parameters; "
        "or use the instruct model";
  }
  return out;
}

// PEFT is silent about an id that no row of the data has.
std::optional<Verdict> check_trained_rows(const train::RunView& run, const std::vector<std::int64_t>& uses) {
  const std::vector<std::int64_t>& ids = run.model->token_rows().ids();
  if (ids.empty()) return std::nullopt;
  std::vector<std::int64_t> absent;
  for (const std::int64_t id : ids) {
    if (uses[static_cast<std::size_t>(id)] == 0) absent.push_back(id);
  }
  Verdict out{.code = "GRAD-06"};
  out.what = format::counted(static_cast<std::int64_t>(ids.size()), "token") +
             " of trainable_token_indices, all of them in the data";
  if (absent.empty()) return out;
  const bool sampled = run.samples(), tied = run.start.trained.tied_head;
  out.level = sampled ? Level::kNote : Level::kWarn;
  out.what = std::to_string(absent.size()) + " of " +
             format::counted(static_cast<std::int64_t>(ids.size()), "token") +
             " of trainable_token_indices " + (absent.size() == 1 ? "is" : "are") + " nowhere in the " +
             (sampled ? "prompts" : "data");
  for (std::size_t i = 0; i < std::min(absent.size(), kNamed); ++i)
    out.evidence += (i == 0 ? "" : ", ") + format::token(run.text->tokenizer, absent[i]);
  if (absent.size() > kNamed) out.evidence += ", ...";
  if (sampled) {
    out.cause = "completions may have them";
    return out;
  }
  out.cause = "ids of another tokenizer, or tokens that the rows and the template do not write";
  out.fix = "remove them from trainable_token_indices, or add the tokens to the data";
  out.cost = tied ? "their rows of the head only learn a low probability" : "their rows do not change";
  return out;
}

Verdict check_inside(const train::RunView& run, const std::vector<std::int64_t>& uses) {
  const std::int64_t rows = run.model->config().vocab_size;
  const text::Tokenizer& tokenizer = run.text->tokenizer;
  Verdict out{.code = "DATA-10"};
  const auto last = std::find_if(uses.rbegin(), uses.rend(), [](std::int64_t count) { return count > 0; });
  out.what = "every id is inside the embedding: the largest is " + std::to_string(uses.rend() - last - 1) +
             " of " + format::counted(rows, "row");
  out.evidence =
      "a token outside ends the run at its start (tests/runs/bad_data_token_outside_the_embedding)";
  std::string outside;
  for (const auto id : {tokenizer.eos_id(), tokenizer.pad_id()}) {
    if (id && *id >= rows) outside = format::token(tokenizer, *id);
  }
  if (outside.empty()) return out;
  out.level = Level::kWarn;
  out.what = "the tokenizer's own special token " + outside + " is outside the embedding of " +
             std::to_string(rows) + " rows";
  out.evidence = "the data does not contain it";
  out.cause = "a token was added to the tokenizer, and the embedding was not resized";
  out.not_this = "a padded vocabulary: an embedding larger than the tokenizer is fine";
  out.fix = "use the model's own tokenizer, or with eos_token name a token that it has";
  return out;
}

// A file that says its head is tied, and holds another one: hone reads the embedding; transformers 5 does not
// tie the two. A run that reads no head loses nothing by this.
std::optional<Verdict> check_tied(const train::RunView& run) {
  const model::TensorNames& names = model::names_of(run.model->config());
  const std::string head = std::string(names.head.hf) + ".weight",
                    embedding = std::string(names.embedding.hf) + ".weight";
  const model::ModelConfig& file = run.source->config();
  if (!file.has_head || !file.tie_word_embeddings || !run.source->has(head) || !run.source->has(embedding))
    return std::nullopt;
  const at::ScalarType dtype = run.source->stored_dtype(embedding);
  if (at::equal(run.source->read(head, dtype), run.source->read(embedding, dtype))) return std::nullopt;
  return Verdict{.code = "CKPT-03",
                 .level = Level::kFail,
                 .what = "config.json ties the head to the embedding, but the file has a different head",
                 .evidence = head + " differs from " + embedding +
                             "; hone reads the embedding for both, transformers 5 reads each",
                 .cause = "the two were trained separately, or a merge wrote only one of them",
                 .fix = "set tie_word_embeddings: false in config.json if the head was trained, or remove " +
                        head + " from the file",
                 .cost = "a model whose answers come from a head other than the trained one"};
}

}  // namespace

Verdicts check_tokens(const train::RunView& run) {
  const std::vector<std::int64_t> uses = uses_of(run);
  // a replay
  if (std::all_of(uses.begin(), uses.end(), [](std::int64_t count) { return count == 0; })) return {};
  Verdicts out = {check_untrained(run, uses), check_inside(run, uses)};
  if (auto rows = check_trained_rows(run, uses)) out.push_back(std::move(*rows));
  if (auto tied = check_tied(run)) out.push_back(std::move(*tied));
  return out;
}

}  // namespace hone::doctor
