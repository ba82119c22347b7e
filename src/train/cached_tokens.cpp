#include "train/cached_tokens.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/hash.h"
#include "data/example_writer.h"
#include "data/pair_cache.h"
#include "data/row_stream.h"

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

// `key_of(maker)` of what makes the run's tokens.
template <typename KeyOf>
data::TokenCache open_cache(const OpenedRun& run, const KeyOf& key_of) {
  const config::Plan& plan = run.plan;
  const std::string build = plan.token_cache.empty() || !plan.cache_tokens ? "" : build_identity();
  if (build.empty()) return {"", ""};
  const text::Tokenizer& tokenizer = run.text->tokenizer;
  // TRL's training form of a template follows from it, assistant_only_loss and the build.
  return {plan.token_cache, key_of(data::TokenMaker{.program = build,
                                                    .tokenizer = tokenizer_identity(plan, tokenizer),
                                                    .chat_template = tokenizer.chat_template().value_or(""),
                                                    .text_field = plan.dataset_text_field})};
}

constexpr std::int64_t kRowsLookedAt = 64;

// Of the first rows, where the tokens of all are known.
data::SeenRows seen_first(const data::RowSource& source) {
  data::RowNames names;
  data::RowSource(source, kRowsLookedAt).for_each(names, [](const Json&, int) {});
  return std::move(names.seen());
}

}  // namespace

CachedTokens cached_tokens(const data::RowSource& source, const OpenedRun& run,
                           const text::ChatTemplate* chat_template, const data::TokenizeOptions& options) {
  const data::TokenCache cache = open_cache(
      run, [&](const data::TokenMaker& maker) { return data::token_key(source.files(), maker, options); });
  if (std::optional<data::Dataset> kept = cache.read())
    return {.dataset = std::move(*kept), .from = cache.file(), .seen = seen_first(source)};
  data::ExampleWriter writer(cache.place());
  data::BlockTokenizer tokenizing(run.text->tokenizer, chat_template, options);
  data::RowStream rows(source, run.plan.dataset_text_field);
  data::SeenRows seen;
  while (std::optional<data::Rows> block = rows.next()) {
    tokenizing.add(*block, [&writer](const data::Example& example) { writer.add(data::view(example)); });
    seen = std::move(block->names.seen());
  }
  return {.dataset = cache.finish(writer, tokenizing.finish()), .from = {}, .seen = std::move(seen)};
}

PairInput<data::PreferenceFacts> cached_pairs(const data::RowSource& source, OpenedRun& run,
                                              const std::string& what, const data::PreferenceOptions& options,
                                              const MakePairs& make) {
  const data::TokenCache cache = open_cache(run, [&](const data::TokenMaker& maker) {
    return data::pair_key(source.files(), maker, what, options);
  });
  std::optional<data::PreferenceData> data = data::read_pairs(cache);
  data::SeenRows seen;
  if (data) {
    note_kept_tokens(run);
    seen = seen_first(source);
  } else {
    data::PreferenceRows rows = data::read_preference_rows(source, data::ImplicitPrompts::kExtractMixed);
    data = make(rows);
    data::keep_pairs(cache, *data);
    seen = std::move(rows.names.seen());
  }
  return {.data = {.pairs = std::move(data->pairs), .margins = {}, .desirable = {}},
          .facts = data->facts,
          .file = {.files = source.files().files(), .rows = data->facts.rows},
          .seen = std::move(seen)};
}

void note_kept_tokens(OpenedRun& run) {
  const std::string note = "the tokens of an earlier run with these rows and options are used (cache_tokens)";
  std::vector<std::string>& notes = run.start.notes;
  if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
}

}  // namespace hone::train
