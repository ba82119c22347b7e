#include "train/opening/record_input.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/hash.h"
#include "data/forms/token_cache.h"
#include "data/records/record_writer.h"
#include "train/notes/row_notes.h"

namespace hone::train {

namespace fs = base::fs;
using base::Json;

namespace {

// The library that holds this code: a new build may make other tokens of the same rows.
std::string build_identity() {
  Dl_info info{};
  struct stat found{};
  static const char anchor = 0;
  if (::dladdr(&anchor, &info) == 0 || info.dli_fname == nullptr || ::stat(info.dli_fname, &found) != 0)
    return {};
  return std::string(info.dli_fname) + " " + std::to_string(found.st_size) + " " +
         std::to_string(found.st_mtim.tv_sec) + "." + std::to_string(found.st_mtim.tv_nsec);
}

Json file_identity(const fs::path& file, bool by_content) {
  struct stat found{};
  if (::stat(file.c_str(), &found) != 0) return nullptr;
  if (!by_content) return {file.string(), found.st_size, found.st_mtim.tv_sec, found.st_mtim.tv_nsec};
  return {found.st_size, base::hash64(base::MappedFile::open(file).bytes())};
}

// The tokenizer's files, and what the options changed of it.
std::string tokenizer_identity(const config::Plan& plan, const text::Tokenizer& tokenizer) {
  const fs::path place =
      plan.tokenizer_name_or_path.empty() ? plan.model_name_or_path : plan.tokenizer_name_or_path;
  Json out = {tokenizer.vocab_size(), tokenizer.special().eos.value_or(""),
              tokenizer.special().bos.value_or("")};
  for (const auto& [name, token] : tokenizer.special().named) out.push_back({name, token});
  if (!fs::is_directory(place)) {
    out.push_back(file_identity(fs::absolute(place), /*by_content=*/false));  // a GGUF: gigabytes
  } else {
    for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"})
      out.push_back(file_identity(place / name, /*by_content=*/true));
  }
  return base::dump_json(out);
}

data::TokenCache open_cache(const OpenedRun& run, const data::RowSource& source, const Json& options) {
  const config::Plan& plan = run.plan;
  const std::string build = plan.token_cache.empty() || !plan.cache_tokens ? "" : build_identity();
  if (build.empty()) return {"", ""};
  const text::Tokenizer& tokenizer = run.text->tokenizer;
  // TRL's training form of a template follows from it, assistant_only_loss and the build.
  const data::TokenMaker maker = {.program = build,
                                  .tokenizer = tokenizer_identity(plan, tokenizer),
                                  .chat_template = tokenizer.chat_template().value_or(""),
                                  .text_field = plan.dataset_text_field};
  return {plan.token_cache, data::token_key(source.files(), maker, options)};
}

constexpr std::int64_t kRowsLookedAt = 64;

// Of the first rows, where the tokens of all are known.
data::SeenRows seen_first(const data::RowSource& source) {
  data::RowNames names;
  data::RowSource(source, kRowsLookedAt).for_each(names, [](const Json&, int) {});
  return std::move(names.seen());
}

void note_kept_tokens(OpenedRun& run) {
  const std::string note = "the tokens of an earlier run with these rows and options are used (cache_tokens)";
  std::vector<std::string>& notes = run.start.notes;
  if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
}

data::RowSource mapped_rows(const OpenedRun& run, const base::RowFiles& rows) {
  return data::RowSource(rows_for(run.text->tokenizer, run.plan, rows));
}

data::RecordBlock packed(const RecordMaking& making, data::Records records) {
  if (making.pack) return making.pack(std::move(records));
  data::PackedRows rows = data::no_packing(records);
  return {.records = std::move(records), .rows = std::move(rows)};
}

// What passes over streamed rows share, longer than the run's opening.
struct Streamed {
  data::RowSource source;
  RecordMaking making;
  data::RowFacts facts = {};  // of the rows so far
  data::SeenRows seen = {};   // the same
};

data::RecordStream::NextBlock begin_pass(const std::shared_ptr<Streamed>& all) {
  const std::shared_ptr<data::RecordPass> pass = all->making.begin(all->source, all->making.streamed);
  return [all, pass, more = true]() mutable -> std::optional<data::RecordBlock> {
    if (!more) return std::nullopt;
    data::RecordWriter writer;
    more = pass->next([&writer](const data::Record& record) { writer.add(data::view(record)); });
    all->facts = pass->facts();
    all->seen = pass->seen();
    return packed(all->making, writer.finish());
  };
}

// The first rows; the others when the run needs them.
RecordInput stream_records(const OpenedRun& run, const RecordMaking& making) {
  const config::Plan& plan = run.plan;
  const auto all =
      std::make_shared<Streamed>(Streamed{.source = mapped_rows(run, plan.train_rows), .making = making});
  RecordInput out;
  out.data.stream = std::make_shared<data::RecordStream>([all] { return begin_pass(all); });
  out.data.stream->hold(0, 1);
  const data::RecordBlock* const first = out.data.stream->first_block();
  base::require(first != nullptr, "train::stream_records", "a pass without rows to be an error");
  out.data.records = first->records;
  out.data.rows = first->rows;
  out.data.longest_row = plan.max_length;
  out.facts = all->facts;
  out.seen = all->seen;
  return out;
}

}  // namespace

RowText row_text(const config::Plan& plan, const OpenedText& text, const text::ChatTemplate* training,
                 std::int64_t vocab_size) {
  return {.plan = plan,
          .tokenizer = text.tokenizer,
          .chat_template = training != nullptr ? training : text.chat_template.get(),
          .vocab_size = vocab_size};
}

std::int64_t file_rows(const data::RowFacts& facts) {
  const auto* const unpaired = std::get_if<data::UnpairedFacts>(&facts);
  return data::counts_of(facts).rows / (unpaired != nullptr && unpaired->paired ? 2 : 1);
}

RecordInput read_records(OpenedRun& run, const base::RowFiles& rows, const RecordMaking& making) {
  const data::RowSource source = mapped_rows(run, rows);
  const data::TokenCache cache = open_cache(run, source, making.options);
  RecordInput out;
  if (std::optional<data::KeptRecords> kept = cache.read()) {
    note_kept_tokens(run);
    out.data.records = std::move(kept->records);
    out.facts = kept->facts;
    out.seen = seen_first(source);
  } else {
    data::RecordWriter writer(cache.place());
    const std::unique_ptr<data::RecordPass> pass = making.begin(source, making.block);
    while (pass->next([&writer](const data::Record& record) { writer.add(data::view(record)); })) {
    }
    out.facts = pass->facts();
    out.seen = pass->seen();
    out.data.records = cache.finish(writer, out.facts);
  }
  out.data.rows = data::no_packing(out.data.records);
  out.file = {.files = source.files().files(), .rows = file_rows(out.facts)};
  return out;
}

RecordInput training_records(OpenedRun& run, const RecordMaking& making) {
  const config::Plan& plan = run.plan;
  if (!plan.dataset_streaming) return read_records(run, plan.train_rows, making);
  if (plan.max_length == 0) {
    run.start.notes.emplace_back(
        "streamed rows without max_length: memory is planned for the longest of the first rows, and a longer "
        "one may come");
  }
  return stream_records(run, making);
}

}  // namespace hone::train
