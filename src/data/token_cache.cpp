#include "data/token_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file_errors.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/staging.h"

namespace hone::data {

namespace fs = base::fs;
using base::Json;

namespace {

constexpr std::size_t kMostText = std::size_t{64} << 20;

// ---- the key

// A struct with a new field has another size: the field belongs into the key (or into the facts), unless tokens do not depend on it.
static_assert(sizeof(TokenizeOptions) == 32 && sizeof(DataFacts) == 200 && sizeof(base::RowFiles) == 320 &&
                  sizeof(base::RowSet) == 120 && sizeof(base::RowMapping) == 240 &&
                  sizeof(base::RowPart) == 96 && sizeof(base::RowSlice) == 40 &&
                  sizeof(base::TestSplit) == 24,
              "token_key() writes every field");

Json key_of(const base::RowSlice& slice) {
  return {slice.from ? Json(*slice.from) : Json(), slice.to ? Json(*slice.to) : Json(), slice.percent,
          slice.drop_remainder};
}

Json key_of(const fs::path& file) {
  struct stat found{};
  if (::stat(file.c_str(), &found) != 0) {
    throw base::UserError(
        {.where = file.string(), .expected = "a file of rows", .found = "it cannot be read"});
  }
  return {fs::absolute(file).string(), found.st_size,        found.st_ino,         found.st_mtim.tv_sec,
          found.st_mtim.tv_nsec,       found.st_ctim.tv_sec, found.st_ctim.tv_nsec};
}

Json key_of(const base::RowSet& set) {
  Json parts = Json::array();
  for (const base::RowPart& part : set.parts) {
    Json files = Json::array();
    for (const fs::path& file : part.files) files.push_back(key_of(file));
    parts.push_back({std::move(files), key_of(part.slice)});
  }
  return {std::move(parts), set.columns, set.first ? Json(*set.first) : Json(), set.drawn,
          set.fraction ? Json(*set.fraction) : Json()};
}

Json key_of(const base::RowMapping& mapping) {
  return {mapping.columns,         static_cast<int>(mapping.format),
          mapping.prompt_template, mapping.text_template,
          mapping.text_field,      mapping.conversation,
          mapping.system_prompt};
}

Json key_of(const base::RowFiles& files) {
  Json sets = Json::array();
  for (const base::RowSet& set : files.sets) sets.push_back(key_of(set));
  Json test;
  if (const auto& split = files.test_split) test = {split->size, split->seed, split->test};
  return {std::move(sets), files.shuffle_seed ? Json(*files.shuffle_seed) : Json(), std::move(test),
          key_of(files.mapping), files.empty_system_turn};
}

// ---- the facts

template <typename Facts, typename Field>
void each_field(Facts& facts, const Field& field) {
  field("rows", facts.rows);
  field("kept", facts.kept);
  field("tokens", facts.tokens);
  field("supervised_tokens", facts.supervised_tokens);
  field("rows_cut", facts.rows_cut);
  field("tokens_cut", facts.tokens_cut);
  field("rows_without_target", facts.rows_without_target);
  field("rows_losing_eos", facts.rows_losing_eos);
  field("rows_without_eos_target", facts.rows_without_eos_target);
  field("prompt_boundary_mismatches", facts.prompt_boundary_mismatches);
  field("longest", facts.longest);
  field("mean_length", facts.mean_length);
  field("rows_emptied_by_cut", facts.rows_emptied_by_cut);
  field("rows_never_ending", facts.rows_never_ending);
  field("rows_with_two_bos", facts.rows_with_two_bos);
  field("rows_with_bos", facts.rows_with_bos);
  field("supervised_before_cut", facts.supervised_before_cut);
  field("supervised_lost", facts.supervised_lost);
  field("length_keeping_99", facts.length_keeping_99);
  field("rows_with_sharegpt_roles", facts.rows_with_sharegpt_roles);
  field("rows_hiding_attention", facts.rows_hiding_attention);
  field("rows_with_own_labels", facts.rows_with_own_labels);
  field("rows_with_shifted_labels", facts.rows_with_shifted_labels);
  field("labels", facts.token_columns.labels);
  field("completion_mask", facts.token_columns.completion_mask);
  field("assistant_masks", facts.token_columns.assistant_masks);
  field("conversational_tokens", facts.token_columns.conversational);
  field("completions", facts.token_columns.completions);
}

Json json_of(const DataFacts& facts) {
  Json out = {{"form", static_cast<int>(facts.form)}, {"conversational", facts.conversational}};
  each_field(facts, [&out](const char* name, const auto& value) { out[name] = value; });
  return out;
}

DataFacts facts_of(const Json& json) {
  DataFacts out;
  out.form = static_cast<RowForm>(json.at("form").get<int>());
  out.conversational = json.at("conversational").get<bool>();
  each_field(out, [&json](const char* name, auto& value) { json.at(name).get_to(value); });
  return out;
}

}  // namespace

std::string token_key(const base::RowFiles& files, const TokenMaker& maker, const TokenizeOptions& options) {
  const Json only = options.completion_only_loss ? Json(*options.completion_only_loss) : Json();
  return token_key(files, maker,
                   Json{{"options",
                         {options.max_length, options.keep_end, only, options.assistant_only_loss,
                          options.vocab_size, options.packing, options.prepared}}});
}

std::string token_key(const base::RowFiles& files, const TokenMaker& maker, const Json& options) {
  const bool dated = maker.chat_template.find("strftime_now") != std::string::npos;
  if (dated || !files.mapping.function.word.empty()) return {};
  Json key = {{"rows", key_of(files)},
              {"program", maker.program},
              {"tokenizer", maker.tokenizer},
              {"chat_template", maker.chat_template},
              {"text_field", maker.text_field}};
  key.update(options);
  std::string out = base::dump_json(key);
  return out.size() > kMostText ? "" : out;
}

TokenCache::TokenCache(fs::path folder, std::string key, std::int64_t least_tokens)
    : key_(std::move(key)), least_tokens_(least_tokens) {
  if (folder.empty() || key_.empty()) return;
  file_ = std::move(folder);
  const std::uint64_t hash = base::hash64(std::string_view(key_));
  std::string name(16, '0');
  for (std::size_t i = 0; i < 16; ++i) name[i] = "0123456789abcdef"[(hash >> (60 - 4 * i)) & 15U];
  file_ /= name + ".tokens";
}

std::optional<TokenFile> TokenCache::open() const {
  std::error_code error;
  if (file_.empty() || !fs::is_regular_file(file_, error)) return std::nullopt;
  try {
    if (std::optional<TokenFile> found = TokenFile::open(file_, key_)) {
      fs::last_write_time(file_, fs::file_time_type::clock::now(), error);  // the oldest are removed first
      return found;
    }
  } catch (const base::UserError&) {  // unreadable: made again
  }
  remove();
  return std::nullopt;
}

void TokenCache::remove() const {
  std::error_code error;
  fs::remove(file_, error);
}

std::optional<Dataset> TokenCache::read() const {
  std::optional<TokenFile> found = open();
  if (!found) return std::nullopt;
  try {
    return Dataset{.examples = std::move(found->examples),
                   .facts = facts_of(base::parse_json(found->facts, "token cache"))};
  } catch (const base::UserError&) {
  } catch (const Json::exception&) {  // facts of another form
  }
  remove();
  return std::nullopt;
}

ExamplePlace TokenCache::place() const {
  return {.kept = file_, .key = key_, .least_tokens = least_tokens_};
}

Dataset TokenCache::finish(ExampleWriter& writer, const DataFacts& facts) const {
  Dataset out = {.examples = writer.finish(base::dump_json(json_of(facts))), .facts = facts};
  (void)kept(writer);
  return out;
}

bool TokenCache::kept(const ExampleWriter& writer) const {
  if (writer.kept()) remove_old();
  return writer.kept();
}

namespace {

// What a killed process left of a file: nobody writes it, and nobody began to a day ago.
bool is_left_over(const fs::path& path) {
  const std::optional<fs::path> final_path = base::final_of_staging(path);
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  if (!final_path || final_path->extension() != ".tokens" || error) return false;
  if (fs::file_time_type::clock::now() - time < std::chrono::hours(24)) return false;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool free = fd >= 0 && base::try_lock(fd);
  if (fd >= 0) ::close(fd);
  return free;
}

}  // namespace

void TokenCache::remove_old() const {
  struct File {
    fs::file_time_type time;
    fs::path path;
    std::uint64_t bytes;
  };
  std::error_code error;
  std::vector<File> files;
  for (fs::directory_iterator at(file_.parent_path(), error), end; !error && at != end; at.increment(error)) {
    if (is_left_over(at->path())) {
      fs::remove(at->path(), error);
    } else if (at->path().extension() == ".tokens" && !base::final_of_staging(at->path())) {
      files.push_back({at->last_write_time(error), at->path(), at->file_size(error)});
    }
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.time > b.time; });
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    bytes += files[i].bytes;
    if (i > 0 && (i >= kMostFiles || bytes > kMostBytes)) fs::remove(files[i].path, error);
  }
}

}  // namespace hone::data
