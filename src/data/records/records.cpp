#include "data/records/records.h"

#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/files/crc32c.h"
#include "base/files/release_pages.h"
#include "data/records/record_file.h"
#include "data/records/record_writer.h"

namespace hone::data {

namespace {

static_assert(std::endian::native == std::endian::little, "the file is little-endian");

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// That every record lies within the bytes, one after another.
bool in_order(std::span<const RecordEntry> entries, std::uint64_t bytes) {
  std::int64_t begin = 0;
  for (const RecordEntry& entry : entries) {
    if (entry.end < begin || entry.end % 4 != 0 || static_cast<std::uint64_t>(entry.end) > bytes)
      return false;
    if (static_cast<std::size_t>(entry.end - begin) < head_bytes(entry)) return false;
    begin = entry.end;
  }
  return static_cast<std::uint64_t>(begin) == bytes;
}

// The parts of a file that is as long as its footer says.
struct FileParts {
  TokenFooter footer;
  std::span<const std::byte> records, entries;
  std::string_view key, facts;
};

std::optional<FileParts> parts_of(std::span<const std::byte> file) {
  FileParts out;
  const std::size_t least = kTokenMagic.size() + sizeof(TokenFooter);
  if (file.size() < least || text_of(file.first(kTokenMagic.size())) != kTokenMagic) return std::nullopt;
  std::memcpy(&out.footer, file.last(sizeof(TokenFooter)).data(), sizeof(TokenFooter));
  const TokenFooter& footer = out.footer;
  std::span<const std::byte> left = file.subspan(kTokenMagic.size(), file.size() - least);
  if (footer.bytes > left.size() || footer.records > left.size() / sizeof(RecordEntry)) return std::nullopt;
  const std::size_t padded = footer.bytes + padding(footer.bytes, 8);
  const std::size_t entries = footer.records * sizeof(RecordEntry);
  if (padded + entries + footer.key + footer.facts != left.size()) return std::nullopt;
  out.records = left.first(footer.bytes);
  out.entries = left.subspan(padded, entries);
  out.key = text_of(left.subspan(padded + entries, footer.key));
  out.facts = text_of(left.last(footer.facts));
  return out;
}

std::uint32_t checksum(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0;
  while (!bytes.empty()) {
    const std::span<const std::byte> window = bytes.first(std::min(bytes.size(), base::kReadWindow));
    crc = base::crc32c(window, crc);
    base::release_pages(window);
    bytes = bytes.subspan(window.size());
  }
  return crc;
}

}  // namespace

Records::Records(const std::vector<Record>& records) {
  RecordWriter writer({.most_memory = std::numeric_limits<std::size_t>::max()});
  for (const Record& record : records) writer.add(view(record));
  *this = writer.finish();
}

Records::Records(std::shared_ptr<const Source> source) : size_(source->entries.size()) {
  base::require(size_ <= std::numeric_limits<std::uint32_t>::max(), "data::Records",
                "less than 2^32 records");
  parts_.push_back({.source = std::move(source), .order = {}, .first = 0});
}

Records::Place Records::place(std::size_t index) const {
  base::require(index < size_, "data::Records", "a record that is there");
  auto part = parts_.rbegin();
  while (part->first > index) ++part;
  const std::size_t within = index - part->first;
  return {.source = part->source.get(), .index = part->order.empty() ? within : part->order[within]};
}

namespace {

std::span<const std::byte> bytes_of(std::span<const std::byte> all, std::span<const RecordEntry> entries,
                                    std::size_t index) {
  const auto begin = static_cast<std::size_t>(index == 0 ? 0 : entries[index - 1].end);
  return all.subspan(begin, static_cast<std::size_t>(entries[index].end) - begin);
}

}  // namespace

RecordView Records::operator[](std::size_t index) const {
  const Place at = place(index);
  const RecordEntry& entry = at.source->entries[at.index];
  const std::byte* bytes = bytes_of(at.source->bytes, at.source->entries, at.index).data();
  const auto size = static_cast<std::size_t>(tokens(index));
  RecordView out{.row = entry.row};
  if ((entry.says & kMargin) != 0) {
    double margin = 0;
    std::memcpy(&margin, bytes, sizeof(margin));
    out.margin = margin;
  }
  if ((entry.says & kMarked) != 0) out.desirable = (entry.says & kDesirable) != 0;
  const auto* const ids = reinterpret_cast<const std::int32_t*>(bytes + head_bytes(entry));
  out.sequences = {reinterpret_cast<const Sequence*>(ids) - entry.sequences, entry.sequences};
  out.ids = {ids, size};
  out.labels = {ids + size, (entry.says & kOwnLabels) != 0 ? size : 0};
  out.supervised = {reinterpret_cast<const std::uint8_t*>(ids + size + out.labels.size()), size};
  return out;
}

std::int64_t Records::tokens(std::size_t index) const {
  const Place at = place(index);
  const RecordEntry& entry = at.source->entries[at.index];
  const std::size_t bytes = bytes_of(at.source->bytes, at.source->entries, at.index).size();
  return static_cast<std::int64_t>((bytes - head_bytes(entry)) / token_bytes(entry));
}

std::size_t Records::sequences(std::size_t index) const {
  const Place at = place(index);
  return at.source->entries[at.index].sequences;
}

std::int64_t Records::scored(std::size_t index) const {
  const Place at = place(index);
  return at.source->entries[at.index].scored;
}

void Records::for_each(const std::function<void(const RecordView&)>& take) const {
  std::span<const std::byte> window;  // of one file, in its order
  for (std::size_t i = 0; i < size_; ++i) {
    const Place at = place(i);
    take((*this)[i]);
    if (!at.source->file) continue;
    const std::span<const std::byte> bytes = bytes_of(at.source->bytes, at.source->entries, at.index);
    const bool goes_on = !window.empty() && window.data() + window.size() == bytes.data();
    if (goes_on) window = {window.data(), window.size() + bytes.size()};
    if (goes_on && window.size() < base::kReadWindow) continue;
    base::release_pages(window);
    window = goes_on ? std::span<const std::byte>() : bytes;
  }
  base::release_pages(window);
}

void Records::release(std::size_t index) const {
  const Place at = place(index);
  if (at.source->file) base::release_pages(bytes_of(at.source->bytes, at.source->entries, at.index));
}

void Records::reorder(const std::vector<std::int64_t>& order) {
  base::require(parts_.size() <= 1 && order.size() == size_, "data::Records::reorder",
                "one source, all records");
  if (order.empty()) return;
  std::vector<std::uint32_t>& places = parts_.front().order;
  std::vector<std::uint32_t> now;
  now.reserve(size_);
  for (const std::int64_t from : order) {
    const auto at = static_cast<std::size_t>(from);
    now.push_back(places.empty() ? static_cast<std::uint32_t>(at) : places.at(at));
  }
  places = std::move(now);
}

void Records::append(Records more) {
  for (Run& part : more.parts_) {
    part.first += size_;
    parts_.push_back(std::move(part));
  }
  size_ += more.size_;
}

std::optional<TokenFile> TokenFile::open(const base::fs::path& path, const std::string& key) {
  auto source = std::make_shared<Records::Source>();
  source->file = base::MappedFile::open(path);
  const std::span<const std::byte> file = source->file->bytes();
  const std::optional<FileParts> parts = parts_of(file);
  if (!parts || parts->key != key) return std::nullopt;
  if (checksum(file.first(file.size() - sizeof(std::uint32_t))) != parts->footer.crc) return std::nullopt;
  source->bytes = parts->records;
  source->entries = {reinterpret_cast<const RecordEntry*>(parts->entries.data()), parts->footer.records};
  if (!in_order(source->entries, parts->footer.bytes)) return std::nullopt;
  TokenFile out;
  out.facts = parts->facts;
  out.records = Records(std::shared_ptr<const Records::Source>(std::move(source)));
  return out;
}

}  // namespace hone::data
