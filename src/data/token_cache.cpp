#include "data/token_cache.h"

#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"

namespace hone::data {

namespace fs = base::fs;
using base::Json;

namespace {

static_assert(std::endian::native == std::endian::little, "the file is little-endian");

constexpr std::string_view kMagic = "HONETOK1";
constexpr std::size_t kMostText = std::size_t{64} << 20;

// ---- the key

// A struct with a new field has another size: the field belongs into the key (or into the facts), unless tokens do not depend on it.
static_assert(sizeof(TokenizeOptions) == 32 && sizeof(DataFacts) == 168 && sizeof(base::RowFiles) == 320 &&
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

// ---- the file

struct Header {
  std::uint32_t key = 0, facts = 0, reserved = 0;
  std::int64_t examples = 0, tokens = 0;
};

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Takes values off the front of what is mapped; false when they are not there.
class Taker {
 public:
  explicit Taker(std::span<const std::byte> bytes) : left_(bytes) {}

  template <typename T>
  bool take(T& out) {
    if (left_.size() < sizeof(T)) return false;
    std::memcpy(&out, left_.data(), sizeof(T));
    left_ = left_.subspan(sizeof(T));
    return true;
  }
  bool take(std::size_t size, std::string_view& out) {
    if (left_.size() < size) return false;
    out = text_of(left_.first(size));
    left_ = left_.subspan(size);
    return true;
  }
  template <typename T>
  bool take(std::int64_t count, std::vector<T>& out) {
    if (count < 0 || static_cast<std::uint64_t>(count) > left_.size() / sizeof(T)) return false;
    out.resize(static_cast<std::size_t>(count));
    if (count > 0) std::memcpy(out.data(), left_.data(), out.size() * sizeof(T));
    left_ = left_.subspan(out.size() * sizeof(T));
    return true;
  }
  std::span<const std::byte> left() const { return left_; }

 private:
  std::span<const std::byte> left_;
};

bool take_header(Taker& taker, Header& out) {
  return taker.take(out.key) && taker.take(out.facts) && taker.take(out.reserved) &&
         taker.take(out.examples) && taker.take(out.tokens);
}

std::size_t padding(std::size_t size) {
  return (8 - size % 8) % 8;
}

// nullopt: not of this key, or not as write() makes it.
std::optional<Dataset> parse_file(std::span<const std::byte> bytes, const std::string& key) {
  Taker taker(bytes);
  std::string_view magic, found, facts, zeros;
  std::uint32_t crc = 0;
  Header header;
  if (!taker.take(kMagic.size(), magic) || magic != kMagic || !taker.take(crc)) return std::nullopt;
  if (base::crc32c(taker.left()) != crc || !take_header(taker, header)) return std::nullopt;
  if (!taker.take(header.key, found) || found != key || !taker.take(header.facts, facts)) return std::nullopt;
  std::vector<std::int64_t> rows, ends;
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> supervised;
  if (!taker.take(padding(std::size_t{header.key} + header.facts), zeros) ||
      !taker.take(header.examples, rows) || !taker.take(header.examples, ends) ||
      !taker.take(header.tokens, ids) || !taker.take(header.tokens, supervised) || !taker.left().empty())
    return std::nullopt;
  Dataset out;
  out.facts = facts_of(base::parse_json(facts, "token cache"));
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (ends[i] < begin || ends[i] > header.tokens) return std::nullopt;
    Example& example = out.examples.emplace_back();
    example.row = rows[i];
    example.ids.assign(ids.begin() + begin, ids.begin() + ends[i]);
    example.supervised.assign(supervised.begin() + begin, supervised.begin() + ends[i]);
    begin = ends[i];
  }
  return out;
}

}  // namespace

std::string token_key(const base::RowFiles& files, const TokenMaker& maker, const TokenizeOptions& options) {
  const bool dated = maker.chat_template.find("strftime_now") != std::string::npos;
  if (dated || !files.mapping.function.word.empty()) return {};
  const Json only = options.completion_only_loss ? Json(*options.completion_only_loss) : Json();
  const Json key = {{"rows", key_of(files)},
                    {"program", maker.program},
                    {"tokenizer", maker.tokenizer},
                    {"chat_template", maker.chat_template},
                    {"text_field", maker.text_field},
                    {"options",
                     {options.max_length, options.keep_end, only, options.assistant_only_loss,
                      options.vocab_size, options.packing}}};
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

std::optional<Dataset> TokenCache::read() const {
  std::error_code error;
  if (file_.empty() || !fs::is_regular_file(file_, error)) return std::nullopt;
  try {
    const base::MappedFile mapped = base::MappedFile::open(file_);
    if (std::optional<Dataset> out = parse_file(mapped.bytes(), key_)) {
      fs::last_write_time(file_, fs::file_time_type::clock::now(), error);  // the oldest are removed first
      return out;
    }
  } catch (const base::UserError&) {  // unreadable: made again
  } catch (const Json::exception&) {  // facts of another form
  }
  fs::remove(file_, error);
  return std::nullopt;
}

bool TokenCache::write(const Dataset& data) const {
  if (file_.empty() || data.facts.tokens < least_tokens_) return false;
  const std::string facts = base::dump_json(json_of(data.facts));
  std::vector<std::int64_t> rows, ends;
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> supervised;
  for (const Example& example : data.examples) {
    rows.push_back(example.row);
    ids.insert(ids.end(), example.ids.begin(), example.ids.end());
    supervised.insert(supervised.end(), example.supervised.begin(), example.supervised.end());
    ends.push_back(static_cast<std::int64_t>(ids.size()));
  }
  const std::vector<std::uint32_t> sizes = {static_cast<std::uint32_t>(key_.size()),
                                            static_cast<std::uint32_t>(facts.size()), 0};
  const std::vector<std::int64_t> counts = {static_cast<std::int64_t>(rows.size()),
                                            static_cast<std::int64_t>(ids.size())};
  const std::string zeros(padding(key_.size() + facts.size()), '\0');
  const auto text = [](const std::string& of) { return std::as_bytes(std::span(of)); };
  const std::vector<std::span<const std::byte>> body = {
      bytes_of(sizes), bytes_of(counts), text(key_),    text(facts),         text(zeros),
      bytes_of(rows),  bytes_of(ends),   bytes_of(ids), bytes_of(supervised)};
  std::vector<std::uint32_t> crc = {0};
  std::uint64_t size = kMagic.size() + sizeof(crc[0]);
  for (const auto& part : body) {
    crc[0] = base::crc32c(part, crc[0]);
    size += part.size();
  }
  try {
    fs::create_directories(file_.parent_path());
    base::FileWriter file(file_, size);
    file.write(kMagic);
    file.write(bytes_of(crc));
    for (const auto& part : body) file.write(part);
    file.commit();
  } catch (const base::UserError&) {
    return false;
  } catch (const fs::filesystem_error&) {
    return false;
  }
  remove_old();
  return true;
}

void TokenCache::remove_old() const {
  std::error_code error;
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  for (fs::directory_iterator at(file_.parent_path(), error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".tokens") files.emplace_back(at->last_write_time(error), at->path());
  }
  std::sort(files.begin(), files.end());
  for (std::size_t i = 0; i + kMostFiles < files.size(); ++i) fs::remove(files[i].second, error);
}

}  // namespace hone::data
