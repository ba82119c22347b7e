#include "data/forms/token_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/file_errors.h"
#include "base/files/staging.h"
#include "base/hash.h"
#include "base/json.h"

namespace hone::data {

namespace fs = base::fs;
using base::Json;

namespace {

constexpr std::size_t kMostText = std::size_t{64} << 20;

// ---- the key

// A struct with a new field has another size: the field belongs into the key, unless tokens do not depend on
// it.
static_assert(sizeof(TokenizeOptions) == 32 && sizeof(PairOptions) == 48 && sizeof(UnpairedOptions) == 40 &&
                  sizeof(base::RowFiles) == 320 && sizeof(base::RowSet) == 120 &&
                  sizeof(base::RowMapping) == 240 && sizeof(base::RowPart) == 96 &&
                  sizeof(base::RowSlice) == 40 && sizeof(base::TestSplit) == 24,
              "token_key() and token_options() write every field");

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

// What becomes of a long row.
const char* cut_of(bool keep_end, bool drop_long) {
  return drop_long ? "drop" : keep_end ? "keep_end" : "keep_start";
}

}  // namespace

Json token_options(const TokenizeOptions& options) {
  const Json only = options.completion_only_loss ? Json(*options.completion_only_loss) : Json();
  return {"sft",
          options.max_length,
          cut_of(options.keep_end, options.drop_long),
          only,
          options.assistant_only_loss,
          options.vocab_size,
          options.packing,
          options.prepared};
}

Json token_options(const std::string& method, const PairOptions& options) {
  return {method,
          options.max_length,
          cut_of(options.keep_end, options.drop_long),
          options.max_prompt_length,
          options.vocab_size,
          options.pad_id ? Json(*options.pad_id) : Json()};
}

Json token_options(const UnpairedOptions& options) {
  return {"kto", options.max_length, options.max_prompt_length, options.batch_size, options.vocab_size};
}

std::string token_key(const base::RowFiles& files, const TokenMaker& maker, const Json& options) {
  const bool dated = maker.chat_template.find("strftime_now") != std::string::npos;
  if (dated || !files.mapping.function.word.empty()) return {};
  Json key = {{"rows", key_of(files)},          {"program", maker.program},
              {"tokenizer", maker.tokenizer},   {"chat_template", maker.chat_template},
              {"text_field", maker.text_field}, {"options", options}};
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

std::optional<KeptRecords> TokenCache::read() const {
  std::optional<TokenFile> found = open();
  if (!found) return std::nullopt;
  try {
    return KeptRecords{.records = std::move(found->records), .facts = read_facts(found->facts)};
  } catch (const base::UserError&) {
  } catch (const Json::exception&) {  // facts of another form
  }
  remove();
  return std::nullopt;
}

RecordPlace TokenCache::place() const {
  return {.kept = file_, .key = key_, .least_tokens = least_tokens_};
}

Records TokenCache::finish(RecordWriter& writer, const RowFacts& facts) const {
  Records out = writer.finish(facts_text(facts));
  if (writer.kept()) remove_old();
  return out;
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
